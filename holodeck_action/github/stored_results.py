"""Results of an earlier run that are kept on GitHub: for which suite, of which commit, and how far away that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from msgspec import Struct

from holodeck_action.github.merge_base import Wanted
from holodeck_action.github.objects import ApiError
from holodeck_action.results.base_results import results_in
from holodeck_action.results.record import Record
from holodeck_action.results.result_files import BaseResults
from holodeck_action.results.stored_cases import RecordError
from holodeck_action.text.plain import one_line

OLD = timedelta(days=7)
"""Age from which the reader is told: the models behind an API change."""
_TOLD = 3
"""Results that were passed over, of which the reader is told."""
_SHOWN = 300


class NoResultsError(Exception):
    """There are none to compare with; the message is one sentence with the way out."""


class SuitePlace(Struct, frozen=True):
    """Which suite: its folder in the repository (None outside of one) and the name of its file."""

    folder: str | None
    file: str

    def asks(self, record: Record) -> bool:
        """Tell whether a record is of this suite."""
        return record.provenance.folder == self.folder and record.suite.file == self.file


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
    results: BaseResults, commit: str, ancestry: Ancestry, now: datetime, problems: Sequence[str]
) -> StoredResults:
    """Return results that were found, and say how far away and how old they are, and what was passed over for them."""
    distance = ancestry.distances[commit]
    notices: list[str] = []
    if distance:
        away = "1 commit" if distance == 1 else f"{distance} commits"
        notices.append(
            f"the base is commit {commit[:12]}, {away} before {ancestry.wanted.commit[:12]}, which has no results"
        )
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
