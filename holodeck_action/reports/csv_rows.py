"""CSV: one row per case, trial, turn and metric, for spreadsheets and data frames (RFC 4180, lines ended by LF)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from holodeck_action.reports.wording import place
from holodeck_action.results.verdict import TurnVerdict
from holodeck_action.results.views import CaseView, Report, in_suite_order
from holodeck_action.text.plain import one_line

COLUMNS = (
    "case", "title", "case_outcome", "trial", "turn", "metric", "outcome", "score", "threshold", "polarity", "reason",
    "source",
)  # fmt: skip

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""First characters that make a spreadsheet compute a cell (OWASP, CSV Injection); tabs and line ends are gone here."""


def csv_report(report: Report) -> str:
    """Render a report as CSV.

    A turn's tool assertions are a row of the metric `expected_tools`; a turn or case without any metric has one row
    with an empty metric. Texts are one line each; one that a spreadsheet would compute gets a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for case in in_suite_order(report):
        writer.writerows(_rows(case, report.folder))
    return text.getvalue()


def _rows(case: CaseView, folder: str) -> Iterator[tuple[object, ...]]:
    head = (_text(case.id), _text(case.title), case.outcome)
    where = _text(place(case.source, folder))
    if not any(trial.turns for trial in case.trials):
        yield (*head, "", "", "", case.outcome, "", "", "", _text(case.reason), where)
    for trial in case.trials:
        for turn in trial.turns:
            for row in _turn(turn):
                yield (*head, trial.index, turn.index, *row, where)


def _turn(turn: TurnVerdict) -> Iterator[tuple[object, ...]]:
    if not turn.metrics and turn.tools is None:
        yield ("", turn.outcome, "", "", "", _text(turn.reason))
    if turn.tools is not None:
        reason = "every tool assertion holds" if turn.tools == "passed" else turn.reason
        held = None if turn.tools == "error" else float(turn.tools == "passed")
        yield ("expected_tools", turn.tools, held, 1.0, "maximize", _text(reason))
    for metric in turn.metrics:
        score = _text(metric.category) if metric.category is not None else metric.score
        yield (_text(metric.name), metric.outcome, score, metric.threshold, metric.polarity, _text(metric.reason))


def _text(text: str) -> str:
    shown = one_line(text, 2000)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
