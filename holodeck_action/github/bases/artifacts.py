"""Finds the base's results in the artifacts of earlier workflow runs on the base branch.

An artifact is as trustworthy as its run. Only runs of this repository on the base branch are used, and only if a push,
a schedule or a person with write access started them. The commit in an artifact must be the commit of its run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, convert

from holodeck_action.github.bases.stored_results import (
    Ancestry,
    Candidate,
    NoResultsError,
    Search,
    StoredResults,
    WantedSuite,
    check_results,
    explain_api_errors,
    short_text,
    to_stored_results,
)
from holodeck_action.github.bases.zip_files import MOST_PACKED, ZipError, results_files
from holodeck_action.github.rest.api import Api, reading
from holodeck_action.github.rest.objects import PER_PAGE, ApiError
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import BaseResults
from holodeck_action.record.workflow_job import workflow_path

if TYPE_CHECKING:
    from github.Artifact import Artifact
    from github.WorkflowRun import WorkflowRun

DEFAULT_NAME = "holodeck-results"
MOST_PAGES = 5
"""Maximum number of pages, of 100 artifacts each, to search."""
MOST_DOWNLOADS = 30
MOST_RUNS = 100
"""Maximum number of runs to look up at GitHub."""
_EVENTS = ("push", "schedule", "workflow_dispatch")


class _Run(Struct, frozen=True):
    """The workflow run of an artifact, with the ids of the workflow's repository and of that of the commit."""

    id: Annotated[int, Meta(gt=0)]
    head_sha: Annotated[str, Meta(pattern="^[0-9a-f]{40,64}$")]
    head_branch: str | None = None
    repository_id: int | None = None
    head_repository_id: int | None = None

    @property
    def own(self) -> bool:
        """Whether the commit is from this repository, not from a fork, whose branch may have any name."""
        return bool(self.repository_id) and self.repository_id == self.head_repository_id


class _Artifact(Struct, frozen=True, rename={"size": "size_in_bytes", "run": "workflow_run"}):
    """An artifact: `size` are the bytes of its archive, `digest` is `sha256:` and its hash, or None."""

    id: int
    name: str
    size: int
    expired: bool
    run: _Run
    digest: str | None = None


@reading
def _read_artifact(artifact: Artifact) -> _Artifact | None:
    """Return an artifact; None if it lacks the id or the commit of its workflow run."""
    # PyGithub would request the run to learn a field that it lacks.
    run = artifact.raw_data.get("workflow_run") or {}
    known = run.get("id") is not None and run.get("head_sha") is not None
    return convert(artifact.raw_data, _Artifact) if known else None


@reading
def _read_run(run: WorkflowRun) -> WorkflowRun:
    if not isinstance(run.event, str) or not isinstance(run.path or run.status or "", str):
        raise TypeError
    return run


