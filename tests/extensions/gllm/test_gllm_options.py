"""Options of gllm-evals' evaluators reach every metric, also one that is passed in."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.metrics.errors import EvaluationError
from tests.extensions.gllm.gllm import ANSWER, evaluated, judge, metric, model, models, named
from tests.extensions.presets.preset_judge import PresetJudge
from tests.llm.models import FakeModels

__all__ = ["judge", "model", "models"]
pytestmark = pytest.mark.needs("holodeck")
TEXTS = ["one [a]", "two [a]"]
CALLS = {"agent_trajectory": ["search"], "expected_agent_trajectory": ["search"]}
QT_METRICS = ("completeness", "groundedness", "redundancy")
MAPPING = {"completeness": {1: 0.0, 2: 0.3, 3: 0.6}, "groundedness": {1: 0.0, 2: 0.3, 3: 0.6}}


def other(model: DeepEvalModelConfig, name: str = "other", **fields: Any) -> DeepEvalModelConfig:
    return model.model_copy(update={"model_name": name, **fields})


def passed_in(kind: str, *given: Any, **options: Any) -> Any:
    """An evaluator with metrics that are passed in and have no option of their own."""
    made: dict[str, dict[str, Any]] = {
        "QTEvaluator": {
            f"{name}_metric": metric(f"GEval{name.capitalize()}Metric")(threshold=0.5 if name == "redundancy" else 0.7)
            for name in QT_METRICS
        },
        "GEvalGenerationEvaluator": {
            "metrics": [metric("GEvalCompletenessMetric")()],
            "refusal_metric": metric("GEvalRefusalMetric")(),
        },
        "BaseGenerationEvaluator": {"metrics": [metric("GEvalGroundednessMetric")()]},
        "SummarizationEvaluator": {"metrics": [metric("GEvalFluencyMetric")()]},
        "LMBasedRetrievalEvaluator": {
            "metrics": [metric("DeepEvalContextualRecallMetric")()],
            "enabled_metrics": ["contextual_recall"],
        },
        "AgentEvaluator": {
            "generation_evaluator": named("GEvalGenerationEvaluator")(),
            "trajectory_accuracy_metric": metric("LangChainAgentTrajectoryAccuracyMetric")(),
        },
    }
    return named(kind)(*given, **made[kind], **options)


JUDGED = (
    "QTEvaluator",
    "GEvalGenerationEvaluator",
    "BaseGenerationEvaluator",
    "SummarizationEvaluator",
    "LMBasedRetrievalEvaluator",
    "AgentEvaluator",
)
DATA = {**ANSWER, "retrieved_context": TEXTS, **CALLS}


def panels(found: Any) -> list[dict[str, Any]]:
    """Every panel in a result, at any depth."""
    if not isinstance(found, dict):
        return []
    own = [found["panel"]] if "panel" in found else []
    return own + [panel for value in found.values() for panel in panels(value)]


def test_a_score_mapping_reaches_the_metrics_that_are_passed_in(model: DeepEvalModelConfig) -> None:
    evaluator = passed_in("QTEvaluator", model, score_mapping=MAPPING, score_weights={"redundancy": 0})
    found = evaluated(evaluator, ANSWER)
    assert (found["aggregate_score"], found["aggregate_success"]) == (pytest.approx(0.6), False)
    assert (found["completeness"]["score"], found["completeness"]["success"]) == (0.6, False)


def test_a_score_mapping_fits_the_levels_of_the_metric_that_is_passed_in(model: DeepEvalModelConfig) -> None:
    two = metric("GEvalCompletenessMetric")(rubric=["bad", "good"])
    for given, told in (
        ({"completeness": {1: 0.0, 2: 0.5, 3: 1.0}}, "1 to 2"),
        ({"shortness": {1: 0.0, 2: 1.0}}, "shortness"),
    ):
        with pytest.raises(ValueError, match="score_mapping") as refused:
            named("QTEvaluator")(model, completeness_metric=two, score_mapping=given)
        assert told in str(refused.value)
    bleu = named("BLEUEvaluator", "holodeck.lib.evaluators.nlp_metrics")()
    with pytest.raises(ValueError, match=r"score_mapping.*completeness_metric"):
        named("QTEvaluator")(model, completeness_metric=bleu, score_mapping=MAPPING)


@pytest.mark.parametrize("kind", JUDGED)
def test_models_reach_the_metrics_that_are_passed_in(models: FakeModels, model: DeepEvalModelConfig, kind: str) -> None:
    evaluated(passed_in(kind, models=other(model)), DATA)
    assert {request.model for request in models.requests} == {"other"}


@pytest.mark.parametrize("kind", JUDGED)
def test_fallback_models_reach_the_metrics_that_are_passed_in(model: DeepEvalModelConfig, kind: str) -> None:
    broken = other(model, "broken", api_key="sk-wrong")
    found = evaluated(passed_in(kind, models=broken, fallback_models=[model]), DATA)
    assert {panel["fallback_share"] for panel in panels(found)} == {1.0}


@pytest.mark.parametrize("kind", [kind for kind in JUDGED if kind != "LMBasedRetrievalEvaluator"])
def test_an_aggregation_method_reaches_the_metrics_that_are_passed_in(model: DeepEvalModelConfig, kind: str) -> None:
    found = evaluated(passed_in(kind, models=[model, other(model)], aggregation_method="median"), DATA)
    # The agent's way to the answer has its aggregate from the evaluator, too.
    assert {panel["aggregation"] for panel in panels(found)} == {"median"}


def test_what_a_metric_has_itself_stays(models: FakeModels, model: DeepEvalModelConfig, judge: PresetJudge) -> None:
    own = metric("GEvalCompletenessMetric")(other(model, "own"))
    found = evaluated(named("QTEvaluator")(model, completeness_metric=own), ANSWER)
    assert judge.models == {"completeness": "own", "groundedness": "judge", "redundancy": "judge"}
    assert found["aggregate_success"] is True
    # The metric itself stays as it is: another evaluator may give it other options.
    bare = metric("GEvalFluencyMetric")()
    named("SummarizationEvaluator")(model, metrics=[bare])
    with pytest.raises(EvaluationError, match="models"):
        evaluated(bare, ANSWER)


def test_an_evaluator_of_holodeck_takes_the_models_too(models: FakeModels, model: DeepEvalModelConfig) -> None:
    tone = named("GEvalEvaluator", "holodeck.lib.evaluators.deepeval")(
        "Tone", "polite", evaluation_steps=["List the subjects and conditions that the actual output asks for."]
    )
    wrapped = metric("BaseMetric")("wrapped", tone)
    found = evaluated(named("SummarizationEvaluator")(other(model), metrics=[tone, wrapped]), ANSWER)
    assert {request.model for request in models.requests} == {"other"}
    assert found["wrapped"]["score"] == found["GEval"]["score"]
    with pytest.raises(EvaluationError, match="wrapped has no model"):
        evaluated(named("CompositeEvaluator")([wrapped]), ANSWER)


@pytest.mark.parametrize("kind", JUDGED)
def test_without_a_model_nothing_is_asked(models: FakeModels, kind: str) -> None:
    for evaluator in (named(kind)(), passed_in(kind)):
        with pytest.raises(EvaluationError, match=r"no model.*`models`") as refused:
            evaluated(evaluator, DATA)
        assert refused.value.code == "no_judge"
    assert models.requests == []


def test_one_metric_without_a_model_keeps_the_others_from_asking(
    models: FakeModels, model: DeepEvalModelConfig
) -> None:
    both = named("CompositeEvaluator")([metric("GEvalFluencyMetric")(model), metric("GEvalCoherenceMetric")()])
    with pytest.raises(EvaluationError, match="coherence has no model"):
        evaluated(both, ANSWER)
    assert models.requests == []


def test_the_documents_three_inputs_are_enough_for_retrieval(model: DeepEvalModelConfig) -> None:
    kind = named("LMBasedRetrievalEvaluator")
    data = {"input": "Where [a]?", "expected_output": "Here [a].", "retrieved_context": TEXTS}
    found = evaluated(kind(model), data)
    assert (found["relevancy_rating"], found["score"]) == ("good", 0.5)
    assert kind(model).required_fields == {*data}
    assert kind.get_input_spec() == [{"name": name, "required": True} for name in data]
    for name in data:
        with pytest.raises(EvaluationError, match=f"needs {name}"):
            evaluated(kind(model), {key: value for key, value in data.items() if key != name})
