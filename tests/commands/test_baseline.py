"""A run compared with a base: what is kept, what gates, and what is said where there is nothing to compare with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Finished, Project

Lose = Callable[..., Project]
LENIENT: dict[str, Any] = {"min_pass_rate": 0.1}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Forty cases, all right, in base/results.json."""
    project = Project(tmp_path_factory.mktemp("sound"))
    project.numbered(40)
    assert project.run("run", "-o", "base").code == 0
    return project


@pytest.fixture
def lose(sound: Project, tmp_path: Path) -> Lose:
    """Give a copy in which so many cases are answered wrongly, with a policy that lets them."""

    def changed(wrong: int, gates: dict[str, Any] | None = None, **baseline: Any) -> Project:
        project = sound.copy_to(tmp_path)
        project.numbered(40, frozenset(range(wrong)))
        project.policy(
            target="recorded:answers.jsonl",
            gates={**LENIENT, **(gates or {})},
            baseline={"source": "file:base/results.json", **baseline},
        )
        return project

    return changed


def gates_of(project: Project) -> dict[str, str]:
    return {gate["name"]: gate["state"] for gate in project.verdict()["gates"]}


@pytest.mark.proves("Policy: baseline", "Baseline: source", "gate: --policy")
def test_the_base_is_kept_beside_the_results_and_everything_is_computed_from_them(lose: Lose) -> None:
    project = lose(2)
    finished, record = project.evaluate()
    assert finished.code == 1
    assert "Compared with base/results.json" in finished.stdout
    assert "2 cases got worse" in finished.stdout
    assert (project.out / "base" / "results.json").read_bytes() == (
        project.folder / "base" / "results.json"
    ).read_bytes()
    assert record.baseline is not None
    assert record.baseline.base is not None
    verdict = project.verdict()
    assert [case["id"] for case in verdict["comparison"]["regressed"]] == ["case-0", "case-1"]

    shutil.rmtree(project.folder / "base")
    again = project.run("decide", "out/results.json", "-o", "again")
    assert again.code == 1
    assert json.loads((project.folder / "again" / "verdict.json").read_bytes()) == verdict
    shown = project.run("report", "out/results.json", "--format", "markdown")
    assert "**2 cases got worse** compared with `base/results.json`" in shown.stdout
    assert shown.stdout.count("\nanswer of the base, which passed: 0\n") == 1


@pytest.mark.proves("Gates: max_regressions")
@pytest.mark.parametrize(("allowed", "code"), [(None, 1), (1, 1), (2, 0)])
def test_so_many_cases_may_get_worse(lose: Lose, allowed: int | None, code: int) -> None:
    project = lose(2, {} if allowed is None else {"max_regressions": allowed})
    assert project.run("run", "-o", "out").code == code
    assert gates_of(project)["max_regressions"] == ("failed" if code else "passed")


@pytest.mark.proves("run: --max-regressions --baseline", "gate: --max-regressions")
def test_flags_take_the_place_of_the_policy_file(lose: Lose) -> None:
    project = lose(2, {"max_regressions": 0})
    shutil.move(project.folder / "base", project.folder / "elsewhere")
    code = project.run("run", "-o", "out", "--baseline", "file:elsewhere", "--max-regressions", "2").code
    assert code == 0
    assert project.run("decide", "out/results.json", "--max-regressions", "1").code == 1


def reactions(project: Project, *arguments: str) -> tuple[Finished, set[str]]:
    finished = project.run("run", "-o", "out", *arguments)
    return finished, {name for name, state in gates_of(project).items() if state == "failed"}


