"""What fails or crashes with HoloDeck and must not: each test fails if we behave as HoloDeck 0.7.1 does."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.commands.project import Project

PARIS = {"name": "capital", "input": "What is the capital of France?", "ground_truth": "Paris"}
EQUALITY = {"type": "standard", "metric": "equality"}
GRADERS = """
from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult


def looks(ctx: GraderContext) -> GraderResult:
    calls = [(call.name, call.args) for call in ctx.tool_invocations]
    return GraderResult(score=1.0, passed=True, details={"calls": calls, "case": ctx.test_case_name})


def breaks(ctx: GraderContext) -> float:
    raise RuntimeError("no grade today")
"""


def _code(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "code", "grader": f"graders:{name}", **more}


def test_identical_text_has_rouge_1_and_disjoint_text_0(project: Project) -> None:
    rouge = {"type": "standard", "metric": "rouge", "threshold": 0.5}
    text = "the quick brown fox"
    project.suite([{**PARIS, "name": n, "ground_truth": text} for n in ("same", "other")], metrics=[rouge])
    project.answers([{"case": "same", "response": text}, {"case": "other", "response": "lazy dogs sleep"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 1
    assert [case.trials[0].turns[0].evaluations[0].score for case in record.cases] == [1.0, 0.0]


@pytest.mark.parametrize(
    "judge",
    [{"provider": "openai", "name": "gpt-4o"}, {"provider": "ollama", "name": "llama3"}],
    ids=["openai", "ollama"],
)
def test_a_judge_model_does_not_disturb_metrics_that_need_none(project: Project, judge: dict[str, Any]) -> None:
    project.suite([PARIS], evaluations={"model": judge, "metrics": [EQUALITY]})
    project.answers([{"case": "capital", "response": "Paris"}])
    assert project.run("run", "--target", "recorded:answers.jsonl").code == 0


def test_a_suite_for_a_local_model_needs_no_key_of_another_provider(project: Project) -> None:
    project.suite([PARIS], model={"provider": "ollama", "name": "llama3"})
    project.answers([{"case": "capital", "response": "Paris"}])
    finished = project.run("run", "--target", "recorded:answers.jsonl", ANTHROPIC_API_KEY="")
    assert (finished.code, finished.stderr.count("ANTHROPIC")) == (0, 0)


@pytest.mark.needs
@pytest.mark.parametrize(
    "metric",
    [
        {"type": "standard", "metric": "numeric"},
        {"type": "standard", "metric": "coherence", "threshold": 0.9},
        {"type": "geval", "name": "Tone", "criteria": "Is it polite?"},
        {"type": "rag", "metric_type": "faithfulness"},
        _code("breaks", fail_on_error=True),
    ],
    ids=lambda metric: str(metric["type"] + metric.get("metric", "")),
)
def test_a_disabled_metric_is_skipped(project: Project, metric: dict[str, Any]) -> None:
    project.suite([PARIS], metrics=[EQUALITY, {**metric, "enabled": False}])
    project.answers([{"case": "capital", "response": "Paris"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0
    skipped = record.cases[0].trials[0].turns[0].evaluations[1]
    assert (skipped.status, skipped.explanation) == ("skipped", "disabled in the suite")


def test_a_grader_that_raises_is_soft_unless_fail_on_error(project: Project) -> None:
    project.write("graders.py", GRADERS)
    cases: list[dict[str, Any]] = [
        {**PARIS, "name": "soft", "evaluations": [EQUALITY, _code("breaks")]},
        {**PARIS, "name": "hard", "evaluations": [EQUALITY, _code("breaks", fail_on_error=True)]},
        {**PARIS, "name": "after"},
    ]
    project.suite(cases)
    project.answers([{"case": case["name"], "response": "Paris"} for case in cases])
    finished, _ = project.evaluate("--target", "recorded:answers.jsonl")
    verdict = project.verdict()
    assert {case["id"]: case["judged"] for case in verdict["cases"]} == {
        "soft": "passed",
        "hard": "failed",
        "after": "passed",
    }
    assert finished.code == 1
    assert "breaks not evaluated: graders:breaks: it raised RuntimeError: no grade today" in finished.stdout
    # The soft one alone makes the suite incomplete, never green.
    assert verdict["completeness"] < 1.0
    assert project.run("run", "--target", "recorded:answers.jsonl", "--case", "soft").code == 3


def test_a_grader_sees_calls_and_name_of_a_single_turn_case(project: Project) -> None:
    project.write("graders.py", GRADERS)
    project.suite([PARIS], metrics=[_code("looks")])
    call = {"name": "search", "args": {"q": "France"}}
    project.answers([{"case": "capital", "response": "Paris", "tool_invocations": [call]}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0
    details = record.cases[0].trials[0].turns[0].evaluations[0].metadata["details"]
    assert details == {"calls": [["search", {"q": "France"}]], "case": "capital"}


def test_a_failed_assertion_on_arguments_is_reported(project: Project) -> None:
    project.suite([{**PARIS, "expected_tools": [{"name": "add", "args": {"a": 1}}]}])
    project.answers([{"case": "capital", "response": "Paris", "tool_invocations": [{"name": "add", "args": {"a": 2}}]}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 1
    assert "    tool add: a is 2, expected 1\n" in finished.stdout
    assert record.cases[0].trials[0].turns[0].tool_assertions[0].matched is False


def test_a_call_whose_tool_raised_stays_in_the_record(project: Project) -> None:
    project.suite([{**PARIS, "expected_tools": ["search"]}])
    call = {"name": "search", "args": {"q": "x"}, "error": "TimeoutError: no answer"}
    project.answers([{"case": "capital", "response": "Paris", "tool_invocations": [call]}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0
    (called,) = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert called.error == "TimeoutError: no answer"


ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"response": json.dumps(json.loads(line)["files"])}), flush=True)
"""


