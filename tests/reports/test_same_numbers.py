"""One record with a base, an earlier push and a history: a number is the same on every surface that shows it.

`UPDATE_GOLDEN=1` writes the surfaces anew.
"""

from __future__ import annotations

import io
import json
import operator
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from msgspec.structs import replace

from holodeck_action.commands.output import Outcome
from holodeck_action.commands.step_end import job_summary
from holodeck_action.decide.decision import Terms
from holodeck_action.extensions.history.history_lines import history_line
from holodeck_action.extensions.history.trends import history_of
from holodeck_action.github.publisher import Publication
from holodeck_action.record.record import BaseRun, ModelCalls, Record, RecordedBaseline, Timing, Usage
from holodeck_action.reports.comment.changes import state_of
from holodeck_action.reports.comment.check_summary import render_check
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.formats import render
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.terminal.progress import progress_display
from holodeck_action.suite.model.policy import Baseline, Gates
from holodeck_action.text.terminal import Terminal
from tests.record.records import case_of, evaluation, record, turn
from tests.reports.pages import Page
from tests.reports.test_comment import AT, B, comment, in_folder_record, silent

GOLDEN = Path(__file__).with_name("golden_surfaces")
FAILED, CASES, WRONG = 3, 12, 0.111


def asked(score: float, at: int, **changes: Any) -> Any:
    """A case whose time, cost and score are like no other's."""
    usage = Usage(400 + at, 40, None if at in (3, 7, 8, 11) else 0.00011 + at / 100_000)
    timing = Timing("2026-01-01T00:00:00+00:00", 10_300.0 + 7 * at)
    return case_of(turn(evaluation(score), usage=usage, timing=timing), name=f"number {at}", **changes)


def made(lost: int) -> Record:
    """A run in which the first cases fail."""
    cases = (asked(WRONG if at < lost else 0.873, at) for at in range(CASES))
    calls = ModelCalls(CASES, 0, 0, CASES, None, None)
    found = in_folder_record(record(*cases, gates=Gates(min_pass_rate=0.9, max_cost_usd=1.0)))
    return replace(found, run=replace(found.run, duration_ms=23_456.0, model_calls=calls))


@cache
def surfaces() -> dict[str, str]:
    """Every surface's text; the comment is the second of its pull request."""
    base, earlier, head = made(0), made(1), made(FAILED)
    run = BaseRun("artifact", B, B, 0, (), "main")
    head = replace(
        head,
        baseline=RecordedBaseline(Baseline(source="artifact"), run),
        run=replace(head.run, base_digest="d"),
    )
    concluded = conclude(head, Terms(base=base))
    days = enumerate((base, earlier, head), 1)
    runs = [replace(each, run=replace(each.run, started_at=f"2026-01-0{day}T09:00:00+00:00")) for day, each in days]
    # A run whose gates are undetermined is part of no trend.
    decided = [replace(each, gates=Gates(min_pass_rate=0.9)) for each in runs]
    lines = [history_line(each, conclude(each).verdict) for each in decided]
    report: Report = replace(concluded.report, history=history_of(lines))
    before = state_of([conclude(earlier).report], 1, B, "76/1")
    title, check = render_check([report], (), AT, None, silent)
    view = PageView([replace(concluded, report=report)], report.exit_code, results="results.json")
    page = Page(b"".join(render_page(view)).decode())
    shown = {name: b"".join(render(report, name)).decode() for name in ("markdown", "console", "json", "junit")}
    done = Outcome(report.exit_code, (replace(concluded, report=report, written=False),))
    return {
        "summary": job_summary(done, None, Publication((), ()), 1_000_000, None),
        "comment": comment(report, previous=before),
        "check": f"{title}\n{check}",
        **shown,
        "page": json.dumps([page.head, page.index], ensure_ascii=False),
    }


