"""Builds comments for nine situations from made-up records; the result is the same in every run.

    python -m scripts.comment_situations docs/images

As a script, it takes the pictures of docs/reports.md, also of a terminal with 80 columns, and prints how far below the
top of each comment the first failing case begins.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.evaluation import Criteria, ErrorInfo, Evaluation
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    BaseRun,
    CaseRecord,
    ModelCalls,
    Provenance,
    Record,
    RecordedBaseline,
    RunInfo,
    SuiteIdentity,
    ToolAssertion,
    ToolInvocation,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.reports.comment.changes import state_of
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import render_comment, render_problem
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.terminal.console import print_report
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.named_models import LARGE, NAMED
from holodeck_action.suite.model.policy import Baseline, Gates
from holodeck_action.text.terminal import Terminal
from scripts.render_comment_picture import WIDTH, PictureError, comment_page, find_browser, photograph

_HEAD, _BASE = "a1b2c3d4" * 5, "0f1e2d3c" * 5
_RUN = "https://github.com/octo/shop/actions/runs/77"
_AT = LinkContext("https://github.com", "octo/shop", _HEAD, _RUN, check_fails="violation")
_MARKER = "<!-- holodeck-action:report:ci -->"
_TOPICS = (
    "Return window",
    "Late parcel",
    "Gift card",
    "Free delivery",
    "Warranty",
    "Voucher",
    "Opening hours",
    "Order",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The agent's answer in a case with its METEOR and ROUGE scores; with `judged`, a model grades it instead."""

    title: str
    asked: str
    expected: str
    got: str
    meteor: float = 0.98
    rouge: float = 0.97
    tool: ToolInvocation | None = None
    wrong: str | None = None
    error: ErrorInfo | None = None
    judged: bool = False


def comments() -> Mapping[str, tuple[tuple[str, ...], str]]:
    """Return each situation's comments and the title of its first failing case (empty if none failed), by name."""
    good = [_right_answer(number) for number in range(49)]
    fifty, hundreds = [*good, _wrong_tool_answer("LF-20731")], [_right_answer(number) for number in range(200)]
    one = [*good, _wrong_tool_answer("LF-20713")]
    fork = [*good[:11], _hostile_answer()]
    suites = [
        _report(_record([*good[:20], _wrong_tool_answer("LF-20713")], _HEAD, "support"), None),
        _report(_record(good[:12], _HEAD, "billing"), None),
        _report(_record(good[:31], _HEAD, "search"), None),
    ]
    asked = [replace(each, judged=True, tool=None) for each in fifty]
    refused = [replace(each, error=_REFUSED) if number % 4 == 1 else each for number, each in enumerate(asked)]
    broken = _validation_problems()
    return {
        "green": ((_comment(_report(_record(fifty, _HEAD), _record(fifty, _BASE))),), ""),
        "one-of-fifty": ((_comment(_report(_record(one, _HEAD), _record(fifty, _BASE))),), "Return of a milk jug"),
        "forty-of-two-hundred": (
            (
                _comment(
                    _report(_record(_with_many_failures(hundreds), _HEAD), _record(_base_answers(hundreds), _BASE))
                ),
            ),
            "Return window 1",
        ),
        "errors": (
            (_comment(_report(_record(refused, _HEAD), _record(asked, _BASE))),),
            "13 cases with the same error",
        ),
        "configuration": (
            (render_problem(broken, _MARKER, _AT, state_of((), 2, _HEAD, "77/1", broken)),),
            "unknown key",
        ),
        "several-suites": ((_comment(*suites),), "Return of a milk jug"),
        "red-without-regression": (
            (_comment(_report(_record(one[-4:], _HEAD), _record(one[-4:], _BASE))),),
            "Return of a milk jug",
        ),
        "matrix": (
            tuple(
                _comment(
                    _report(_record(answers, _HEAD), _record(fifty, _BASE)), at=structs.replace(_AT, comment_id=leg)
                )
                for leg, answers in ((LARGE, one), (NAMED["anthropic"][0], fifty))
            ),
            "Return of a milk jug",
        ),
        "fork": ((_comment(_report(_without_base(_record(fork, _HEAD)), None)),), "Greeting"),
    }


_REFUSED = ErrorInfo(
    "EvaluationError",
    f"openai/{LARGE} refused the key (status 401); check OPENAI_API_KEY",
    "judge_failed",
    {"cause": "authentication"},
)


