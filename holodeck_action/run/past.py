"""Access to earlier runs. An extension stores earlier runs; without it, there are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holodeck_action.record.disk import Disk
from holodeck_action.record.record import Record
from holodeck_action.reports.history import NO_RUNS, EarlierRuns
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.github.job import Job
    from holodeck_action.reports.conclusion import Conclusion
    from holodeck_action.run.run import Run


class KeptRuns(EarlierRuns, Protocol):
    """Earlier runs of a suite, which can be stored with its results."""

    @property
    def flaky_ids(self) -> frozenset[str]:
        """Ids of the cases that were flaky in recent runs."""

    @property
    def saved_lines(self) -> tuple[bytes, ...]:
        """Lines of a file to store with the results, so that later reports show the same earlier runs."""


class Histories(Protocol):
    """Reads earlier runs of a run's suites from their histories, and adds new runs."""

    def of(self, suite: Run) -> KeptRuns | None:
        """Return the earlier runs of a suite; None if it has no history.

        Raises:
            ConfigurationError: the earlier runs cannot be read.
        """

    def add(self, runs: Sequence[tuple[Run, Conclusion]]) -> None:
        """Add runs to the histories; if that fails, write a note to the user."""


class OpenHistory(Protocol):
    """A history that is open for reading."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about unreadable runs."""

    def results(self, run_text: str, other: Record | None) -> bytes:
        """Return the results file of a run.

        Args:
            run_text: the run as the user types it: a commit hash, or a negative number (-1 for the newest run).
            other: a record of the same suite; None if the history has a single suite.

        Raises:
            ConfigurationError: the history does not contain the run.
        """


def stored_earlier_runs(results: Path | GivenPath) -> EarlierRuns:
    """Return the earlier runs that are stored with results; empty if no extension reads them."""
    past = registry.past()
    return NO_RUNS if past is None else registry.resolve(past.beside)(results)


def histories_of(
    history_place: GivenPath | str | None, job: Job, disk: Disk, note: Callable[[str], None]
) -> Histories | None:
    """Return the histories of a run's suites; None if no extension can store runs.

    Args:
        history_place: a folder or `branch:NAME`; None to use the branch with the results to compare with, if there is
            one.
        job: the CI job of the run.
        disk: writes the files of a history in a folder.
        note: called with sentences about runs that cannot be read or added.

    Raises:
        ConfigurationError: a history is given, but no extension can store runs.
    """
    past = registry.past()
    if past is None:
        if history_place is not None:
            raise ConfigurationError([f"--history {registry.unknown_phrase()}"])
        return None
    made: Histories = registry.resolve(past.histories)(history_place, job, disk, note)
    return made


def open_history(folder: GivenPath, pause: Callable[[float], None], disk: Disk) -> OpenHistory:
    """Open the history in a folder.

    Raises:
        ConfigurationError: the history does not exist or cannot be read, or no extension can store runs.
    """
    past = registry.past()
    if past is None:
        raise ConfigurationError([f"--history {registry.unknown_phrase()}"])
    opened: OpenHistory = registry.resolve(past.open)(folder, pause, disk)
    return opened