@pytest.mark.proves(
    "Baseline: on_case_regression on_regressed on_inconclusive",
    "Baseline.on_case_regression=fail Baseline.on_case_regression=warn Baseline.on_case_regression=ignore",
    "Baseline.on_regressed=fail Baseline.on_regressed=warn Baseline.on_regressed=ignore",
    "Baseline.on_inconclusive=fail Baseline.on_inconclusive=warn Baseline.on_inconclusive=ignore",
    "run: --on-case-regression --on-regressed --on-inconclusive",
)
@pytest.mark.parametrize("by_flag", [False, True])
@pytest.mark.parametrize(
    ("wrong", "key", "gate", "sentence"),
    [
        (12, "on_case_regression", "max_regressions", "12 cases got worse than on the base (none allowed): case 0"),
        (12, "on_regressed", "baseline.on_regressed", "worse beyond chance: pass rate"),
        (2, "on_inconclusive", "baseline.on_inconclusive", "too few cases to rule out a loss of more than"),
    ],
)
def test_a_loss_fails_warns_or_is_ignored(
    lose: Lose, wrong: int, key: str, gate: str, sentence: str, by_flag: bool
) -> None:
    others = dict.fromkeys(("on_case_regression", "on_regressed", "on_inconclusive"), "ignore")
    project = lose(wrong, **others) if by_flag else lose(wrong)
    flag = f"--{key.replace('_', '-')}"

    def with_reaction(word: str) -> tuple[Finished, set[str]]:
        if by_flag:
            return reactions(project, flag, word)
        lose(wrong, **{**others, key: word})
        return reactions(project)

    finished, failed = with_reaction("fail")
    assert (finished.code, failed) == (1, {gate})
    assert sentence in finished.stdout
    finished, failed = with_reaction("warn")
    assert (finished.code, failed) == (0, set())
    assert any(sentence in warning for warning in project.verdict()["warnings"])
    assert sentence in project.run("report", "out/results.json", "--format", "html").stdout
    finished, failed = with_reaction("ignore")
    assert (finished.code, failed) == (0, set())
    assert project.verdict()["warnings"] == []


@pytest.mark.proves("Baseline: margin", "run: --baseline-margin", "gate: --baseline-margin --on-inconclusive")
def test_the_margin_says_which_loss_counts(lose: Lose) -> None:
    project = lose(0, on_inconclusive="fail", margin=0.01)
    assert project.run("run", "-o", "out").code == 1
    assert project.verdict()["comparison"]["margin"] == 0.01
    assert project.run("run", "-o", "out", "--baseline-margin", "0.3").code == 0
    assert project.run("decide", "out/results.json", "--baseline-margin", "0.01").code == 1
    assert project.run("decide", "out/results.json", "--baseline-margin", "0.01", "--on-inconclusive", "warn").code == 0


@pytest.mark.proves("gate: --on-regressed --on-case-regression")
def test_another_reaction_is_decided_without_running_anything(lose: Lose) -> None:
    project = lose(12)
    assert project.run("run", "-o", "out").code == 1
    arguments = ("decide", "out/results.json", "--on-regressed", "ignore")
    assert project.run(*arguments).code == 1
    assert project.run(*arguments, "--on-case-regression", "ignore").code == 0


@pytest.mark.proves(
    "Baseline: on_missing", "Baseline.on_missing=warn Baseline.on_missing=fail", "run: --on-missing-baseline"
)
@pytest.mark.parametrize(("word", "code", "state"), [("warn", 0, "skipped"), ("fail", 3, "undetermined")])
def test_a_gate_without_a_base_never_counts_as_passed(lose: Lose, word: str, code: int, state: str) -> None:
    project = lose(0)
    other = Project(project.folder / "other")
    other.suite([{"name": "another", "input": "and now?", "ground_truth": "no"}])
    other.answers([{"case": "another", "response": "no"}])
    other.policy(target="recorded:answers.jsonl")
    assert other.run("run", "-o", "out").code == 0
    finished = project.run("run", "-o", "out", "--baseline", "file:other/out", "--on-missing-baseline", word)
    assert finished.code == code
    assert gates_of(project)["max_regressions"] == state
    assert "the base has no case in common with this run" in finished.stdout
    skipped = "every other gate holds; skipped: max_regressions, baseline.on_regressed"
    assert finished.stdout.endswith(f" · {skipped}\n") == (code == 0)
    assert "every gate holds" not in finished.stdout


def test_a_base_that_could_not_evaluate_any_case_is_incomplete(project: Project) -> None:
    """As when a submodule of the base was not fetched: each of its cases is in error."""
    project.numbered(3)
    error = {"message": "no module named shop", "kind": "agent"}
    project.answers([{"case": f"case {at}", "error": error} for at in range(3)], "broken.jsonl")
    assert project.run("run", "-o", "base", "--target", "recorded:broken.jsonl").code == 3
    finished = project.run("run", "-o", "out", "--baseline", "file:base")
    assert finished.code == 3, finished.stdout
    assert gates_of(project)["max_regressions"] == "undetermined"
    said = "the base could evaluate none of 3 cases, so nothing is compared; on the base: the agent reports an error"
    assert f"{said}: no module named shop" in finished.stdout
    assert "in common" not in finished.stdout
    # A setting for a base that is missing does not concern one that failed.
    assert project.run("run", "-o", "out", "--baseline", "file:base", "--on-missing-baseline", "warn").code == 3
    compared = project.run("compare", "base", "out")
    assert compared.code == 3
    assert f"{said}: no module named shop" in compared.stdout


