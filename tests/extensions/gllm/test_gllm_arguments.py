"""Every argument of every public class of gllm-evals has an effect, or is refused by its name.

The arguments come from the signatures (`tests.metrics.documented`): one that is new fails here until it is tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from holodeck_action.compat import served_names
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.metrics.errors import EvaluationError
from tests.extensions.gllm.gllm import evaluated, metric, model, models, named
from tests.extensions.presets.preset_judge import PresetJudge, Truth
from tests.llm.models import FakeModels
from tests.metrics.documented import GLLM_ARGUMENTS, SERVED
from tests.tables import walk

__all__ = ["model", "models"]
pytestmark = pytest.mark.needs("holodeck")
TONE = {"Look at the tone.": "tone", "Look at the mood.": "tone"}
LEVELS = dict.fromkeys(
    ("completeness", "groundedness", "redundancy", "coherence", "consistency", "fluency", "relevance", "tone"), 2
)
BOOKED = [{"name": "search", "args": {"q": 1}}, {"name": "book", "args": {}}]
DATA = {
    "input": "Where [a]?",
    "actual_output": "Here [a].",
    "expected_output": "There [a].",
    "retrieved_context": ["one [a]", "two [a]"],
    "agent_trajectory": BOOKED[:1],
    "expected_agent_trajectory": BOOKED,
    "retrieved_chunks": ["x", "one"],
    "ground_truth_chunk_ids": ["one"],
}


@pytest.fixture
def judge() -> PresetJudge:
    """A judge that finds the middle in everything."""
    truth = Truth(LEVELS, chunks=("no", "yes"), sentences=("yes", "no"), trajectory="borderline")
    return PresetJudge({"a": truth}, steps=TONE)


class Seen:
    """What came of an evaluation."""

    def __init__(self, made: Any, models: FakeModels, data: Mapping[str, Any]) -> None:
        before = len(models.requests)
        self.made = made
        try:
            self.found, self.error = evaluated(made, data), ""
        except EvaluationError as error:
            self.found, self.error = {}, str(error)
        self.requests = models.requests[before:]
        self.peak = models.peak

    @property
    def asked(self) -> set[str]:
        return {request.model for request in self.requests}

    @property
    def texts(self) -> str:
        return " ".join(request.text for request in self.requests)

    def scores(self, found: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Score and success of every part, at any depth."""
        given = self.found if found is None else found
        own = (given.get("score"), given.get("aggregate_score"), given.get("success", given.get("aggregate_success")))
        parts = {name: self.scores(value) for name, value in given.items() if isinstance(value, Mapping)}
        return {"": own, **parts}

    def panels(self, found: Mapping[str, Any] | None = None) -> list[Any]:
        given = self.found if found is None else found
        own = [given["panel"]["aggregation"], given["panel"]["fallback_share"]] if "panel" in given else []
        return own + [each for value in given.values() if isinstance(value, dict) for each in self.panels(value)]


def nothing(model: DeepEvalModelConfig) -> dict[str, Any]:
    return {}


class Try(NamedTuple):
    """A value of an argument, and what it changes; `without` are the other arguments."""

    given: Callable[[DeepEvalModelConfig], Any]
    seen: Callable[[Seen], Any]
    without: Callable[[DeepEvalModelConfig], dict[str, Any]] = nothing
    data: Mapping[str, Any] = DATA


class Refused(NamedTuple):
    """A value that would have no effect."""

    given: Any


def other(model: DeepEvalModelConfig, name: str = "other", **fields: Any) -> DeepEvalModelConfig:
    return model.model_copy(update={"model_name": name, **fields})


def bleu() -> Any:
    return named("BLEUEvaluator", "holodeck.lib.evaluators.nlp_metrics")()


def rouge() -> Any:
    return named("ROUGEEvaluator", "holodeck.lib.evaluators.nlp_metrics")(threshold=0.1)


def scores(seen: Seen) -> Any:
    return seen.scores()


