"""Every text a report can be written as, and the reports that a run writes beside its results.

All are made case by case: a report of many cases is never in memory as a whole.

JUnit XML is in the form of the Jenkins schema (junit-10.xsd of Jenkins' xUnit plugin). That schema gives a testcase no
file and no line: the suite's file is an attribute of the testsuite, and a case's position is the first line of its
failure, error or skip. What XML 1.0 allows nowhere, not even as a character reference (its production 2, `Char`), is
among the hidden characters that are omitted everywhere.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape

from msgspec.structs import replace

from holodeck_action.decide.verdict import TurnVerdict
from holodeck_action.record.disk import DISK, Disk, staged
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.comment.size_limit import IN_THE_RECORD, JOB_SUMMARY, Detail, SizeLimit, fit
from holodeck_action.reports.custom import CustomTemplate, TemplateError, custom_markdown
from holodeck_action.reports.first_lines import first_notices, led_by
from holodeck_action.reports.phrases import VERDICTS, call_text, place
from holodeck_action.reports.report_views import CaseView, Report, TurnView, in_suite_order
from holodeck_action.reports.templating import shipped_template
from holodeck_action.reports.terminal.console import console_report
from holodeck_action.reports.untrusted import wrap
from holodeck_action.text.csv_cells import guarded
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import lines_of, one_line

_TEXT_LIMIT = 2000
_CALLS = 20


def junit(report: Report) -> Iterator[str]:
    """Render a report as one testsuite with a testcase per case.

    Failed cases are failures, cases in error errors; cases that were not run, are quarantined or assert nothing are
    skipped.
    """
    return (f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    cases = len(report.attention) + len(report.passing) + len(report.informational)
    numbers = {
        "tests": str(cases),
        "failures": str(report.counts.failed),
        "errors": str(report.counts.error),
    }
    if report.run is not None:
        numbers["time"] = _seconds(report.run.duration_ms)
    skipped = cases - report.counts.passed - report.counts.failed - report.counts.error
    own = {"skipped": str(skipped), "file": _file(report)}
    if report.run is not None:
        own["timestamp"] = report.run.started_at
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_attributes({'name': 'holodeck-action', **numbers})}>"
    yield f"<testsuite{_attributes({'name': report.suite, **numbers, **own})}>"
    yield "<properties>"
    for name, value in _properties(report):
        yield f"<property{_attributes({'name': name, 'value': value})}/>"
    yield "</properties>"
    for case in in_suite_order(report):
        yield from _case(case, report)
    yield "</testsuite>"
    yield "</testsuites>"


def _file(report: Report) -> str:
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
        "of cases that passed or assert nothing: questions, answers and scores; of the others: scores, "
        f"what texts have beyond {_TEXT_LIMIT:,} characters, tool calls beyond {_CALLS} a turn, and trials beyond the "
        "one that explains the outcome; results.json has them",
    )


def _case(case: CaseView, report: Report) -> Iterator[str]:
    about = {"name": case.title, "classname": report.suite}
    if case.duration_ms is not None:
        about["time"] = _seconds(case.duration_ms)
    where = place(case.source, report.folder)
    if case.outcome == "passed":
        yield f"<testcase{_attributes(about)}/>"
        return
    element = {"failed": "failure", "error": "error"}.get(case.outcome, "skipped")
    attributes = {"type": case.outcome, "message": case.reason}
    yield f"<testcase{_attributes(about)}>"
    yield f"<{element}{_attributes(attributes)}>{_text(where)}"
    for turn in case.turns:
        yield from (_text(problem) for problem in turn.problems)
    yield f"</{element}>"
    if case.turns:
        yield "<system-out>"
        for turn in case.turns:
            yield from _turn(turn, numbered=len(case.turns) > 1)
        yield "</system-out>"
    yield "</testcase>"


def _turn(turn: TurnView, *, numbered: bool) -> Iterator[str]:
    if numbered:
        yield f"turn {turn.index}"
    yield f"input: {_text(turn.input)}"
    if turn.response is not None:
        yield f"answer: {_text(turn.response)}"
    if turn.ground_truth is not None:
        yield f"expected: {_text(turn.ground_truth)}"
    for call in turn.tool_calls[:_CALLS]:
        yield f"tool: {_text(call_text(call))}"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _attributes(values: dict[str, str]) -> str:
    return "".join(f' {name}="{escape(one_line(value, 1000))}"' for name, value in values.items())


def _text(text: str) -> str:
    return escape(lines_of(text, _TEXT_LIMIT), quote=False)


FORMATS = ("markdown", "junit", "json", "csv", "console")
"""Those made of a report alone; `html` is the viewer's page, which shows the whole record."""

REPORT_FILE = "report.md"
JUNIT_FILE = "junit.xml"

COLUMNS = (
    "case", "title", "case_outcome", "trial", "turn", "metric", "outcome", "score", "threshold", "polarity", "reason",
    "source",
)  # fmt: skip


def render(report: Report, name: str) -> Iterator[bytes]:
    """Yield a report in one of `FORMATS`, as UTF-8 in pieces, which may be small."""
    renderers: dict[str, Callable[[Report], Iterable[str]]] = {
        "markdown": lambda shown: [markdown(shown)],
        "junit": junit,
        "json": json_report,
        "csv": csv_report,
        "console": console_report,
    }
    return (text.encode("utf-8", "replace") for text in renderers[name](report))


