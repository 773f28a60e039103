"""The code grader metric: what a grade becomes, by the format's rules and the policy's."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.base import EvaluationError, EvaluationResult, RetryConfig, Use
from holodeck_action.metrics.code_grader import CodeMetric, Scale
from holodeck_action.metrics.computed import Grader
from holodeck_action.record.record import ToolInvocation
from holodeck_action.record.result_files import read_record
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.pool import WorkerPool
from tests.commands.project import Project
from tests.workers.support import run, write


def evaluate(
    folder: Path, returned: str, *, retry_config: RetryConfig | None = None, timeout: float | None = 60.0, **metric: Any
) -> EvaluationResult:
    """Evaluate an answer with a grader that returns an expression."""
    write(
        folder,
        f"""
        from holodeck.lib.test_runner.code_grader import GraderResult

        def check(ctx):
            return {returned}
        """,
    )
    config = CodeMetric(grader="checks:check", **metric)

    async def work(pool: WorkerPool) -> EvaluationResult:
        evaluator = Grader(config, Use(pool=pool, timeout=timeout), retry_config=retry_config)
        return await evaluator.evaluate(response="42", query="How many?")

    result = run(folder, work)
    assert isinstance(result, EvaluationResult)
    return result


@pytest.mark.parametrize(
    ("returned", "metric", "score", "passed", "reasoning"),
    [
        ("True", {}, True, True, "checks:check gave True"),
        ("False", {}, False, False, "checks:check gave False"),
        ("0.5", {}, 0.5, True, "checks:check gave 0.5; without a threshold 0.5 passes"),
        ("0.49", {}, 0.49, False, "checks:check gave 0.49; without a threshold 0.5 passes"),
        ("1", {}, 1.0, True, "checks:check gave 1; without a threshold 0.5 passes"),
        ("0.6", {"threshold": 0.7}, 0.6, False, "checks:check gave 0.6; the threshold is 0.7"),
        ("0.7", {"threshold": 0.7}, 0.7, True, "checks:check gave 0.7; the threshold is 0.7"),
        ("True", {"threshold": 0.7}, True, True, "checks:check gave True"),
        ("GraderResult(0.2, passed=True)", {"threshold": 0.7}, 0.2, True, "checks:check gave 0.2 and passed=True"),
        ("GraderResult(0.9, False, 'too long')", {}, 0.9, False, "too long"),
        ("GraderResult(0.9, reason='  ')", {}, 0.9, True, "checks:check gave 0.9; without a threshold 0.5 passes"),
        ("GraderResult(True)", {}, True, True, "checks:check gave True"),
        ("GraderResult(None, reason='seen')", {}, None, None, "seen"),
        ("GraderResult(None)", {}, None, None, "checks:check gave no score"),
        ("GraderResult(None, False)", {}, False, False, "checks:check gave no score and passed=False"),
        (
            "'good'",
            {"pass_values": ["good", "fair"]},
            "good",
            True,
            "checks:check gave 'good'; the passing values are good, fair",
        ),
        ("'bad'", {"pass_values": ["good"]}, "bad", False, "checks:check gave 'bad'; the passing values are good"),
        (
            "GraderResult('bad', True)",
            {"pass_values": ["good"]},
            "bad",
            True,
            "checks:check gave 'bad' and passed=True",
        ),
    ],
)
def test_grades(
    tmp_path: Path, returned: str, metric: dict[str, Any], score: object, passed: bool | None, reasoning: str
) -> None:
    result = evaluate(tmp_path, returned, **metric)
    assert (result.score, result.passed, result.reasoning) == (score, passed, reasoning)
    assert type(result.score) is type(score)
    assert result.raw_score is None


@pytest.mark.parametrize("confidence", [0, 0.8, 1.0])
def test_a_grader_can_say_how_sure_it_is(tmp_path: Path, confidence: float) -> None:
    found = evaluate(tmp_path, f"GraderResult(True, confidence={confidence!r})")
    assert (found.score, found.confidence) == (True, confidence)
    assert evaluate(tmp_path, "GraderResult(True)").confidence is None


@pytest.mark.parametrize(
    ("confidence", "told"), [("1.5", "the confidence 1.5"), ("'high'", "is of type str"), ("True", "is of type bool")]
)
def test_a_confidence_that_is_none_fails_the_evaluation(tmp_path: Path, confidence: str, told: str) -> None:
    with pytest.raises(EvaluationError, match=told):
        evaluate(tmp_path, f"GraderResult(True, confidence={confidence})")


def test_a_score_on_another_scale_is_normalised_and_kept(tmp_path: Path) -> None:
    scale = {"min": 1, "max": 5}
    three = evaluate(tmp_path, "3", scale=scale)
    assert (three.score, three.raw_score, three.passed) == (0.5, 3.0, True)
    assert three.reasoning == "checks:check gave 3; without a threshold 3 passes"
    assert evaluate(tmp_path, "2.9", scale=scale).passed is False
    four = evaluate(tmp_path, "4", scale=scale, threshold=4.5)
    assert (four.score, four.raw_score, four.passed) == (0.75, 4.0, False)


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    part=st.floats(0, 1),
    needed=st.none() | st.floats(0, 1),
)
def test_normalising_keeps_the_order_and_the_verdict(
    low: float, width: float, part: float, needed: float | None
) -> None:
    """The verdict compares on the grader's scale, whatever rounding the normalised score went through."""
    high = low + width
    raw = min(high, low + part * width)
    threshold = None if needed is None else min(high, low + needed * width)
    config = CodeMetric(grader="checks:check", scale=Scale(min=low, max=high), threshold=threshold)
    result = config._result({"kind": "bare", "score": raw}, "")
    assert isinstance(result.score, float)
    assert math.isclose(result.score, (raw - low) / (high - low), abs_tol=1e-9)
    assert result.passed == (result.score >= 0.5 if threshold is None else raw >= threshold)