def test_file_paths_start_at_the_file_that_names_them(project: Project) -> None:
    file = {"path": "invoice.txt", "type": "text"}
    project.write("echo.py", ECHO)
    cases = [{"name": "reads", "input": "?", "ground_truth": '["suite/cases/invoice.txt"]', "files": [file]}]
    project.suite([], test_cases=None, test_cases_file="suite/cases/all.yaml")
    project.write("suite/cases/all.yaml", json.dumps(cases))
    project.write("suite/cases/invoice.txt", "42")
    command = f"command:{sys.executable} echo.py"
    assert project.run("run", "--target", command).code == 0


@pytest.mark.parametrize("written", ["42", "1.10", "yes", "2024-01-31"])
def test_an_unquoted_ground_truth_is_the_text_as_written(project: Project, written: str) -> None:
    project.suite([])
    document = json.loads((project.folder / "agent.yaml").read_text())
    del document["test_cases"]
    case = f"test_cases:\n  - {{name: one, input: '?', ground_truth: {written}}}\n"
    project.write(
        "agent.yaml", "\n".join(f"{key}: {json.dumps(value)}" for key, value in document.items()) + f"\n{case}"
    )
    project.answers([{"case": "one", "response": written}])
    assert project.run("run", "--target", "recorded:answers.jsonl").code == 0


@pytest.mark.needs
def test_type_may_be_left_out_in_a_case_and_is_asked_for_by_name_in_a_suite(project: Project) -> None:
    project.suite([{**PARIS, "evaluations": [{"metric": "equality"}]}])
    assert project.run("validate").code == 0
    project.suite([PARIS], metrics=[{"metric": "equality"}])
    refused = project.run("validate")
    assert refused.code == 2
    assert "type is missing: every entry needs a type (allowed: standard, geval, rag, code," in refused.stderr


def test_an_unset_variable_in_a_comment_is_no_error(project: Project) -> None:
    project.suite([PARIS])
    text = (project.folder / "agent.yaml").read_text()
    project.write("agent.yaml", "# set ${NOBODY_SETS_THIS} first\n" + text)
    assert project.run("validate").code == 0


def test_after_a_turn_without_an_answer_the_conversation_ends(project: Project) -> None:
    turns = [{"input": n, "ground_truth": n} for n in ("one", "two", "three")]
    project.suite([{"name": "talk", "turns": turns}])
    project.answers([{"case": "talk", "turn": turn, "response": text} for turn, text in ((0, "one"), (2, "three"))])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 3
    first, second, third = record.cases[0].trials[0].turns
    assert first.evaluations[0].score == 1.0
    assert second.error is not None
    assert second.error.code == "missing_transcript"
    assert (third.response, third.skipped) == (None, "not run: turn 1 of the conversation failed")


def test_the_reason_of_a_failure_is_printed(project: Project) -> None:
    project.suite([{**PARIS, "ground_truth": "12"}], metrics=[{"type": "standard", "metric": "numeric"}])
    project.answers([{"case": "capital", "response": "12 %"}])
    finished = project.run("run", "--target", "recorded:answers.jsonl")
    assert "numeric: the answer '12 %' has a percent sign, which needs accept_percent: true" in finished.stdout


def test_a_suite_may_have_more_than_a_thousand_cases(project: Project) -> None:
    project.numbered(1001)
    finished = project.run("validate")
    assert (finished.code, finished.stdout) == (0, "agent.yaml: valid: 1,001 cases, 1,001 turns\n")