def write_reports(
    folder: GivenPath, made: Mapping[str, Callable[[], Iterable[bytes]]], note: Callable[[str], None], disk: Disk = DISK
) -> None:
    """Write reports into a folder; what cannot be made or written is noted in a sentence and changes no verdict.

    Args:
        folder: where they go.
        made: what makes each, in pieces, by the name of its file.
        note: takes the sentences.
        disk: what they are written with.
    """
    for name, make in made.items():
        try:
            with staged(folder.path / name, make(), disk) as new:
                disk.rename(new, folder.path / name)
        except OSError as error:
            note(f"{folder / name}: could not be written: {error.strerror}; the verdict stands")
        except Exception as error:  # noqa: BLE001 - a report never hides the verdict
            note(f"{name} has a defect and was not written: {type(error).__name__}: {error}; please report it")
    try:
        disk.sync_folder(folder.path)
    except OSError as error:
        note(f"{folder}: could not be flushed to the disk: {error.strerror}; the verdict stands")


def readable(
    report: Report,
    template: CustomTemplate | None,
    note: Callable[[str], None],
    limit: SizeLimit = JOB_SUMMARY,
    *,
    rest: str = IN_THE_RECORD,
) -> str:
    """Return the Markdown report: through the user's template, or the built-in one where that cannot be used.

    `note` takes the sentence that says why the user's template was not used; `rest` is trusted Markdown.
    """
    if template is not None:
        try:
            notices = first_notices([report])
            room = limit.without("\n\n".join([*notices, ""]))
            return led_by(notices, custom_markdown(template, report, room, rest=rest))
        except TemplateError as error:
            note(f"{error}; the built-in report is used instead")
    return markdown(report, limit, rest=rest)


def markdown(report: Report, limit: SizeLimit = JOB_SUMMARY, *, rest: str = IN_THE_RECORD) -> str:
    """Render a report as GitHub Flavored Markdown.

    What is left out first is said in `holodeck_action.reports.comment.size_limit`; `rest` is trusted Markdown.
    """
    data, cases = wrap(report), len(report.attention)

    def render(detail: Detail) -> Iterator[str]:
        return shipped_template("summary.md.j2").generate(report=data, detail=detail)

    # Nothing else is as long as the sentence on all of them.
    unlisted = f"{_not_listed(cases, cases)}{rest}"
    text = fit(render, limit, unlisted, len(report.passing))
    body, _, end = text.rpartition(unlisted)
    if end != "_\n" or not cases:
        return text
    listed = body.rpartition(_CASE_TABLE)[2].partition("\n\n")[0].count("\n| ")
    return f"{body}{_not_listed(cases - listed, cases)}{rest}{end}"


_CASE_TABLE = "| | Case | Where | Why |\n| :-: | --- | --- | --- |"


def _not_listed(missing: int, cases: int) -> str:
    return f"the last {missing:,} of {cases:,} cases that need attention are omitted; " if missing else ""


def json_report(report: Report) -> Iterator[str]:
    """Render a report as JSON; `##[` is escaped, as GitHub's runner would read a command there in a log."""
    return (piece.replace("##[", "\\u0023\\u0023[") for piece in _json_pieces(report))


def _json_pieces(report: Report) -> Iterator[str]:
    bare = replace(report, attention=(), passing=(), informational=())
    rest = to_json(bare, 1).decode()
    for name in ("attention", "passing", "informational"):
        # A line end is in no text of JSON: the name of a field of the report is what this finds.
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
    """Render a report as CSV, for spreadsheets and data frames (RFC 4180, lines ended by LF).

    A turn's tool assertions are a row of the metric `expected_tools`; a turn or case without any metric has one row
    with an empty metric. Texts are one line each; one that a spreadsheet would compute gets a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for case in in_suite_order(report):
        writer.writerows(_case_rows(case, report.folder))
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _case_rows(case: CaseView, folder: str) -> Iterator[tuple[object, ...]]:
    head = (_cell(case.id), _cell(case.title), case.outcome)
    where = _cell(place(case.source, folder))
    if not any(trial.turns for trial in case.trials):
        yield (*head, "", "", "", case.outcome, "", "", "", _cell(case.reason), where)
    for trial in case.trials:
        for turn in trial.turns:
            for row in _turn_rows(turn):
                yield (*head, trial.index, turn.index, *row, where)


def _turn_rows(turn: TurnVerdict) -> Iterator[tuple[object, ...]]:
    if not turn.metrics and turn.tools is None:
        yield ("", turn.outcome, "", "", "", _cell(turn.reason))
    if turn.tools is not None:
        reason = "every tool assertion holds" if turn.tools == "passed" else turn.reason
        held = None if turn.tools == "error" else float(turn.tools == "passed")
        yield ("expected_tools", turn.tools, held, 1.0, "maximize", _cell(reason))
    for metric in turn.metrics:
        score = _cell(metric.category) if metric.category is not None else metric.score
        yield (_cell(metric.name), metric.outcome, score, metric.threshold, metric.polarity, _cell(metric.reason))


def _cell(text: str) -> str:
    return guarded(one_line(text, _TEXT_LIMIT))
