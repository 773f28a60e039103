"""`compare`: two runs side by side, in every format."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.record import Record
from holodeck_action.reports.result_schema import result_schema
from tests.commands.project import Project
from tests.record.records import case, record
from tests.reports.pages import Page, told


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Thirty cases: all right in base/, two wrong in head/."""
    project = Project(tmp_path_factory.mktemp("made"))
    project.numbered(30)
    assert project.run("run", "-o", "base").code == 0
    project.numbered(30, frozenset({3, 7}))
    assert project.run("run", "-o", "head").code == 1
    return project


@pytest.fixture
def both(made: Project, tmp_path: Path) -> Project:
    return made.copy_to(tmp_path)


@pytest.mark.proves("compare: BASE HEAD")
@pytest.mark.parametrize("base", ["base", "base/results.json"])
def test_what_got_worse_is_named_first(both: Project, base: str) -> None:
    finished = both.run("compare", base, "head")
    assert finished.code == 1
    lines = finished.stdout.splitlines()
    assert lines[0].startswith(f"Compared with {base}")
    assert "2 cases got worse; pass rate −6.7 points, within noise at 30 cases" in lines[0]
    assert lines[1].startswith("  ✗ case 3  agent.yaml:")
    assert "equality 1.00 → 0.00" in lines[2]
    assert "now:    wrong" in finished.stdout
    assert lines[-1].startswith("FAILED: 2 cases got worse than on the base (none allowed): case 3, case 7")


@pytest.mark.parametrize("form", ["console", "markdown", "html"])
def test_every_report_says_how_far_it_sees(both: Project, form: str) -> None:
    said = both.run("compare", "base", "head", "--format", form).stdout
    assert "A change of the pass rate by 24 points would be detected in 4 of 5 runs. " in said
    assert " cases × 1 trial would detect a change of 6.7 points. " in said
    assert "These are chosen cases, not a random sample of what users ask." in said


@pytest.mark.parametrize("form", ["console", "markdown", "html"])
def test_the_trial_that_fails_is_named(tmp_path: Path, form: str) -> None:
    for name, trials in (("base", "PPP"), ("head", "PF")):
        made = record(*(case(trials, repeat=3, min_pass=3) for _ in range(2)))
        (tmp_path / name).mkdir()
        write_results(tmp_path / name, made, decide(made))
    finished = Project(tmp_path).run("compare", "base", "head", "--format", form)
    assert finished.code == 1
    said = told(finished.stdout) if form == "html" else finished.stdout
    assert "trial 1: bleu 0.90 → 0.10, needs 0.50" in said


def test_the_other_way_round_everything_is_fixed(both: Project) -> None:
    finished = both.run("compare", "head", "base")
    assert finished.code == 0
    assert "2 cases got better, none worse" in finished.stdout


@pytest.mark.proves(
    "compare: --max-regressions --baseline-margin --on-regressed --on-inconclusive --on-case-regression --policy"
)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--max-regressions", "2"], 0),
        (["--max-regressions", "1"], 1),
        (["--on-case-regression", "ignore"], 0),
        (["--on-case-regression", "ignore", "--on-inconclusive", "fail"], 1),
        (["--on-case-regression", "ignore", "--on-inconclusive", "fail", "--baseline-margin", "0.9"], 0),
        (["--policy", "lenient.yaml"], 0),
        (["--policy", "lenient.yaml", "--max-regressions", "1"], 1),
    ],
)
def test_settings_decide_what_fails(both: Project, arguments: list[str], code: int) -> None:
    both.write("lenient.yaml", "gates: {max_regressions: 5}\nbaseline: {source: artifact}\n")
    assert both.run("compare", "base", "head", *arguments).code == code


@pytest.mark.proves("compare: --on-regressed")
def test_a_loss_beyond_chance_fails_or_warns(both: Project) -> None:
    both.numbered(30, frozenset(range(15)))
    assert both.run("run", "-o", "worse").code == 1
    arguments = ("compare", "base", "worse", "--on-case-regression", "ignore")
    assert both.run(*arguments).code == 1
    warned = both.run(*arguments, "--on-regressed", "warn")
    assert warned.code == 0
    assert "warning: worse beyond chance: pass rate 1.00 → 0.50" in warned.stdout