NUMBER = r"([−+-]?\d[\d,]*(?:\.\d+)?)"
SHOWN = {
    "passed": (rf"\b{NUMBER} of {CASES} passed", rf"\*\*{NUMBER}\*\* passed", rf": {NUMBER} passed, "),
    "failed": (rf"{NUMBER}(?:\*\*)? failed", rf'failures="{NUMBER}"'),
    "regressed": (rf"(?<!of )\b{NUMBER} (?:of {CASES} )?cases got worse",),
    "pass rate": (rf"\({NUMBER} %\)", rf"pass rate \*\*{NUMBER} %", rf"pass rate `.+?` {NUMBER} %"),
    "pass rate of the base": (rf"pass rate *\|? +{NUMBER} % +\|? *\d",),
    "cost": (r"\$(0\.\d{4})",),
    "seconds": (rf"(?:· |<sub>){NUMBER} s\b", rf'<testsuites[^>]* time="{NUMBER}"'),
    "mean": (rf"the mean {NUMBER}", rf"\| `?bleu`? \| {NUMBER} \| 0\.50", rf"bleu +{NUMBER} +0\.5 "),
    "low": (f"95 % interval {NUMBER} to",),
    "high": (rf"95 % interval [\d.]+ to {NUMBER}",),
    "mean of the base": (rf"bleu`? *\|? +{NUMBER} +\|? *\d[^|\n]* +\|? +−",),
    "difference of the pass rate": (r"pass rate.*? (−\d+(?:\.\d+)?) points(?: \(|, )",),
    "score of a failing case": (rf"bleu {NUMBER}, needs", rf" → {NUMBER}, needs"),
    "median latency": (rf"median latency: [^→]* → {NUMBER} s",),
    "newly failing": (f"{NUMBER} newly failing",),
}
"""How surfaces show a number."""


@cache
def true_numbers() -> dict[str, float]:
    """The numbers themselves, from the JSON report."""
    report = json.loads(surfaces()["json"])
    (metric,) = report["metrics"]
    compared = report["comparison"]
    (of_metric,) = compared["metrics"]
    return {
        "passed": report["counts"]["passed"],
        "failed": report["counts"]["failed"],
        "regressed": len(compared["regressed"]),
        "pass rate": 100 * report["pass_rate"],
        "pass rate of the base": 100 * compared["pass_rate"]["base"],
        "cost": report["spend"]["cost_usd"],
        "seconds": report["run"]["duration_ms"] / 1000,
        "mean": metric["mean"],
        "low": metric["low"],
        "high": metric["high"],
        "mean of the base": of_metric["change"]["base"],
        "difference of the pass rate": 100 * compared["pass_rate"]["difference"],
        "score of a failing case": WRONG,
        "median latency": compared["head_consumed"]["p50_latency_ms"] / 1000,
        "newly failing": FAILED - 1,
    }


def shown_as(text: str, truth: float) -> bool:
    """Whether a number is shown as this, rounded to its digits."""
    plain = text.replace(",", "").replace("−", "-")
    digits = len(plain.partition(".")[2])
    return bool(abs(float(plain) - truth) <= 0.5 * 10**-digits + 1e-9)


@pytest.mark.parametrize("what", SHOWN)
def test_a_number_is_the_same_on_every_surface(what: str) -> None:
    found = {
        surface: [match for pattern in SHOWN[what] for match in re.findall(pattern, text)]
        for surface, text in surfaces().items()
        if surface != "json"
    }
    truth = true_numbers()[what]
    wrong = {name: each for name, matches in found.items() for each in matches if not shown_as(each, truth)}
    assert not wrong, (truth, found)
    assert any(found.values()), "nobody shows it like this any more"


@pytest.mark.parametrize("surface", ["comment", "check", "summary", "markdown", "console", "junit"])
def test_whole_surfaces(surface: str) -> None:
    """Durations, costs, differences and history, word by word."""
    # How a state is compressed is up to the library.
    shown = re.sub(r"<!-- holodeck-action:state:.*? -->", "<!-- state -->", surfaces()[surface])
    file = GOLDEN / f"{surface}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8", newline="\n")
    assert shown == file.read_bytes().decode(), f"{file.name} differs; UPDATE_GOLDEN=1 writes it anew"


