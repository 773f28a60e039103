"""The `Report` value: what every channel has to go by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from holodeck_action.record.record import Timing
from holodeck_action.record.serialization import to_json
from holodeck_action.reports.formats import FORMATS, json_report, render
from holodeck_action.reports.report_views import canonical_report, cases_in_suite_order
from holodeck_action.reports.result_schema import result_schema
from holodeck_action.suite.model.policy import Gates, GateSummary
from tests.record.records import FAILED_EVALUATION, case_of, evaluation, record, turn
from tests.reports.shown import report_of, varied


def test_every_case_is_in_one_list_the_worst_first() -> None:
    report = report_of(varied())
    assert [(case.title, case.outcome) for case in report.attention] == [
        ("fails", "failed"),
        ("two turns", "failed"),
        ("crashes", "error"),
        ("was not run", "skipped"),
        ("is quarantined", "quarantined"),
    ]
    assert [case.title for case in report.passing] == ["passes", "flaky"]
    assert [case.title for case in report.informational] == ["only informs"]
    assert [case.position for case in cases_in_suite_order(report)] == list(range(8))


def test_metrics_have_margins_and_directions() -> None:
    metrics = {metric.name: metric for metric in report_of(varied()).metrics}
    assert metrics["toxicity"].polarity == "minimize"
    assert metrics["toxicity"].margin == pytest.approx(-0.3)
    bleu = metrics["bleu"]
    assert bleu.mean is not None
    assert bleu.margin == bleu.mean - 0.5
    assert metrics["tone"].margin is None
    assert metrics["rouge"].skipped == 1


def test_a_case_that_needs_attention_has_its_conversation() -> None:
    report = report_of(varied())
    two = next(case for case in report.attention if case.title == "two turns")
    first, second = two.turns
    (call,) = first.tool_calls
    assert (call.name, call.arguments, call.result) == ("search", 'q="x"', '{"hits": 2}')
    assert first.problems == ()
    assert second.problems == ("bleu 0.10, needs 0.50: compared",)
    assert [(score.metric, score.mean) for score in two.scores] == [("bleu", 0.1), ("tone", None), ("toxicity", 0.2)]
    assert all(case.turns == () for case in report.passing)


def test_a_case_in_error_says_why() -> None:
    crashed = next(case for case in report_of(varied()).attention if case.title == "crashes")
    assert crashed.turns[0].problems == ("error: it crashed",)


def test_repeats_are_counted_and_the_trial_that_failed_is_shown() -> None:
    flaky = report_of(varied()).passing[1]
    assert flaky.flaky
    assert flaky.repeats == "2 of 3 trials passed, 2 of 3 needed"
    assert [trial.outcome for trial in flaky.trials] == ["failed", "passed", "passed"]


def test_skips_and_spend_are_told() -> None:
    report = report_of(varied())
    assert [(item.metric, item.reason, item.count) for item in report.skipped_metrics] == [
        ("rouge", "no ground truth", 1)
    ]
    assert (report.spend.prompt_tokens, report.spend.completion_tokens, report.spend.cost_usd) == (10, 5, 0.01)
    assert report_of(record()).spend.cost_usd is None


def test_the_json_report_is_the_plain_data_and_keeps_to_its_schema() -> None:
    report = report_of(varied(), "some/folder")
    data = json.loads("".join(json_report(report)))
    assert data == json.loads(to_json(report))
    jsonschema.validate(data, result_schema("report"), jsonschema.Draft202012Validator)
    assert set(data) == set(result_schema("report")["required"])


@pytest.mark.parametrize("name", FORMATS)
def test_canonical_reports_do_not_know_when_where_and_how_fast(name: str) -> None:
    made = varied()
    other = replace(
        made,
        run=replace(made.run, run_id="other", started_at="2026-11-21T09:00:00+00:00", duration_ms=5.0, python="3.13.0"),
        cases=tuple(
            replace(
                case,
                trials=tuple(replace(trial, timing=Timing("2026-11-21T09:00:00+00:00", 7.5)) for trial in case.trials),
            )
            for case in made.cases
        ),
    )
    here, there = report_of(made, "a"), report_of(other, "b/c")
    assert [*render(canonical_report(here), name)] == [*render(canonical_report(there), name)]
    if name != "console":
        assert [*render(here, name)] != [*render(there, name)]


def test_canonical_reports_round_what_python_versions_sum_differently() -> None:
    made = varied()
    report = report_of(made)
    bumped = replace(report, pass_rate=(report.pass_rate or 0) + 1e-15)
    assert report != bumped
    assert canonical_report(report) == canonical_report(bumped)


@pytest.mark.full
def test_templates_are_found_in_a_wheel_and_in_a_checkout(tmp_path: Path) -> None:
    import shutil
    import subprocess
    import sys

    import holodeck_action

    package = Path(holodeck_action.__file__).parent
    installed = tmp_path / "installed"
    # What the wheel does: the package, and the templates inside it.
    shutil.copytree(package, installed / "holodeck_action", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(package.parent / "templates", installed / "holodeck_action" / "templates")
    code = "from holodeck_action.reports.templating import template_folder\n" + (
        "print(sorted(path.name for path in template_folder().iterdir()))"
    )
    shown = [
        subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout
        for folder in (installed, package.parent)
    ]
    assert shown[0] == shown[1]
    assert "summary.md.j2" in shown[0]


def test_a_case_has_the_summary_that_the_gate_describes() -> None:
    bleu, toxicity, broken = (
        evaluation(0.6, evaluator_name="bleu"),
        evaluation(0.2, evaluator_name="toxicity", polarity="minimize"),
        replace(FAILED_EVALUATION, evaluator_name="rouge"),
    )
    cases = (case_of(turn(bleu, toxicity)), case_of(turn(bleu, toxicity, broken)))

    def scores(**gate: Any) -> dict[str, float | None]:
        made = report_of(record(*cases, gates=Gates(summary=GateSummary.model_validate({"min": 0.1, **gate}))))
        found = {case.id: case.summary for case in cases_in_suite_order(made)}
        assert {summary and summary.method for summary in found.values()} == {gate["method"]}
        return {name: summary.score if summary else None for name, summary in found.items()}

    assert scores(method="simple_average") == {"case-0": pytest.approx(0.7), "case-1": None}
    assert scores(method="minimum") == {"case-0": pytest.approx(0.6), "case-1": None}
    weighted = scores(method="weighted_average", weights={"bleu": 1, "toxicity": 3})
    # What is in error has no weight.
    assert weighted == {"case-0": pytest.approx(0.75), "case-1": pytest.approx(0.75)}
    assert scores(method="weighted_average", weights={"rouge": 1}) == {"case-0": None, "case-1": None}
    assert all(case.summary is None for case in cases_in_suite_order(report_of(record(*cases))))
    custom = GateSummary(method="custom", function="mine:score", min=0.5)
    assert all(
        case.summary is None for case in cases_in_suite_order(report_of(record(*cases, gates=Gates(summary=custom))))
    )