def test_a_run_whose_every_gate_is_skipped_does_not_pass(lose: Lose) -> None:
    project = lose(0)
    project.policy(
        target="recorded:answers.jsonl",
        gates={"min_pass_rate": None, "min_completeness": None},
        baseline={"source": "file:other/out"},
    )
    other = Project(project.folder / "other")
    other.numbered(1)
    other.suite([{"name": "another", "input": "and now?", "ground_truth": "0"}])
    other.answers([{"case": "another", "response": "0"}])
    assert other.run("run", "-o", "out").code == 0
    finished = project.run("run", "-o", "out")
    assert finished.code == 3
    assert "every gate is skipped" in finished.stdout


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"baseline": {"margin": 0.2}}, "baseline.margin has no effect without a base"),
        ({"baseline": {"on_regressed": "warn"}}, "baseline.on_regressed has no effect without a base"),
        ({"gates": {"max_regressions": 0}}, "gates.max_regressions has no effect without a base"),
        (
            {
                "gates": {"max_regressions": 0},
                "baseline": {"source": "file:base/results.json", "on_case_regression": "warn"},
            },
            "gates.max_regressions never fails with `baseline.on_case_regression: warn`",
        ),
        (
            {"baseline": {"source": "file:nowhere.json"}},
            "holodeck-action.yaml:4:13: baseline.source: nowhere.json: cannot be read: No such file or directory",
        ),
        ({"baseline": {"source": "file:agent.yaml"}}, "agent.yaml: not a results file"),
        ({"baseline": {"source": "file:/etc/passwd"}}, "is outside the checkout"),
    ],
)
def test_settings_that_would_have_no_effect_are_refused(lose: Lose, policy: dict[str, Any], expected: str) -> None:
    project = lose(0)
    project.policy(target="recorded:answers.jsonl", **policy)
    finished = project.run("run", "-o", "out")
    assert finished.code == 2
    assert expected in finished.stderr
    assert not (project.out / "results.json").exists()


def test_results_that_are_not_those_of_the_base_are_refused(lose: Lose) -> None:
    project = lose(1)
    assert project.run("run", "-o", "out").code == 1
    kept = project.out / "base" / "results.json"
    assert project.run("run", "-o", "elsewhere").code == 1
    shutil.copy(project.folder / "elsewhere" / "results.json", kept)
    for command in ("decide", "report"):
        finished = project.run(command, "out/results.json")
        assert finished.code == 2
        assert "does not match the base that out/results.json was compared with" in finished.stderr
    kept.unlink()
    assert project.run("decide", "out/results.json").code == 2


def test_records_without_a_base_have_the_same_bytes_as_ever(sound: Project) -> None:
    written = json.loads((sound.folder / "base" / "results.json").read_bytes())
    assert "baseline" not in written
    assert "base_digest" not in written["run"]


@pytest.mark.full
def test_one_regression_in_a_thousand_turns_is_named_on_the_first_screen(tmp_path: Path) -> None:
    """One case, one turn, one metric of 200 cases of five turns: in the log, and in the comment's first lines."""
    project = Project(tmp_path)
    turns = [{"input": f"question {n}", "ground_truth": f"the answer to question {n} is quite long"} for n in range(5)]
    project.suite(
        [{"name": f"case {n}", "turns": turns} for n in range(200)],
        [{"type": "standard", "metric": "rouge", "threshold": 0.5}, {"type": "length", "max_words": 99}],
    )

    def answer(wrong: tuple[int, int] | None, **policy: Any) -> None:
        rows = [
            {"case": f"case {case}", "turn": turn, "response": "no" if (case, turn) == wrong else asked["ground_truth"]}
            for case in range(200)
            for turn, asked in enumerate(turns)
        ]
        project.answers(rows)
        project.policy(target="recorded:answers.jsonl", **policy)

    answer(None)
    assert project.run("run", "-o", "base").code == 0
    answer((137, 2), baseline={"source": "file:base"})
    finished = project.run("run", "-o", "out")
    assert finished.code == 1
    first = "\n".join(finished.stdout.splitlines()[:10])
    assert "✗ case 137  [failed]  agent.yaml:" in first
    assert "passed on base, with the expected answer" in first
    assert "    turn 2  agent.yaml:" in first
    assert ", needs 0.50" in first
    assert "answer:   no" in first
    assert "1 case got worse; pass rate −0.5 points, within noise at 200 cases" in finished.stdout
    shown = project.run("report", "out/results.json", "--format", "markdown").stdout
    assert shown.index("(rouge 0, needs 0.50)") < shown.index("❌ <b>case 137</b>") < 500
    assert "(turn 2 of 5, counted from 0)" in shown
