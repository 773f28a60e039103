"""Title and summary of the check run: the verdict, and an overview of its annotations, which stand below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from holodeck_action.decide.exam_gate import LOOSENED
from holodeck_action.decide.exit_codes import OUTCOMES, ExitCode, worst_exit_code
from holodeck_action.decide.figures import counted
from holodeck_action.decide.gates import gate_sentence
from holodeck_action.reports.comment.places import Place
from holodeck_action.reports.comment.pull_request import nothing_evaluated, problem_text, rest_of
from holodeck_action.reports.comment.size_limit import CHECK, SizeLimit, cut
from holodeck_action.reports.custom import CustomTemplate, TemplateError, custom_markdown
from holodeck_action.reports.exam import exam_notice
from holodeck_action.reports.first_lines import first_notices, led_by
from holodeck_action.reports.phrases import SIGNS, VERDICTS, tally
from holodeck_action.reports.report_views import Report
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose

TITLE_LIMIT = 255
"""Characters of a check run's title (GitHub's description of the Checks API)."""

_GATES_SHOWN = 3
_FILES_SHOWN = 30
_LINES_SHOWN = 20
_UNKNOWN = ("⚠️", "NO VERDICT")
_LEVELS = {"failure": "failure", "warning": "warning", "notice": "notice"}


class Mark(Struct, frozen=True):
    """An annotation: file in the repository, line from 1, and level `failure`, `warning` or `notice`."""

    path: str
    line: int
    level: str


def render_check(
    reports: Sequence[Report],
    problems: Sequence[str],
    at: Place,
    template: CustomTemplate | None,
    note: Callable[[str], None],
    marks: Sequence[Mark] = (),
    hidden: int = 0,
    *,
    exit_code: int | None = None,
    first: str = "",
) -> tuple[str, str]:
    """Return title and summary of a check run: a line of at most `TITLE_LIMIT`, Markdown within `size_limit.CHECK`.

    Args:
        reports: of the suites; empty where nothing was evaluated.
        problems: why nothing was evaluated.
        at: where it is published.
        template: the user's own, which then makes the summary of each suite.
        note: takes the sentence that says why the user's template was not used.
        marks: the annotations that the check run shows, in their order.
        hidden: how many more there are.
        exit_code: of the run; None for the worst of the suites'.
        first: Markdown to begin with: lines of ours.
    """
    nothing = bool(problems) or not reports
    if exit_code is None:
        exit_code = ExitCode.CONFIGURATION if nothing else worst_exit_code(report.exit_code for report in reports)
    parts = [] if nothing else [_verdict(reports, exit_code, at)]
    if nothing:
        title = f"NO VERDICT: {nothing_evaluated(exit_code)}"
        parts.append(problem_text(problems, exit_code, at))
    else:
        title = _title(reports, exit_code)
        own = [text for report in reports if (text := _own(report, template, note, at))]
        notices = [f"{line}\n" for line in first_notices(reports)]
        parts = own or [*notices, *parts]
    parts.append(_overview(marks, hidden, at))
    summary = first + "\n".join(part for part in parts if part)
    if not CHECK.holds(len(summary), len(summary.encode())):
        summary = cut(summary, CHECK, rest_of(at))
    return title[:TITLE_LIMIT], summary


def _own(report: Report, template: CustomTemplate | None, note: Callable[[str], None], at: Place) -> str:
    if template is None:
        return ""
    try:
        notices = first_notices([report])
        room = SizeLimit(CHECK.bytes, CHECK.bytes).without("\n\n".join([*notices, ""]))
        return led_by(notices, custom_markdown(template, report, room, rest=rest_of(at)))
    except TemplateError as error:
        note(f"{error}; the built-in report is used instead")
        return ""


def _verdict(reports: Sequence[Report], exit_code: int, at: Place) -> str:
    """Return a line for each suite: its verdict, and the gates behind it."""
    lines = []
    if worst_exit_code(report.exit_code for report in reports) != exit_code:
        lines += [f"⚠️ **{beyond(exit_code)}** See the log of {at.run}.", ""]
    for report in reports[:_FILES_SHOWN]:
        why = prose(report.reason, 400) if report.outcome != "passed" else tally(report.outcome, report.counts)
        lines.append(f"- {SIGNS[report.outcome]} {prose(report.suite, 80)}: {why}")
    if len(reports) > _FILES_SHOWN:
        lines.append(f"- … and {counted(len(reports) - _FILES_SHOWN, 'more suite')}")
    return "\n".join(lines) + "\n"


def beyond(exit_code: int) -> str:
    """Say that a run ended worse than its suites."""
    verdict = VERDICTS.get(OUTCOMES.get(exit_code, ""), _UNKNOWN[1])
    return f"{verdict}: the run did not end as its suites did: not all ran, or results could not be written."


def _overview(marks: Sequence[Mark], hidden: int, at: Place) -> str:
    """Return what the annotations are about: how many of each level in each file, and on which lines."""
    if not marks:
        return ""
    levels = Counter(mark.level for mark in marks)
    told = ", ".join(counted(levels[level], word) for level, word in _LEVELS.items() if levels[level])
    files = list(dict.fromkeys(mark.path for mark in marks))
    lines = [f"Annotations below: {told} in {counted(len(files), 'file')}.", ""]
    for path in files[:_FILES_SHOWN]:
        rows = list(dict.fromkeys(mark.line for mark in marks if mark.path == path))
        links = ", ".join(at.line(path, row, str(row)) for row in rows[:_LINES_SHOWN])
        more = f" and {len(rows) - _LINES_SHOWN} more" if len(rows) > _LINES_SHOWN else ""
        lines.append(f"- {inline_code(path, 200)}: {'line' if len(rows) == 1 else 'lines'} {links}{more}")
    if len(files) > _FILES_SHOWN:
        lines.append(f"- … and {counted(len(files) - _FILES_SHOWN, 'more file')}")
    if hidden > 0:
        lines += ["", f"{hidden:,} more annotations are not shown: only the worst ones have room. See {at.run}."]
    return "\n".join(lines) + "\n"


def _title(reports: Sequence[Report], exit_code: int) -> str:
    verdict = VERDICTS.get(OUTCOMES.get(exit_code, ""), _UNKNOWN[1])
    if len(reports) > 1:
        passed = sum(report.outcome == "passed" for report in reports)
        return f"{verdict}: {passed} of {len(reports)} suites passed"
    report = reports[0]
    violated = [gate for gate in report.gates if gate.state == "failed"]
    broken = violated or [gate for gate in report.gates if gate.state == "undetermined"]
    parts = [one_line(gate_sentence(gate), 150) for gate in broken[:_GATES_SHOWN]]
    parts = parts or [tally(report.outcome, report.counts)]
    if exam_notice(report.comparison) and not any(gate.name == LOOSENED for gate in broken):
        parts.append("not by the terms of the base")
    if report.comparison is not None and not report.comparison.complete:
        parts.append(f"compared {report.comparison.part}")
    if report.exit_code != exit_code:
        parts.append("not all suites ran, or results could not be written")
    return one_line(f"{verdict}: {'; '.join(parts)}", TITLE_LIMIT - 30)
