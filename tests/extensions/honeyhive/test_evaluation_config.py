"""HoneyHive's `EvaluationConfig` as metrics, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.extensions.honeyhive.evaluation_config import HoneyHiveEvaluationConfig
from holodeck_action.metrics import Composite, FactualAccuracy, Toxicity
from holodeck_action.suite.model.base import ArgumentError
from tests.tables import walk

DOCUMENTED: dict[str, Any] = {
    "evaluators": ["factual_accuracy", "toxicity"],
    "evaluator_configs": {
        "factual_accuracy": {"reference_sources": ["wikipedia", "scholarly"], "confidence_threshold": 0.8},
        "toxicity": {"categories": ["hate_speech", "harassment"], "threshold": 0.1},
    },
    "parallel_execution": True,
    "timeout_ms": 30_000,
    "retry_config": {"max_retries": 3, "backoff_multiplier": 2.0},
}
"""The example of the document, whose first pause, of one second, is refused."""


def test_the_documented_configuration_is_two_metrics() -> None:
    facts, harm = HoneyHiveEvaluationConfig(**DOCUMENTED).metrics()
    shared: dict[str, Any] = {"timeout_ms": 30_000, "retry_on_failure": 3}
    assert facts == FactualAccuracy(reference_sources=["wikipedia", "scholarly"], min_confidence=0.8, **shared)
    assert harm == Toxicity(categories=["hate_speech", "harassment"], threshold=0.1, **shared)


def test_evaluators_that_run_in_turn_are_one_composite() -> None:
    (one,) = HoneyHiveEvaluationConfig(**{**DOCUMENTED, "parallel_execution": False}).metrics()
    assert isinstance(one, Composite)
    assert (one.parallel, one.timeout_ms) == (False, 30_000)
    assert [metric.type for metric in one.metrics] == ["factual_accuracy", "toxicity"]


@walk(
    ("change", "told"),
    [
        ({"retry_config": {"initial_delay_ms": 1000}}, "initial_delay_ms cannot be 1000: retries wait 2, 4 and 8"),
        ({"retry_config": {"backoff_multiplier": 3}}, "backoff_multiplier cannot be 3"),
        ({"retry_config": {"max_retries": 4}}, "max_retries must be a whole number from 0 to 3"),
        ({"evaluators": ["toxicty"], "evaluator_configs": {}}, 'toxicty is unknown, did you mean "toxicity"?'),
        ({"evaluators": ["quality"]}, "evaluator_configs: factual_accuracy is not among the evaluators"),
        ({"evaluator_configs": {"toxicity": {"level": 1}}}, "toxicity: level: unknown argument"),
        ({"retry_config": {"jitter": None}}, "jitter is unknown (allowed: max_retries, initial_delay_ms, backoff_mult"),
        ({"evaluators": ["toxicity"] * 2, "evaluator_configs": {}}, "toxicity is given twice; name it once"),
        (
            {"evaluator_configs": {"factual_accuracy": {"confidence_threshold": 0.8, "min_confidence": 0.2}}},
            "factual_accuracy: confidence_threshold and min_confidence are one setting; give one",
        ),
        ({"timeout_ms": 0}, "timeout_ms: 0 is out of range"),
        ({"speed": 1}, "speed: unknown argument"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        HoneyHiveEvaluationConfig(**{**DOCUMENTED, **change})
    assert told in str(caught.value)
