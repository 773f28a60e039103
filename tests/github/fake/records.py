"""What the fake remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

_BEGINNING = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


class Ledger:
    """Ids and times: each new one is larger, the same in every run."""

    def __init__(self) -> None:
        self._id = 1000
        self._seconds = 0

    def id(self) -> int:
        """Return a new id."""
        self._id += 1
        return self._id

    def now(self) -> str:
        """Return the time, one second after the last."""
        self._seconds += 1
        return (_BEGINNING + timedelta(seconds=self._seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class Comment:
    """A comment on a pull request."""

    id: int
    number: int
    author: str
    author_type: str
    body: str
    created_at: str
    updated_at: str
    minimized: str | None = None

    @property
    def node_id(self) -> str:
        """Its id in GraphQL."""
        return f"IC_kwDO{self.id:08}"


@dataclass(slots=True)
class Review:
    """A review; one with no event is pending."""

    id: int
    number: int
    author: str
    author_type: str
    body: str
    state: str
    commit_id: str
    submitted_at: str
    minimized: str | None = None

    @property
    def node_id(self) -> str:
        """Its id in GraphQL."""
        return f"PRR_kwDO{self.id:08}"


@dataclass(slots=True)
class ReviewComment:
    """An inline comment; `line` and `position` are None when the line is gone from the diff."""

    id: int
    number: int
    review_id: int
    author: str
    author_type: str
    body: str
    path: str
    line: int | None
    side: str
    start_line: int | None
    start_side: str | None
    position: int | None
    original_line: int
    original_position: int
    diff_hunk: str
    commit_id: str
    original_commit_id: str
    created_at: str
    updated_at: str
    minimized: str | None = None

    @property
    def node_id(self) -> str:
        """Its id in GraphQL."""
        return f"PRRC_kwDO{self.id:08}"


@dataclass(slots=True)
class Issue:
    """An issue that is no pull request."""

    id: int
    number: int
    author: str
    author_type: str
    title: str
    body: str
    created_at: str
    updated_at: str
    state: str = "open"
    state_reason: str | None = None

    @property
    def node_id(self) -> str:
        """Its id in GraphQL."""
        return f"I_kwDO{self.id:08}"


Note = Comment | Review | ReviewComment


@dataclass(slots=True)
class CheckRun:
    """A check run with its annotations, the earliest first."""

    id: int
    name: str
    head_sha: str
    app: str
    status: str
    conclusion: str | None
    started_at: str
    completed_at: str | None
    details_url: str | None
    external_id: str | None
    output: dict[str, Any] = field(default_factory=dict)
    annotations: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def node_id(self) -> str:
        """Its id in GraphQL."""
        return f"CR_kwDO{self.id:08}"


@dataclass(slots=True)
class Pull:
    """A pull request: `commits` are the heads that it has had, the latest last."""

    id: int
    number: int
    title: str
    author: str
    head_repository: str | None
    branch: str
    base: str
    state: str
    merge_sha: str | None
    files: Sequence[Mapping[str, Any]]
    commits: list[str]
    created_at: str
    updated_at: str

    @property
    def head_sha(self) -> str:
        """The head now."""
        return self.commits[-1]

    @property
    def head_owner(self) -> str:
        """Who owns the head's branch; GitHub shows deleted accounts as `ghost`."""
        return (self.head_repository or "ghost/").split("/")[0]

    def patch(self, path: str) -> str | None:
        """Return the patch of a file; None when it has none or does not belong to the diff."""
        return next((file.get("patch") for file in self.files if file["filename"] == path), None)
