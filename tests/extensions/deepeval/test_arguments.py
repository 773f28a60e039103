"""Every argument of HoloDeck's documented evaluators, and every field of their configurations, changes what comes."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from holodeck_action.extensions.azure.base import ModelConfig
from holodeck_action.extensions.azure.metrics import FluencyEvaluator
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.entities import GEvalConfig, RAGMetricConfig
from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
from holodeck_action.extensions.deepeval.rag import (
    AnswerRelevancyEvaluator,
    ContextualPrecisionEvaluator,
    ContextualRecallEvaluator,
    ContextualRelevancyEvaluator,
    FaithfulnessEvaluator,
)
from holodeck_action.extensions.deepeval.rubric import build_rubric
from holodeck_action.extensions.tracing.settings import Traces
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import BaseEvaluator, EvaluationError, RetryConfig
from holodeck_action.metrics.deterministic import EqualityEvaluator, NumericEvaluator
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.metrics.text_similarity import BLEUEvaluator, METEOREvaluator, ROUGEEvaluator
from tests.fields.test_judged import TRUTH, judge
from tests.llm.ahead import run_ahead
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.llm.models.values import Reply
from tests.llm.wiring import opened
from tests.metrics.documented import EVALUATORS
from tests.tables import walk

OTHER_KEY = "sk-arguments-other"


@dataclass(frozen=True)
class Servers:
    """Two servers; the environment names the second one where an address is left out."""

    named: FakeModels
    other: FakeModels

    @property
    def requests(self) -> list[Request]:
        return [*self.named.requests, *self.other.requests]


Look = Callable[[Servers, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Try:
    """What is seen without an argument and with it."""

    look: Look
    given: Mapping[str, Any]
    seen: tuple[Any, Any]
    without: Mapping[str, Any] = field(default_factory=dict)


def answer(request: Request) -> Reply:
    if request.provider == "azure_openai" and "score" in request.text:
        harsh = request.model == "harsh-judge" or "harsh" in request.text
        return Answer(f'{{"reason": "so", "score": {2 if harsh else 4}, "status": "completed"}}')
    if "warm" in request.text:
        return Answer('{"reason": "so", "score": 3}')
    if request.text == "Who are you?":
        return Answer("a judge")
    return judge(request)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with FakeModels(keys=[KEY, OTHER_KEY]) as named, FakeModels(keys=[KEY, OTHER_KEY]) as other:
        for name, value in (
            ("OPENAI_API_KEY", KEY),
            ("OPENAI_BASE_URL", other.openai_url),
            ("OLLAMA_BASE_URL", other.ollama_url),
        ):
            monkeypatch.setenv(name, value)
        for models in (named, other):
            models.answer(answer)
        yield Servers(named, other)
        assert named.violations == other.violations == []


# -- looks


def result_of(evaluator: BaseEvaluator, **given: Any) -> EvaluationResult:
    return asyncio.run(evaluator.evaluate(**given))


def config(servers: Servers, given: Mapping[str, Any]) -> DeepEvalModelConfig:
    """OpenAI's judge at the first server, unless something else is given."""
    addresses = {"ollama": servers.named.ollama_url, "azure_openai": servers.named.azure_url}
    whole = {"provider": "openai", "model_name": "mild-judge", **given}
    whole.setdefault("endpoint", addresses.get(whole["provider"], servers.named.openai_url))
    return DeepEvalModelConfig(**{name: value for name, value in whole.items() if value is not None})


def geval(servers: Servers, given: Mapping[str, Any]) -> tuple[GEvalEvaluator, EvaluationResult]:
    whole: dict[str, Any] = {"name": "Tone", "criteria": "mild", "evaluation_steps": ["Read it."], **given}
    whole["model_config"] = config(servers, whole.get("model_config", {}))
    evaluator = GEvalEvaluator(**whole)
    return evaluator, result_of(evaluator, input="a harsh question", actual_output="an answer")


def score(servers: Servers, given: Mapping[str, Any]) -> Any:
    return geval(servers, given)[1].score


def passed(servers: Servers, given: Mapping[str, Any]) -> Any:
    return geval(servers, given)[1].passed


def name(servers: Servers, given: Mapping[str, Any]) -> Any:
    return geval(servers, given)[0].name


