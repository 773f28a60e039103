"""Pairing and aligning two sequences over a relation that is given as rows of bits.

Bit `j` of `rows[i]` is set when item `i` of the left sequence agrees with item `j` of the right one. A row is one
integer, so that a step over a whole row is a single fast operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def lowest_bit(mask: int) -> int:
    """Return the position of the lowest set bit, -1 when there is none."""
    return (mask & -mask).bit_length() - 1


def maximum_matching(rows: Sequence[int]) -> list[int | None]:
    """Pair as many left items as possible with distinct right items that they agree with.

    Returns:
        for each left item the position of its partner, None without one. Left items are served in order, each with
        the lowest free partner where there is one, so the answer is deterministic.

    Source: augmenting paths, C. Berge, "Two theorems in graph theory", PNAS 43 (1957); breadth-first, O(n²) row steps.
    """
    partner: list[int | None] = [None] * len(rows)
    owner: dict[int, int] = {}
    taken = exhausted = 0
    for start in range(len(rows)):
        reached_from: dict[int, int] = {}
        unseen = ~exhausted
        queue = deque([start])
        end: int | None = None
        while queue and end is None:
            left = queue.popleft()
            reachable = rows[left] & unseen
            free = reachable & ~taken
            if free:
                end = lowest_bit(free)
                reached_from[end] = left
            else:
                for right in bits(reachable):
                    reached_from[right] = left
                    queue.append(owner[right])
                unseen &= ~reachable
        if end is None:
            # From what a failed search reached, no free item will be reachable later either.
            exhausted = ~unseen
            continue
        taken |= 1 << end
        step: int | None = end
        while step is not None:
            left = reached_from[step]
            owner[step] = left
            partner[left], step = step, partner[left]
    return partner


def common_subsequence_length(rows: Iterable[int], width: int) -> int:
    """Return the length of the longest common subsequence of the left items and the `width` right items.

    Source: H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA 2004; one row step per left item.
    """
    everything = (1 << width) - 1
    state = everything
    for row in rows:
        state = ((state + (state & row)) | (state & ~row)) & everything
    return width - state.bit_count()
