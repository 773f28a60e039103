"""Classical retrieval metrics: a ranking of chunk ids compared with the relevant ones.

All scoring functions have the same arguments. `ranked_ids` are ordered best first; a repeated id counts only at its
first rank. `gains` maps ids to gains; ids with a positive gain are relevant (1.0 for binary relevance; only NDCG uses
the amount). `k` is the cut-off rank, at least 1. The functions return a score from 0 to 1, and raise `EvaluationError`
(code `invalid_input`) if no id is relevant, a gain is negative, NaN or infinite, or `k` is below 1. |rel| is the number
of relevant ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from holodeck_action.metrics.base import BuildContext
from holodeck_action.metrics.computed import ComputedMetric, Grader
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, excerpt, format_count
from holodeck_action.metrics.tools.matchers import format_text, format_value, is_number, join_first
from holodeck_action.record.record import RetrievedChunk
from holodeck_action.suite.model.base import Integer, UnitInterval
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.text.plain import cut

RetrievalName = Literal["precision_at_k", "recall_at_k", "hit_rate_at_k", "mrr_at_k", "map_at_k", "ndcg_at_k"]
RetrievalFormula = Callable[[Sequence[str], Mapping[str, float], int], float]
Rank = Annotated[Integer, Field(ge=1)]

_LISTED = 50


class RetrievalMetric(ComputedMetric):
    """`type: retrieval`: the ranking of retrieved chunks against `ground_truth_chunk_ids`."""

    PLACE = 8
    OF_CONVERSATION = True
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RETRIEVED_CHUNKS, EvalParam.GROUND_TRUTH_CHUNK_IDS}))

    type: Annotated[Literal["retrieval"], Role.KIND] = "retrieval"
    metric: Annotated[RetrievalName, Role.KIND]
    """The formula. Example: `ndcg_at_k`."""
    k: Annotated[
        Annotated[Rank, Tag("number")] | Annotated[list[Rank], Field(min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "number"),
        Role.KIND,
    ] = 20
    """The cut-off rank, or a list of ranks with one evaluation each. Example: `[3, 10]`."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score; informational when absent. Example: `0.5`."""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs: the relevant chunks and the retrieved chunks."""
        return frozenset(("ground_truth_chunk_ids", "retrieved_chunks"))

    @property
    def measure(self) -> str:
        """The name of the formula."""
        return self.metric

    def base_name(self, k: int | None) -> str:
        """Return a name such as `recall_at_5`."""
        return f"{self.metric.removesuffix('_k')}_{k}"

    def cut_offs(self) -> Sequence[int | None]:
        """Return the distinct cut-off ranks."""
        return tuple(dict.fromkeys(self.k)) if isinstance(self.k, list) else (self.k,)

    def evaluator(self, building: BuildContext) -> Grader:
        """Return the evaluator for the rank in `building`."""
        return Grader(self.model_copy(update={"k": building.k}), **building.options)

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `retrieved_chunks` against `ground_truth_chunk_ids` at one cut-off rank.

        `retrieved_chunks` is a sequence in rank order (of ids, or of `RetrievedChunk`, whose scores are ignored) or a
        mapping from id to score. A mapping is ranked by descending score; equal scores are ranked by ascending id
        (trec_eval: by descending id). `ground_truth_chunk_ids` is a sequence of ids or a mapping from id to gain.

        Raises:
            EvaluationError: nothing is relevant, an id is not a string, or a gain or score is not a valid number (code
                `invalid_input`).
        """
        ranked = ids_by_rank(given["retrieved_chunks"])
        gains = relevant_gains(given["ground_truth_chunk_ids"])
        [k] = self.cut_offs()
        assert k is not None
        score = FORMULAS[self.metric](ranked, gains, k)
        found = dict.fromkeys(chunk_id for chunk_id in ranked[:k] if chunk_id in gains)
        missed = [chunk_id for chunk_id in gains if chunk_id not in found]
        return self.result(
            score,
            f"{len(found)} of {format_count(len(gains), 'relevant chunks')} among the first {k} of {len(ranked)} "
            f"retrieved: {self.metric.removesuffix('_at_k')} at {k} is {score:.4g}"
            f"{'; missed: ' if missed else ''}{join_first(map(format_text, missed))}",
            {
                "k": k,
                "retrieved": len(ranked),
                "relevant": len(gains),
                "found_at_k": len(found),
                "found": list(found)[:_LISTED],
                "missed": missed[:_LISTED],
            },
        )


