"""Runs that an extension keeps over time; without one there are none."""

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
    from holodeck_action.run.preflight import Prepared


class KeptRuns(EarlierRuns, Protocol):
    """Earlier runs of a suite."""

    @property
    def kept(self) -> tuple[bytes, ...]:
        """Lines that stand beside the results, so that later reports tell of the same runs."""


class Histories(Protocol):
    """The histories of the suites of a run."""

    def of(self, item: Prepared) -> KeptRuns:
        """Return the earlier runs of a suite.

        Raises:
            ConfigurationError: they cannot be read.
        """

    def add(self, runs: Sequence[tuple[Prepared, Conclusion]]) -> None:
        """Add runs; what cannot be added is noted and changes no verdict."""


class OpenHistory(Protocol):
    """A history whose runs are read."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What is said of runs that could not be read."""

    def results(self, run: str, other: Record | None) -> bytes:
        """Return the results file of a run.

        Args:
            run: as the reader types it.
            other: a record of the same suite; None for that of the only one.

        Raises:
            ConfigurationError: there is no such run.
        """


def earlier_beside(results: Path | GivenPath) -> EarlierRuns:
    """Return the earlier runs that are kept beside results."""
    past = registry.past()
    return NO_RUNS if past is None else registry.resolve(past.beside)(results)


def histories_of(given: GivenPath | str | None, job: Job, disk: Disk, note: Callable[[str], None]) -> Histories | None:
    """Return the histories of the suites of a run; None where runs are not kept.

    Args:
        given: a folder or `branch:NAME`; None for the branch that a suite is compared with, if there is one.
        job: that the run is part of.
        disk: what a folder is written with.
        note: takes sentences about what cannot be read or added.

    Raises:
        ConfigurationError: a history is named, and no extension keeps runs.
    """
    past = registry.past()
    if past is None:
        if given is not None:
            raise ConfigurationError([f"--history {registry.unknown()}"])
        return None
    made: Histories = registry.resolve(past.histories)(given, job, disk, note)
    return made


def open_history(folder: GivenPath, pause: Callable[[float], None], disk: Disk) -> OpenHistory:
    """Open the history in a folder.

    Raises:
        ConfigurationError: there is none, it cannot be read, or no extension keeps runs.
    """
    past = registry.past()
    if past is None:
        raise ConfigurationError([f"--history {registry.unknown()}"])
    opened: OpenHistory = registry.resolve(past.open)(folder, pause, disk)
    return opened