def of_config(what: Callable[[GEvalEvaluator, EvaluationResult], Any]) -> Look:
    """One thing about an evaluator that a `GEvalConfig` makes, and its result."""

    def look(servers: Servers, given: Mapping[str, Any]) -> Any:
        whole = {"name": "Tone", "criteria": "mild", "evaluation_steps": ["Read it."], **given}
        evaluator = GEvalEvaluator.from_config(GEvalConfig(**whole), model_config=config(servers, {}))
        return what(evaluator, result_of(evaluator, input="a harsh question", actual_output="an answer"))

    return look


def of_rag_config(servers: Servers, given: Mapping[str, Any]) -> Any:
    """Verdict, explanation and judge of an evaluator that a `RAGMetricConfig` makes."""
    servers.named.answer(half_relevant)
    whole = {**given, "model_config": config(servers, given.get("model_config", {}))}
    evaluator = AnswerRelevancyEvaluator.from_config(RAGMetricConfig(**whole))
    result = result_of(evaluator, input="a question", actual_output="an answer")
    return result.passed, result.reasoning == "as it is", result.metadata["judge"]


def score_of_a_shared_judge(servers: Servers, given: Mapping[str, Any]) -> Any:
    """The judge is one that somebody else made, and `model_config` is another."""

    async def ask() -> Any:
        async with opened() as wire:
            judge = JudgeModel(config(servers, given).plan(os.environ), wire) if given else None
            own = config(servers, {})
            evaluator = GEvalEvaluator("Tone", "mild", evaluation_steps=["Read it."], model_config=own, judge=judge)
            return (await evaluator.evaluate(actual_output="an answer")).score

    return asyncio.run(ask())


def relevancy(servers: Servers, given: Mapping[str, Any]) -> Any:
    """One of two statements is to the point."""
    evaluator = AnswerRelevancyEvaluator(model_config=config(servers, {}), **given)
    servers.named.answer(half_relevant)
    result = result_of(evaluator, input="a question", actual_output="an answer")
    return result.score, result.reasoning == "as it is"


def half_relevant(request: Request) -> Reply:
    if '"statements"' in request.text:
        return {"statements": ["one", "two"]}
    if '"verdicts"' in request.text:
        return {"verdicts": [{"verdict": "yes", "reason": "so"}, {"verdict": "no", "reason": "so"}]}
    return {"reason": "as it is"}


def reasons(kind: type[Any]) -> Look:
    """How many more calls give a reason."""

    def look(servers: Servers, given: Mapping[str, Any]) -> Any:
        before = len(servers.requests)
        case = {"input": "a question of case-1", "expected_output": TRUTH.case["expected_output"]}
        evaluator = kind(model_config=config(servers, {}), **given)
        result_of(evaluator, actual_output=TRUTH.case["actual_output"], retrieval_context=TRUTH.chunks, **case)
        return sum(
            "reason" in request.text and "verdict" not in str(request.schema) for request in servers.requests[before:]
        )

    return look


def asked(servers: Servers, given: Mapping[str, Any]) -> dict[str, Any]:
    """What our evaluator asks."""
    evaluator = GEvalEvaluator("Tone", "mild", evaluation_steps=["Read it."], model_config=config(servers, given))
    result_of(evaluator, actual_output="an answer")
    return shown(servers)


def asked_natively(servers: Servers, given: Mapping[str, Any]) -> dict[str, Any]:
    """What DeepEval's own class asks."""
    with warnings.catch_warnings():
        # DeepEval leaves its connections to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        config(servers, given).to_deepeval_model().generate("Who are you?")
        gc.collect()
    return shown(servers)


def shown(servers: Servers) -> dict[str, Any]:
    request = max(servers.requests, key=lambda found: found.time)
    temperature = request.body.get("temperature", request.body.get("options", {}).get("temperature"))
    return {
        "provider": request.provider,
        "model": request.model,
        "key": request.key,
        "query": request.query.get("api-version"),
        "temperature": temperature,
        "named": request in servers.named.requests,
    }


def both(what: str) -> Look:
    """One thing about the request of our evaluator, and of DeepEval's own class."""
    return lambda servers, given: (asked(servers, given)[what], asked_natively(servers, given)[what])


def fluency(what: Callable[[EvaluationResult], Any]) -> Look:
    def look(servers: Servers, given: Mapping[str, Any]) -> Any:
        return what(result_of(fluency_evaluator(servers, given), query="a question", response="an answer"))

    return look


def fluency_evaluator(servers: Servers, given: Mapping[str, Any]) -> FluencyEvaluator:
    return FluencyEvaluator(**{**given, "model_config": deployment(servers, given.get("model_config", {}))})


