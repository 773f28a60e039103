"""Results of an earlier run that are kept on GitHub: for which suite, of which commit, and how far away that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from holodeck_action.github.bases.merge_base import Wanted
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.record.asker import Asker
from holodeck_action.record.base_results import results_in
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import BaseResults
from holodeck_action.record.stored_cases import RecordError
from holodeck_action.text.plain import one_line

OLD = timedelta(days=7)
"""Age from which the reader is told: the models behind an API change."""
_TOLD = 3
"""Results that were passed over, of which the reader is told."""
_SHOWN = 300
MOST_FURTHER = 5
"""Results of further commits that are read, for one of the same target."""


class NoResultsError(Exception):
    """There are none to compare with; the message is one sentence with the way out."""


class SuitePlace(Struct, frozen=True):
    """Which suite, and who asks it what.

    Attributes:
        folder: of the suite in its repository; None outside of one.
        file: name of its file.
        target: who answers this run.
        asker: the job that this run belongs to.
    """

    folder: str | None
    file: str
    target: str
    asker: Asker

    def asks(self, record: Record) -> bool:
        """Tell whether a record is of this suite."""
        return record.provenance.folder == self.folder and record.suite.file == self.file

    def fit(self, record: Record, workflow: str = "") -> Fit:
        """Tell how like this run one is that evaluated the same suite.

        Args:
            record: its record.
            workflow: path of its workflow's file, where GitHub tells it; else the record's word counts.
        """
        run = record.run
        jobs = _difference(self.asker.job, run.job)
        workflows = _difference(self.asker.workflow, workflow or run.workflow)
        # An id of a job means nothing in another workflow.
        other = 3 if workflows == _OTHER else max(workflows, jobs)
        return Fit(other, record.provenance.target != self.target)


class Fit(Struct, frozen=True, order=True):
    """How like a run is to the one that looks for it; the least is the best.

    Attributes:
        other: 0 for the same job of the same workflow, 1 where the job or the workflow of the run is not known, 2 for
            another job, 3 for another workflow.
        target: whether somebody else answered.
    """

    other: int
    target: bool

    @property
    def exact(self) -> bool:
        """Whether no run can be more like it."""
        return self <= Fit(0, target=False)

    def __str__(self) -> str:
        """Name what differs, for a sentence."""
        names = {2: ["another job"], 3: ["another workflow"]}.get(self.other, [])
        return " and ".join([*names, *(["another target"] if self.target else [])])


_OTHER = 2


def _difference(mine: str, theirs: str) -> int:
    if not mine or mine == theirs:
        return 0
    return _OTHER if theirs else 1


class Candidate(Struct, frozen=True):
    """Results of the suite that may be the base: of which commit, and how like its run is."""

    results: BaseResults
    commit: str
    fit: Fit


class Search:
    """Collects candidates, the nearest commit first, and chooses: the most like, and of those the first.

    It goes on to further commits only for the same target, and for a few results.
    """

    def __init__(self) -> None:
        self.found: list[Candidate] = []
        self._further = 0

    def add(self, candidate: Candidate) -> None:
        """Take a candidate into account."""
        self._further += bool(self.found) and candidate.commit != self.found[0].commit
        self.found.append(candidate)

    def done(self, commit: str) -> bool:
        """Tell whether the results of a commit, the next in order, need not be read any more."""
        if not self.found:
            return False
        if commit == self.found[-1].commit:
            return any(item.fit.exact for item in self.found)
        return any(not item.fit.target for item in self.found) or self._further >= MOST_FURTHER

    @property
    def best(self) -> Candidate | None:
        """The one to compare with; None where there is none."""
        return min(self.found, key=lambda item: item.fit, default=None)


class Ancestry(Struct, frozen=True):
    """The wanted commit and those before it on its branch: how many commits each is away."""

    wanted: Wanted
    distances: Mapping[str, int]

    @classmethod
    def of(cls, wanted: Wanted, line: tuple[str, ...]) -> Ancestry:
        """Return the ancestry of a commit, given with its first parents, the nearest first."""
        return cls(wanted, {commit: distance for distance, commit in enumerate(line)})

    @property
    def named(self) -> str:
        """The commits, for a sentence."""
        here = f"commit {self.wanted.commit[:12]}"
        return here if len(self.distances) == 1 else f"{here} or the {len(self.distances) - 1} before it"


class StoredResults(Struct, frozen=True):
    """Results that were found: of which commit, how many commits before the wanted one, and what the reader is told."""

    results: BaseResults
    commit: str
    distance: int
    notices: tuple[str, ...]


class ResultsSource(Protocol):
    """Where GitHub keeps results."""

    def find(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        """Return the results of a suite at the wanted commit, or at the nearest commit before it.

        Raises:
            NoResultsError: there are none, or GitHub did not give them.
        """


@contextmanager
def reading(what: str, permission: str) -> Iterator[None]:
    """Say that there are no results when GitHub does not give `what`, which takes a permission of the job's token.

    Raises:
        NoResultsError: an `ApiError` came out of the block.
    """
    try:
        yield
    except ApiError as error:
        raise NoResultsError(f"{what} cannot be read: {error.needing(permission)}") from error


def checked(content: bytes, name: str, suite: SuitePlace, commit: str) -> BaseResults | None:
    """Return results, held to the commit that they must be of; None where they are another suite's.

    Raises:
        RecordError: they cannot be read, are of another commit, or of a run that did not end.
    """
    found = results_in(content, name)
    record = found.results.record
    if not suite.asks(record):
        return None
    if record.provenance.commit != commit:
        said = one_line(str(record.provenance.commit), 12)
        raise RecordError(f"{name}: says that it is of commit {said}, and belongs to {commit[:12]}")
    if record.stopped is not None:
        raise RecordError(f"{name}: is of a run that was stopped")
    return found


def found_results(
    search: Search, best: Candidate, ancestry: Ancestry, now: datetime, problems: Sequence[str]
) -> StoredResults:
    """Return the best results that were found.

    They come with what the reader is told: how far away and how old they are, what differs, and what was passed over.
    """
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
    # That the base branch has a job or a workflow of its own is usual.
    if best.fit.target:
        notices.append(f"the results of the base are those of {best.fit}: none of this target were found")
    if others:
        of = ", ".join(sorted({str(item.fit) or "a job that is not known" for item in others}))
        notices.append(f"{len(others) + 1} results of this suite were found; passed over: {len(others)} of {of}")
    age = now - _time(results.results.record.run.started_at, now)
    if age >= OLD:
        notices.append(f"the base was evaluated {age.days} days ago")
    notices += (f"passed over: {problem}" for problem in problems[:_TOLD])
    return StoredResults(results, commit, distance, tuple(notices))


def shown(text: str) -> str:
    """Return a name or a sentence that comes from an artifact or a branch."""
    return one_line(text, _SHOWN)


def _time(text: str, default: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return default
    return moment if moment.tzinfo is not None else default