@pytest.mark.parametrize(
    ("returned", "metric", "code", "message"),
    [
        (
            "7",
            {},
            "invalid_score",
            (
                "checks:check: grader returned the score 7, which is not from 0 to 1; give the metric a `scale` if "
                "the grader uses another range"
            ),
        ),
        (
            "GraderResult(float('nan'), passed=True)",
            {},
            "invalid_score",
            (
                "checks:check: grader returned the score nan, which is not from 0 to 1; give the metric a `scale` "
                "if the grader uses another range"
            ),
        ),
        (
            "-float('inf')",
            {"scale": {"min": 1, "max": 5}},
            "invalid_score",
            "checks:check: grader returned the score -inf, which is not from 1 to 5",
        ),
        (
            "10 ** 400",
            {"scale": {"min": 1, "max": 5}},
            "invalid_score",
            f"checks:check: grader returned the score 1{'0' * 39}, which is not from 1 to 5",
        ),
        (
            "'good'",
            {},
            "unsupported_type",
            "checks:check: grader returned unsupported type str (a category needs pass_values in the metric)",
        ),
        ("None", {}, "unsupported_type", "checks:check: grader returned unsupported type NoneType"),
        ("GraderResult(1.0, details={'x': object()})", {}, "not_json", None),
        ("1 / 0", {}, "raised", "checks:check: it raised ZeroDivisionError: division by zero (checks.py:5)"),
    ],
)
def test_evaluations_that_fail(
    tmp_path: Path, returned: str, metric: dict[str, Any], code: str, message: str | None
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(tmp_path, returned, **metric)
    assert caught.value.code == code
    if message is not None:
        assert caught.value.message == message


def test_details_and_output_are_kept(tmp_path: Path) -> None:
    result = evaluate(tmp_path, "(print('x' * 5000), GraderResult(1.0, details={'seen': [1]}))[1]")
    assert result.metadata == {"details": {"seen": [1]}, "output": "…" + "x" * 4095 + "\n"}
    assert evaluate(tmp_path, "True").metadata == {}


def test_a_failed_evaluation_says_where_and_what_was_printed(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(tmp_path, "print('here') or {}['x']")
    assert caught.value.context == {
        "type": "KeyError",
        "traceback": ["checks.py:5 in check: return print('here') or {}['x']"],
        "output": "here\n",
    }


def test_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(tmp_path, "[None for _ in iter(int, 1)]", timeout=0.3)
    assert caught.value.code == "timeout"
    assert caught.value.message == "checks:check: it took longer than 0.3 s; its process was ended"


def test_connection_trouble_is_tried_again_where_that_is_wanted(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        tries = []

        def attempt():
            tries.append(None)
            if len(tries) < 3:
                raise ConnectionResetError("try later")
            return len(tries) == 3

        def fail():
            tries.append(None)
            raise KeyError(len(tries))
        """,
        "service",
    )
    retries = RetryConfig(max_retries=3, base_delay=0.01)
    assert evaluate(tmp_path, "__import__('service').attempt()", retry_config=retries).score == 1.0
    with pytest.raises(EvaluationError, match=r"^checks:check: it raised ConnectionResetError: try later") as caught:
        evaluate(tmp_path, "__import__('service').attempt()", retry_config=RetryConfig(max_retries=0))
    assert caught.value.code == "raised"
    with pytest.raises(EvaluationError, match="it raised KeyError: 1 "):
        evaluate(tmp_path, "__import__('service').fail()", retry_config=retries)


def test_a_single_turn_case_shows_its_tool_calls_and_its_name(tmp_path: Path) -> None:
    """Single-turn graders see what multi-turn graders see."""
    write(
        tmp_path,
        """
        def check(ctx):
            (call,) = ctx.tool_invocations
            return (call.name, call.args, call.result, ctx.test_case_name, ctx.turn_config, ctx.retrieval_context) == (
                "subtract", {"a": 3}, "1", "difference", {"unit": "EUR"}, ("kept",)
            )
        """,
    )

    async def work(pool: WorkerPool) -> EvaluationResult:
        return await Grader(CodeMetric(grader="checks:check"), Use(pool=pool, timeout=60.0)).evaluate(
            actual_output="1",
            input="3 - 2?",
            tool_invocations=(ToolInvocation("subtract", {"a": 3}, "1"),),
            retrieval_context=("kept",),
            test_case_name="difference",
            turn_index=0,
            turn_config={"unit": "EUR"},
        )

    assert run(tmp_path, work).passed is True


@pytest.mark.full
def test_a_grader_sees_the_metadata_of_replies_and_the_session(project: Project) -> None:
    project.write(
        "desk.py",
        """
def answer(messages, request):
    if request["name"] == "plain":
        return "Hi!"
    return {"response": "Hi!", "metadata": {"said in": request["session"], "turn": request["turn"]}}
""",
    )
    project.write(
        "checks.py",
        """
def live(ctx):
    seen = [(each.metadata["turn"], each.metadata["said in"]) for each in (*ctx.earlier_turns, ctx)]
    return len(ctx.session) == 36 and seen == [(turn, ctx.session) for turn in range(ctx.turn_index + 1)]


def stored(ctx):
    return ctx.metadata["turn"] == ctx.turn_index


def plain(ctx):
    return ctx.metadata is None
""",
    )
    live, stored, plain = ({"type": "code", "grader": f"checks:{name}"} for name in ("live", "stored", "plain"))
    talk = {"name": "talk", "turns": [{"input": "I am Ann."}, {"input": "Who am I?"}], "evaluations": [live, stored]}
    project.suite([talk, {"name": "plain", "input": "Hello.", "evaluations": [plain]}], [])
    project.policy(target="python:desk:answer")
    finished, _ = project.evaluate()
    assert finished.code == 0, finished.stdout + finished.stderr
    again = project.run("rejudge", "out/results.json", "-o", "again")
    assert again.code == 3, again.stdout + again.stderr
    turns = read_record(project.folder / "again" / "results.json").cases[0].trials[0].turns
    # The session belongs to the run, but metadata are in the record.
    assert [[each.score for each in turn.evaluations] for turn in turns] == [[None, True], [None, True]]


@pytest.mark.full
def test_a_grader_sees_the_turns_before_and_may_not_read_calls_that_are_unknown(project: Project) -> None:
    project.write(
        "checks.py",
        """
def remembers(ctx):
    if not ctx.earlier_turns:
        return True
    first, *rest = ctx.earlier_turns
    return (first.turn_input, first.agent_response, first.turn_index, len(rest)) == ("I am Ann.", "Hi!", 0, 0)


def looks(ctx):
    return all(turn.tool_invocations == () for turn in ctx.earlier_turns)
""",
    )
    graders = [{"type": "code", "grader": f"checks:{name}"} for name in ("remembers", "looks")]
    project.suite([{"name": "talk", "turns": [{"input": "I am Ann."}, {"input": "Who am I?"}]}], graders)
    project.policy(target="recorded:answers.jsonl")
    second = {"case": "talk", "turn": 1, "response": "Ann.", "tool_invocations": []}
    project.answers([{"case": "talk", "turn": 0, "response": "Hi!"}, second])
    finished, record = project.evaluate()
    assert finished.code == 3
    found = [each for turn in record.cases[0].trials[0].turns for each in turn.evaluations or ()]
    assert [each.score for each in found] == [True, True, True, None]
    assert "checks:looks reads tool calls" in str(found[-1].error)
    project.answers([{"case": "talk", "turn": 0, "response": "Hi!", "tool_invocations": []}, second])
    assert project.evaluate()[0].code == 0


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": "bare"},
        {"kind": "bare", "score": [1]},
        {"kind": "verdict", "score": 1.0, "passed": 1, "reason": None, "details": None, "confidence": None},
        {"kind": "verdict", "score": 1.0, "passed": None, "reason": 3, "details": None},
        ["bare", 1.0],
    ],
)
def test_a_forged_grade_is_no_grade(forged: object) -> None:
    with pytest.raises(EvaluationError) as caught:
        CodeMetric(grader="checks:check")._result(forged, "")
    assert caught.value.message == "checks:check: its process sent an invalid grade"


def test_a_run_keeps_booleans_and_how_sure_the_grader_is(project: Project) -> None:
    project.write(
        "graders.py",
        """
from holodeck.lib.test_runner.code_grader import GraderResult
import os

def sure(ctx):
    return GraderResult(os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] == "1", confidence=0.9)
""",
    )
    project.suite([{"name": "a", "input": "q"}], [{"type": "code", "grader": "graders:sure"}])
    project.answers([{"case": "a", "response": "yes"}])
    gate = {"metrics": {"sure": {"min_mean": 1.0}}}
    project.policy(target="recorded:answers.jsonl", gates=gate)
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stdout + finished.stderr
    (found,) = record.cases[0].trials[0].turns[0].evaluations
    assert (found.score, found.confidence) == (True, 0.9)
    assert isinstance(found.score, bool)
    done = project.run("report", "--format", "json", "out/results.json")
    assert done.code == 0, done.stderr
    assert '"stated":1' in done.stdout.replace(" ", "")


def test_the_job_decides_whether_deepeval_tells_of_its_use() -> None:
    assert job_environment({"GITHUB_TOKEN": "x"}) == {"DEEPEVAL_TELEMETRY_OPT_OUT": "1"}
    assert job_environment({"DEEPEVAL_TELEMETRY_OPT_OUT": "0"}) == {"DEEPEVAL_TELEMETRY_OPT_OUT": "0"}


@pytest.mark.full
def test_scores_of_a_grader_whose_code_has_changed_are_not_compared(project: Project) -> None:
    """Line ends are no change, nor is a module that only hands the grader on."""
    code = "def grade(context):\n    return {}\n"
    project.numbered(2)
    project.suite([{"name": f"case {n}", "input": "?"} for n in range(2)], [{"type": "code", "grader": "shown:grade"}])
    project.write("shown.py", "from checks import grade\n")
    said = {}
    for name, text in (
        ("base", code.format("0.9")),
        ("ends", code.replace("\n", "\r\n").format("0.9")),
        ("other", code.format("0.8")),
    ):
        project.write("checks.py", text)
        assert project.run("run", "-o", name).code == 0
        said[name] = project.run("compare", "base", name).stdout
    changed = re.search(
        (
            r"grade is not compared: its version is 1\.0\.0, code (\w{12}) now, but was 1\.0\.0, code "
            r"(\w{12})"
        ),
        said["other"],
    )
    assert changed is not None, said["other"]
    assert changed[1] != changed[2]
    assert "its version is" not in said["ends"]


FORGING = """
import os, struct, sys, time

def grade(context):
    frame = sys._getframe()
    while not isinstance(frame.f_locals.get("request"), dict):
        frame = frame.f_back
    nested = '{"a":' * LEVELS + "1" + "}" * LEVELS
    body = '{"id": %d, "value": {"score": 1.0, "metadata": %s}}' % (frame.f_locals["request"]["id"], nested)
    for name in os.listdir("/proc/self/fd"):
        if os.path.islink(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
            os.write(int(name), struct.pack(">I", len(body)) + body.encode())
    time.sleep(60)
"""


@pytest.mark.parametrize("levels", [300, 900, 5000])
def test_a_forged_answer_that_is_nested_too_deeply_is_told(project: Project, levels: int) -> None:
    project.suite([{"name": "a", "input": "?"}], [{"type": "code", "grader": "forging:grade"}])
    project.answers([{"case": "a", "response": "!"}])
    project.policy(target="recorded:answers.jsonl")
    project.write("forging.py", FORGING.replace("LEVELS", str(levels)))
    finished = project.run("run", "-o", "out")
    assert finished.code == 3
    assert "forging:grade: its process sent an invalid answer: it is nested too deeply; it was ended" in (
        finished.stdout
    )


def test_a_grader_in_a_composite_is_imported_when_the_suite_is_loaded(project: Project) -> None:
    project.suite(
        [{"name": "a", "input": "?"}], [{"type": "composite", "metrics": [{"type": "code", "grader": "checks:gone"}]}]
    )
    project.write("checks.py", "def check(ctx): return True\n")
    project.policy(target="recorded:answers.jsonl")
    finished = project.run("validate")
    assert finished.code == 2
    assert "checks:gone: the module checks has no gone" in finished.stderr