def deployment(servers: Servers, given: Mapping[str, Any]) -> ModelConfig:
    fields = {"azure_endpoint": servers.named.azure_url, "azure_deployment": "mild-judge", "api_key": KEY, **given}
    if fields["azure_endpoint"] == "the other":
        fields["azure_endpoint"] = servers.other.azure_url
    return ModelConfig(**fields)


def asked_for_fluency(what: str) -> Look:
    def look(servers: Servers, given: Mapping[str, Any]) -> Any:
        evaluator = fluency_evaluator(servers, {"model_config": given})
        result_of(evaluator, query="a question", response="an answer")
        return shown(servers)[what]

    return look


def fluency_of_a_shared_judge(servers: Servers, given: Mapping[str, Any]) -> Any:
    async def ask() -> Any:
        async with opened() as wire:
            judge = JudgeModel(deployment(servers, given).plan({}), wire) if given else None
            evaluator = FluencyEvaluator(deployment(servers, {}), judge=judge)
            return (await evaluator.evaluate(query="a question", response="an answer")).score

    return asyncio.run(ask())


def text(kind: type[BaseEvaluator], response: str, truth: str, what: str = "passed") -> Look:
    def look(servers: Servers, given: Mapping[str, Any]) -> Any:
        result = result_of(kind(**given), response=response, ground_truth=truth)
        return round(result[what], 4) if isinstance(result[what], float) else result[what]

    return look