class ArtifactResults:
    """Finds results in the artifacts with a given name; the last download is reused for further suites.

    The artifact `NAME` is searched before artifacts whose names begin with `NAME-`, which the jobs of a matrix upload.
    """

    def __init__(self, api: Api, name: str, now: Callable[[], datetime]) -> None:
        self._api, self._name, self._now = api, name or DEFAULT_NAME, now
        self._lists: dict[str | None, tuple[_Artifact, ...]] = {}
        self._truncated: dict[str | None, bool] = {}
        self._runs: dict[int, WorkflowRun] = {}
        self._archive: tuple[int, bytes] | None = None

    def find(self, suite: WantedSuite, ancestry: Ancestry) -> StoredResults:
        """Return the newest results of a suite at the wanted commit, or at the nearest commit before it.

        Raises:
            NoResultsError: there are no usable results, or GitHub cannot be read.
        """
        with explain_api_errors("the artifacts of earlier runs", "actions: read"):
            return self._find_nearest(suite, ancestry)

    def _find_nearest(self, suite: WantedSuite, ancestry: Ancestry) -> StoredResults:
        search, problems, unread = Search(), list[str](), list[str]()
        for listed in (self._name, None):
            candidates = self._candidates(listed, ancestry)
            self._search_artifacts(candidates, suite, search, problems, unread)
            best = search.best
            if best is not None:
                return to_stored_results(search, best, ancestry, self._now(), problems)
            if self._truncated[listed]:
                unread.append(f"only the newest {MOST_PAGES * PER_PAGE} artifacts were looked through")
            problems += [
                f"artifact {item.id} ({short_text(item.name)}) has expired" for item in candidates if item.expired
            ]
        where = f"artifact {short_text(self._name)} of a completed run on {short_text(ancestry.wanted.branch)}"
        problems += unread
        if problems:
            more = f" (and {len(problems) - 1} more were skipped)" if len(problems) > 1 else ""
            raise NoResultsError(f"no {where} can be used: {problems[0]}{more}; evaluate that branch again")
        raise NoResultsError(
            f"no {where} has results of this suite for {ancestry.phrase}: merge a workflow that evaluates pushes "
            f"to {short_text(ancestry.wanted.branch)} and uploads its results"
        )

    def _search_artifacts(
        self,
        candidates: Sequence[_Artifact],
        suite: WantedSuite,
        search: Search,
        problems: list[str],
        unread_notes: list[str],
    ) -> None:
        """Search artifacts for results of a suite.

        Args:
            candidates: the artifacts, the nearest commit first.
            suite: the suite to search for.
            search: collects the results.
            problems: collects sentences about unusable artifacts, which are always reported.
            unread_notes: collects sentences about artifacts that were not read, which are reported if no base is found.
        """
        refused: Counter[str] = Counter()
        downloads = 0
        for artifact in candidates:
            if artifact.expired:
                continue
            if search.is_done(artifact.run.head_sha):
                break
            if downloads == MOST_DOWNLOADS or not self._may_look_up(artifact):
                looked = f"{MOST_DOWNLOADS} artifacts" if downloads == MOST_DOWNLOADS else f"{MOST_RUNS} runs"
                unread_notes.append(f"only the nearest {looked} were looked at")
                break
            reason = self._refusal(artifact)
            if reason:
                refused[reason] += 1
                continue
            downloads += 1
            found = self._results_in(artifact, suite, problems)
            if found is not None:
                fit = suite.fit(found.results.record, workflow_path(self._runs[artifact.run.id].path or ""))
                search.add(Candidate(found, artifact.run.head_sha, fit))
        unread_notes += (f"{count} skipped, of {reason}" for reason, count in refused.items())

    def _may_look_up(self, artifact: _Artifact) -> bool:
        return not artifact.run.own or artifact.run.id in self._runs or len(self._runs) < MOST_RUNS

    def _refusal(self, artifact: _Artifact) -> str:
        """Describe the run of an artifact that must not be used, such as `a run of a fork`; empty if it may be used.

        The run must have completed, and must have been started by an event that requires write access.
        """
        # A fork may have a branch of the same name.
        if not artifact.run.own:
            return "a run of a fork"
        run_id = artifact.run.id
        if run_id not in self._runs:
            self._runs[run_id] = _read_run(self._api.repository.get_workflow_run(run_id))
        run = self._runs[run_id]
        if run.event not in _EVENTS:
            return f"a run by `{short_text(run.event)}`, which anyone may start"
        return "" if run.status == "completed" else "a run that has not ended"

    def _candidates(self, list_name: str | None, ancestry: Ancestry) -> list[_Artifact]:
        """Return the base branch's artifacts named `NAME`, or `NAME-…` if `list_name` is None: the nearest commit
        first, then newest first."""
        if list_name not in self._lists:
            self._lists[list_name] = tuple(self._list_artifacts(list_name))
        found = [
            item for item in self._lists[list_name] if self._matches(item, ancestry, exact_commit=list_name is not None)
        ]
        return sorted(found, key=lambda artifact: (ancestry.distances[artifact.run.head_sha], -artifact.id))

    def _list_artifacts(self, name: str | None) -> Iterator[_Artifact]:
        self._truncated[name] = False
        listed = self._api.repository.get_artifacts(**({} if name is None else {"name": name}))
        for page in range(MOST_PAGES):
            artifacts = reading(listed.get_page)(page)
            yield from filter(None, map(_read_artifact, artifacts))
            if len(artifacts) < PER_PAGE:
                return
        self._truncated[name] = True

    def _matches(self, artifact: _Artifact, ancestry: Ancestry, *, exact_commit: bool) -> bool:
        named = artifact.name == self._name if exact_commit else artifact.name.startswith(f"{self._name}-")
        return (
            named and artifact.run.head_branch == ancestry.wanted.branch and artifact.run.head_sha in ancestry.distances
        )

    def _results_in(self, artifact: _Artifact, suite: WantedSuite, problems: list[str]) -> BaseResults | None:
        """Return the results of a suite in an artifact; None if it has no usable results."""
        found: list[BaseResults] = []
        try:
            for name, content in results_files(self._download(artifact)):
                results = check_results(content, short_text(name), suite, artifact.run.head_sha)
                if results is not None:
                    found.append(results)
            if len(found) > 1:
                raise ZipError("has two results of this suite")
        except (ZipError, RecordError) as error:
            problems.append(f"artifact {artifact.id} ({short_text(artifact.name)}) {short_text(str(error))}")
            return None
        return found[0] if found else None

    def _download(self, artifact: _Artifact) -> bytes:
        """Return the archive of an artifact. The last archive is cached, as it may contain the results of several
        suites."""
        if self._archive is not None and self._archive[0] == artifact.id:
            return self._archive[1]
        if artifact.size > MOST_PACKED:
            raise ZipError(f"is larger than {MOST_PACKED:,} bytes")
        try:
            packed = self._api.download_artifact(artifact.id, MOST_PACKED)
        except ApiError as error:
            if error.kind not in ("not_found", "invalid"):
                raise
            # It has expired or has been deleted since it was listed.
            raise ZipError(f"cannot be downloaded: {error}") from None
        digest = hashlib.sha256(packed).hexdigest()
        if artifact.digest is not None and artifact.digest != f"sha256:{digest}":
            raise ZipError("does not match the digest of its upload")
        self._archive = artifact.id, packed
        return self._archive[1]
