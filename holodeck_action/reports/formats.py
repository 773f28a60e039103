"""Renders reports in all text formats, and writes the reports of a run next to its results.

All formats are rendered case by case, so that a large report is never in memory as a whole.

JUnit XML follows the Jenkins schema (junit-10.xsd of Jenkins' xUnit plugin), in which a testcase has no file and no
line: the suite's file is an attribute of the testsuite, and a case's position is the first line of its failure, error
or skip. Characters that XML 1.0 does not allow (production 2, `Char`) do not occur, since reports contain no hidden
characters.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape

from msgspec.structs import replace

from holodeck_action.decide.verdict import TurnVerdict
from holodeck_action.record.disk import DISK, Disk, stage_file
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.case_text import CALLS_SHOWN, TEXT_LIMIT, turn_lines
from holodeck_action.reports.comment.size_limit import IN_THE_RECORD, JOB_SUMMARY, Detail, SizeLimit, fit
from holodeck_action.reports.custom import CustomTemplate, TemplateError, render_custom
from holodeck_action.reports.first_lines import first_notices, prepend_notices
from holodeck_action.reports.phrases import VERDICTS, place
from holodeck_action.reports.report_views import CaseView, Report, cases_in_suite_order
from holodeck_action.reports.templating import shipped_template
from holodeck_action.reports.terminal.console import console_report
from holodeck_action.reports.untrusted import wrap
from holodeck_action.text.csv_cells import guard_cell
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import lines_of, one_line


def junit(report: Report) -> Iterator[str]:
    """Yield the lines of a report as JUnit XML: one testsuite with a testcase for each case.

    Failed cases are failures, and cases in error are errors. Cases that did not run, are quarantined or assert nothing
    are skipped.
    """
    return (f"{line}\n" for line in _junit_lines(report))


def _junit_lines(report: Report) -> Iterator[str]:
    cases = len(report.attention) + len(report.passing) + len(report.informational)
    numbers = {
        "tests": str(cases),
        "failures": str(report.counts.failed),
        "errors": str(report.counts.error),
    }
    if report.run is not None:
        numbers["time"] = _seconds_text(report.run.duration_ms)
    skipped = cases - report.counts.passed - report.counts.failed - report.counts.error
    own = {"skipped": str(skipped), "file": _file_path(report)}
    if report.run is not None:
        own["timestamp"] = report.run.started_at
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_attributes_text({'name': 'holodeck-action', **numbers})}>"
    yield f"<testsuite{_attributes_text({'name': report.suite, **numbers, **own})}>"
    yield "<properties>"
    for name, value in _properties(report):
        yield f"<property{_attributes_text({'name': name, 'value': value})}/>"
    yield "</properties>"
    for case in cases_in_suite_order(report):
        yield from _testcase_lines(case, report)
    yield "</testsuite>"
    yield "</testsuites>"


def _file_path(report: Report) -> str:
    return f"{report.folder}/{report.file}" if report.folder else report.file


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "verdict", VERDICTS[report.outcome]
    yield "reason", report.reason
    yield "exit-code", str(report.exit_code)
    yield "target", report.target
    yield "tool-version", report.provenance.tool_version
    if report.provenance.commit is not None:
        yield "commit", report.provenance.commit
    for gate in report.gates:
        yield f"gate.{gate.name}", f"{gate.state}: {gate.reason}"
    yield (
        "omitted",
        "cases that passed or assert nothing: inputs, answers and scores; other cases: scores, texts beyond "
        f"{TEXT_LIMIT:,} characters, tool calls beyond {CALLS_SHOWN} per turn, and trials other than the one that "
        "explains the outcome; results.json has everything",
    )


def _testcase_lines(case: CaseView, report: Report) -> Iterator[str]:
    about = {"name": case.title, "classname": report.suite}
    if case.duration_ms is not None:
        about["time"] = _seconds_text(case.duration_ms)
    where = place(case.source, report.folder)
    if case.outcome == "passed":
        yield f"<testcase{_attributes_text(about)}/>"
        return
    element = {"failed": "failure", "error": "error"}.get(case.outcome, "skipped")
    attributes = {"type": case.outcome, "message": case.reason}
    yield f"<testcase{_attributes_text(about)}>"
    yield f"<{element}{_attributes_text(attributes)}>{_escape_text(where)}"
    for turn in case.turns:
        yield from (_escape_text(problem) for problem in turn.problems)
    if case.conversation is not None:
        yield from (_escape_text(f"conversation: {problem}") for problem in case.conversation.problems)
        named = next((turn for turn in case.turns if turn.index == case.conversation.named_turn), None)
        if named is not None:
            yield f"turn {named.index}: {_escape_text(place(named.source, report.folder))}"
    yield f"</{element}>"
    if case.turns:
        yield "<system-out>"
        yield from map(_escape_text, case.user)
        for turn in case.turns:
            yield from (escape(line, quote=False) for line in turn_lines(turn, with_number=len(case.turns) > 1))
        yield "</system-out>"
    yield "</testcase>"


def _seconds_text(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _attributes_text(values: dict[str, str]) -> str:
    return "".join(f' {name}="{escape(one_line(value, 1000))}"' for name, value in values.items())


def _escape_text(text: str) -> str:
    return escape(lines_of(text, TEXT_LIMIT), quote=False)


FORMATS = ("markdown", "junit", "json", "csv", "console")
"""Formats that need only the report; `html`, the viewer's page, needs the whole record."""