class Late(BaseEvaluator):
    """Takes a while, or needs some attempts."""

    def __init__(self, failures: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._failures = failures

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if self._failures:
            self._failures -= 1
            raise ConnectionError("reset")
        await asyncio.sleep(0.03)
        return EvaluationResult(0.5)


def late(servers: Servers, given: Mapping[str, Any]) -> Any:
    try:
        return run_ahead(Late(0, **given).evaluate)[0].score
    except TimeoutError:
        return "too late"


def retried(servers: Servers, given: Mapping[str, Any]) -> Any:
    """The outcome of an evaluation that fails twice, with a tenth of a second for it."""
    fields = dict(given)
    retries = {} if fields.pop("without", False) else {"retry_config": RetryConfig(**fields)}
    try:
        return run_ahead(Late(2, timeout=0.15, **retries).evaluate)[0].score
    except TimeoutError:
        return "too late"
    except EvaluationError as error:
        return error.code


SHORT = {"base_delay": 0.001}
CLOUD = {"provider": "azure_openai", "deployment_name": "a-judge", "api_key": KEY}

TRIES: dict[str, Try] = {
    "BaseEvaluator.timeout": Try(late, {"timeout": 0.01}, (0.5, "too late")),
    "BaseEvaluator.retry_config": Try(retried, SHORT, ("too late", 0.5), {"without": True}),
    "RetryConfig.max_retries": Try(retried, {**SHORT, "max_retries": 2}, (0.5, "retries_exhausted"), SHORT),
    "RetryConfig.base_delay": Try(retried, SHORT, ("too late", 0.5)),
    "RetryConfig.max_delay": Try(retried, {"max_delay": 0.001}, ("too late", 0.5)),
    "RetryConfig.exponential_base": Try(retried, {**SHORT, "exponential_base": 900}, (0.5, "too late"), SHORT),
    "BLEUEvaluator.threshold": Try(text(BLEUEvaluator, "a b", "a c"), {"threshold": 0.9}, (None, False)),
    "ROUGEEvaluator.threshold": Try(text(ROUGEEvaluator, "a b", "a c"), {"threshold": 0.9}, (None, False)),
    "ROUGEEvaluator.variant": Try(
        text(ROUGEEvaluator, "b a", "a b", "score"), {"variant": "rouge1"}, (0.5, 1.0), {"variant": "rougeL"}
    ),
    "ROUGEEvaluator.use_stemmer": Try(
        text(ROUGEEvaluator, "walking", "walked", "score"), {"use_stemmer": True}, (0.0, 1.0)
    ),
    "METEOREvaluator.threshold": Try(text(METEOREvaluator, "a b", "a c"), {"threshold": 0.9}, (None, False)),
    "EqualityEvaluator.case_insensitive": Try(
        text(EqualityEvaluator, "A", "a"), {"case_insensitive": True}, (False, True)
    ),
    "EqualityEvaluator.strip_whitespace": Try(
        text(EqualityEvaluator, " a ", "a"), {"strip_whitespace": True}, (False, True)
    ),
    "EqualityEvaluator.strip_punctuation": Try(
        text(EqualityEvaluator, "a.", "a"), {"strip_punctuation": True}, (False, True)
    ),
    "EqualityEvaluator.threshold": Try(text(EqualityEvaluator, "a", "b"), {"threshold": 0.0}, (False, True)),
    "NumericEvaluator.absolute_tolerance": Try(
        text(NumericEvaluator, "1.1", "1"), {"absolute_tolerance": 0.2}, (False, True)
    ),
    "NumericEvaluator.relative_tolerance": Try(
        text(NumericEvaluator, "1.1", "1"), {"relative_tolerance": 0.2}, (False, True)
    ),
    "NumericEvaluator.accept_percent": Try(
        text(NumericEvaluator, "50%", "0.5"), {"accept_percent": True}, (False, True)
    ),
    "NumericEvaluator.accept_thousands_separators": Try(
        text(NumericEvaluator, "1,000", "1000"), {"accept_thousands_separators": True}, (False, True)
    ),
    "NumericEvaluator.threshold": Try(text(NumericEvaluator, "1", "2"), {"threshold": 0.0}, (False, True)),
    "DeepEvalBaseEvaluator.model_config": Try(score, {"model_config": {"model_name": "harsh-judge"}}, (0.8, 0.2)),
    "DeepEvalBaseEvaluator.threshold": Try(passed, {"threshold": 0.9}, (True, False)),
    "DeepEvalBaseEvaluator.judge": Try(score_of_a_shared_judge, {"model_name": "harsh-judge"}, (0.8, 0.2)),
    "GEvalEvaluator.name": Try(name, {"name": "Manners"}, ("Tone", "Manners")),
    "GEvalEvaluator.criteria": Try(
        score, {"evaluation_steps": None, "criteria": "harsh"}, (0.8, 0.2), {"evaluation_steps": None}
    ),
    "GEvalEvaluator.evaluation_params": Try(score, {"evaluation_params": ["actual_output", "input"]}, (0.8, 0.2)),
    "GEvalEvaluator.evaluation_steps": Try(score, {"evaluation_steps": ["Be harsh."]}, (0.8, 0.2)),
    "GEvalEvaluator.strict_mode": Try(
        score,
        {"evaluation_steps": ["Say 1."], "strict_mode": True},
        (0.1, 1.0),
        {"evaluation_steps": ["Say 1."]},
    ),
    "GEvalEvaluator.rubric": Try(
        score, {"rubric": build_rubric(["rude", "cool", "kind", "warm"])}, (0.8, pytest.approx(2 / 3))
    ),
    "GEvalEvaluator.polarity": Try(passed, {"polarity": "minimize"}, (True, False)),
    "GEvalConfig.name": Try(of_config(lambda made, found: made.name), {"name": "Manners"}, ("Tone", "Manners")),
    "GEvalConfig.criteria": Try(
        of_config(lambda made, found: found.score),
        {"evaluation_steps": None, "criteria": "harsh"},
        (0.8, 0.2),
        {"evaluation_steps": None},
    ),
    "GEvalConfig.evaluation_steps": Try(
        of_config(lambda made, found: found.score), {"evaluation_steps": ["Be harsh."]}, (0.8, 0.2)
    ),
    "GEvalConfig.evaluation_params": Try(
        of_config(lambda made, found: found.score), {"evaluation_params": ["actual_output", "input"]}, (0.8, 0.2)
    ),
    "GEvalConfig.threshold": Try(of_config(lambda made, found: found.passed), {"threshold": 0.9}, (True, False)),
    "GEvalConfig.strict_mode": Try(
        of_config(lambda made, found: found.score),
        {"evaluation_steps": ["Say 1."], "strict_mode": True},
        (0.1, 1.0),
        {"evaluation_steps": ["Say 1."]},
    ),
    "RAGMetricConfig.threshold": Try(
        of_rag_config, {"threshold": 0.9}, ((True, True, "openai/mild-judge"), (False, True, "openai/mild-judge"))
    ),
    "RAGMetricConfig.include_reason": Try(
        of_rag_config,
        {"include_reason": False},
        ((True, True, "openai/mild-judge"), (True, False, "openai/mild-judge")),
    ),
    "RAGMetricConfig.model_config": Try(
        of_rag_config,
        {"model_config": {"model_name": "other"}},
        ((True, True, "openai/mild-judge"), (True, True, "openai/other")),
    ),
    "FaithfulnessEvaluator.include_reason": Try(reasons(FaithfulnessEvaluator), {"include_reason": False}, (1, 0)),
    "AnswerRelevancyEvaluator.include_reason": Try(relevancy, {"include_reason": False}, ((0.5, True), (0.5, False))),
    "AnswerRelevancyEvaluator.strict_mode": Try(relevancy, {"strict_mode": True}, ((0.5, True), (0.0, True))),
    "ContextualRelevancyEvaluator.include_reason": Try(
        reasons(ContextualRelevancyEvaluator), {"include_reason": False}, (1, 0)
    ),
    "ContextualPrecisionEvaluator.include_reason": Try(
        reasons(ContextualPrecisionEvaluator), {"include_reason": False}, (1, 0)
    ),
    "ContextualRecallEvaluator.include_reason": Try(
        reasons(ContextualRecallEvaluator), {"include_reason": False}, (1, 0)
    ),
    "DeepEvalModelConfig.provider": Try(both("provider"), {"provider": "ollama"}, (("openai",) * 2, ("ollama",) * 2)),
    "DeepEvalModelConfig.model_name": Try(
        both("model"), {"model_name": "gpt-4o"}, (("mild-judge",) * 2, ("gpt-4o",) * 2)
    ),
    "DeepEvalModelConfig.api_key": Try(both("key"), {"api_key": OTHER_KEY}, ((KEY,) * 2, (OTHER_KEY,) * 2)),
    "DeepEvalModelConfig.endpoint": Try(both("named"), {}, ((False,) * 2, (True,) * 2), {"endpoint": None}),
    "DeepEvalModelConfig.api_version": Try(
        both("query"), {**CLOUD, "api_version": "2024-10-21"}, (("2024-02-15-preview",) * 2, ("2024-10-21",) * 2), CLOUD
    ),
    "DeepEvalModelConfig.deployment_name": Try(
        both("model"), {**CLOUD, "deployment_name": "another"}, (("a-judge",) * 2, ("another",) * 2), CLOUD
    ),
    "DeepEvalModelConfig.temperature": Try(both("temperature"), {"temperature": 0.7}, ((0.0,) * 2, (0.7,) * 2)),
    "AzureAIEvaluator.model_config": Try(
        fluency(lambda result: result.score), {"model_config": {"azure_deployment": "harsh-judge"}}, (0.75, 0.25)
    ),
    "AzureAIEvaluator.threshold": Try(fluency(lambda result: result.passed), {"threshold": 0.9}, (None, False)),
    "AzureAIEvaluator.custom_prompt": Try(
        fluency(lambda result: result.score), {"custom_prompt": "Be harsh."}, (0.75, 0.25)
    ),
    "AzureAIEvaluator.judge": Try(fluency_of_a_shared_judge, {"azure_deployment": "harsh-judge"}, (0.75, 0.25)),
    "ModelConfig.azure_endpoint": Try(asked_for_fluency("named"), {"azure_endpoint": "the other"}, (True, False)),
    "ModelConfig.api_key": Try(asked_for_fluency("key"), {"api_key": OTHER_KEY}, (KEY, OTHER_KEY)),
    "ModelConfig.azure_deployment": Try(
        asked_for_fluency("model"), {"azure_deployment": "another"}, ("mild-judge", "another")
    ),
    "ModelConfig.api_version": Try(
        asked_for_fluency("query"), {"api_version": "2024-10-21"}, ("2024-02-15-preview", "2024-10-21")
    ),
}


@pytest.mark.full
@pytest.mark.proves(*TRIES)
@pytest.mark.parametrize("key", TRIES)
def test_an_argument_counts(servers: Servers, key: str) -> None:
    each = TRIES[key]
    assert (each.look(servers, each.without), each.look(servers, each.given)) == each.seen


@walk("kind", EVALUATORS)
def test_every_evaluator_keeps_what_all_have(kind: type[Any]) -> None:
    taken = inspect.signature(kind).parameters
    azure = ModelConfig(azure_endpoint="https://a.openai.azure.com", azure_deployment="judge", api_key=KEY)
    all_have = {
        "timeout": 7.125,
        "threshold": 0.375,
        "observability_config": Traces(),
        "model_config": azure if "custom_prompt" in taken else DeepEvalModelConfig(model_name="other"),
    }
    given = {name: value for name, value in all_have.items() if name in taken}
    given["retry_config"] = RetryConfig(max_retries=1)
    named = {"name": "Tone", "criteria": "mild"} if "criteria" in taken else {}
    made = kind(**named, **given)
    kept = [*vars(made).values(), made.threshold]
    assert [name for name, value in given.items() if value not in kept] == []
