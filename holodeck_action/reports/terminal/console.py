"""The report on standard output: every case that needs attention with its reason, metrics, gates, and the verdict.

A log gets plain text; a terminal gets the same content with colours and tables. Cases with the same error are one
block. The verdict is the last line, since the end of the output is what a terminal shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TextIO

from holodeck_action.decide.compare.comparison import Comparison, count_gating
from holodeck_action.decide.error_table import ACTIONS
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.reports.causes import MAX_UNGROUPED, Cause, causes_of
from holodeck_action.reports.comparison import base_name, comparison_lines
from holodeck_action.reports.first_lines import first_sentences
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.history import history_lines, runs_text
from holodeck_action.reports.metric_rows import joined_metrics, metric_rows, more_metrics
from holodeck_action.reports.phrases import (
    call_text,
    calls_text,
    card_text,
    case_trials_text,
    contradiction_text,
    counts_text,
    gate_line,
    noise_text,
    panel_text,
    place,
    probe_text,
    suite_trials_text,
    threshold_text,
)
from holodeck_action.reports.report_views import CaseView, MetricView, Report, ToolCallView, TurnView
from holodeck_action.reports.simulated_users import user_summary_text
from holodeck_action.reports.terminal.drawing import make_console, wrap_line
from holodeck_action.reports.terms import terms_lines
from holodeck_action.text.plain import one_line
from holodeck_action.text.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_CASE_SIGNS = {"failed": "✗", "error": "!", "skipped": "-", "quarantined": "~"}
_FLAKY_NAMED = 20
_CASES_SHOWN = 1000
"""Maximum number of cases that need attention to list in a log."""
_SAME_ERROR_SHOWN = 10
_CAUSES_SHOWN = 12
_COLOURS = {
    "passed": "green",
    "failed": "red",
    "error": "yellow",
    "skipped": "yellow",
    "quarantined": "magenta",
    "undetermined": "yellow",
    "incomplete": "yellow",
    "stopped": "yellow",
}


def console_report(report: Report) -> Iterator[str]:
    """Yield the lines of a report as plain text for logs."""
    return (f"{line}\n" for line, _ in _pieces(report, None))


def print_report(report: Report, stream: TextIO, terminal: Terminal) -> None:
    """Write a report to a stream, with colours and tables if the terminal supports them, else as `console_report`."""
    if terminal.width is None and not terminal.colour:
        stream.writelines(console_report(report))
    else:
        _draw(report, make_console(stream, terminal), terminal.width)
    stream.flush()


def _head_lines(report: Report) -> Iterator[str]:
    """Yield the lines before the cases: the suite, then its notices."""
    file = one_line(f"{report.folder}/{report.file}" if report.folder else report.file)
    yield f"Suite {one_line(report.suite)} ({file}), target {one_line(report.target)}"
    yield from (f"warning: {said}" for said in first_sentences(report.comparison))
    yield from (f"  {line}" for line in terms_lines(report.comparison))
    for notice in report.notices:
        yield f"note: {one_line(notice, 500)}"


def _pieces(report: Report, width: int | None) -> Iterator[tuple[str | Table, str]]:
    """Yield the lines of a report with their styles. For a terminal of `width` columns, a table has the metrics."""
    first, *notices = _head_lines(report)
    yield first, "bold"
    yield from ((notice, "dim") for notice in notices)
    causes = causes_of(report)
    for outcome, (title, *lines) in _attention_blocks(report, causes):
        yield from (("", ""), (title, f"bold {_COLOURS[outcome]}"), *((line, "") for line in lines))
    if report.comparison is not None:
        sentence, *lines = comparison_lines(report.comparison, report.folder, regressed=False)
        worse = count_gating(report.comparison.regressed) > 0
        yield from (("", ""), (sentence, "bold red" if worse else "bold"), *((line, "") for line in lines))
    elif report.base_missing is not None:
        yield f"Not compared with a base: {one_line(report.base_missing, 1000)}", "yellow"
    if report.informational:
        yield from (("", ""), (_informational_line(report), "dim"))
    if report.metrics:
        yield "", ""
        shown = [*(report.metrics[at] for at in metric_rows(report.metrics)), *joined_metrics(report.metrics)]
        yield from ((line, "") for line in _metric_lines(shown)) if width is None else _metric_table(shown, width)
        yield from ((line, "dim") for line in _lines_below_metrics(report))
    yield from ((line, "dim") for line in _history_lines(report))
    yield "", ""
    yield from ((gate_line(gate), _COLOURS[gate.state]) for gate in report.gates)
    yield "", ""
    yield from ((line, "dim") for line in (*_cause_lines(causes), *_calls_lines(report)))
    *counts, verdict = _end_lines(report, causes)
    yield from ((line, "") for line in counts)
    yield verdict, f"bold {_COLOURS[report.outcome]}"


def _lines_below_metrics(report: Report) -> Iterator[str]:
    """Yield the lines below the table of metrics."""
    yield from filter(None, [more_metrics(report.metrics)])
    for metric in report.metrics:
        if metric.within_noise:
            yield f"{one_line(metric.name, 60)}: {noise_text(metric)}"
    for panel in report.panels:
        yield f"{one_line(panel.metric, 60)}: {panel_text(panel)}"
    for found in report.contradictions:
        yield f"{one_line(found.metric, 60)}: {contradiction_text(found)}"
    yield from _card_lines(report)
    yield from _probe_lines(report)
    if report.trial_rates is not None:
        yield suite_trials_text(report.trial_rates)
        passing = report.passing if report.trial_rates.flaky else ()
        flaky = list(islice((one_line(case.title, 60) for case in passing if case.flaky), _FLAKY_NAMED + 1))
        if flaky:
            yield f"passing and flaky: {', '.join(flaky[:_FLAKY_NAMED])}{' …' if len(flaky) > _FLAKY_NAMED else ''}"


def _history_lines(report: Report) -> Iterator[str]:
    """Yield the lines about the trend of earlier runs and this one; none if there is no history."""
    if report.history is not None:
        yield ""
        yield f"history of {runs_text(len(report.history.runs))}, newest last"
        yield from history_lines(report.history)


def _card_lines(report: Report) -> Iterator[str]:
    """Yield a line for each judge card, about its measured agreement."""
    for card in report.cards:
        yield f"{one_line(card.metric, 60)}: {one_line(card_text(card), 1000)}"


def _probe_lines(report: Report) -> Iterator[str]:
    """Yield a line for each probe that failed or belongs to a metric with a judge card, and one for all others."""
    measured = {card.metric for card in report.cards}
    shown = [probe for probe in report.probes if not probe.passed or probe.metric in measured]
    for probe in shown:
        yield f"{one_line(probe.metric, 60)}: {one_line(probe_text(probe), 1000)}"
    others = [probe for probe in report.probes if probe not in shown]
    if others:
        kept = sum(probe.kept for probe in others)
        yield f"probes of judges: {len(others)} passed{f', {kept} of them in an earlier run' if kept else ''}"


def _calls_lines(report: Report) -> Iterator[str]:
    """Yield a line about the run's model calls, if there were any, and a line for each model that played users."""
    yield from (one_line(user_summary_text(user), 300) for user in report.users)
    if report.run is not None and report.run.model_calls is not None:
        yield calls_text(report.run.model_calls, report.spend)


