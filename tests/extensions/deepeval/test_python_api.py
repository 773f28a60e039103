"""The documents' Python API as a program uses it: inputs, settings and results of evaluators, DeepEval beside them."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import holodeck_action.compat
from tests.extensions.deepeval.test_documented import judge, printed
from tests.llm.models import KEY, FakeModels
from tests.tables import walk

assert holodeck_action.compat


pytestmark = [pytest.mark.needs("holodeck"), pytest.mark.models(answer=judge)]


@pytest.fixture
def config(models: FakeModels) -> Any:
    provider = named("holodeck.models.llm", "ProviderEnum").OPENAI
    kind = named("holodeck.lib.evaluators.deepeval.config", "DeepEvalModelConfig")
    return kind(provider=provider, model_name="gpt-4o", api_key=KEY, endpoint=models.openai_url)


def named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def test_a_result_is_a_dict_that_json_takes() -> None:
    bleu = named("holodeck.lib.evaluators.nlp_metrics", "BLEUEvaluator")(threshold=0.5)
    result = asyncio.run(bleu.evaluate(response="a b c d", ground_truth="a b c d"))
    assert isinstance(result, dict)
    assert isinstance(result, named("holodeck.lib.evaluators.base", "EvaluationResult"))
    told = json.loads(json.dumps(result))
    assert (told["score"], told["bleu"], told["passed"], told["metric_name"]) == (1.0, 1.0, True, "bleu")
    assert {**result} == result


SUBCLASS = """
import asyncio, json, os
import holodeck_action.compat
from holodeck.lib.evaluators.deepeval import DeepEvalBaseEvaluator, DeepEvalModelConfig

class MyMetricEvaluator(DeepEvalBaseEvaluator):
    def _create_metric(self):
        from deepeval.metrics import AnswerRelevancyMetric

        return AnswerRelevancyMetric(threshold=self._threshold, model=self._model)

evaluator = MyMetricEvaluator(DeepEvalModelConfig(), threshold=0.7)
result = asyncio.run(evaluator.evaluate(query="What is Python?", response="A programming language.", ground_truth="A"))
os.environ["OPENAI_API_KEY"] = "sk-own"
from deepeval.config.settings import get_settings
from deepeval.metrics import FaithfulnessMetric
from deepeval.models import AnthropicModel, OpenAIModel