def precision_at_k(ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the number of relevant ids among the first k, divided by k, even if fewer than k were retrieved."""
    return _Ranking(ranked_ids, gains, k).found / k


def recall_at_k(ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the number of relevant ids among the first k, divided by |rel|."""
    ranking = _Ranking(ranked_ids, gains, k)
    return ranking.found / ranking.relevant


def hit_rate_at_k(ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return 1.0 if at least one of the first k ids is relevant, otherwise 0.0."""
    return 1.0 if _Ranking(ranked_ids, gains, k).found else 0.0


def mrr_at_k(ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the reciprocal rank of the first relevant id among the first k, or 0.0 if none is relevant. The mean over
    cases is the MRR.
    """
    return next((1 / rank for rank in _Ranking(ranked_ids, gains, k).hit_ranks), 0.0)


def map_at_k(ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the average precision at k: precision@i summed over the ranks i ≤ k of relevant ids, divided by min(|rel|,
    k).

    The mean over cases is the MAP. trec_eval's `map_cut` divides by |rel| instead, so that a perfect ranking of more
    than k relevant ids scores below 1.
    """
    ranking = _Ranking(ranked_ids, gains, k)
    return sum(found / rank for found, rank in enumerate(ranking.hit_ranks, 1)) / min(ranking.relevant, k)


def ndcg_at_k(ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> float:
    """Return the discounted cumulative gain Σ gain / log2(rank + 1) of the first k, divided by the same sum for the
    ideal ranking.

    Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20 (2002), with linear
    gain and the logarithm of rank + 1, as in trec_eval.
    """
    ideal = sorted(gains, key=lambda chunk_id: -gains[chunk_id])
    share = _Ranking(ranked_ids, gains, k).discounted_gain / _Ranking(ideal, gains, k).discounted_gain
    # Rounding may put a ranking of nearly equal gains slightly above the ideal one.
    return min(share, 1.0)


class _Ranking:
    """The first k distinct ids, compared with the relevant ones.

    Attributes:
        relevant: |rel|, the number of relevant ids.
        hit_ranks: ranks of the relevant ids, ascending.
        found: number of relevant ids among the first k.
        discounted_gain: Σ gain / log2(rank + 1), where gains are divided by the largest gain.
    """

    def __init__(self, ranked_ids: Sequence[str], gains: Mapping[str, float], k: int) -> None:
        if k < 1:
            raise EvaluationError(f"k must be a rank of at least 1, not {k}", code="invalid_input")
        largest = _largest_gain(gains)
        ranked = [gains.get(chunk_id, 0.0) for chunk_id in _first_ids(ranked_ids, k)]
        self.relevant = sum(1 for gain in gains.values() if gain)
        self.hit_ranks = [rank for rank, gain in enumerate(ranked, 1) if gain]
        self.found = len(self.hit_ranks)
        self.discounted_gain = sum(gain / largest / math.log2(rank + 1) for rank, gain in enumerate(ranked, 1))


def _first_ids(ranked_ids: Sequence[str], k: int) -> list[str]:
    return list(dict.fromkeys(ranked_ids))[:k]


def _largest_gain(gains: Mapping[str, float]) -> float:
    for chunk_id, gain in gains.items():
        if not 0.0 <= gain < math.inf:
            raise EvaluationError(
                f"the gain of chunk {excerpt(chunk_id)} is {cut(repr(gain), 80)}, not a finite number of at least 0",
                code="invalid_input",
            )
    largest = max(gains.values(), default=0.0)
    if not largest:
        raise EvaluationError(
            "no chunk is marked as relevant, so nothing can be found; list ground_truth_chunk_ids",
            code="invalid_input",
        )
    return largest


FORMULAS: Mapping[RetrievalName, RetrievalFormula] = {
    "precision_at_k": precision_at_k,
    "recall_at_k": recall_at_k,
    "hit_rate_at_k": hit_rate_at_k,
    "mrr_at_k": mrr_at_k,
    "map_at_k": map_at_k,
    "ndcg_at_k": ndcg_at_k,
}


def ids_by_rank(retrieved: Mapping[str, float] | Sequence[str | RetrievedChunk]) -> list[str]:
    """Return the distinct retrieved ids, best first.

    Raises:
        EvaluationError: an id is not a string, or a score is not a number (code `invalid_input`).
    """
    if isinstance(retrieved, Mapping):
        scores = _check_numbers(retrieved, "retrieved_chunks")
        return sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))
    return list(dict.fromkeys(_check_ids(retrieved, "retrieved_chunks")))


def relevant_gains(relevant: Mapping[str, float] | Sequence[str]) -> dict[str, float]:
    """Return the gains of relevant ids; each is 1.0 if `relevant` is a list. Ids with gain 0 are omitted.

    Raises:
        EvaluationError: an id is not a string, or a gain is not a number (code `invalid_input`).
    """
    if isinstance(relevant, Mapping):
        return {chunk_id: gain for chunk_id, gain in _check_numbers(relevant, "ground_truth_chunk_ids").items() if gain}
    return dict.fromkeys(_check_ids(relevant, "ground_truth_chunk_ids"), 1.0)


def _check_numbers(values: Mapping[str, float], name: str) -> Mapping[str, float]:
    for chunk_id in _check_ids(values, name):
        value = values[chunk_id]
        if not is_number(value) or math.isnan(value):
            raise EvaluationError(
                f"{name} gives chunk {excerpt(chunk_id)} the value {format_value(value)}, which is not a number",
                code="invalid_input",
            )
    return values


def _check_ids(chunks: Collection[Any], name: str) -> list[str]:
    if isinstance(chunks, str):
        raise EvaluationError(f"{name} must be a list of chunk ids, not one text", code="invalid_input")
    ids = [chunk.id if isinstance(chunk, RetrievedChunk) else chunk for chunk in chunks]
    for chunk_id in ids:
        if not isinstance(chunk_id, str):
            raise EvaluationError(
                f'{name} must hold texts as ids, not {format_value(chunk_id)}: 1 and "1" are not the same id',
                code="invalid_input",
            )
    return ids