def _attention_blocks(report: Report, causes: Sequence[Cause]) -> Iterator[tuple[str, list[str]]]:
    """Yield the outcome and the lines of each case that needs attention, by cause; cases with the same error are one
    block."""
    cases = 0
    before = _cases_on_base(report.comparison)
    for cause in causes:
        if cause.is_same_error:
            yield cause.outcome, list(_same_error_lines(cause, report.folder))
            cases += len(cause.cases)
            continue
        for case in cause.cases:
            if cases < _CASES_SHOWN:
                yield case.outcome, list(_case_lines(case, report.folder, before.get(case.id)))
            cases += 1
    for case in report.attention:
        if case.outcome == "quarantined":
            if cases < _CASES_SHOWN:
                yield case.outcome, list(_case_lines(case, report.folder))
            cases += 1
    if cases > _CASES_SHOWN:
        more = f"… and {cases - _CASES_SHOWN:,} more cases that need attention"
        yield "skipped", [f"{more}; `holodeck-action report --format csv` lists all"]


class _BaseAnswer(NamedTuple):
    """The base's name, and its answer in a case that passed there (None if the answer is unknown)."""

    name: str
    answer: str | None


def _cases_on_base(comparison: Comparison | None) -> dict[str, _BaseAnswer]:
    """Return the base's answers in regressed and flaky cases, by id; empty without a comparison."""
    if comparison is None:
        return {}
    name = one_line(base_name(comparison.base), 80)
    worse = (*islice(comparison.regressed, _CASES_SHOWN), *comparison.flaky)
    return {case.id: _BaseAnswer(name, case.before) for case in worse}


