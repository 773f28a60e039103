"""Progress while a suite runs: a bar on a terminal, one plain line per case elsewhere; on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from holodeck_action.results.case_verdicts import judge_case
from holodeck_action.results.record import CaseRecord
from holodeck_action.text.plain import one_line


class CaseDone(Protocol):
    """Shows that a case is done; with `beside` one of the run that this one is compared with."""

    def __call__(self, case: CaseRecord, *, beside: bool = False) -> None:
        """Show it."""
        ...


def progress(stream: TextIO, total: int, *, stop_when_decided: bool) -> AbstractContextManager[CaseDone]:
    """Show progress while the context lasts, and yield what each finished case is to be given to.

    Args:
        stream: gets a bar where it is a terminal, and else a line per case.
        total: number of cases, those of a run beside this one included.
        stop_when_decided: as the record has it.
    """
    return (_bar if stream.isatty() else _lines)(stream, total, stop_when_decided)


@contextmanager
def _lines(stream: TextIO, total: int, stop_when_decided: bool) -> Iterator[CaseDone]:
    done = 0

    def show(case: CaseRecord, *, beside: bool = False) -> None:
        nonlocal done
        done += 1
        base = "base: " if beside else ""
        outcome = judge_case(case, stop_when_decided=stop_when_decided).outcome
        # Of the agent's work.
        took = sum(trial.timing.duration_ms for trial in case.trials if trial.timing)
        stream.write(f"[{done}/{total}] {base}{outcome:<13} {one_line(case.name or case.id, 100)} ({took:.0f} ms)\n")

    try:
        yield show
    finally:
        stream.flush()


@contextmanager
def _bar(stream: TextIO, total: int, stop_when_decided: bool) -> Iterator[CaseDone]:
    # rich takes 50 ms to import: only terminals pay.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    not_passing = 0
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("running", total=total)

        def show(case: CaseRecord, *, beside: bool = False) -> None:
            nonlocal not_passing
            if not beside:
                not_passing += judge_case(case, stop_when_decided=stop_when_decided).outcome in ("failed", "error")
            bar.update(task, advance=1, description=f"{not_passing} not passing" if not_passing else "running")

        yield show