own = OpenAIModel(model="gpt-4o")
before = get_settings()
os.environ["OPENAI_MODEL_NAME"] = "gpt-4o-mini"
print(json.dumps([
    result["score"], evaluator.model_config.model_name, evaluator.threshold, type(evaluator.model).__name__,
    own.api_key.get_secret_value(), FaithfulnessMetric().model.name, AnthropicModel(api_key="k").load_model() is None,
    before.DEEPEVAL_RETRY_MAX_ATTEMPTS, get_settings() is before, type(os.environ).__name__, __import__.__module__,
]))
"""


def test_ones_own_metric_takes_either_names_and_deepeval_works_beside_it(tmp_path: Path, models: FakeModels) -> None:
    assert printed(tmp_path, models, SUBCLASS) == [
        1.0,
        "gpt-oss:20b",
        0.7,
        "OllamaModel",
        "sk-own",
        "gpt-4o-mini",
        False,
        2,
        False,
        "_Environ",
        "builtins",
    ]


def test_values_of_the_data_model_configure_and_are_evaluated(config: Any, models: FakeModels) -> None:
    api = "holodeck.lib.evaluators.deepeval"
    settings = named(api, "GEvalConfig")(name="Tone", criteria="polite", evaluation_steps=["Look."], threshold=0.9)
    tone = named(api, "GEvalEvaluator").from_config(settings, model_config=config)
    given = named(api, "EvaluationInput")(query="Hello?", response="Dear Sir", metadata={"id": 1})
    assert (given.input, given.actual_output) == ("Hello?", "Dear Sir")
    result = asyncio.run(tone.evaluate(given))
    assert (result["metric_name"], result["score"], result["passed"]) == ("GEval", 0.85, False)
    rag = named(api, "RAGMetricConfig")(threshold=0.2, include_reason=False, model_config=config)
    relevancy = named(api, "AnswerRelevancyEvaluator").from_config(rag)
    assert (relevancy.threshold, relevancy.model_config) == (0.2, config)
    assert asyncio.run(relevancy.evaluate(given, ground_truth="Good day"))["passed"]
    assert not any("Hello?" in str(request.body) and "id" in request.body for request in models.requests)


@pytest.mark.proves("EvaluationInput: input actual_output expected_output context retrieval_context metadata")
def test_every_input_reaches_the_test_case(config: Any) -> None:
    api = "holodeck.lib.evaluators.deepeval"
    seen: list[Any] = []

    class Looks(named(api, "DeepEvalBaseEvaluator")):  # type: ignore[misc]
        def _create_metric(self) -> Any:
            return self

        async def a_measure(self, test_case: Any, **_: Any) -> None:
            seen.append(test_case)

        score, reason = 1.0, "looked"

    given = named(api, "EvaluationInput")(
        query="q", response="a", ground_truth="t", context="c", retrieval_context=["r"], metadata={"m": 1}
    )
    assert asyncio.run(Looks(config).evaluate(given))["reasoning"] == "looked"
    (found,) = seen
    assert (found.input, found.actual_output, found.expected_output) == ("q", "a", "t")
    assert (found.context, found.retrieval_context) == (["c"], ["r"])
    assert given.metadata == {"m": 1}
    assert not found.metadata


NEEDS_QUESTION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GEvalEvaluator", {"name": "Tone", "criteria": "polite", "evaluation_steps": ["Look."]}),
    ("AnswerRelevancyEvaluator", {}),
    ("ContextualPrecisionEvaluator", {}),
    ("ContextualRecallEvaluator", {}),
    ("ContextualRelevancyEvaluator", {}),
)


@pytest.mark.parametrize(("name", "arguments"), NEEDS_QUESTION)
@pytest.mark.parametrize("question", [{}, {"input": ""}, {"query": " "}])
def test_a_value_without_a_question_is_graded_for_faithfulness_alone(
    config: Any, models: FakeModels, name: str, arguments: dict[str, Any], question: dict[str, str]
) -> None:
    api = "holodeck.lib.evaluators.deepeval"
    given = named(api, "EvaluationInput")(
        response="X is.", ground_truth="X.", retrieval_context=["X is.", "Else."], **question
    )
    with pytest.raises(named(api, "DeepEvalError").__base__, match="needs input") as refused:
        asyncio.run(named(api, name)(model_config=config, **arguments).evaluate(given))
    assert refused.value.code == "missing_input"
    assert models.requests == []
    faithful = named(api, "FaithfulnessEvaluator")(model_config=config)
    assert asyncio.run(faithful.evaluate(given))["passed"]


@pytest.mark.parametrize(("name", "arguments"), [*NEEDS_QUESTION, ("FaithfulnessEvaluator", {})])
def test_without_a_model_ollamas_grades_with_a_notice(
    models: FakeModels, monkeypatch: pytest.MonkeyPatch, name: str, arguments: dict[str, Any]
) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", models.ollama_url)
    case = {"input": "X?", "actual_output": "X is.", "expected_output": "X.", "retrieval_context": ["X is.", "Else."]}
    with pytest.warns(UserWarning, match="has no model_config: Ollama's gpt-oss:20b on this machine grades") as told:
        asyncio.run(named("holodeck.lib.evaluators.deepeval", name)(**arguments).evaluate(**case))
    assert len(told) == 1
    assert {request.model for request in models.requests} == {"gpt-oss:20b"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"provider": "openai"}, "model_name is required for openai"),
        ({"provider": "openai", "model_name": "m", "deployment_name": "d"}, "deployment_name has no effect"),
        ({"api_version": "2024-10-21"}, "api_version has no effect"),
    ],
)
def test_a_configuration_holds_nothing_without_effect(fields: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        named("holodeck.lib.evaluators.deepeval", "DeepEvalModelConfig")(**fields)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_keys_are_in_the_field_or_the_environment(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    kind = named("holodeck.lib.evaluators.deepeval", "DeepEvalModelConfig")
    variable = f"{provider.upper()}_API_KEY"
    monkeypatch.delenv(variable, raising=False)
    config = kind(provider=provider, model_name="a-model")
    with pytest.raises(Exception, match=variable):
        config.to_deepeval_model().load_model()
    monkeypatch.setenv(variable, "sk-environment")
    assert config.to_deepeval_model().load_model().api_key == "sk-environment"
    own = kind(provider=provider, model_name="a-model", api_key="sk-field")
    assert own.to_deepeval_model().load_model().api_key == "sk-field"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "sk-environment")
    with pytest.raises(ValueError, match="api_key is required"):
        kind(provider="azure_openai", model_name="m", endpoint="https://a.example", deployment_name="d")


def test_an_endpoint_counts_for_deepevals_own_class_of_anthropic() -> None:
    kind = named("holodeck.lib.evaluators.deepeval", "DeepEvalModelConfig")
    config = kind(provider="anthropic", model_name="claude-x", api_key="k", endpoint="http://127.0.0.1:1/claude")
    assert str(config.to_deepeval_model().load_model().base_url) == "http://127.0.0.1:1/claude/"


@pytest.mark.parametrize(
    "setting", [{"max_queue_size": 9}, {"max_export_batch_size": 9}, {"schedule_delay_millis": 900}]
)
def test_settings_of_an_export_have_no_effect_on_an_evaluator(config: Any, setting: dict[str, int]) -> None:
    traces = named("holodeck.models.observability", "TracingConfig")(**setting)
    (name,) = setting
    with pytest.raises(ValueError, match=f"observability_config.{name} has no effect"):
        named("holodeck.lib.evaluators.deepeval", "FaithfulnessEvaluator")(config, observability_config=traces)


def test_an_evaluator_of_ones_own_on_azures_base() -> None:
    api = "holodeck.lib.evaluators.azure_ai"

    class Own(named(api, "AzureAIEvaluator")):  # type: ignore[misc]
        async def _evaluate_impl(self, **given: Any) -> dict[str, Any]:
            return {"score": 0.5, "asked": self.model_config.azure_deployment, **given}

    config = named(api, "ModelConfig")(azure_endpoint="https://a.example", api_key="k", azure_deployment="judge")
    result = asyncio.run(Own(config, timeout=5.0).evaluate(query="q"))
    assert (result["Own"], result["asked"], result["query"]) == (0.5, "judge", "q")
    with pytest.raises(TypeError, match="is a base class"):
        named(api, "AzureAIEvaluator")(config)


@walk(
    ("name", "arguments", "told"),
    [
        ("GEvalConfig", {"name": "x", "criteria": " "}, "criteria"),
        ("GEvalConfig", {"name": "x", "criteria": "c", "threshold": 1.5}, "threshold"),
        ("GEvalConfig", {"name": "x", "criteria": "c", "evaluation_params": ["input"]}, "actual_output"),
        ("GEvalConfig", {"name": "x", "criteria": "c", "evaluation_params": ["actual_output", "mood"]}, "mood"),
        ("RAGMetricConfig", {"threshold": -0.1}, "threshold"),
        ("EvaluationInput", {"input": "x"}, "actual_output"),
    ],
)
def test_values_that_are_none_are_refused(name: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        named("holodeck.lib.evaluators.deepeval", name)(**arguments)


def test_the_parameters_that_a_judge_can_be_shown() -> None:
    assert named("holodeck.models.evaluation", "VALID_EVALUATION_PARAMS") == {
        "input",
        "actual_output",
        "expected_output",
        "context",
        "retrieval_context",
    }
