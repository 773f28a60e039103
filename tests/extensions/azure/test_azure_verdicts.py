"""Azure AI metrics: what judges may write, who may be one, and what happens when none answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holodeck_action.extensions.azure.base import AzureAIEvaluator, FivePointResult, ModelConfig
from holodeck_action.extensions.azure.metrics import EVALUATORS, GroundednessEvaluator
from holodeck_action.extensions.azure.metrics import RelevanceEvaluator as Relevance
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.llm.judge import JudgeModel, judge_plan
from holodeck_action.metrics.base import RetryConfig
from holodeck_action.metrics.errors import EvaluationError, ProviderNotSupportedError
from holodeck_action.suite.model.providers import LLMProvider, ProviderEnum
from tests.extensions.azure.azure_judge import config, evaluated, judging, verdict
from tests.extensions.azure.native_azure import case, score_of
from tests.llm.models import KEY, Answer, FakeModels, Fault
from tests.llm.wiring import opened

pytestmark = pytest.mark.models(answer=judging)
# -- what comes back


def judged(models: FakeModels, *texts: str | Answer, **given: Any) -> FivePointResult:
    models.script([text if isinstance(text, Answer) else Answer(text) for text in texts])
    return evaluated(Relevance(config(models)), **(given or case(1)))


BAD = {
    "off the scale": verdict(6),
    "below the scale": verdict(0),
    "negative": verdict(-1),
    "of ten": verdict("8/10"),
    "null": verdict(None),
    "true": verdict(True),
    "a word": verdict("five"),
    "several": verdict([5]),
    "not a number": verdict(float("nan")),
    "huge": verdict(10**400),
    "without score": json.dumps({"reason": "good", "status": "completed"}),
    "skipped": verdict(None).replace("completed", "skipped"),
    "skipped with a score": verdict(5).replace("completed", "skipped"),
    "two scores": '{"score": 1, "score": 5}',
    "no JSON": "I give it a 5.",
    "a list": "[5]",
    "a bare number": "5",
    "broken": '{"reason": "good", "score": 5',
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_an_unusable_verdict_is_asked_for_once_more_and_then_an_error(models: FakeModels, text: str) -> None:
    with pytest.raises(EvaluationError, match="gave no usable verdict twice: ") as caught:
        judged(models, text, text)
    assert caught.value.code == "bad_verdict"
    first, second = models.requests
    assert second.text.startswith(first.text)
    assert "An earlier answer to this could not be used: " in second.text
    assert judged(models, text, verdict(4)).raw_score == 4


def test_a_cut_verdict_is_none(models: FakeModels) -> None:
    cut = Answer(verdict(5), finish="length")
    with pytest.raises(EvaluationError, match="it stops at the token limit"):
        judged(models, cut, cut)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        (verdict("4"), 4),
        (verdict(3.5), 3.5),
        (f"```json\n{verdict(2)}\n```", 2),
        (f"Here it is: {verdict(1)} Bye.", 1),
        ('{"reason": "r", "score": 5,}', 5),
        ('{"score": 5}', 5),
    ],
)
def test_verdicts_may_be_written_carelessly(models: FakeModels, text: str, raw: float) -> None:
    result = judged(models, text)
    assert (result.raw_score, result.score) == (raw, (raw - 1) / 4)
    assert len(models.requests) == 1
    assert result.reasoning


def test_a_verdict_without_a_reason_gets_a_sentence(models: FakeModels) -> None:
    assert judged(models, verdict(2, "")).reasoning == "relevance gave the score 2 (maximum 5) without an explanation"
    assert judged(models, verdict(2, "").replace('""', "null")).reasoning


@pytest.mark.parametrize("answer", ["", " \n\t"])
@pytest.mark.parametrize("metric", EVALUATORS)
def test_an_empty_answer_gets_the_lowest_score_and_no_question(models: FakeModels, metric: str, answer: str) -> None:
    result = evaluated(EVALUATORS[metric](config(models), threshold=0.1), **{**case(1), "response": answer})
    assert (result.score, result.raw_score, result.passed, result.reasoning) == (0.0, 1.0, False, "the answer is empty")
    assert models.requests == []


MISSING = [(metric, name) for metric, kind in EVALUATORS.items() for name in sorted(kind.PARAM_SPEC.required)]


@pytest.mark.parametrize(("metric", "name"), MISSING)
def test_a_missing_input_is_named(models: FakeModels, metric: str, name: str) -> None:
    given = {key: value for key, value in case(1).items() if key != name}
    with pytest.raises(EvaluationError, match=f"Evaluator needs {name}") as caught:
        evaluated(EVALUATORS[metric](config(models)), **given)
    assert caught.value.code == "missing_input"
    assert models.requests == []


def test_either_naming_convention(models: FakeModels) -> None:
    given = case(2)
    names = {"query": "input", "response": "actual_output", "ground_truth": "expected_output"}
    renamed = {names.get(name, name): value for name, value in given.items()}
    for metric, kind in EVALUATORS.items():
        assert evaluated(kind(config(models)), **renamed).raw_score == score_of(2, metric)


# -- who grades


def test_other_providers_are_refused() -> None:
    for model in (
        DeepEvalModelConfig(),
        LLMProvider(provider="anthropic", name="claude"),
        DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name="gpt-4o", api_key=KEY),
    ):
        with pytest.raises(ProviderNotSupportedError) as caught:
            GroundednessEvaluator(model)  # type: ignore[arg-type]
        error = caught.value
        assert (error.evaluator_type, error.supported_providers) == ("GroundednessEvaluator", ["azure_openai"])
        assert error.configured_provider in ("ollama", "anthropic", "openai")
        assert error.code == "provider_not_supported"

    async def with_judge() -> None:
        async with opened() as wire:
            plan = judge_plan(LLMProvider(provider="ollama", name="m"), {}, path="model")
            Relevance(judge=JudgeModel(plan, wire))

    with pytest.raises(ProviderNotSupportedError, match="not of ollama"):
        asyncio.run(with_judge())


def test_what_cannot_be_configured() -> None:
    given = ModelConfig(azure_endpoint="https://a.example", api_key=KEY, azure_deployment="d")
    assert given.api_version == "2024-02-15-preview"
    assert KEY not in repr(given)
    with pytest.raises(TypeError, match="use a metric such as GroundednessEvaluator"):
        AzureAIEvaluator(given)
    with pytest.raises(TypeError, match="needs a ModelConfig, not NoneType"):
        Relevance()
    with pytest.raises(ValueError, match="threshold must be a number from 0 to 1"):
        Relevance(given, threshold=3)
    with pytest.raises(
        ValueError,
        match=(
            r"custom_prompt has a placeholder answer, .* it fills {{query}}, "
            r"{{response}}"
        ),
    ):
        Relevance(given, custom_prompt="Is {{ answer }} good?")


def test_transient_trouble_is_tried_again_and_the_key_is_not_told(models: FakeModels) -> None:
    quick = RetryConfig(max_retries=3, base_delay=0.01)
    models.script([Fault("unavailable"), Fault("rate_limit"), Answer(verdict(5))])
    assert evaluated(Relevance(config(models), retry_config=quick), **case(1)).score == 1
    models.script([Fault("unavailable")] * 3)
    with pytest.raises(EvaluationError) as caught:
        evaluated(Relevance(config(models), retry_config=quick), **case(1))
    assert caught.value.code == "retries_exhausted"
    before = len(models.requests)
    models.script([Fault("bad_key")])
    with pytest.raises(EvaluationError, match="refused the key") as caught:
        evaluated(Relevance(config(models), retry_config=quick), **case(1))
    assert len(models.requests) == before + 1
    assert (caught.value.code, caught.value.context["cause"]) == ("judge_failed", "authentication")
    assert KEY not in str(caught.value)


def test_a_refusal_is_an_error(models: FakeModels) -> None:
    models.script([Answer(refusal="I cannot grade this.")])
    with pytest.raises(EvaluationError, match="refused to judge: I cannot grade this") as caught:
        evaluated(Relevance(config(models)), **case(1))
    assert caught.value.code == "judge_failed"


def test_a_slow_judge_meets_the_time_limit(models: FakeModels) -> None:
    # The import of the library takes longer than this judge may, and is no time of it.
    models.script([Fault(wire="stall")])
    with pytest.raises(TimeoutError, match=r"RelevanceEvaluator took longer than 0\.5 s"):
        evaluated(Relevance(config(models), timeout=0.5), **case(1))