def panels(seen: Seen) -> Any:
    return seen.panels()


def asked(seen: Seen) -> Any:
    return seen.asked, seen.error


def together(seen: Seen) -> bool:
    return seen.peak > 1


def panel(model: DeepEvalModelConfig) -> dict[str, Any]:
    return {"models": [model, other(model)]}


def one_by_one(model: DeepEvalModelConfig) -> dict[str, Any]:
    """A panel whose metrics come one after the other, where that is a choice."""
    return {**panel(model), "run_parallel": False}


NEEDED: Mapping[str, Callable[[DeepEvalModelConfig], dict[str, Any]]] = {
    "BaseEvaluator": lambda model: {"name": "base", "metrics": [bleu()]},
    "BaseMetric": lambda model: {"name": "mine", "evaluator": bleu()},
    "ClassicalRetrievalEvaluator": lambda model: {},
    "ClassicalRetrievalMetric": lambda model: {"metric": "recall_at_k"},
    "CompositeEvaluator": lambda model: {"metrics": [bleu()]},
    "DeepEvalToolCorrectnessMetric": lambda model: {},
    "MetricsAggregator": lambda model: {},
}
"""What a class cannot do without; the others need a model."""

STRICT = {"threshold": 0.9}
CALLS_REVERSED = {**DATA, "agent_trajectory": BOOKED[::-1]}
OTHER_CALLS = {**DATA, "agent_trajectory": [{"name": "search", "args": {"q": 2}}, {"name": "book", "args": {}}]}
MAPPED = {"completeness": {1: 0.0, 2: 1.0, 3: 1.0}}

TRIES: Mapping[str, Try | Refused] = {
    "models": Try(other, asked),
    "fallback_models": Try(
        lambda model: [model],
        lambda seen: (seen.panels(), seen.error),
        lambda model: {"models": other(model, "broken", api_key="sk-wrong")},
    ),
    "aggregation_method": Try(lambda model: "median", panels, panel),
    "max_concurrent_judges": Try(lambda model: 1, together, one_by_one),
    "run_parallel": Try(lambda model: False, together),
    "parallel": Try(
        lambda model: False,
        together,
        lambda model: {"metrics": [metric("GEvalFluencyMetric")(model), metric("GEvalCoherenceMetric")(model)]},
    ),
    "threshold": Try(lambda model: 0.9, scores),
    "GEvalRedundancyMetric.threshold": Try(lambda model: 0.1, scores),
    "criteria": Try(lambda model: "Is it kind?", scores),
    "evaluation_steps": Try(lambda model: ["Look at the mood."], lambda seen: "Look at the mood." in seen.texts),
    "evaluation_params": Try(lambda model: ["actual_output"], lambda seen: "Where [a]?" in seen.texts),
    "rubric": Try(lambda model: ["bad", "poor", "fair", "good"], scores),
    "name": Try(lambda model: "renamed", lambda seen: seen.error, data={}),
    "metrics": Try(lambda model: [metric("GEvalFluencyMetric")(model, threshold=0.9)], scores),
    "ClassicalRetrievalEvaluator.metrics": Try(lambda model: ["recall_at_k"], scores),
    "enabled_metrics": Try(lambda model: ["contextual_recall"], scores),
    "refusal_metric": Try(lambda model: metric("GEvalRefusalMetric")(other(model)), asked),
    "completeness_metric": Try(lambda model: metric("GEvalCompletenessMetric")(**STRICT), scores),
    "groundedness_metric": Try(lambda model: metric("GEvalGroundednessMetric")(**STRICT), scores),
    "redundancy_metric": Try(lambda model: metric("GEvalRedundancyMetric")(threshold=0.1), scores),
    "score_mapping": Try(lambda model: MAPPED, scores),
    "score_weights": Try(lambda model: {"completeness": 5}, scores, lambda model: {"score_mapping": MAPPED}),
    "tool_correctness_metric": Try(lambda model: metric("DeepEvalToolCorrectnessMetric")(**STRICT), scores),
    "generation_evaluator": Try(
        lambda model: named("GEvalGenerationEvaluator")(metrics=[metric("GEvalCompletenessMetric")()]), scores
    ),
    "trajectory_accuracy_metric": Try(lambda model: metric("LangChainAgentTrajectoryAccuracyMetric")(), scores),
    "evaluator": Try(lambda model: rouge(), scores),
    "has_verdict": Try(
        lambda model: False,
        lambda seen: evaluated(named("CompositeEvaluator")([seen.made]), DATA)["aggregate_score"],
    ),
    "k": Try(lambda model: 1, scores),
    "metric": Try(lambda model: "precision_at_k", scores),
    "strict_mode": Try(lambda model: True, scores),
    "should_exact_match": Try(lambda model: True, scores),
    "should_consider_ordering": Try(lambda model: True, scores, data=CALLS_REVERSED),
    "DeepEvalToolCorrectnessMetric.evaluation_params": Try(
        lambda model: ["input_parameters"], scores, data=OTHER_CALLS
    ),
    "DeepEvalToolCorrectnessMetric.models": Refused("openai/gpt-4o"),
    "batch_status_check_interval": Refused(10.0),
    "batch_max_iterations": Refused(5),
    "metrics_aggregator": Refused(type("Own", (named("MetricsAggregator", "gllm_evals.metrics"),), {})()),
}
"""By argument, or by class and argument where a class differs."""


