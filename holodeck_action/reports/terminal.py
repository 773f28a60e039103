"""The report on a terminal: what the log form says, in colours and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from holodeck_action.reports.console import (
    calls_lines,
    card_lines,
    case_lines,
    conclusion,
    console_report,
    gate_text,
    head_lines,
    informational_line,
    metric_texts,
    panel_lines,
)
from holodeck_action.results.views import Report
from holodeck_action.text.plain import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

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


def show(report: Report, stream: TextIO) -> None:
    """Write a report to a stream: with colours to a terminal, in its log form to everything else."""
    if not stream.isatty():
        stream.write(console_report(report))
    else:
        # rich takes 50 ms to import: only terminals pay.
        from rich.console import Console

        Console(file=stream, highlight=False, emoji=False, markup=False).print(
            *_parts(report), sep="\n", soft_wrap=True
        )
    stream.flush()


def _parts(report: Report) -> Iterator[RenderableType]:
    from rich.text import Text

    first, *notices = head_lines(report)
    yield Text(first, style="bold")
    for notice in notices:
        yield Text(notice, style="dim")
    for case in report.attention:
        title, *lines = case_lines(case, report.folder)
        yield Text(f"\n{title}", style=f"bold {_COLOURS[case.outcome]}")
        yield Text("\n".join(lines))
    if report.informational:
        yield Text(f"\n{informational_line(report)}", style="dim")
    if report.metrics:
        yield Text("")
        yield _metrics(report)
        for line in (*panel_lines(report), *card_lines(report)):
            yield Text(line, style="dim")
    yield Text("")
    for gate in report.gates:
        yield Text(gate_text(gate), style=_COLOURS[gate.state])
    yield Text("")
    for line in calls_lines(report):
        yield Text(line, style="dim")
    yield Text(conclusion(report), style=f"bold {_COLOURS[report.outcome]}")


def _metrics(report: Report) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    for name in ("mean", "threshold", "margin", "passed", "failed", "error", "skipped"):
        table.add_column(name, justify="right")
    for metric in report.metrics:
        mean, threshold, margin, passed = metric_texts(metric)
        troubled = "red" if metric.failed else "yellow" if metric.errors else ""
        cells = (mean, threshold, margin, passed, str(metric.failed), str(metric.errors), str(metric.skipped))
        table.add_row(Text(one_line(metric.name, 60)), *cells, style=troubled)
    return table
