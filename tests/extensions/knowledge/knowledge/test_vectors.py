"""Search by cosine similarity: right scores, a stable order, the same on every processor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from holodeck_action.extensions.knowledge.ranking import VectorIndex


def unit(*rows: list[float]) -> NDArray[np.float32]:
    given = np.asarray(rows, np.float64)
    found: NDArray[np.float32] = (given / np.linalg.norm(given, axis=1, keepdims=True)).astype(np.float32)
    return found


def test_the_nearest_come_first_with_the_cosine_as_score() -> None:
    index = VectorIndex(unit([1, 0], [1, 1], [0, 1], [-1, 0]))
    assert index.search(unit([1, 0])[0]) == [(0, 1.0), (1, round(math.sqrt(0.5), 6)), (2, 0.0), (3, -1.0)]
    assert index.search(unit([1, 0])[0], max_hits=1) == [(0, 1.0)]
    assert index.search(unit([1, 0])[0], min_score=0.7) == [(0, 1.0), (1, 0.707107)]
    assert index.search(unit([1, 0])[0], min_score=0.707107, max_hits=5) == [(0, 1.0), (1, 0.707107)]


def test_equal_scores_keep_the_order_of_the_documents() -> None:
    rows = unit(*[[1.0, 2.0, 3.0]] * 50, [3.0, 2.0, 1.0])
    assert [row for row, _ in VectorIndex(rows).search(rows[0])] == list(range(51))


def test_there_may_be_nothing_to_search() -> None:
    assert VectorIndex(np.zeros((0, 3), np.float32)).search(np.ones(3, np.float32)) == []


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_scores_are_those_of_exact_arithmetic(length: int, seed: int) -> None:
    """No order of adding changes a score: held against fractions."""
    random = np.random.default_rng(seed)
    rows = unit(*random.normal(size=(5, length)).tolist())
    for row, score in VectorIndex(rows[:4]).search(rows[4]):
        left, right = ([round(float(number) * 2**24) for number in vector] for vector in (rows[row], rows[4]))
        exact = Fraction(sum(a * b for a, b in zip(left, right, strict=True)), 2**48)
        assert score == max(-1.0, min(1.0, float(np.round(float(exact), 6))))


def test_many_rows_are_searched_in_parts() -> None:
    random = np.random.default_rng(1)
    rows = unit(*random.normal(size=(10_000, 8)).tolist())
    found = VectorIndex(rows).search(rows[9_999], max_hits=3)
    assert found[0] == (9_999, 1.0)
    plain = rows.astype(np.float64) @ rows[9_999].astype(np.float64)
    assert [row for row, _ in found] == np.argsort(-plain)[:3].tolist()
