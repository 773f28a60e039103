"""Progress while a suite runs: a bar on a terminal, one plain line per case elsewhere; on standard error."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, TextIO

from holodeck_action.results.record import CaseRecord
from holodeck_action.results.verdicts import judge_case
from holodeck_action.text.plain import one_line


class Progress(Protocol):
    """Told of every finished case; a context manager around the run."""

    def __enter__(self) -> Progress:
        """Start showing."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop showing."""
        ...

    def case(self, case: CaseRecord) -> None:
        """Show that a case is done."""
        ...


class PlainProgress:
    """One line per case, for logs."""

    def __init__(self, stream: TextIO, total: int, stop_when_decided: bool) -> None:
        """Write to `stream`; `total` is the number of cases."""
        self._stream = stream
        self._total = total
        self._done = 0
        self._stop_when_decided = stop_when_decided

    def __enter__(self) -> PlainProgress:
        """Start showing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush what was shown."""
        self._stream.flush()

    def case(self, case: CaseRecord) -> None:
        """Write the case's line: position, outcome, title, milliseconds of the agent's work."""
        self._done += 1
        outcome = judge_case(case, stop_when_decided=self._stop_when_decided).outcome
        took = sum(trial.timing.duration_ms for trial in case.trials if trial.timing)
        title = one_line(case.name or case.id, 100)
        self._stream.write(f"[{self._done}/{self._total}] {outcome:<13} {title} ({took:.0f} ms)\n")


class BarProgress:
    """A bar with counts, for terminals."""

    def __init__(self, stream: TextIO, total: int, stop_when_decided: bool) -> None:
        """Draw on `stream`; `total` is the number of cases."""
        # rich takes 50 ms to import: only terminals pay.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._bar.add_task("running", total=total)
        self._troubled = 0
        self._stop_when_decided = stop_when_decided

    def __enter__(self) -> BarProgress:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._bar.stop()

    def case(self, case: CaseRecord) -> None:
        """Move the bar on."""
        outcome = judge_case(case, stop_when_decided=self._stop_when_decided).outcome
        self._troubled += outcome in ("failed", "error")
        description = f"{self._troubled} not passing" if self._troubled else "running"
        self._bar.update(self._task, advance=1, description=description)


def progress_for(stream: TextIO, total: int, *, stop_when_decided: bool) -> Progress:
    """Choose the bar for a terminal and plain lines for everything else."""
    shown = BarProgress if stream.isatty() else PlainProgress
    return shown(stream, total, stop_when_decided)
