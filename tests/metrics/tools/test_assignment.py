"""Pairing and aligning, against brute force and scipy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

import numpy
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.tools.call_table import (
    bit_positions,
    common_subsequence_length,
    lowest_bit,
    maximum_matching,
)

WIDTH = 6
rows_of_bits = st.lists(st.integers(0, (1 << WIDTH) - 1), max_size=6)


def agree(rows: Sequence[int], left: int, right: int) -> bool:
    return bool(rows[left] >> right & 1)


def size_of(rows: Sequence[int]) -> int:
    """Size of a checked matching."""
    partners = maximum_matching(rows)
    taken = [partner for partner in partners if partner is not None]
    assert len(partners) == len(rows)
    assert len(set(taken)) == len(taken)
    assert all(agree(rows, left, right) for left, right in enumerate(partners) if right is not None)
    return len(taken)


@given(rows_of_bits)
def test_no_assignment_pairs_more(rows: list[int]) -> None:
    padded = [*range(WIDTH), *[None] * len(rows)]
    best = max(
        sum(right is not None and agree(rows, left, right) for left, right in enumerate(chosen))
        for chosen in permutations(padded[: max(WIDTH, len(rows))], len(rows))
    )
    assert size_of(rows) == best


@pytest.mark.full
@given(st.integers(1, 40), st.integers(1, 40), st.floats(0.02, 0.6), st.randoms(use_true_random=False))
def test_as_many_pairs_as_the_linear_sum_assignment(lefts, rights, density, random) -> None:  # type: ignore[no-untyped-def]
    weights = numpy.array([[int(random.random() < density) for _ in range(rights)] for _ in range(lefts)])
    rows = [sum(1 << int(right) for right in numpy.flatnonzero(row)) for row in weights]
    assert size_of(rows) == weights[scipy.optimize.linear_sum_assignment(weights, maximize=True)].sum()


def test_an_early_choice_is_revised_when_a_later_item_needs_it() -> None:
    assert maximum_matching([0b11, 0b01]) == [1, 0]
    assert maximum_matching([0b011, 0b011, 0b011, 0b100]) == [0, 1, None, 2]


@given(rows_of_bits)
def test_no_common_subsequence_is_longer(rows: list[int]) -> None:
    best = max(
        size
        for size in range(min(len(rows), WIDTH) + 1)
        if any(
            all(agree(rows, left, right) for left, right in zip(lefts, rights, strict=True))
            for lefts in combinations(range(len(rows)), size)
            for rights in combinations(range(WIDTH), size)
        )
    )
    assert common_subsequence_length(rows, WIDTH) == best


@given(st.sets(st.integers(0, 200)))
def test_bits_are_listed_lowest_first(positions: set[int]) -> None:
    mask = sum(1 << position for position in positions)
    assert list(bit_positions(mask)) == sorted(positions)
    assert lowest_bit(mask) == min(positions, default=-1)
