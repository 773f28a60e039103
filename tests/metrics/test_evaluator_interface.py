"""The evaluator interface: parameters, results, retries, deadlines."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.llm.limits.pauses import Deadline, stop_during_calls
from holodeck_action.metrics.base import (
    DEEPEVAL_PARAMS,
    BaseEvaluator,
    DeepEvalError,
    EvalParam,
    EvaluationError,
    EvaluationResult,
    NLPMetricsError,
    ParamSpec,
    ProviderNotSupportedError,
    RetryConfig,
)
from holodeck_action.metrics.computed import ComputedMetric, Grader
from holodeck_action.metrics.text_similarity import BLEUEvaluator, F1Metric, METEOREvaluator, ROUGEEvaluator
from tests.tables import walk

FAST = RetryConfig(max_retries=4, base_delay=0.001)


class Scripted(BaseEvaluator):
    """Gives or raises what a script says, one entry per attempt."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}), optional=frozenset({EvalParam.INPUT}))

    def __init__(
        self,
        *script: EvaluationResult | Mapping[str, Any] | Exception,
        timeout: float | None = 60.0,
        retry_config: RetryConfig = FAST,
    ) -> None:
        super().__init__(timeout=timeout, retry_config=retry_config)
        self.script = list(script)
        self.received: list[dict[str, Any]] = []

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult | Mapping[str, Any]:
        self.received.append(kwargs)
        outcome = self.script.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def evaluate(evaluator: BaseEvaluator, **kwargs: Any) -> EvaluationResult:
    return asyncio.run(evaluator.evaluate(**kwargs))


@walk(
    ("given_names", "seen"),
    [
        ({"response": "a", "query": "b"}, {"response": "a", "input": "b"}),
        ({"actual_output": "a", "input": "b"}, {"response": "a", "input": "b"}),
        ({"response": "a", "actual_output": "a"}, {"response": "a"}),
        ({"response": "", "query": None}, {"response": ""}),
        ({"response": "a", "anything": 1}, {"response": "a", "anything": 1}),
    ],
)
def test_both_naming_conventions_reach_the_declared_name(given_names: dict[str, Any], seen: dict[str, Any]) -> None:
    evaluator = Scripted({"score": 1.0})
    evaluate(evaluator, **given_names)
    assert evaluator.received == [seen]


def test_a_missing_required_parameter_is_named() -> None:
    for names in ({}, {"response": None}, {"query": "x"}):
        evaluator = Scripted({"score": 1.0})
        with pytest.raises(
            EvaluationError, match=r"^Scripted needs response \(or actual_output\), which was not given$"
        ):
            evaluate(evaluator, **names)
        assert evaluator.received == []


def test_two_values_for_one_parameter_are_refused() -> None:
    with pytest.raises(EvaluationError, match="two names of the same parameter"):
        evaluate(Scripted({"score": 1.0}), response="a", actual_output="b")


def test_a_deterministic_evaluator_leaves_out_what_is_for_others_and_refuses_what_is_nothing() -> None:
    result = evaluate(BLEUEvaluator(), response="a b", ground_truth="a b", query="?", retrieval_context=["x"])
    assert result["bleu"] == 1.0
    with pytest.raises(EvaluationError, match="has no parameter 'grund_truth'"):
        evaluate(BLEUEvaluator(), response="a", ground_truth="b", grund_truth="c")


def test_param_spec() -> None:
    assert BLEUEvaluator.get_param_spec().required == {EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}
    assert not BLEUEvaluator.get_param_spec().uses_deepeval_params()
    spec = ParamSpec(required=frozenset({EvalParam.RESPONSE}), optional=frozenset({EvalParam.INPUT}), uses_context=True)
    assert spec.uses_deepeval_params()
    assert (spec.uses_context, spec.uses_retrieval_context) == (True, False)
    assert {param.value for param in DEEPEVAL_PARAMS} == {"input", "actual_output", "expected_output"}
    assert str(EvalParam.RETRIEVAL_CONTEXT.value) == "retrieval_context"