def tried(key: str) -> Try | Refused:
    _, kind, argument = key.split(".")
    return TRIES.get(f"{kind}.{argument}") or TRIES[argument]


@pytest.mark.proves(*GLLM_ARGUMENTS)
@pytest.mark.parametrize("key", GLLM_ARGUMENTS)
def test_an_argument_counts_or_is_refused(models: FakeModels, model: DeepEvalModelConfig, key: str) -> None:
    _, kind, argument = key.split(".")
    each = tried(key)
    made = named(kind) if kind in served_names()["gllm_evals.evaluator"] else metric(kind)
    needed: dict[str, Any] = NEEDED[kind](model) if kind in NEEDED else {"models": model}
    if isinstance(each, Refused):
        with pytest.raises(ValueError, match=argument):
            made(**{**needed, argument: each.given})
        return
    taken = inspect.signature(made).parameters
    needed |= {name: value for name, value in each.without(model).items() if name in taken}
    if each.seen is together:
        models.latency = 0.1
    # With the argument first: the peak of requests under way only grows.
    changed = Seen(made(**{**needed, argument: each.given(model)}), models, each.data)
    assert changed.error == "" or not each.data
    assert each.seen(changed) != each.seen(Seen(made(**needed), models, each.data))


def test_every_try_is_of_an_argument() -> None:
    arguments = {key.rpartition(".")[2] for key in GLLM_ARGUMENTS} | {key.partition(".")[2] for key in GLLM_ARGUMENTS}
    assert {*TRIES} <= arguments


