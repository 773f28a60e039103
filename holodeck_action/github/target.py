"""What a run is about: the commit its check belongs to and the pull requests its comment belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from holodeck_action.github.remote import Pull


@dataclass(frozen=True, slots=True)
class ByNumber:
    """The event names the pull request."""

    number: int


@dataclass(frozen=True, slots=True)
class ByCommit:
    """Open pull requests of this repository whose head is the commit; there may be none or several."""

    sha: str


@dataclass(frozen=True, slots=True)
class ByHead:
    """Open pull requests from a branch, perhaps of a fork, whose head is the commit."""

    owner: str
    branch: str
    sha: str


@dataclass(frozen=True, slots=True)
class NoPull:
    """There is none; `reason` is one sentence."""

    reason: str


Lookup = ByNumber | ByCommit | ByHead | NoPull


@dataclass(frozen=True, slots=True)
class Target:
    """What an event is about.

    Attributes:
        event: its name.
        repository: `owner/name` of the repository that the workflow runs in; empty when it is not known.
        sha: the commit that the check run belongs to; None where only the pull request tells it.
        lookup: how the pull requests are found.
        comments: whether the comment is to be written: a merge queue leaves the pull request's own comment alone.
        standing_for: commits other than `sha` whose checkout is an evaluation of it, such as the test merge commit.
        checks_out_head: whether the checkout that a workflow makes without further ado is that of `sha`. Where it is
            not, a run of the default branch must not be published as one of the pull request.
        write: whether a token that can write is to be expected; it is tried all the same.
        why: one sentence that explains `write` when it is False, with the way out; empty otherwise.
        fork: whether the code at `sha` is a fork's; None where only the pull request tells it.
        privileged: whether secrets and a token that can write are at hand although `sha` may be anybody's code.
        pull: the pull request as the event describes it; None where GitHub has to be asked.
    """

    event: str
    repository: str
    sha: str | None
    lookup: Lookup
    comments: bool
    standing_for: frozenset[str]
    checks_out_head: bool
    write: bool
    why: str
    fork: bool | None
    privileged: bool
    pull: Pull | None = None
