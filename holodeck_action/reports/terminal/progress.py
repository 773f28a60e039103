"""Shows the progress of a run on standard error: bars on a terminal, a few lines in a log."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from holodeck_action.decide.case_verdicts import judge_case
from holodeck_action.decide.consumption import Amounts, add_case_costs
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.record import CaseRecord
from holodeck_action.reports.phrases import WORDS, duration_text, price_text
from holodeck_action.reports.terminal.drawing import make_console, wrap_line
from holodeck_action.text.plain import one_line
from holodeck_action.text.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_NOT_REPORTED = ("passed", "informational")
"""Outcomes of cases that are not listed individually when they finish."""
_PARTS = 10
"""Number of progress lines for a large suite in a log."""
_LONGEST_SILENCE_S = 15.0
_WIDE = 70
"""Minimum width in columns of a terminal whose bars show rate and time."""

Group = Callable[[str, str], str]
"""A function that returns the text of a folded section of a log, from its title and its lines."""


class CaseDisplay(Protocol):
    """Shows the progress of the cases of a run and, if the base runs at the same time, of the base's cases."""

    def show_finished(self, case: CaseRecord, *, is_base: bool = False) -> None:
        """Show a finished case; `is_base` is true for a case of the base run."""
        ...

    def show_waiting(self) -> None:
        """Show that the run is still in progress; called every second."""
        ...


class ProgressDisplay(Protocol):
    """Shows the progress of a command. Other output must go to `stream`, so that it does not break the display."""

    stream: TextIO

    def phase(self, activity: str) -> AbstractContextManager[None]:
        """Show the current activity while the context lasts."""
        ...

    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> AbstractContextManager[CaseDisplay]:
        """Show the progress of cases while the context lasts.

        Args:
            totals: number of cases of the run and, if the base runs at the same time, of the base run.
            stop_when_decided: whether the run stops repeating a case once it is decided.
        """
        ...


def progress_display(
    stream: TextIO, terminal: Terminal, group: Group | None, monotonic: Callable[[], float] = time.monotonic
) -> ProgressDisplay:
    """Return the progress display of a stream.

    Args:
        stream: standard error.
        terminal: the features of the stream.
        group: returns the text of a folded section; None if the log cannot fold lines.
        monotonic: a monotonic clock, in seconds.
    """
    return _Bars(stream, terminal, monotonic) if terminal.live else _Log(stream, group, monotonic)


class _Tally:
    """Counts the finished cases by outcome, and computes their rate and cost."""

    def __init__(self, totals: Sequence[int], stop_when_decided: bool, monotonic: Callable[[], float]) -> None:
        self.total = sum(totals)
        self.done = 0
        self._outcomes: Counter[str] = Counter()
        self._costs = Amounts()
        self._stop_when_decided = stop_when_decided
        self._monotonic, self._started = monotonic, monotonic()

    def add(self, case: CaseRecord, *, is_base: bool) -> CaseVerdict:
        verdict = judge_case(case, stop_when_decided=self._stop_when_decided)
        self.done += 1
        if not is_base:
            self._outcomes[verdict.outcome] += 1
        add_case_costs(self._costs, case)
        return verdict

    @property
    def counts(self) -> str:
        """The number of cases by outcome, in words."""
        return self._counts_text(WORDS) or "no case is finished yet"

    @property
    def reported_counts(self) -> str:
        """The number of cases by outcome, except passing and informational ones; an empty string if there are no
        others."""
        return self._counts_text(outcome for outcome in WORDS if outcome not in _NOT_REPORTED)

    def _counts_text(self, outcomes: Iterable[str]) -> str:
        counted = ((outcome, self._outcomes[outcome]) for outcome in outcomes)
        return ", ".join(f"{number} {WORDS[outcome]}" for outcome, number in counted if number)

    @property
    def rate(self) -> str:
        """The rate of finished cases per second or per minute; an empty string before the first case is finished."""
        passed = self._monotonic() - self._started
        if not self.done or passed <= 0:
            return ""
        rate = self.done / passed
        return f"{rate:.1f} cases/s" if rate >= 1 else f"{60 * rate:.1f} cases/min"

    @property
    def spend(self) -> str:
        """The list price so far, a lower bound if some prices are unknown; an empty string if no price is known."""
        return "" if self._costs.known_sum is None else price_text(self._costs.total)


def _reason_text(verdict: CaseVerdict) -> str:
    return one_line(verdict.reason, 300)


class _Log:
    """Writes lines to a log: failing cases at once, progress after each tenth of the cases or 15 s of silence.

    A suite of at most ten cases gets a line for each case as soon as it is finished. In a larger suite, cases that did
    not fail are listed at the end, folded, if the log can fold lines.
    """

    def __init__(self, stream: TextIO, group: Group | None, monotonic: Callable[[], float]) -> None:
        self.stream = stream
        self._group = group
        self._monotonic = monotonic

    def phase(self, activity: str) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> Iterator[CaseDisplay]:
        shown = _LoggedCases(self.stream, _Tally(totals, stop_when_decided, self._monotonic), self._monotonic)
        try:
            yield shown
        finally:
            if self._group is not None and shown.others:
                title = f"{len(shown.others)} other {'case' if len(shown.others) == 1 else 'cases'}"
                self.stream.write(self._group(title, "".join(shown.others)))
            self.stream.flush()


