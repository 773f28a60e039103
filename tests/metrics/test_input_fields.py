"""What evaluators say about their inputs."""

from __future__ import annotations

import pytest

from holodeck_action.metrics.base import BaseEvaluator
from holodeck_action.metrics.computed import Grader
from holodeck_action.metrics.length import LengthMetric
from holodeck_action.metrics.retrieval import RetrievalMetric
from holodeck_action.metrics.text_similarity import BLEUEvaluator

BLEU, LENGTH = BLEUEvaluator(), Grader(LengthMetric(max_words=3))
RETRIEVAL = Grader(RetrievalMetric(metric="recall_at_k", k=1))


def test_fields_and_their_other_names() -> None:
    assert BLEU.required_fields == {"response", "ground_truth"}
    assert BLEUEvaluator.get_input_fields() == ["response", "ground_truth"]
    assert BLEUEvaluator.get_input_spec() == [
        {"name": "response", "required": True, "also": "actual_output"},
        {"name": "ground_truth", "required": True, "also": "expected_output"},
    ]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("any", set()),
        ("union", {"response", "ground_truth", "retrieved_chunks", "ground_truth_chunk_ids"}),
        ("intersection", set()),
    ],
)
def test_required_fields_of_several(mode: str, expected: set[str]) -> None:
    assert BaseEvaluator.aggregate_required_fields([BLEU, LENGTH, RETRIEVAL], mode) == expected


def test_intersection_keeps_what_all_need_and_nothing_without_metrics() -> None:
    assert BaseEvaluator.aggregate_required_fields([BLEU, LENGTH], "intersection") == {"response"}
    assert BaseEvaluator.aggregate_required_fields([], "intersection") == set()
    assert BaseEvaluator.aggregate_required_fields([BLEU]) == set()


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode must be one of any, union, intersection, not 'all'"):
        BaseEvaluator.aggregate_required_fields([BLEU], "all")


def test_whether_anything_can_be_evaluated() -> None:
    assert BaseEvaluator.can_evaluate_any([BLEU, LENGTH], {"actual_output": "x"})
    assert not BaseEvaluator.can_evaluate_any([BLEU], {"actual_output": "x", "expected_output": None})
    assert BaseEvaluator.can_evaluate_any([BLEU], {"actual_output": "x", "expected_output": "y"})
    assert not BaseEvaluator.can_evaluate_any([], {"actual_output": "x"})
