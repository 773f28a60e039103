"""Ranks, and reciprocal-rank fusion worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.knowledge.ranking import Ranking, fuse, ranks, sort_hits

SCORES = st.dictionaries(st.integers(0, 20), st.floats(0.001, 1.0), max_size=12)


def test_the_sum_by_hand() -> None:
    semantic = Ranking({0: 0.9, 1: 0.8, 2: 0.1}, 0.5)
    keyword = Ranking({1: 7.0, 3: 2.0}, 0.3)
    exact = Ranking({3: 1.0}, 0.2)
    assert fuse([semantic, keyword, exact], 60) == {
        0: pytest.approx(61 * (0.5 / 61)),
        1: pytest.approx(61 * (0.5 / 62 + 0.3 / 61)),
        2: pytest.approx(61 * (0.5 / 63)),
        3: pytest.approx(61 * (0.3 / 62 + 0.2 / 61)),
    }


def test_k_and_weights_count() -> None:
    one, other = Ranking({0: 2.0, 1: 1.0}, 0.9), Ranking({1: 2.0, 0: 1.0}, 0.1)
    assert fuse([one, other], 1) == {
        0: pytest.approx(2 * (0.9 / 2 + 0.1 / 3)),
        1: pytest.approx(2 * (0.9 / 3 + 0.1 / 2)),
    }
    assert fuse([one, Ranking({1: 5.0}, 0.0)], 60).keys() == {0, 1}
    assert fuse([Ranking({1: 5.0}, 0.0)], 60) == {}


def test_equal_scores_share_a_rank() -> None:
    assert ranks({0: 0.5, 1: 0.9, 2: 0.5, 3: 0.1}) == {1: 1, 0: 2, 2: 2, 3: 4}
    # Closer than the rounding: what another processor might compute differently decides nothing.
    assert ranks({0: 0.5, 1: 0.5 + 1e-12}) == {0: 1, 1: 1}
    assert sort_hits({3: 0.5, 1: 0.5 + 1e-12, 2: 0.7}) == [(2, 0.7), (1, 0.5), (3, 0.5)]


# Of a weight near the smallest number there is, a score may round to zero.
@given(SCORES, SCORES, st.floats(0.0, 1.0, allow_subnormal=False), st.integers(1, 100))
def test_fused_scores_are_from_0_to_1(first: dict[int, float], second: dict[int, float], weight: float, k: int) -> None:
    fused = fuse([Ranking(first, weight), Ranking(second, 1.0 - weight)], k)
    assert all(0.0 < score <= 1.0 + 1e-9 for score in fused.values())
    assert fused.keys() <= first.keys() | second.keys()


def test_first_everywhere_is_1() -> None:
    assert fuse([Ranking({4: 1.0, 5: 0.5}, 0.7), Ranking({4: 3.0}, 0.3)], 60)[4] == pytest.approx(1.0)
