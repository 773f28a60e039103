"""How far a run is, on standard error: bars on a terminal, and few whole lines in a log."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from holodeck_action.decide.case_verdicts import judge_case
from holodeck_action.decide.consumption import Amounts, add_costs
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.record.facts import value_or_none
from holodeck_action.record.record import CaseRecord
from holodeck_action.reports.phrases import WORDS, duration_text, price_text
from holodeck_action.reports.terminal.drawing import console_on, wrapped
from holodeck_action.text.plain import one_line
from holodeck_action.text.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_QUIET = ("passed", "informational")
"""Outcomes that nobody waits for."""
_PARTS = 10
"""So many lines a log gets of a large suite."""
_LONGEST_SILENCE_S = 15.0
_WIDE = 70
"""Columns from which on a bar has room for rate and time."""

Group = Callable[[str, str], str]
"""Folds lines of a log, below a title."""


class CasesShown(Protocol):
    """Shows the cases of a run and, where there is one, of the run that it is compared with."""

    def done(self, case: CaseRecord, *, beside: bool = False) -> None:
        """Show that a case is done; with `beside` one of the other run."""
        ...

    def waiting(self) -> None:
        """Show that the run goes on, every second."""
        ...


class Following(Protocol):
    """Shows how far a command is; what else is for the same stream goes to `stream`."""

    stream: TextIO

    def phase(self, what: str) -> AbstractContextManager[None]:
        """Show what is being done while the context lasts."""
        ...

    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> AbstractContextManager[CasesShown]:
        """Show cases while the context lasts.

        Args:
            totals: number of cases, then that of the run beside it, if there is one.
            stop_when_decided: as the record has it.
        """
        ...


def following(
    stream: TextIO, terminal: Terminal, group: Group | None, monotonic: Callable[[], float] = time.monotonic
) -> Following:
    """Return what shows on a stream how far a command is.

    Args:
        stream: standard error.
        terminal: what it can show.
        group: folds lines; None where nothing does.
        monotonic: a clock, in seconds.
    """
    return _Bars(stream, terminal, monotonic) if terminal.live else _Log(stream, group, monotonic)


class _Tally:
    """What is known of the cases that are done."""

    def __init__(self, totals: Sequence[int], stop_when_decided: bool, monotonic: Callable[[], float]) -> None:
        self.total = sum(totals)
        self.done = 0
        self._outcomes: Counter[str] = Counter()
        self._costs = Amounts()
        self._stop_when_decided = stop_when_decided
        self._monotonic, self._started = monotonic, monotonic()

    def add(self, case: CaseRecord, *, beside: bool) -> CaseVerdict:
        verdict = judge_case(case, stop_when_decided=self._stop_when_decided)
        self.done += 1
        if not beside:
            self._outcomes[verdict.outcome] += 1
        for turn in case.turns:
            add_costs(self._costs, turn)
        return verdict

    @property
    def counts(self) -> str:
        """How many passed, and how many did not."""
        return self._told(WORDS) or "nothing is done yet"

    @property
    def trouble(self) -> str:
        """How many did not pass; empty for none."""
        return self._told(outcome for outcome in WORDS if outcome not in _QUIET)

    def _told(self, outcomes: Iterable[str]) -> str:
        counted = ((outcome, self._outcomes[outcome]) for outcome in outcomes)
        return ", ".join(f"{number} {WORDS[outcome]}" for outcome, number in counted if number)

    @property
    def rate(self) -> str:
        """How many cases a second, or a minute, are done."""
        passed = self._monotonic() - self._started
        if not self.done or passed <= 0:
            return ""
        rate = self.done / passed
        return f"{rate:.1f} cases/s" if rate >= 1 else f"{60 * rate:.1f} cases/min"

    @property
    def spend(self) -> str:
        """The list price so far, a lower bound if that of some answers is not known; empty if none is known."""
        return "" if self._costs.known is None else price_text(self._costs.total)


def _reason(verdict: CaseVerdict) -> str:
    return one_line(verdict.reason, 300)


class _Log:
    """Whole lines: what does not pass at once, and how far the run is at each tenth and after 15 silent seconds.

    A suite of at most ten cases gets a line for each. Where lines can be folded, those of the other cases follow at the
    end, folded.
    """

    def __init__(self, stream: TextIO, group: Group | None, monotonic: Callable[[], float]) -> None:
        self.stream = stream
        self._group = group
        self._monotonic = monotonic

    def phase(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> Iterator[CasesShown]:
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

    def done(self, case: CaseRecord, *, beside: bool = False) -> None:
        tally = self._tally
        verdict = tally.add(case, beside=beside)
        time = value_or_none(case.took_ms)
        took = "" if time is None else f" ({duration_text(time)})"
        name = one_line(case.name or case.id, 100)
        base = "base: " if beside else ""
        line = f"[{tally.done}/{tally.total}] {base}{verdict.outcome:<13} {name}{took}\n"
        wrong = verdict.outcome not in _QUIET and not beside
        if wrong or tally.total <= _PARTS:
            self._write(f"{line}    {_reason(verdict)}\n" if wrong else line)
        else:
            self.others.append(line)
        part = tally.done * _PARTS // tally.total
        if tally.total > _PARTS and part > self._part:
            self._write_state()
            self._part = part

    def waiting(self) -> None:
        if self._monotonic() - self._written_at >= _LONGEST_SILENCE_S:
            self._write_state()

    def _write_state(self) -> None:
        tally = self._tally
        parts = [part for part in (tally.counts, tally.rate, tally.spend) if part]
        self._write(f"[{tally.done}/{tally.total}] {', '.join(parts)}\n")

    def _write(self, line: str) -> None:
        self._stream.write(line)
        self._written_at = self._monotonic()


class _Bars:
    """Bars that are written over; what does not pass, and all else that is told meanwhile, stands above them."""

    def __init__(self, stream: TextIO, terminal: Terminal, monotonic: Callable[[], float]) -> None:
        self._console = console_on(stream, terminal)
        self._wide = (terminal.width or 0) >= _WIDE
        self._monotonic = monotonic
        self.stream = cast("TextIO", _Above(stream, self._console))

    @contextmanager
    def phase(self, what: str) -> Iterator[None]:
        from rich.progress import Progress, SpinnerColumn, TextColumn

        with Progress(SpinnerColumn(), TextColumn("{task.description} …"), **self._options) as bar:
            bar.add_task(what)
            yield

    @contextmanager
    def cases(self, totals: Sequence[int], *, stop_when_decided: bool) -> Iterator[CasesShown]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = [TextColumn("{task.description}"), BarColumn(bar_width=20 if self._wide else 8), MofNCompleteColumn()]
        columns.append(TextColumn("{task.fields[said]}"))
        if self._wide:
            columns.append(TimeElapsedColumn())
        tally = _Tally(totals, stop_when_decided, self._monotonic)
        with Progress(*columns, **self._options) as bar:
            yield _CaseBars(bar, self._console, totals, tally, wide=self._wide)

    @property
    def _options(self) -> dict[str, Any]:
        # The streams of the process are not ours to redirect.
        return {"console": self._console, "transient": True, "redirect_stdout": False, "redirect_stderr": False}


class _CaseBars:
    def __init__(self, bar: Progress, console: Console, totals: Sequence[int], tally: _Tally, *, wide: bool) -> None:
        self._bar, self._console, self._tally, self._wide = bar, console, tally, wide
        names = ("running",) if len(totals) == 1 else ("head", "base")
        self._lanes = [bar.add_task(name, total=total, said="") for name, total in zip(names, totals, strict=True)]

    def done(self, case: CaseRecord, *, beside: bool = False) -> None:
        from rich.text import Text

        tally = self._tally
        verdict = tally.add(case, beside=beside)
        if verdict.outcome not in _QUIET and not beside:
            name = one_line(case.name or case.id, 100)
            head = f"{WORDS[verdict.outcome]}: {name}"
            text = Text(wrapped(f"{head}: {_reason(verdict)}", self._console.width))
            text.stylize("red" if verdict.outcome == "failed" else "yellow", 0, len(head))
            self._console.print(text, soft_wrap=True)
        self._bar.advance(self._lanes[-1] if beside else self._lanes[0])
        parts = (tally.trouble, tally.rate if self._wide else "", tally.spend)
        self._bar.update(self._lanes[0], said=", ".join(part for part in parts if part))

    def waiting(self) -> None:
        """Do nothing: a bar moves by itself."""


class _Above(io.TextIOBase):
    """A stream whose lines stand above the bars of its terminal."""

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
            self._console.print(Text(wrapped(line, self._console.width)), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