@walk("kind", [kind for kind in SERVED if not inspect.isabstract(kind)])
def test_no_class_takes_an_argument_that_it_does_not_know(kind: type[Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"no_such_argument|takes no arguments"):
        kind(no_such_argument=1)


def test_configurations_hand_no_unknown_option_on() -> None:
    api = "holodeck.lib.evaluators.deepeval"
    geval = named("GEvalConfig", api)(name="Tone", criteria="polite")
    for evaluator, config in (("GEvalEvaluator", geval), ("FaithfulnessEvaluator", named("RAGMetricConfig", api)())):
        with pytest.raises(TypeError, match="no_such_argument"):
            named(evaluator, api).from_config(config, no_such_argument=1)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("models", "openai/gpt-4o"),
        ("fallback_models", ["openai/gpt-4o"]),
        ("aggregation_method", "median"),
        ("max_concurrent_judges", 1),
    ],
)
def test_an_option_that_reaches_no_metric_is_refused(model: DeepEvalModelConfig, option: str, given: Any) -> None:
    settled = {"aggregation_method": "mean", "max_concurrent_judges": 2, "fallback_models": [other(model)]}
    own = metric("GEvalFluencyMetric")(model, **settled)
    evaluators = {
        "BaseGenerationEvaluator": {"metrics": [own], "refusal_metric": metric("GEvalRefusalMetric")(model, [])},
        "SummarizationEvaluator": {"metrics": [bleu()]},
        "QTEvaluator": {f"{name}_metric": own for name in ("completeness", "groundedness", "redundancy")},
        "LMBasedRetrievalEvaluator": {"metrics": [bleu()], "enabled_metrics": ["bleu"]},
    }
    for kind, arguments in evaluators.items():
        made = named(kind)
        # The metric that detects refusals has no such options of its own, and takes the evaluator's.
        if option in inspect.signature(made).parameters and (kind, option) not in TAKEN_FOR_REFUSALS:
            with pytest.raises(ValueError, match=f"{option} of .* has no effect"):
                made(**arguments, **{option: given})


TAKEN_FOR_REFUSALS = {
    ("BaseGenerationEvaluator", "aggregation_method"),
    ("BaseGenerationEvaluator", "max_concurrent_judges"),
}


def test_what_cannot_reach_a_metric_that_is_passed_in_is_refused(model: DeepEvalModelConfig) -> None:
    ranked = metric("ClassicalRetrievalMetric")("recall_at_k", k=2)
    with pytest.raises(ValueError, match="k has no effect"):
        named("ClassicalRetrievalEvaluator")(metrics=[ranked], k=5)
    azure = "holodeck.lib.evaluators.azure_ai"
    deployment = named("ModelConfig", azure)(azure_endpoint="https://a.example", api_key="k", azure_deployment="judge")
    fluency = named("FluencyEvaluator", azure)(deployment)
    with pytest.raises(ValueError, match="fallback_models cannot replace"):
        named("GEvalGenerationEvaluator")(model, [fluency], fallback_models=[other(model)])


@walk(("field", "value"), [("max_tokens", 10), ("top_p", 0.5), ("auth_provider", "oauth_token"), ("provider", "groq")])
def test_a_field_of_a_model_that_a_judge_does_not_have_is_refused(field: str, value: Any) -> None:
    given = {"provider": "openai", "name": "gpt-4o", field: value}
    with pytest.raises(ValueError, match=f"models: {field}"):
        metric("GEvalFluencyMetric")(named("LLMProvider", "holodeck.models.llm")(**given))


@walk(
    ("kind", "arguments", "told"),
    [
        ("GEvalGenerationEvaluator", {"models": []}, "models must hold"),
        ("GEvalGenerationEvaluator", {"metrics": []}, "metrics of generation"),
        ("GEvalGenerationEvaluator", {"metrics": ["completeness"]}, "metrics must be"),
        ("GEvalGenerationEvaluator", {"refusal_metric": "refusal"}, "refusal_metric must be"),
        ("GEvalGenerationEvaluator", {"aggregation_method": "sum"}, "aggregation_method must be"),
        ("GEvalGenerationEvaluator", {"max_concurrent_judges": 0}, "max_concurrent_judges must be"),
        ("GEvalGenerationEvaluator", {"fallback_models": [3]}, "fallback_models must be"),
        ("AgentEvaluator", {"generation_evaluator": "generation"}, "generation_evaluator must be"),
        ("AgentEvaluator", {"tool_correctness_metric": "tools"}, "tool_correctness_metric must be"),
        ("AgentEvaluator", {"trajectory_accuracy_metric": "way"}, "trajectory_accuracy_metric must be"),
        ("ClassicalRetrievalEvaluator", {"k": []}, "k must hold"),
    ],
)
def test_a_value_that_is_none_is_refused_by_its_name(kind: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        named(kind)(**arguments)
