"""Multiset overlap of n-grams and its F-measure, shared by the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable


def _ngrams(tokens: list[str], order: int) -> Iterable[Hashable]:
    return tokens if order == 1 else zip(*(tokens[start:] for start in range(order)), strict=False)


def overlap(ours: list[str], theirs: list[str], order: int = 1) -> int:
    """The size of the multiset intersection of the n-grams of length `order` of two token lists."""
    distinct = set(_ngrams(ours, order))
    shared = distinct.intersection(_ngrams(theirs, order))
    if not shared or len(distinct) == len(ours) - order + 1:
        return len(shared)
    counts, limits = Counter(_ngrams(ours, order)), Counter(_ngrams(theirs, order))
    return sum([min(counts[ngram], limits[ngram]) for ngram in shared])


def f_measure(common: int, ours: int, theirs: int) -> float:
    """The harmonic mean of precision `common / ours` and recall `common / theirs`; 0.0 when nothing is in common."""
    if not common:
        return 0.0
    precision, recall = common / ours, common / theirs
    return 2 * precision * recall / (precision + recall)