@pytest.mark.proves("compare: --format")
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("console", "2 cases got worse"),
        ("markdown", "**2 cases got worse** compared with `base`"),
        ("html", "Compared with base: 2 cases got worse"),
        ("json", '"kind": "regressed"'),
    ],
)
@pytest.mark.proves("compare: --output")
def test_every_format_says_the_same(both: Project, name: str, part: str) -> None:
    shown = both.run("compare", "base", "head", "--format", name)
    assert shown.code == 1
    assert part in shown.stdout
    written = both.run("compare", "base", "head", "--format", name, "-o", "file")
    assert written.stdout == ""
    assert (both.folder / "file").read_text(encoding="utf-8") == shown.stdout


def test_the_json_form_keeps_to_its_schema(both: Project) -> None:
    data = json.loads(both.run("compare", "base", "head", "--format", "json").stdout)
    schema = json.loads(both.run("schema", "comparison").stdout)
    assert schema == json.loads(json.dumps(result_schema("comparison")))
    jsonschema.validate(data, schema, jsonschema.Draft202012Validator)
    assert [case["id"] for case in data["comparison"]["regressed"]] == ["case-3", "case-7"]


def test_hostile_texts_are_shown_as_text(both: Project) -> None:
    both.answers([{"case": f"case {n}", "response": "<script>@octocat</script>\x1b[31m"} for n in range(30)])
    assert both.run("run", "-o", "hostile").code == 1
    for name in ("markdown", "html", "console"):
        shown = both.run("compare", "base", "hostile", "--format", name).stdout
        assert "\x1b" not in shown
        if name == "html":
            plain = both.run("compare", "base", "head", "--format", name).stdout
            assert Page(shown).stray == []
            assert shown.count("<script>") == plain.count("<script>")
            continue
        assert "<script>" not in shown or name == "console" or "`<script>" in shown


def test_runs_without_a_common_case_are_no_pass(both: Project) -> None:
    both.suite([{"name": "another", "input": "and now?", "ground_truth": "no"}])
    both.answers([{"case": "another", "response": "no"}])
    assert both.run("run", "-o", "other").code == 0
    finished = both.run("compare", "base", "other")
    assert finished.code == 3
    assert "the runs have no case in common" in finished.stdout
    assert "30 cases removed: case 0, case 1" in finished.stdout


def test_a_base_that_leaves_cases_unknown_is_no_pass(both: Project) -> None:
    """What fails now could have passed on the base, where it was in error."""
    both.answers([{"case": "case 0", "response": "0"}])
    assert both.run("run", "-o", "poor").code == 3
    finished = both.run("compare", "poor", "base")
    assert finished.code == 0
    assert both.run("compare", "poor", "head").code == 3
    assert "29 cases not fully evaluated on the base" in both.run("compare", "poor", "head").stdout


@pytest.mark.needs
@pytest.mark.proves("compare: --history")
def test_runs_of_a_history_are_named_by_commit_or_position(both: Project) -> None:
    assert both.run("history", "import", "base", "head", "--into", "runs").code == 0
    finished = both.run("compare", "--history", "runs", "--", "-2", "-1")
    assert finished.code == 1
    assert "2 cases got worse" in finished.stdout
    assert "2 cases got worse" in both.run("compare", "--history", "runs", "--", "-2", "head").stdout
    refused = both.run("compare", "--history", "runs", "ffff1234", "head")
    assert refused.code == 2
    assert "the history has no run 'ffff1234' among its 2" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere", "head"], "nowhere: cannot be read"),
        (["base", "agent.yaml"], "agent.yaml: not a results file"),
        (
            ["base", "head", "--max-regressions", "1", "--on-case-regression", "warn"],
            "gates.max_regressions never fails with `baseline.on_case_regression: warn`",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(both: Project, arguments: list[str], sentence: str) -> None:
    finished = both.run("compare", *arguments)
    assert finished.code == 2
    assert sentence in finished.stderr


def of_trials(single: str, repeated: str, *more: str) -> Record:
    """Cases with one trial for each letter, one case with several, and cases that the other run does not have."""
    cases = [case(letter) for letter in single] + [case(repeated, repeat=4, min_pass=2)]
    return record(*cases, *(case("P", content_hash=name * 8) for name in more))