def _right_answer(number: int) -> Answer:
    title = f"{_TOPICS[number % len(_TOPICS)]} {number + 1}"
    said = f"You can return it within 30 days in region {number + 1} and get the full price including postage."
    return Answer(title, f"How long do I have to return something in region {number + 1}?", said, said)


def _wrong_tool_answer(order: str) -> Answer:
    right = order == "LF-20731"
    said = "I have started the return of the milk jug from order {}. Print label R207311 and hand in the parcel."
    call = ToolInvocation(
        "start_return",
        {"order_id": order, "item": "milk jug"},
        "label R207311" if right else None,
        error=None if right else f"{order} holds no milk jug",
    )
    return Answer(
        "Return of a milk jug",
        "Hi, I'd like to return the milk jug from order LF-20731, please. It's smaller than I thought.",
        said.format("LF-20731"),
        said.format(order),
        tool=call,
        wrong=None if right else f'tool start_return: order_id is "{order}", expected "LF-20731"',
    )


def _with_many_failures(answers: list[Answer]) -> list[Answer]:
    """Return the answers with 40 failures: 30 wrong answers, 8 calls with a wrong topic, 2 as on the base."""
    made = _base_answers(answers)
    for number in range(0, 150, 5):
        made[number] = replace(made[number], got="Please contact our team.", meteor=0.06 + number / 2000, rouge=0.07)
    for number in range(1, 41, 5):
        call = ToolInvocation("help_search", {"topic": "everything"}, "120 articles")
        wrong = 'tool help_search: topic is "everything", expected "refund"'
        made[number] = replace(made[number], tool=call, wrong=wrong)
    return made


def _base_answers(answers: list[Answer]) -> list[Answer]:
    made = list(answers)
    for number in range(1, 41, 5):
        made[number] = replace(made[number], tool=ToolInvocation("help_search", {"topic": "refund"}, "3 articles"))
    for number in (197, 199):
        made[number] = replace(made[number], got="That depends.", meteor=0.31, rouge=0.2)
    return made


def _hostile_answer() -> Answer:
    said = "@maintainers please merge #1 <img src=x onerror=alert(1)> **now**: https://evil.example/?q=1"
    return Answer("Greeting", "Hello, who are you?", "I am the assistant of the shop.", said, 0.05, 0.02)


def _validation_problems() -> tuple[str, ...]:
    suite = {
        "agent.yaml": "name: support\nmodel: {provider: openai, name: " + LARGE + "}\ninstructions: {inline: Help.}\n"
        "test_cases:\n- name: Return window\n  inputs: How long do I have?\n- nam: Late parcel\n  input: Where is it?\n"
        "evaluations:\n  metrics:\n  - {type: standard, metric: blue, threshold: 0.5}\n",
    }
    with tempfile.TemporaryDirectory() as name:
        for file, text in suite.items():
            (Path(name) / file).write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", "from holodeck_action.cli import start; start()", "validate"]
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        finished = subprocess.run(command, cwd=name, env=environ, capture_output=True, text=True, check=False)
    said = finished.stderr.splitlines()
    return tuple(line.removeprefix("error: ") for line in said if line.startswith("error: "))


def _without_base(record: Record) -> Record:
    missing = (
        "no artifact holodeck-results of a completed run on main has results of this suite for commit 0f1e2d3c0f1e or "
        "the 20 before it: merge a workflow that evaluates pushes to main and uploads its results"
    )
    return structs.replace(record, baseline=RecordedBaseline(Baseline(source="artifact"), None, missing))


def _record(answers: list[Answer], commit: str, name: str = "support") -> Record:
    cases = tuple(_case(number, answer) for number, answer in enumerate(answers))
    hour = "09" if commit == _BASE else "12"
    return Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity(name, "agent.yaml", "digest"),
        provenance=Provenance("1.0.0", f"model:openai/{LARGE}", commit, folder=f"agents/{name}"),
        gates=Gates(),
        quarantine=(),
        stop_when_decided=True,
        cases=cases,
        chosen=chosen_cases(case.id for case in cases),
        run=RunInfo(
            "run",
            f"2026-01-02T{hour}:00:00+00:00",
            f"2026-01-02T{hour}:00:08+00:00",
            8200.0,
            "3.12.0",
            model_calls=ModelCalls(len(cases), 0, 0, len(cases), 412 * len(cases), 0.0008 * len(cases)),
        ),
    )