REPORT_FILE = "report.md"
JUNIT_FILE = "junit.xml"

COLUMNS = (
    "case", "title", "case_outcome", "trial", "turn", "metric", "outcome", "score", "threshold", "polarity", "reason",
    "source",
)  # fmt: skip


def render(report: Report, name: str) -> Iterator[bytes]:
    """Yield a report in one of `FORMATS`, as UTF-8 in pieces, which may be small."""
    renderers: dict[str, Callable[[Report], Iterable[str]]] = {
        "markdown": lambda shown: [render_markdown(shown)],
        "junit": junit,
        "json": json_report,
        "csv": csv_report,
        "console": console_report,
    }
    return (text.encode("utf-8", "replace") for text in renderers[name](report))


def write_reports(
    folder: GivenPath,
    renderers: Mapping[str, Callable[[], Iterable[bytes]]],
    note: Callable[[str], None],
    disk: Disk = DISK,
) -> None:
    """Write reports to a folder; a report that fails is noted and does not change the verdict.

    Args:
        folder: the output folder.
        renderers: for each file name, a function that renders the report in pieces.
        note: called with a sentence for each report that fails.
        disk: writes the files.
    """
    for name, make in renderers.items():
        try:
            with stage_file(folder.path / name, make(), disk) as new:
                disk.rename(new, folder.path / name)
        except OSError as error:
            note(f"{folder / name}: could not be written: {error.strerror}; the verdict stands")
        except Exception as error:  # noqa: BLE001 - a report never hides the verdict
            note(f"{name} has a defect and was not written: {type(error).__name__}: {error}; please report it")
    try:
        disk.sync_folder(folder.path)
    except OSError as error:
        note(f"{folder}: could not be flushed to the disk: {error.strerror}; the verdict stands")


def markdown_report(
    report: Report,
    template: CustomTemplate | None,
    note: Callable[[str], None],
    limit: SizeLimit = JOB_SUMMARY,
    *,
    footer: str = IN_THE_RECORD,
) -> str:
    """Render the Markdown report with the user's template; with the built-in one if `template` is None or fails.

    `note` is called with the reason if the user's template fails; `footer` is trusted Markdown that refers to the
    complete report, to end a cut report.
    """
    if template is not None:
        try:
            notices = first_notices([report])
            room = limit.without("\n\n".join([*notices, ""]))
            return prepend_notices(notices, render_custom(template, report, room, footer=footer))
        except TemplateError as error:
            note(f"{error}; the built-in report is used instead")
    return render_markdown(report, limit, footer=footer)


