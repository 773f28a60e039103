"""Results of earlier runs that are stored on GitHub: finds the best ones for a suite and a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from holodeck_action.github.bases.merge_base import WantedCommit
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.record.base_results import NO_BASE, parse_base_results
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import BaseResults
from holodeck_action.record.workflow_job import WorkflowJob
from holodeck_action.text.plain import one_line

NOTICE_AGE = timedelta(days=7)
"""Age from which results get a notice, because the models behind an API change over time."""
_MOST_PROBLEM_NOTICES = 3
"""Maximum number of notices about unusable results."""
_TEXT_LIMIT = 300
MOST_FURTHER = 5
"""Maximum number of results from further commits that are read to find one with the same target."""


class NoResultsError(Exception):
    """There are no results to compare with; the message is one sentence with a remedy."""


class WantedSuite(Struct, frozen=True):
    """A suite of this run, for which stored results are searched. Results with the same target and job as this run are
    preferred.

    Attributes:
        folder: the suite's folder in its repository; None if it is in no repository.
        file: name of the suite's file.
        target: description of this run's target.
        own_job: workflow and job of this run.
    """

    folder: str | None
    file: str
    target: str
    own_job: WorkflowJob

    def matches(self, record: Record) -> bool:
        """Return whether a record belongs to this suite."""
        return record.provenance.folder == self.folder and record.suite.file == self.file

    def fit(self, record: Record, workflow: str = "") -> RunDifference:
        """Return how similar another run of the same suite is to this one.

        Args:
            record: the record of the other run.
            workflow: path of the other run's workflow file, from GitHub; empty to take it from the record.
        """
        run = record.run
        jobs = _difference(self.own_job.job, run.job)
        workflows = _difference(self.own_job.workflow, workflow or run.workflow)
        # Ids of jobs in different workflows are unrelated.
        job_difference = 3 if workflows == _DIFFERENT else max(workflows, jobs)
        return RunDifference(job_difference, record.provenance.target != self.target)


class RunDifference(Struct, frozen=True, order=True):
    """How much a stored run differs from this one. Instances are ordered: the smallest is the best match.

    Attributes:
        job_difference: 0 for the same job of the same workflow, 1 if the job or the workflow of the stored run is
            unknown, 2 for another job, 3 for another workflow.
        other_target: whether the stored run evaluated another target.
    """

    job_difference: int
    other_target: bool

    @property
    def is_exact(self) -> bool:
        """Whether the stored run has the same workflow, job and target."""
        return self <= RunDifference(0, other_target=False)

    def __str__(self) -> str:
        """Return the differences as part of a sentence, such as `another job and another target`."""
        names = {2: ["another job"], 3: ["another workflow"]}.get(self.job_difference, [])
        return " and ".join([*names, *(["another target"] if self.other_target else [])])


_DIFFERENT = 2


def _difference(own_time: str, other: str) -> int:
    if not own_time or own_time == other:
        return 0
    return _DIFFERENT if other else 1


class Candidate(Struct, frozen=True):
    """Results that may become the suite's base, the commit of their run, and how well that run fits
    (`RunDifference`)."""

    results: BaseResults
    commit: str
    fit: RunDifference


class Search:
    """Collects candidates, the nearest commit first, and chooses the first one with the best fit.

    After the first commit with results, further commits are searched only for results of the same target, up to
    `MOST_FURTHER`.
    """

    def __init__(self) -> None:
        self.found: list[Candidate] = []
        self._further = 0

    def add(self, candidate: Candidate) -> None:
        """Add the next candidate."""
        self._further += bool(self.found) and candidate.commit != self.found[0].commit
        self.found.append(candidate)

    def is_done(self, commit: str) -> bool:
        """Return whether the search can end, given the commit of the next candidate."""
        if not self.found:
            return False
        if commit == self.found[-1].commit:
            return any(item.fit.is_exact for item in self.found)
        return any(not item.fit.other_target for item in self.found) or self._further >= MOST_FURTHER

    @property
    def best(self) -> Candidate | None:
        """The candidate to compare with; None if there are no candidates."""
        return min(self.found, key=lambda item: item.fit, default=None)


class Ancestry(Struct, frozen=True):
    """The wanted commit and its ancestors on its branch, each with its distance: 0 for the wanted commit, 1 for its
    first parent."""

    wanted: WantedCommit
    distances: Mapping[str, int]

    @classmethod
    def of(cls, wanted_commit: WantedCommit, line: tuple[str, ...]) -> Ancestry:
        """Return the ancestry of a commit; `line` is the commit followed by its first-parent ancestors, the nearest
        first."""
        return cls(wanted_commit, {commit: distance for distance, commit in enumerate(line)})

    @property
    def phrase(self) -> str:
        """The wanted commit and the number of its ancestors, as part of a sentence."""
        here = f"commit {self.wanted.commit[:12]}"
        return here if len(self.distances) == 1 else f"{here} or the {len(self.distances) - 1} before it"


class StoredResults(Struct, frozen=True):
    """The results to compare with, and their commit, which is `distance` commits before the wanted one; `notices` are
    sentences for the report."""

    results: BaseResults
    commit: str
    distance: int
    notices: tuple[str, ...]


class ResultsSource(Protocol):
    """A source of results on GitHub."""

    def find(self, suite: WantedSuite, ancestry: Ancestry) -> StoredResults:
        """Return the results of a suite at the wanted commit, or at the nearest commit before it.

        Raises:
            NoResultsError: there are no usable results, or GitHub cannot be read.
        """


@contextmanager
def explain_api_errors(noun: str, permission: str) -> Iterator[None]:
    """Convert an `ApiError` in the block to `NoResultsError`.

    Args:
        noun: noun that names what cannot be read, for the message.
        permission: the line in `permissions:` that allows the calls, named if access was denied.

    Raises:
        NoResultsError: the block raised an `ApiError`.
    """
    try:
        yield
    except ApiError as error:
        raise NoResultsError(f"{noun} cannot be read: {error.with_remedy(permission)}") from error


def check_results(content: bytes, name: str, suite: WantedSuite, commit: str) -> BaseResults | None:
    """Return results after checking their commit; None if they belong to another suite.

    Raises:
        RecordError: the results cannot be read, or belong to another commit or to a run that was stopped.
    """
    found = parse_base_results(content, name)
    record = found.results.record
    if not suite.matches(record):
        return None
    if record.provenance.commit != commit:
        said = one_line(str(record.provenance.commit), 12)
        raise RecordError(f"{name}: claims to be of commit {said}, but belongs to {commit[:12]}")
    if record.stopped is not None:
        raise RecordError(f"{name}: is of a run that was stopped")
    if record.certain is not None:
        raise RecordError(f"{name}: {NO_BASE}")
    return found


def to_stored_results(
    search: Search, best: Candidate, ancestry: Ancestry, now: datetime, problems: Sequence[str]
) -> StoredResults:
    """Return the best candidate's results, with notices about distance, age, differences and unusable results."""
    results, commit = best.results, best.commit
    distance = ancestry.distances[commit]
    notices: list[str] = []
    if distance:
        away = "1 commit" if distance == 1 else f"{distance} commits"
        such = "such results" if search.found[0].commit != commit else "results"
        notices.append(
            f"the base is commit {commit[:12]}, {away} before {ancestry.wanted.commit[:12]}, which has no {such}"
        )
    others = [item for item in search.found if item.fit != best.fit]
    # A separate job or workflow for the base branch is usual and needs no notice.
    if best.fit.other_target:
        notices.append(f"the results of the base are those of {best.fit}: no results of this target were found")
    if others:
        of = ", ".join(sorted({str(item.fit) or "an unknown job" for item in others}))
        notices.append(f"{len(others) + 1} results of this suite were found; skipped: {len(others)} of {of}")
    age = now - _parse_time(results.results.record.run.started_at, now)
    if age >= NOTICE_AGE:
        notices.append(f"the base was evaluated {age.days} days ago")
    notices += (f"skipped: {problem}" for problem in problems[:_MOST_PROBLEM_NOTICES])
    return StoredResults(results, commit, distance, tuple(notices))


def short_text(text: str) -> str:
    """Return a string from an artifact or a branch as one short line."""
    return one_line(text, _TEXT_LIMIT)


def _parse_time(text: str, default: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return default
    return moment if moment.tzinfo is not None else default