class _LoggedCases:
    def __init__(self, stream: TextIO, tally: _Tally, monotonic: Callable[[], float]) -> None:
        self.others: list[str] = []
        self._stream, self._tally, self._monotonic = stream, tally, monotonic
        self._part, self._written_at = 0, monotonic()

    def show_finished(self, case: CaseRecord, *, is_base: bool = False) -> None:
        tally = self._tally
        verdict = tally.add(case, is_base=is_base)
        time = value_or_none(case.took_ms)
        took = "" if time is None else f" ({duration_text(time)})"
        name = one_line(case.name or case.id, 100)
        base = "base: " if is_base else ""
        line = f"[{tally.done}/{tally.total}] {base}{verdict.outcome:<13} {name}{took}\n"
        wrong = verdict.outcome not in _NOT_REPORTED and not is_base
        # The report at the end of the log has the reasons.
        if wrong or tally.total <= _PARTS:
            self._write(line)
        else:
            self.others.append(line)
        part = tally.done * _PARTS // tally.total
        if tally.total > _PARTS and part > self._part:
            self._write_state()
            self._part = part

    def show_waiting(self) -> None:
        if self._monotonic() - self._written_at >= _LONGEST_SILENCE_S:
            self._write_state()

    def _write_state(self) -> None:
        tally = self._tally
        parts = [part for part in (tally.counts, tally.rate, tally.spend) if part]
        self._write(f"[{tally.done}/{tally.total}] {', '.join(parts)}\n")

    def _write(self, line: str) -> None:
        self._stream.write(line)
        self._written_at = self._monotonic()


class QuietProgress:
    """Shows no progress."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def phase(self, activity: str) -> AbstractContextManager[None]:
        """Show nothing while the context lasts."""
        return nullcontext()

    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> AbstractContextManager[CaseDisplay]:
        """Show nothing while the context lasts."""
        return nullcontext(self)

    def show_finished(self, case: CaseRecord, *, is_base: bool = False) -> None:
        """Show nothing."""

    def show_waiting(self) -> None:
        """Show nothing."""


class _Bars:
    """Shows progress bars; cases that did not pass and other output appear above them."""

    def __init__(self, stream: TextIO, terminal: Terminal, monotonic: Callable[[], float]) -> None:
        self._console = make_console(stream, terminal)
        self._wide = (terminal.width or 0) >= _WIDE
        self._monotonic = monotonic
        self.stream = cast("TextIO", _StreamAboveBars(stream, self._console))

    @contextmanager
    def phase(self, activity: str) -> Iterator[None]:
        from rich.progress import Progress, SpinnerColumn, TextColumn

        with Progress(SpinnerColumn(), TextColumn("{task.description} …"), **self._options) as bar:
            bar.add_task(activity)
            yield

    @contextmanager
    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> Iterator[CaseDisplay]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = [TextColumn("{task.description}"), BarColumn(bar_width=20 if self._wide else 8), MofNCompleteColumn()]
        columns.append(TextColumn("{task.fields[said]}"))
        if self._wide:
            columns.append(TimeElapsedColumn())
        tally = _Tally(totals, stop_when_decided, self._monotonic)
        with Progress(*columns, **self._options) as bar:
            yield _CaseBars(bar, self._console, totals, tally, is_wide=self._wide)

    @property
    def _options(self) -> dict[str, Any]:
        # rich must not redirect the streams of the process.
        return {"console": self._console, "transient": True, "redirect_stdout": False, "redirect_stderr": False}


class _CaseBars:
    def __init__(self, bar: Progress, console: Console, totals: Sequence[int], tally: _Tally, *, is_wide: bool) -> None:
        self._bar, self._console, self._tally, self._wide = bar, console, tally, is_wide
        names = ("running",) if len(totals) == 1 else ("head", "base")
        self._bar_ids = [bar.add_task(name, total=total, said="") for name, total in zip(names, totals, strict=True)]

    def show_finished(self, case: CaseRecord, *, is_base: bool = False) -> None:
        from rich.text import Text

        tally = self._tally
        verdict = tally.add(case, is_base=is_base)
        if verdict.outcome not in _NOT_REPORTED and not is_base:
            name = one_line(case.name or case.id, 100)
            head = f"{WORDS[verdict.outcome]}: {name}"
            text = Text(wrap_line(f"{head}: {_reason_text(verdict)}", self._console.width))
            text.stylize("red" if verdict.outcome == "failed" else "yellow", 0, len(head))
            self._console.print(text, soft_wrap=True)
        self._bar.advance(self._bar_ids[-1] if is_base else self._bar_ids[0])
        parts = (tally.reported_counts, tally.rate if self._wide else "", tally.spend)
        self._bar.update(self._bar_ids[0], said=", ".join(part for part in parts if part))

    def show_waiting(self) -> None:
        """Do nothing: bars are updated by rich."""


class _StreamAboveBars(io.TextIOBase):
    """A stream whose lines appear above the progress bars."""

    def __init__(self, stream: TextIO, console: Console) -> None:
        self._stream, self._console = stream, console
        self._begun = ""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        from rich.text import Text

        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._console.print(Text(wrap_line(line, self._console.width)), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
