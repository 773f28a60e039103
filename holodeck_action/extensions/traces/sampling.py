"""Draws a stratified sample of conversations, with weights for unbiased means over all conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal

from msgspec import Struct

Strata = Literal["model", "tag", "tool"]
NONE = "(none)"
"""The stratum of conversations without a model, tag or tool."""
OTHER = "(other)"
"""The stratum in which the smallest strata are merged if there are more strata than the sample can represent."""
SMALLEST, LARGEST = 0.001, 1000.0
"""Smallest and largest valid weight of a case."""


class Drawn(Struct, frozen=True):
    """A sampled conversation: its position among all conversations, and its weight; a sample's mean weight is 1."""

    position: int
    weight: float


def stratum_of(names: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return the stratum of a conversation: the rarest of its models, tags or tools; `NONE` if it has none.

    Args:
        names: the models, tags or tools of the conversation.
        counts: number of conversations by model, tag or tool.
    """
    return min(names, key=lambda name: (counts[name], name), default=NONE)


def draw_sample(conversation_strata: Sequence[Sequence[str]], size: int, seed: int) -> list[Drawn]:
    """Return a sample in the order of the conversations.

    One half of the sample is divided equally among the strata, the other half in proportion to their sizes; within a
    stratum, each conversation is equally likely. The weight of a conversation is (N_h/n_h)/(N/n), where its stratum has
    N_h conversations, n_h of them in the sample, and N and n are the totals over all strata. Source: Cochran, Sampling
    Techniques (1977), §5.3.

    Args:
        conversation_strata: the models, tags or tools of each conversation.
        size: number of conversations to draw, at least 1; if there are not more, all are returned.
        seed: seed of the random choice.
    """
    if len(conversation_strata) <= size:
        return [Drawn(position, 1.0) for position in range(len(conversation_strata))]
    counts = Counter(name for names in conversation_strata for name in set(names))
    strata: dict[str, list[int]] = {}
    for position, names in enumerate(conversation_strata):
        strata.setdefault(stratum_of(names, counts), []).append(position)
    strata = _merge_rarest(strata, size)
    sizes = _allocate({name: len(members) for name, members in strata.items()}, size)
    random, overall = Random(seed), len(conversation_strata) / size
    found: list[Drawn] = []
    for name in sorted(strata):
        members, number = strata[name], sizes[name]
        weight = min(max(len(members) / number / overall, SMALLEST), LARGEST)
        found += (Drawn(position, weight) for position in random.sample(members, number))
    return sorted(found, key=lambda drawn: drawn.position)


def _merge_rarest(strata: Mapping[str, list[int]], size: int) -> dict[str, list[int]]:
    """Return at most `size` strata, after merging the smallest ones into `OTHER`."""
    ordered = sorted(strata, key=lambda name: (-len(strata[name]), name))
    if len(ordered) <= size:
        return dict(strata)
    kept = {name: strata[name] for name in ordered[: size - 1]}
    rest = sorted(position for name in ordered[size - 1 :] for position in strata[name])
    return {**kept, OTHER: [*kept.pop(OTHER, ()), *rest]}


def _allocate(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Return the number of conversations to draw from each stratum: from 1 to its size, `total` over all strata."""
    share = max(1, total // 2 // len(sizes))
    found = {name: min(number, share) for name, number in sizes.items()}
    everything = sum(sizes.values())
    wanted = {name: total / 2 / len(sizes) + total / 2 * number / everything for name, number in sizes.items()}
    # The strata that are furthest from their share get the next ones.
    while sum(found.values()) < total:
        open_ones = [name for name in sizes if found[name] < sizes[name]]
        name = max(open_ones, key=lambda each: (wanted[each] - found[each], sizes[each], each))
        found[name] += 1
    return found