def _case(number: int, answer: Answer) -> CaseRecord:
    mark = SourceMark("cases.yaml", 10 + 7 * number, 3)
    evaluations = (
        (_evaluation("helpfulness", None, 0.9, 0.7, answer.error),)
        if answer.judged
        else (
            _evaluation("meteor", "METEOR", answer.meteor, 0.6, None),
            _evaluation("rouge", "ROUGE", answer.rouge, 0.5, None),
        )
    )
    assertions: tuple[ToolAssertion, ...] = ()
    if answer.tool is not None:
        found = answer.wrong is None
        assertions = (ToolAssertion(f"{answer.tool.name}(…)", found, 0 if found else -1, answer.wrong),)
    turn = TurnRecord(
        0,
        answer.asked,
        mark,
        ground_truth=answer.expected,
        response=answer.got,
        tool_invocations=() if answer.tool is None else (answer.tool,),
        tool_assertions=assertions,
        usage=Usage(380, 32, 0.0008),
        evaluations=evaluations,
    )
    return CaseRecord(
        id=answer.title.lower().replace(" ", "-"),
        name=answer.title,
        content_hash=f"{number:064x}",
        source=mark,
        multi_turn=False,
        repeat=1,
        min_pass=1,
        planned_evaluations=len(evaluations) + len(assertions),
        not_applicable=0,
        asserting=True,
        trials=(TrialRecord(0, (turn,)),),
    )


def _evaluation(name: str, title: str | None, score: float, threshold: float, error: ErrorInfo | None) -> Evaluation:
    return Evaluation(
        evaluation_id=f"eval_{name}",
        target_event_id="evt",
        evaluator_name=name,
        evaluator_version="1",
        score=None if error is not None else score,
        explanation="compared",
        criteria=Criteria("standard", name, threshold, True, title=title),
        metadata={},
        timestamp="2026-01-02T12:00:00+00:00",
        duration_ms=1.0,
        status="completed" if error is None else "failed",
        error=error,
    )


def _report(head: Record, base: Record | None) -> Report:
    if base is None:
        return build_report(head, decide(head), f"agents/{head.suite.name}")
    run = BaseRun("artifact", _BASE, _BASE, 0, (), "main")
    made = structs.replace(head, baseline=RecordedBaseline(Baseline(source="artifact"), run))
    made = structs.replace(made, run=structs.replace(head.run, base_digest="digest"))
    return build_report(made, decide(made, Terms(base=base)), f"agents/{head.suite.name}")


def comment_of(record: Record) -> str:
    """Return the comment of a run without a base."""
    return _comment(_report(record, None))


def _comment(*reports: Report, at: LinkContext = _AT) -> str:
    code = max(report.exit_code for report in reports)
    now = state_of(reports, code, _HEAD, "77/1")
    return render_comment(reports, _MARKER, at, now, None, None, lambda _: None)


CONSOLE = "console"
_COLUMNS = 80


def console_page() -> str:
    """Return an HTML page of the console's report at 80 columns: one case of fifty got worse."""
    good = [_right_answer(number) for number in range(49)]
    one, fifty = [*good, _wrong_tool_answer("LF-20713")], [*good, _wrong_tool_answer("LF-20731")]
    written = io.StringIO()
    print_report(_report(_record(one, _HEAD), _record(fifty, _BASE)), written, Terminal(_COLUMNS, True, False))
    console = Console(record=True, width=_COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(written.getvalue()), soft_wrap=True)
    return console.export_html(code_format=_CONSOLE_PAGE, inline_styles=True)


_CONSOLE_PAGE = """<!DOCTYPE html><meta charset="utf-8">
<style>body {{ margin: 0; padding: 16px; background: #fff; color: #1f2328 }}
pre {{ margin: 0; font: 13px/1.4 "Liberation Mono", "DejaVu Sans Mono", monospace }}</style>
<body data-first=""><pre>{code}</pre>
<script>document.body.dataset.height = document.documentElement.scrollHeight</script>
"""


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", help="One situation.")
def main(folder: Path, only: str | None) -> None:
    if only in (None, CONSOLE):
        photograph(console_page(), folder / f"{CONSOLE}.png", find_browser(os.environ), 720)
    for name, (texts, title) in comments().items():
        if only not in (None, name):
            continue
        output = folder / f"comment-{name}.png"
        try:
            taken = photograph(comment_page(*texts, title=title), output, find_browser(os.environ), WIDTH)
        except PictureError as error:
            raise click.ClickException(f"{name}: {error}") from error
        first = "no failing case" if taken.first is None else f"the first failing case begins at {taken.first} px"
        size = output.stat().st_size
        click.echo(f"{name}: {first}, {taken.height} px high, {sum(map(len, texts)):,} characters, {size:,} bytes")


if __name__ == "__main__":
    main()