def cells(text: str) -> dict[tuple[str, str], str]:
    """The numbers of a Markdown text's tables by row and column, without signs of change and code."""
    found: dict[tuple[str, str], str] = {}
    head: list[str] = []
    for line in text.splitlines():
        row = [part.strip(" `*▼▲") for part in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if row and not head:
            head = row
        for column, value in zip(head[1:], row[1:], strict=False):
            if row is not head and re.match(NUMBER, value):
                found[row[0], column] = value
        head = head if row else []
    return found


def test_cells_of_one_name_hold_one_number() -> None:
    tables = {name: cells(surfaces()[name]) for name in ("comment", "check", "summary", "markdown")}
    shared = 0
    for key, whole in tables["markdown"].items():
        for surface in ("comment", "check", "summary"):
            if (other := tables[surface].get(key)) is not None:
                shared += 1
                numbers = [re.findall(NUMBER, text) for text in (other, whole)]
                truths = [float(number.replace(",", "").replace("−", "-")) for number in numbers[1]]
                assert len(numbers[0]) == len(truths), (surface, key)
                assert all(map(shown_as, numbers[0], truths)), (surface, key, other, whole)
    assert shared > 10


def test_a_part_of_the_cost_is_never_shown_as_the_cost() -> None:
    for surface, text in surfaces().items():
        for place in re.finditer(r"\$0\.\d{4}", text):
            assert text[: place.start()].rstrip("`").endswith("at least "), (
                surface,
                text[place.start() - 40 : place.end()],
            )
    for surface in ("comment", "summary", "markdown", "console", "page"):
        assert "at least $0.0013 (4 answers without a cost)" in surfaces()[surface], surface


def test_the_last_line_of_the_progress_has_the_cost_of_the_report() -> None:
    log = io.StringIO()
    with progress_display(log, Terminal(None, False, False), None, lambda: 0.0).cases(
        [CASES], stop_when_decided=True
    ) as shown:
        for case in made(FAILED).cases:
            shown.show_finished(case)
    last = log.getvalue().splitlines()[-1]
    assert last == f"[{CASES}/{CASES}] 9 passed, 3 failed, at least $0.0013 (4 answers without a cost)"


def test_a_duration_has_one_form() -> None:
    for surface, text in surfaces().items():
        assert not re.findall(r"\b\d,?\d{3}(?:\.\d+)? ms\b|\b0\.\d+ s\b", text), surface
    for surface in ("markdown", "console", "page"):
        assert re.search(r"median latency: 10\.3 s → 10\.3 s", surfaces()[surface]), surface


COMPARED = re.compile(r"(?<![\w.])([−+-]?\d[\d,]*(?:\.\d+)?) (≥|≤|<|>) ([−+-]?\d[\d,]*(?:\.\d+)?)")


def test_no_surface_states_an_order_of_two_numbers_that_is_wrong() -> None:
    order = {"≥": operator.ge, "≤": operator.le, "<": operator.lt, ">": operator.gt}
    for surface, text in surfaces().items():
        for left, sign, right in COMPARED.findall(text):
            one, other = (float(number.replace(",", "").replace("−", "-")) for number in (left, right))
            assert order[sign](one, other), (surface, left, sign, right)


@pytest.mark.parametrize(("threshold", "shown"), [(0.5, "0.50"), (0.125, "0.125")])
def test_a_threshold_has_one_form(threshold: float, shown: str) -> None:
    """With as many decimals as it was written with: 0.125 is not 0.12."""
    scores = [threshold + (0.01 if at % 2 else -0.01) for at in range(CASES)]
    cases = (case_of(turn(evaluation(score, threshold)), name=f"number {at}") for at, score in enumerate(scores))
    report = conclude(in_folder_record(record(*cases))).report
    texts = {name: b"".join(render(report, name)).decode() for name in ("markdown", "console")}
    texts["comment"] = comment(report)
    for surface, text in texts.items():
        row = next(line for line in text.splitlines() if re.match(r"\|? ?`?bleu`? +[|\d]", line))
        assert re.search(rf" {re.escape(shown)} ", row), (surface, row)
    for surface in ("markdown", "console"):
        assert f"is within noise of the threshold {shown} (95 % interval" in texts[surface], surface


def test_the_time_of_a_case_is_the_same_on_every_surface() -> None:
    report = json.loads(surfaces()["json"])
    times = {case["title"]: case["duration_ms"] for key in ("attention", "passing") for case in report[key]}
    junit = etree.fromstring(surfaces()["junit"].encode())
    assert {case.get("name"): 1000 * float(case.get("time")) for case in junit.iter("testcase")} == pytest.approx(times)
    _, index = json.loads(surfaces()["page"])
    assert dict(zip(index["title"], index["latency_ms"], strict=True)) == pytest.approx(times)
