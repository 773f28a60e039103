"""Retrieval metrics, against pytrec_eval and their definitions."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
import pytrec_eval
from hypothesis import example, given
from hypothesis import strategies as st

from holodeck_action.metrics.base import EvaluationError, EvaluationResult
from holodeck_action.metrics.computed import Grader
from holodeck_action.metrics.retrieval import (
    FORMULAS,
    RetrievalMetric,
    hit_rate_at_k,
    ids_by_rank,
    map_at_k,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
)
from holodeck_action.record.record import RetrievedChunk
from holodeck_action.suite.model.base import ArgumentError
from tests.tables import walk

ids = st.text(st.sampled_from("abcdefghij"), min_size=1, max_size=2)
rankings = st.lists(ids, max_size=12)
gain_maps = st.dictionaries(ids, st.integers(1, 4), min_size=1, max_size=8)
cut_offs = st.integers(1, 15)


def trec(ranked: list[str], gains: dict[str, int], k: int, measure: str) -> float:
    """The measure of trec_eval over the first k distinct ids, scored by their rank."""
    distinct = list(dict.fromkeys(ranked))[:k]
    run = {chunk_id: float(-rank) for rank, chunk_id in enumerate(distinct)}
    judged = {chunk_id: int(gain) for chunk_id, gain in gains.items()}
    results = pytrec_eval.RelevanceEvaluator({"case": judged}, {measure}).evaluate({"case": run})
    [value] = results["case"].values()
    return float(value)


@given(rankings, gain_maps, cut_offs)
def test_metrics_equal_those_of_trec_eval(ranked: list[str], gains: dict[str, int], k: int) -> None:
    normalised = min(len(gains), k)
    assert precision_at_k(ranked, gains, k) == pytest.approx(trec(ranked, gains, k, f"P_{k}"))
    assert recall_at_k(ranked, gains, k) == pytest.approx(trec(ranked, gains, k, f"recall_{k}"))
    assert hit_rate_at_k(ranked, gains, k) == trec(ranked, gains, k, f"success_{k}")
    assert mrr_at_k(ranked, gains, k) == pytest.approx(trec(ranked, gains, k, "recip_rank"))
    assert map_at_k(ranked, gains, k) * normalised == pytest.approx(trec(ranked, gains, k, f"map_cut_{k}") * len(gains))
    assert ndcg_at_k(ranked, gains, k) == pytest.approx(trec(ranked, gains, k, f"ndcg_cut_{k}"))


@walk(
    ("metric", "score"),
    [
        (precision_at_k, 2 / 5),
        (recall_at_k, 2 / 3),
        (hit_rate_at_k, 1.0),
        (mrr_at_k, 1 / 2),
        (map_at_k, (1 / 2 + 2 / 4) / 3),
        (ndcg_at_k, (1 / math.log2(3) + 3 / math.log2(5)) / (3 + 2 / math.log2(3) + 1 / math.log2(4))),
    ],
)
def test_metrics_by_hand(metric: Any, score: float) -> None:
    assert metric(["x", "a", "y", "b", "z", "c"], {"a": 1, "b": 3, "c": 2}, 5) == pytest.approx(score)


@given(rankings, gain_maps, cut_offs, st.sampled_from(list(FORMULAS.values())))
def test_scores_stay_within_range_and_duplicates_and_the_rest_of_the_list_change_nothing(
    ranked: list[str], gains: dict[str, int], k: int, metric: Any
) -> None:
    score = metric(ranked, gains, k)
    assert 0.0 <= score <= 1.0
    assert metric([*ranked, *ranked], gains, k) == score
    assert metric(list(dict.fromkeys(ranked))[:k], gains, k) == score
    assert metric(ranked, {**gains, "irrelevant": 0}, k) == score


@given(gain_maps, cut_offs)
def test_the_ideal_ranking_scores_one(gains: dict[str, int], k: int) -> None:
    ideal = sorted(gains, key=lambda chunk_id: -gains[chunk_id])
    assert ndcg_at_k(ideal, gains, k) == map_at_k(ideal, gains, k) == mrr_at_k(ideal, gains, k) == 1.0


@given(st.lists(st.integers(0, 3).map(lambda steps: 1.0 - steps * 2**-53), min_size=2, max_size=6))
@example([1.0 - steps * 2**-53 for steps in (1, 1, 1, 3, 0, 0)])
def test_rounding_never_lifts_a_score_above_one(sizes: list[float]) -> None:
    gains = {str(index): size for index, size in enumerate(sizes)}
    assert ndcg_at_k(list(gains), gains, len(gains)) <= 1.0


@pytest.mark.parametrize("largest", [1.7e308, 5e-324])
def test_gains_of_any_size_are_weighed(largest: float) -> None:
    assert ndcg_at_k(["a", "b", "c"], dict.fromkeys("abc", largest), 3) == 1.0
    assert mrr_at_k(["a"], {"a": 5e-324, "b": largest}, 2) == 1.0


@walk("metric", FORMULAS.values())
@walk(
    ("gains", "k", "message"),
    [
        ({}, 5, "no chunk is marked as relevant"),
        ({"a": 0}, 5, "no chunk is marked as relevant"),
        ({"a": 1, "b": -1}, 5, "the gain of chunk 'b' is -1"),
        ({"a": math.nan}, 5, "the gain of chunk 'a' is nan"),
        ({"a": math.inf}, 5, "the gain of chunk 'a' is inf"),
        ({"a": 1}, 0, "k must be a rank of at least 1"),
    ],
)
def test_what_cannot_be_scored_is_an_evaluation_error(metric: Any, gains: Any, k: int, message: str) -> None:
    with pytest.raises(EvaluationError, match=message) as raised:
        metric(["a"], gains, k)
    assert raised.value.code == "invalid_input"


def evaluate(metric: Any, retrieved: Any, relevant: Any, **options: Any) -> EvaluationResult:
    evaluator = Grader(RetrievalMetric(metric=metric, **options))
    return asyncio.run(evaluator.evaluate(retrieved_chunks=retrieved, ground_truth_chunk_ids=relevant))


def test_the_result_says_what_was_found_and_missed() -> None:
    chunks = [RetrievedChunk("x"), RetrievedChunk("a", "text", 0.1), RetrievedChunk("a"), RetrievedChunk("b")]
    result = evaluate("recall_at_k", chunks, ["a", "b", "c"], k=2, threshold=0.3)
    assert (result.score, result.passed, result.metric_name) == (1 / 3, True, "recall_at_k")
    assert result.reasoning == (
        "1 of 3 relevant chunks among the first 2 of 3 retrieved: recall at 2 is 0.3333; missed: b, c"
    )
    assert json.loads(json.dumps(result.metadata)) == {
        "k": 2,
        "retrieved": 3,
        "relevant": 3,
        "found_at_k": 1,
        "found": ["a"],
        "missed": ["b", "c"],
    }
    assert "missed" not in evaluate("hit_rate_at_k", ["a"], ["a"]).reasoning


def test_chunks_keep_their_order_whatever_their_scores() -> None:
    chunks = [RetrievedChunk("a", score=0.1), RetrievedChunk("b", score=0.9)]
    assert evaluate("mrr_at_k", chunks, ["b"]).score == 0.5


def test_a_mapping_is_sorted_by_score_and_then_by_id() -> None:
    assert ids_by_rank({"low": 0.1, "z": 0.5, "a": 0.5, "top": 1, "minus": -math.inf}) == [
        "top",
        "a",
        "z",
        "low",
        "minus",
    ]
    assert evaluate("mrr_at_k", {"a": 0.1, "b": 0.9}, ["b"]).score == 1.0


def test_ids_gains_and_an_empty_retrieval_are_accepted() -> None:
    swapped = evaluate("ndcg_at_k", ["b", "a"], {"a": 2, "b": 1, "c": 0}).score
    assert isinstance(swapped, float)
    assert swapped < 1.0
    assert evaluate("recall_at_k", ["a"], {"a": 2, "c": 0}).score == 1.0
    assert evaluate("precision_at_k", [], ["a"]).score == 0.0
    assert evaluate("precision_at_k", ["a"], ["a"]).score == 1 / 20


@walk(
    ("retrieved", "relevant", "message"),
    [
        (["a"], [], "no chunk is marked as relevant"),
        (["a"], [1], 'ground_truth_chunk_ids must hold texts as ids, not 1: 1 and "1" are not the same id'),
        ([1], ["a"], "retrieved_chunks must hold texts"),
        ("abc", ["a"], "retrieved_chunks must be a list of chunk ids"),
        (["a"], "abc", "ground_truth_chunk_ids must be a list of chunk ids"),
        ({"a": math.nan}, ["a"], "retrieved_chunks gives chunk 'a' the value NaN"),
        ({"a": "high"}, ["a"], 'the value "high", which is not a number'),
        (["a"], {"a": True}, "ground_truth_chunk_ids gives chunk 'a' the value true"),
        (None, ["a"], "needs retrieved_chunks"),
        (["a"], None, "needs ground_truth_chunk_ids"),
    ],
)
def test_unusable_inputs_are_evaluation_errors(retrieved: Any, relevant: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate("recall_at_k", retrieved, relevant)


@walk(
    "options",
    [{"metric": "f1"}, {"k": 0}, {"k": True}, {"k": 2.5}, {"threshold": 2}],
)
def test_options_are_validated(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        RetrievalMetric(**{"metric": "recall_at_k", **options})


@pytest.mark.full
def test_long_rankings_are_scored() -> None:
    ranked = [f"chunk {index}" for index in range(100_000)]
    for metric in FORMULAS:
        assert evaluate(metric, ranked, ranked, k=100_000).score == 1.0
