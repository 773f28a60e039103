"""What a run with several trials shows: the same numbers in every format."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from holodeck_action.record.result_files import read_record
from holodeck_action.reports.formats import render_markdown
from holodeck_action.reports.terminal.console import console_report
from tests.action.runner import read_log
from tests.commands.project import Project
from tests.fields.runs import lettered
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.hostile import storable_texts
from tests.reports.pages import Page, told
from tests.reports.parsing import check_inert, parses, rows
from tests.reports.shown import page, report_of
from tests.reports.test_comment import comment

SENTINEL = "qzxq"
WHOLE = {"trials": {"repeat": 4, "min_pass": 3, "stop_when_decided": False}}


@pytest.fixture
def whole(project: Project) -> Project:
    lettered(project, "PPFP PFFP PPPP", WHOLE)
    assert project.run("run", "-o", "out").code == 1
    return project


def shown(project: Project, name: str) -> str:
    finished = project.run("report", "out/results.json", "--format", name)
    assert finished.code == 0
    return finished.stdout


def test_the_console(whole: Project) -> None:
    text = shown(whole, "console")
    assert (
        "    trials: 2 of 4 trials passed, 3 of 4 needed; pass@1 0.500, pass@4 1.000, pass^4 0.000; flaky; "
        "equality 0.00 to 1.00\n"
    ) in text
    assert (
        "3 cases with several trials, 12 trials: pass@1 0.750, pass@4 1.000, pass^4 0.333; 2 flaky\n"
        "passing and flaky: case 0\n"
    ) in text


def test_markdown(whole: Project) -> None:
    text = shown(whole, "markdown")
    assert (
        "\n**3** cases with several trials, 12 trials: pass@1 0.750, pass@4 1.000, pass^4 0.333 · **2** flaky\n" in text
    )
    first, second, third = (line for line in text.splitlines() if line.startswith("|") and "pass^4" in line)
    assert first == (
        "| ❌ | `case 1` · flaky | 2 | 2 | 4 | pass@1 0.500, pass@4 1.000, pass^4 0.000 | "
        "`equality` 0.50 (0.00 to 1.00), `length` 1.00 |"
    )
    assert second.startswith("| ✅ | `case 0` · flaky | 3 | 1 | 4 | ")
    assert third.endswith(" | pass@1 1.000, pass@4 1.000, pass^4 1.000 | `equality` 1.00, `length` 1.00 |")
    for tokens in parses(text):
        # The cases with a head: no row is torn.
        assert [len(row) for row in rows(tokens)].count(7) == 4


def test_html(whole: Project) -> None:
    page = Page(shown(whole, "html"))
    (trials,) = page.head["suites"][0]["remarks"]
    assert trials["title"] == "Trials"
    assert trials["lines"][1:] == [
        "k = 1: pass@k 0.750, pass^k 0.750",
        "k = 2: pass@k 0.944, pass^k 0.556",
        "k = 3: pass@k 1.000, pass^k 0.417",
        "k = 4: pass@k 1.000, pass^k 0.333",
    ]
    row = page.row("case-1")
    assert (row["flaky"], row["trials"], row["passed_trials"]) == (True, 4, 2)
    detail = page.details["case-1"]
    assert [trial["outcome"] for trial in detail["trials"]] == ["passed", "failed", "failed", "passed"]
    said = "2 of 4 trials passed, 3 of 4 needed; pass@1 0.500, pass@4 1.000, pass^4 0.000; flaky; equality 0.00 to 1.00"
    assert detail["remarks"] == [said]


def test_json(whole: Project) -> None:
    report = json.loads(shown(whole, "json"))
    assert {name: report["trial_rates"][name] for name in ("cases", "trials", "missing", "flaky", "truncated")} == {
        "cases": 3,
        "trials": 12,
        "missing": 0,
        "flaky": 2,
        "truncated": 0,
    }
    (case,) = report["attention"]
    assert case["trial_rates"]["rates"][1] == {
        "k": 2,
        "pass_at_k": {"low": pytest.approx(5 / 6), "high": pytest.approx(5 / 6)},
        "pass_hat_k": {"low": pytest.approx(1 / 6), "high": pytest.approx(1 / 6)},
    }
    assert case["scores"][0] == {"metric": "equality", "mean": 0.5, "lowest": 0.0, "highest": 1.0}


def test_a_rate_of_fewer_trials_is_marked(project: Project) -> None:
    lettered(project, "PFP FFP PPP", {"trials": {"repeat": 3}})
    finished = project.run("run", "-o", "out")
    assert (
        "trials: 1 of 2 trials passed, 3 of 3 needed; 0.500 of the trials pass (truncated), pass@3 1.000, pass^3 0.000"
    ) in finished.stdout
    assert (
        "trials: 0 of 1 trials passed, 3 of 3 needed; 0.000 of the trials pass (truncated), pass@3 0.000 to 1.000, "
        "pass^3 0.000"
    ) in finished.stdout
    together = "0.500 of the trials pass (truncated), pass@3 0.667 to 1.000, pass^3 0.333"
    early = "decided before all of their trials had run ("
    assert f"{together}; 1 flaky; 2 {early}trials.stop_when_decided: false runs them all)\n" in finished.stdout
    told = f"{together} · **1** flaky · **2** {early}`trials.stop_when_decided: false` runs them all)\n"
    assert told in shown(project, "markdown")
    assert f"{early}trials.stop_when_decided: false runs them all)" in shown(project, "html")


def test_a_run_without_trials_says_nothing_of_them(project: Project) -> None:
    lettered(project, "P F")
    project.run("run", "-o", "out")
    for name in ("console", "markdown", "html"):
        assert "pass@" not in (told(shown(project, name)) if name == "html" else shown(project, name))


def test_noise_is_said_below_the_metrics() -> None:
    made = record(*(case_of(turn(evaluation(0.6 + 0.2 * (n % 2), 0.72))) for n in range(10)))
    report = report_of(made)
    said = "the mean 0.70 is within noise of the threshold 0.72 (95 % interval 0.62 to 0.78)"
    assert f"\nbleu: {said}\n" in "".join(console_report(report))
    assert f"\n- `bleu`: {said}\n" in render_markdown(report)
    assert f"<li>bleu: {said}</li>" in page(made)


def test_a_comment_tells_of_the_trials_of_cases_that_it_shows(whole: Project) -> None:
    text = comment(report_of(read_record(whole.out / "results.json")))
    assert " · 2 of 4 trials passed, 3 of 4 needed · flaky\n" in text
    assert "pass@" not in text
    assert "| case 0 · flaky | equality 0.75 (0.00 to 1.00), length 1.00 |" in text


def test_a_template_of_ones_own_shows_the_rates(whole: Project) -> None:
    whole.write(
        "own.md.j2",
        "{{ report.trial_rates|rates }}; {% for rate in report.trial_rates.rates %}{{ rate.k }}: "
        "{{ rate.pass_at_k|bounds }} {{ rate.pass_hat_k|bounds }}, {% endfor %}",
    )
    finished = whole.run("report", "out/results.json", "--format", "markdown", "--template", "own.md.j2")
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.stdout.strip() == (
        "pass@1 0.750, pass@4 1.000, pass^4 0.333; 1: 0.750 0.750, 2: 0.944 0.556, 3: 1.000 0.417, 4: 1.000 0.333,"
    )


@pytest.mark.full
@given(storable_texts)
@settings(max_examples=30)
def test_no_name_is_anything_but_text(text: str) -> None:
    text += SENTINEL
    noisy = [case_of(turn(evaluation(0.6 + 0.2 * (n % 2), 0.72, evaluator_name=text))) for n in range(10)]
    cases = (case("PFP", 3, 1, name=text), case("FFF", 3, 3, name=text), *noisy)
    report = report_of(record(*cases, stop_when_decided=False))
    shown = render_markdown(report)
    check_inert(shown, SENTINEL)
    for tokens in parses(shown):
        assert [len(row) for row in rows(tokens)].count(7) == 3
    for text_of_ours in (shown, "".join(console_report(report))):
        assert read_log(text_of_ours.encode()).commands == ()
