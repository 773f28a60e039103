"""Title and summary of the check run: the verdict, and an overview of the annotations below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from holodeck_action.decide.exit_codes import OUTCOMES, ExitCode, worst_exit_code
from holodeck_action.decide.gates import gate_sentence
from holodeck_action.decide.loosened_gate import ON_LOOSENED
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import no_verdict_text, problem_text, rest_text
from holodeck_action.reports.comment.size_limit import CHECK, SizeLimit, cut
from holodeck_action.reports.custom import CustomTemplate, TemplateError, render_custom
from holodeck_action.reports.first_lines import first_notices, prepend_notices
from holodeck_action.reports.headline import MARKDOWN, PLAIN, headline
from holodeck_action.reports.phrases import SIGNS, VERDICTS
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.terms import terms_notice
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose

TITLE_LIMIT = 255
"""Maximum characters of a check run's title (GitHub's description of the Checks API)."""

_GATES_SHOWN = 3
_FILES_SHOWN = 30
_LINES_SHOWN = 20
_NO_VERDICT = "NO VERDICT"
_LEVELS = {"failure": "failure", "warning": "warning", "notice": "notice"}


class AnnotatedLine(Struct, frozen=True):
    """An annotation: file in the repository, line from 1, and level `failure`, `warning` or `notice`."""

    path: str
    line: int
    level: str


def render_check(
    reports: Sequence[Report],
    problems: Sequence[str],
    context: LinkContext,
    template: CustomTemplate | None,
    note: Callable[[str], None],
    marks: Sequence[AnnotatedLine] = (),
    hidden_count: int = 0,
    *,
    exit_code: int | None = None,
    first: str = "",
) -> tuple[str, str]:
    """Return the title (at most `TITLE_LIMIT` characters) and summary (Markdown within `CHECK`) of a check run.

    Args:
        reports: the suites' reports; empty if nothing was evaluated.
        problems: why nothing was evaluated.
        context: the URLs for links.
        template: the user's template for the summary of each suite; None to use the built-in one.
        note: called with the reason if the user's template was not used.
        marks: the annotations of the check run, in their order.
        hidden_count: number of annotations that are omitted.
        exit_code: exit code of the run; None to use the worst one of the suites.
        first: trusted Markdown to put first.
    """
    nothing = bool(problems) or not reports
    if exit_code is None:
        exit_code = ExitCode.CONFIGURATION if nothing else worst_exit_code(report.exit_code for report in reports)
    parts = [] if nothing else [_verdict_lines(reports, exit_code, context)]
    if nothing:
        title = f"NO VERDICT: {no_verdict_text(exit_code)}"
        parts.append(problem_text(problems, exit_code, context))
    else:
        title = _title(reports, exit_code)
        own = [text for report in reports if (text := _custom_summary(report, template, note, context))]
        notices = [f"{line}\n" for line in first_notices(reports)]
        parts = own or [*notices, *parts]
    parts.append(_annotations_overview(marks, hidden_count, context))
    summary = first + "\n".join(part for part in parts if part)
    if not CHECK.holds(len(summary), len(summary.encode())):
        summary = cut(summary, CHECK, rest_text(context))
    return title[:TITLE_LIMIT], summary


def _custom_summary(
    report: Report, template: CustomTemplate | None, note: Callable[[str], None], context: LinkContext
) -> str:
    if template is None:
        return ""
    try:
        notices = first_notices([report])
        room = SizeLimit(CHECK.bytes, CHECK.bytes).without("\n\n".join([*notices, ""]))
        return prepend_notices(notices, render_custom(template, report, room, footer=rest_text(context)))
    except TemplateError as error:
        note(f"{error}; the built-in report is used instead")
        return ""


def _verdict_lines(reports: Sequence[Report], exit_code: int, context: LinkContext) -> str:
    """Return a line for each suite with its verdict and the reason for it."""
    lines = []
    if worst_exit_code(report.exit_code for report in reports) != exit_code:
        lines += [f"⚠️ **{differing_exit_code_text(exit_code)}** See the log of {context.run}.", ""]
    for report in reports[:_FILES_SHOWN]:
        lines.append(f"- {SIGNS[report.outcome]} {headline(report, MARKDOWN).markdown(prose(report.suite, 80), ' · ')}")
    if len(reports) > _FILES_SHOWN:
        lines.append(f"- … and {count_phrase(len(reports) - _FILES_SHOWN, 'more suite')}")
    return "\n".join(lines) + "\n"


def differing_exit_code_text(exit_code: int) -> str:
    """Return a sentence for a run whose exit code differs from the worst exit code of its suites."""
    verdict = VERDICTS.get(OUTCOMES.get(exit_code, ""), _NO_VERDICT)
    return f"{verdict}: some suites did not run, or results could not be written."


def _annotations_overview(marks: Sequence[AnnotatedLine], hidden_count: int, context: LinkContext) -> str:
    """Return Markdown with the number of annotations by level and the annotated lines of each file."""
    if not marks:
        return ""
    levels = Counter(mark.level for mark in marks)
    told = ", ".join(count_phrase(levels[level], word) for level, word in _LEVELS.items() if levels[level])
    files = list(dict.fromkeys(mark.path for mark in marks))
    lines = [f"Annotations below: {told} in {count_phrase(len(files), 'file')}.", ""]
    for path in files[:_FILES_SHOWN]:
        rows = list(dict.fromkeys(mark.line for mark in marks if mark.path == path))
        links = ", ".join(context.line(path, row, str(row)) for row in rows[:_LINES_SHOWN])
        more = f" and {len(rows) - _LINES_SHOWN} more" if len(rows) > _LINES_SHOWN else ""
        lines.append(f"- {inline_code(path, 200)}: {'line' if len(rows) == 1 else 'lines'} {links}{more}")
    if len(files) > _FILES_SHOWN:
        lines.append(f"- … and {count_phrase(len(files) - _FILES_SHOWN, 'more file')}")
    if hidden_count > 0:
        lines += [
            "",
            f"{hidden_count:,} more annotations are not shown: there is room only for the worst. See {context.run}.",
        ]
    return "\n".join(lines) + "\n"


def _title(reports: Sequence[Report], exit_code: int) -> str:
    verdict = VERDICTS.get(OUTCOMES.get(exit_code, ""), _NO_VERDICT)
    if len(reports) > 1:
        passed = sum(report.outcome == "passed" for report in reports)
        return f"{verdict}: {passed} of {len(reports)} suites passed"
    report = reports[0]
    parts = [headline(report, PLAIN).text]
    loosened = [gate_sentence(gate) for gate in report.gates if gate.name == ON_LOOSENED and gate.state != "passed"]
    if terms_notice(report.comparison):
        parts += [one_line(sentence, 150) for sentence in loosened] or ["under other terms than the base"]
    if report.comparison is not None and not report.comparison.complete:
        parts.append(f"compared {report.comparison.part}")
    if report.exit_code != exit_code:
        parts.append("not all suites ran, or results could not be written")
    return one_line(f"{verdict}: {report.suite} · {'; '.join(parts)}", TITLE_LIMIT - 30)