def test_transient_failures_are_tried_again() -> None:
    evaluator = Scripted(ConnectionError("reset"), TimeoutError(), OSError("busy"), {"score": 0.5})
    assert evaluate(evaluator, response="a").score == 0.5
    assert len(evaluator.received) == 4


def test_retries_end() -> None:
    evaluator = Scripted(*[ConnectionError("reset")] * 4, {"score": 0.5})
    with pytest.raises(EvaluationError, match=r"^Scripted failed after 4 attempts: ConnectionError: reset$") as caught:
        evaluate(evaluator, response="a")
    assert caught.value.code == "retries_exhausted"
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert len(evaluator.received) == 4


@walk("error", [ValueError("bad"), FileNotFoundError("gone"), KeyError("x"), PermissionError("no")])
def test_lasting_failures_are_not(error: Exception) -> None:
    evaluator = Scripted(error, {"score": 0.5})
    with pytest.raises(EvaluationError, match=f"Scripted failed: {type(error).__name__}") as caught:
        evaluate(evaluator, response="a")
    assert caught.value.__cause__ is error
    assert len(evaluator.received) == 1


@walk(("max_retries", "attempts"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_max_retries_counts_attempts_as_holodeck_does(max_retries: int, attempts: int) -> None:
    config = RetryConfig(max_retries=max_retries, base_delay=0.001)
    evaluator = Scripted(*[ConnectionError("reset")] * 5, retry_config=config)
    with pytest.raises(EvaluationError, match=f"failed after {attempts} attempts?: "):
        evaluate(evaluator, response="a")
    assert len(evaluator.received) == config.attempts == attempts


def test_delays_double_up_to_the_limit() -> None:
    assert list(RetryConfig().delays()) == [2.0, 4.0]
    assert list(RetryConfig(max_retries=6, max_delay=10.0).delays()) == [2.0, 4.0, 8.0, 10.0, 10.0]
    assert max(RetryConfig(max_retries=5000, exponential_base=10.0).delays()) == 60.0


@walk(
    "settings",
    [{"max_retries": -1}, {"base_delay": 0}, {"max_delay": -2.0}, {"base_delay": math.nan}, {"exponential_base": 0.5}],
)
def test_impossible_retry_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        RetryConfig(**settings)


class Endless(BaseEvaluator):
    async def _evaluate_impl(self, **kwargs: Any) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {"score": 1.0}


class Spinning(ComputedMetric):
    """Computes until it is told to stop."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))
    type: Literal["spinning"] = "spinning"
    stop: ClassVar[threading.Event] = threading.Event()

    def compute(self, **given: Any) -> EvaluationResult:
        self.stop.wait()
        return EvaluationResult(1.0)


@pytest.mark.parametrize(("given_s", "told"), [(0.0, "took longer than 60 s"), (60.0, "failed after 1 attempt")])
def test_what_fails_once_the_callers_deadline_is_over_took_too_long(given_s: float, told: str) -> None:
    once = RetryConfig(max_retries=0)

    async def late() -> None:
        with stop_during_calls(Deadline(given_s)):
            await Scripted(ConnectionError("cut off"), retry_config=once).evaluate(response="x")

    with pytest.raises((TimeoutError, EvaluationError), match=told) as caught:
        asyncio.run(late())
    assert isinstance(caught.value, TimeoutError) is (given_s == 0)


def test_the_deadline_ends_an_evaluation() -> None:
    with pytest.raises(TimeoutError, match=r"^Endless took longer than 0.01 s$"):
        evaluate(Endless(timeout=0.01))
    with pytest.raises(TimeoutError, match=r"^SpinningEvaluator took longer than 0.01 s$"):
        evaluate(Grader(Spinning(), timeout=0.01), response="a")
    Spinning.stop.set()


def test_the_deadline_covers_the_retries() -> None:
    slow = RetryConfig(max_retries=2, base_delay=30.0)
    with pytest.raises(TimeoutError):
        evaluate(Scripted(ConnectionError(), {"score": 1.0}, timeout=0.01, retry_config=slow), response="a")


def test_no_timeout_means_no_limit() -> None:
    assert evaluate(Scripted({"score": 1.0}, timeout=None), response="a").score == 1.0
    for timeout in (0, -1, math.nan):
        with pytest.raises(ValueError, match="timeout must be"):
            Scripted(timeout=timeout)


def test_the_event_loop_goes_on_during_a_computation() -> None:
    class Waiting(ComputedMetric):
        type: Literal["waiting"] = "waiting"

        def compute(self, **given: Any) -> EvaluationResult:
            assert reached.wait(60)
            return EvaluationResult(1.0)

    reached = threading.Event()

    async def both() -> float:
        evaluation = asyncio.create_task(Grader(Waiting()).evaluate())
        await asyncio.sleep(0)
        reached.set()
        return float((await evaluation)["score"])

    assert asyncio.run(both()) == 1.0


HANGING = """
import asyncio, time
from holodeck_action.metrics.computed import ComputedMetric, Grader

class HangingMetric(ComputedMetric):
    def compute(self, **given):
        while True:
            time.sleep(0.01)

try:
    asyncio.run(Grader(HangingMetric(), timeout=0.05).evaluate())
except TimeoutError as error:
    print(error)
"""


@pytest.mark.races
def test_a_hanging_computation_cannot_hold_up_the_exit() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        raise
    assert output == "HangingEvaluator took longer than 0.05 s\n"
    assert process.returncode == 0


unit = st.floats(0, 1)


@given(unit, unit, st.sampled_from(["maximize", "minimize"]))
def test_passed_follows_from_score_and_threshold(score: float, threshold: float, polarity: Any) -> None:
    result = EvaluationResult(score, threshold=threshold, polarity=polarity)
    expected = score >= threshold if polarity == "maximize" else score <= threshold
    assert result.passed is expected
    with pytest.raises(EvaluationError, match="gave passed="):
        EvaluationResult(score, passed=not expected, threshold=threshold, polarity=polarity)


@pytest.mark.parametrize(
    "score", [math.nan, math.inf, -math.inf, -0.001, 1.001, 8, -1, pytest.param(10**5000, id="huge")]
)
def test_what_is_no_score_is_refused(score: float) -> None:
    with pytest.raises(EvaluationError, match="which is not a number from 0 to 1") as caught:
        EvaluationResult(score)
    assert caught.value.code == "invalid_score"
    with pytest.raises(EvaluationError, match="not a number from 0 to 1"):
        evaluate(Scripted({"score": score}), response="a")


@pytest.mark.parametrize("score", [True, "good", None])
def test_booleans_categories_and_explanations_are_no_numbers(score: Any) -> None:
    result = EvaluationResult(score, passed=None, threshold=0.5)
    assert (result.score, result.passed) == (score, None)


def test_a_result_reads_like_a_mapping() -> None:
    result = EvaluationResult(
        0.25, metric_name="rouge", threshold=0.5, reasoning="why", metadata={"rouge1": 0.75, "score": "hidden"}
    )
    assert result["score"] == result["rouge"] == 0.25
    assert (result["passed"], result["reasoning"], result["rouge1"]) == (False, "why", 0.75)
    assert result.get("nothing", 7) == 7
    with pytest.raises(KeyError):
        result["nothing"]
    assert dict(result)["metadata"] == {"rouge1": 0.75, "score": "hidden"}
    assert len(result) == len(dict(result)) == len(list(result))
    with pytest.raises(AttributeError):
        result.score = 1.0  # type: ignore[misc]


def test_the_reason_is_never_empty() -> None:
    for reasoning in ("", " \n"):
        assert EvaluationResult(0.5, reasoning=reasoning, metric_name="m").reasoning == (
            "m gave 0.5 without an explanation"
        )
    assert evaluate(Scripted({"score": 1.0, "reasoning": None}), response="a").reasoning


def test_plain_mappings_become_results() -> None:
    outcome = {"Scripted": 0.5, "threshold": 0.4, "extra": [1], "metadata": {"more": 2}, "evaluation_steps": ["a", "b"]}
    result = evaluate(Scripted(outcome), response="a")
    assert (result.score, result.passed, result.evaluation_steps) == (0.5, True, ("a", "b"))
    assert dict(result.metadata) == {"more": 2, "extra": [1]}


@walk("outcome", [None, 0.5, {}, {"passed": True}, "good"])
def test_an_outcome_without_a_score_is_refused(outcome: Any) -> None:
    with pytest.raises(EvaluationError, match="must return an EvaluationResult or a mapping with a score"):
        evaluate(Scripted(outcome), response="a")


def test_errors_carry_what_the_documents_say() -> None:
    cause = ValueError("x")
    judge = DeepEvalError("failed", "GEval", cause, {"input": "…"})
    assert (str(judge), judge.metric_name, judge.original_error) == ("failed", "GEval", cause)
    assert DeepEvalError("failed", "GEval").test_case_summary == {}
    provider = ProviderNotSupportedError("no", "AzureAIEvaluator", "openai", ["azure_openai"])
    assert (provider.evaluator_type, provider.configured_provider) == ("AzureAIEvaluator", "openai")
    assert provider.supported_providers == ["azure_openai"]
    for error in (judge, provider, NLPMetricsError("x")):
        assert isinstance(error, EvaluationError)


@walk(
    ("evaluator", "metric"),
    [
        (BLEUEvaluator(), "bleu"),
        (ROUGEEvaluator(), "rouge"),
        (METEOREvaluator(), "meteor"),
        (Grader(F1Metric(metric="f1_score")), "f1_score"),
    ],
)
def test_text_metrics_have_no_verdict_without_a_threshold(evaluator: Grader, metric: str) -> None:
    result = evaluate(evaluator, response="green tea", ground_truth="black coffee")
    assert (result[metric], result.passed, result.threshold) == (0.0, None, None)
    assert result.reasoning.startswith(f"{evaluator.config.title} of the response against the ground truth is 0.0000")
    same = evaluate(evaluator, response="a b c d e f g h", ground_truth="a b c d e f g h")
    assert isinstance(same.score, float)
    assert same.score > 0.99
    assert evaluate(evaluator, response="", ground_truth="tea").score == 0.0


def test_rouge_scores_the_chosen_variant_and_tells_all() -> None:
    texts = {"response": "The cat sat on the mat", "ground_truth": "The cat is on the mat"}
    found = {variant: evaluate(ROUGEEvaluator(variant=variant), **texts) for variant in ("rouge1", "rouge2", "rougeL")}
    for variant, result in found.items():
        assert result.score == result[variant]
    assert {(result["rouge1"], result["rouge2"], result["rougeL"]) for result in found.values()} == {
        (5 / 6, 0.6, 5 / 6)
    }
    with pytest.raises(ValueError, match='variant: "rouge3" is not allowed'):
        ROUGEEvaluator(variant="rouge3")


def test_the_stemmer_is_off_by_default() -> None:
    texts = {"response": "running dogs", "ground_truth": "run dog"}
    assert evaluate(ROUGEEvaluator(), **texts).score == 0.0
    assert evaluate(ROUGEEvaluator(use_stemmer=True), **texts).score == 1.0


@walk("threshold", [math.nan, -0.1, 1.1, math.inf])
def test_a_threshold_that_no_score_meets_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"^threshold: |the highest score is 1"):
        BLEUEvaluator(threshold=threshold)


def test_only_texts_are_scored() -> None:
    with pytest.raises(NLPMetricsError, match="BLEUEvaluator compares texts, but response is of type int"):
        evaluate(BLEUEvaluator(), response=5, ground_truth="5")