def render_markdown(report: Report, limit: SizeLimit = JOB_SUMMARY, *, footer: str = IN_THE_RECORD) -> str:
    """Render a report as GitHub Flavored Markdown.

    If the report exceeds `limit`, details are omitted, see `holodeck_action.reports.comment.size_limit`. `footer` is
    trusted Markdown that refers to the complete report, to end a cut report.
    """
    data, cases = wrap(report), len(report.attention)

    def render(detail: Detail) -> Iterator[str]:
        return shipped_template("summary.md.j2").generate(report=data, detail=detail)

    # The sentence that names all of them is by far the longest text.
    unlisted = f"{_omitted_text(cases, cases)}{footer}"
    text = fit(render, limit, unlisted, len(report.passing))
    body, _, end = text.rpartition(unlisted)
    if end != "_\n" or not cases:
        return text
    listed = body.rpartition(_CASE_TABLE)[2].partition("\n\n")[0].count("\n| ")
    return f"{body}{_omitted_text(cases - listed, cases)}{footer}{end}"


_CASE_TABLE = "| | Case | Where | Why |\n| :-: | --- | --- | --- |"


def _omitted_text(missing_count: int, case_count: int) -> str:
    return (
        f"the last {missing_count:,} of {case_count:,} cases that need attention are omitted; " if missing_count else ""
    )


def json_report(report: Report) -> Iterator[str]:
    """Yield a report as JSON in pieces; `##[` is escaped, since GitHub's runner would read it as a command in logs."""
    return (piece.replace("##[", "\\u0023\\u0023[") for piece in _json_pieces(report))


def _json_pieces(report: Report) -> Iterator[str]:
    bare = replace(report, attention=(), passing=(), informational=())
    rest = to_json(bare, 1).decode()
    for name in ("attention", "passing", "informational"):
        # JSON strings contain no line ends, so this only matches a field of the report.
        before, field, rest = rest.partition(f'\n "{name}": [')
        yield before + field
        cases = getattr(report, name)
        for number, case in enumerate(cases):
            text = to_json(case, 1).decode().replace("\n", "\n  ")
            yield f"{',' if number else ''}\n  {text}"
        if cases:
            yield "\n "
    yield f"{rest}\n"


def csv_report(report: Report) -> Iterator[str]:
    """Yield the lines of a report as CSV for spreadsheets and data frames (RFC 4180, but with LF).

    The tool assertions of a turn are a row with the metric `expected_tools`. A turn or case without metrics has one row
    with an empty metric. The rows of a whole conversation have no turn. Strings are on one line; those that a
    spreadsheet would evaluate get a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for case in cases_in_suite_order(report):
        writer.writerows(_case_rows(case, report.folder))
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _case_rows(case: CaseView, folder: str) -> Iterator[tuple[object, ...]]:
    head = (_cell_text(case.id), _cell_text(case.title), case.outcome)
    where = _cell_text(place(case.source, folder))
    if not any(trial.turns for trial in case.trials):
        yield (*head, "", "", "", case.outcome, "", "", "", _cell_text(case.reason), where)
    for trial in case.trials:
        for turn in trial.turns:
            for row in _turn_rows(turn):
                yield (*head, trial.index, turn.index, *row, where)
        for row in () if trial.conversation is None else _turn_rows(trial.conversation):
            yield (*head, trial.index, "", *row, where)


def _turn_rows(turn: TurnVerdict) -> Iterator[tuple[object, ...]]:
    if not turn.metrics and turn.tools is None:
        yield ("", turn.outcome, "", "", "", _cell_text(turn.reason))
    if turn.tools is not None:
        reason = "every tool assertion holds" if turn.tools == "passed" else turn.reason
        held = None if turn.tools == "error" else float(turn.tools == "passed")
        yield ("expected_tools", turn.tools, held, 1.0, "maximize", _cell_text(reason))
    for metric in turn.metrics:
        score = _cell_text(metric.category) if metric.category is not None else metric.score
        yield (
            _cell_text(metric.name),
            metric.outcome,
            score,
            metric.threshold,
            metric.polarity,
            _cell_text(metric.reason),
        )


def _cell_text(text: str) -> str:
    return guard_cell(one_line(text, TEXT_LIMIT))