def _same_error_lines(cause: Cause, folder: str) -> Iterator[str]:
    yield f"{_CASE_SIGNS[cause.outcome]} {len(cause.cases):,} cases  [{cause.outcome}]"
    yield f"    {one_line(cause.reason, 1000)}"
    if cause.example:
        yield f"    for example: {one_line(cause.example, 1000)}"
    if cause.actor is not None:
        yield f"    {ACTIONS[cause.actor]}"
    for case in cause.cases[:_SAME_ERROR_SHOWN]:
        yield f"      {one_line(case.title)}  {one_line(place(case.source, folder))}"
    if len(cause.cases) > _SAME_ERROR_SHOWN:
        yield f"      … and {len(cause.cases) - _SAME_ERROR_SHOWN:,} more"


def _cause_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Yield each cause with its number of cases; nothing for few cases, one cause, or a cause for each case."""
    cases = sum(len(cause.cases) for cause in causes)
    if cases > MAX_UNGROUPED and 1 < len(causes) < cases:
        for cause in causes[:_CAUSES_SHOWN]:
            yield f"{len(cause.cases):>5,}  {one_line(cause.reason, 200)}"
        if len(causes) > _CAUSES_SHOWN:
            yield f"       … and {count_phrase(len(causes) - _CAUSES_SHOWN, 'more cause')}"
        yield ""


def _informational_line(report: Report) -> str:
    """Return a line with the first 20 cases without assertions."""
    titles = ", ".join(one_line(case.title, 60) for case in report.informational[:20])
    return f"informational (without an assertion): {titles}{' …' if len(report.informational) > 20 else ''}"


def _end_lines(report: Report, causes: Sequence[Cause]) -> Iterator[str]:
    """Yield the last lines: the counts unless every case passed, and the verdict with the reason."""
    counts = report.counts
    if counts.failed + counts.error + counts.skipped + counts.informational + counts.quarantined:
        yield counts_text(counts)
    yield verdict_line(report, causes)


def _case_lines(case: CaseView, folder: str, base: _BaseAnswer | None = None) -> Iterator[str]:
    """Yield the lines of a case that needs attention, its title first; `base` is None unless the case passed there."""
    outcome = case.outcome if case.outcome != "quarantined" else f"quarantined ({case.judged})"
    yield f"{_CASE_SIGNS[case.outcome]} {one_line(case.title)}  [{outcome}]  {one_line(place(case.source, folder))}"
    if case.repeats:
        yield f"    trials: {one_line(case_trials_text(case), 1000)}"
    for line in case.user:
        yield f"    {one_line(line, 300)}"
    whole = case.conversation
    shown = [turn for turn in case.turns if turn.problems]
    if not shown and (whole is None or not whole.problems):
        yield f"    {one_line(case.reason, 1000)}"
    for problem in () if whole is None else whole.problems:
        yield f"    conversation: {one_line(problem, 1000)}"
    if not shown and case.turn_at_fault is not None:
        shown = [case.turn_at_fault]
    for turn in shown:
        yield from _turn_lines(turn, folder, with_number=len(case.turns) > 1)
    if base is not None:
        answers = [turn.ground_truth for turn in case.turns if turn.ground_truth is not None]
        before = one_line(base.answer or "") or "(none)"
        said = "the expected answer" if base.answer in answers else f"the answer: {before}"
        yield f"    passed on {base.name}, with {said}"


def _turn_lines(turn: TurnView, folder: str, *, with_number: bool) -> Iterator[str]:
    if with_number:
        yield f"    turn {turn.index}  {one_line(place(turn.source, folder))}"
    for problem in turn.problems:
        yield f"    {one_line(problem, 1000)}"
    yield f"      {'user:    ' if turn.said_by else 'input:   '} {one_line(turn.input)}"
    if turn.response is not None:
        yield f"      answer:   {one_line(turn.response) or '(empty)'}"
    if turn.ground_truth is not None:
        yield f"      expected: {one_line(turn.ground_truth)}"
    if turn.tool_calls:
        yield f"      tools:    {one_line('; '.join(map(_tool_text, turn.tool_calls[:20])), 600)}"


def _tool_text(call: ToolCallView) -> str:
    return call_text(call) if call.error is None else f"{call_text(call)} → error: {one_line(call.error, 160)}"


def _metric_lines(metrics: Sequence[MetricView]) -> Iterator[str]:
    names = [one_line(metric.name, 60) for metric in metrics]
    width = max(len("metric"), *(len(name) for name in names))
    rows = [_metric_cells(metric) for metric in metrics]
    heads = _columns(metrics)
    widths = {head: max(len(head), *(len(cells[head]) for cells in rows)) for head in heads}
    yield f"{'metric':<{width}}{''.join(f'{head:>{widths[head] + 2}}' for head in heads)}"
    for name, cells in zip(names, rows, strict=True):
        yield f"{name:<{width}}{''.join(f'{cells[head]:>{widths[head] + 2}}' for head in heads)}"


def _columns(metrics: Sequence[MetricView]) -> list[str]:
    """Return the names of the columns, including those for missing evaluations if any evaluation is missing."""
    absent = [("not evaluated", "errors"), ("does not apply", "skipped")]
    seen = [name for name, field in absent if any(getattr(metric, field) for metric in metrics)]
    return ["mean", "needs", "passed", "failed", *seen]


def _metric_cells(metric: MetricView) -> dict[str, str]:
    return {
        "mean": "–" if metric.mean is None else f"{metric.mean:.2f}",
        "needs": threshold_text(metric),
        "passed": "–" if metric.informational and not metric.passed + metric.failed else str(metric.passed),
        "failed": str(metric.failed),
        "not evaluated": str(metric.errors),
        "does not apply": str(metric.skipped),
    }


def _draw(report: Report, console: Console, width: int | None) -> None:
    """Write a report to a terminal, or to a log with colours; if `width` is None, lines are not wrapped."""
    from rich.text import Text

    for piece, style in _pieces(report, console.width):
        if isinstance(piece, str):
            console.print(Text(piece if width is None else wrap_line(piece, width), style=style), soft_wrap=True)
        else:
            console.print(piece)


_OMISSION_ORDER = ("does not apply", "not evaluated", "needs")
"""Columns that are omitted on a narrow terminal, the first of this list first."""
_COLUMN_GAP = 2
"""Number of spaces before a column."""


def _metric_table(metrics: Sequence[MetricView], width: int) -> Iterator[tuple[str | Table, str]]:
    """Yield the table of metrics for a terminal width, then a line with the names of the omitted columns, if any.

    Columns are omitted until the longest word in the metrics' names fits, since words are not broken.
    """
    from rich.table import Table
    from rich.text import Text

    rows = [(one_line(metric.name, 60), metric, _metric_cells(metric)) for metric in metrics]
    heads = _columns(metrics)
    widths = {head: max(len(head), *(len(cells[head]) for _, _, cells in rows)) for head in heads}
    longest = max(len("metric"), *(len(word) for name, _, _ in rows for word in name.split()))
    left_out: list[str] = []
    for head in [name for name in _OMISSION_ORDER if name in heads]:
        if longest + sum(widths[head] + _COLUMN_GAP for head in heads) <= width:
            break
        heads.remove(head)
        left_out.append(head)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for name, metric, cells in rows:
        troubled = "red" if metric.failed else "yellow" if metric.errors else ""
        table.add_row(Text(name), *(cells[head] for head in heads), style=troubled)
    yield table, ""
    if left_out:
        yield f"not shown at this width: {', '.join(left_out)}", "dim"
