"""The expected texts of `similar` in one run, and the notices about thresholds that unrelated texts reach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

_MOST_TEXTS = 40
"""Maximum texts of one model and threshold, so that there are at most 780 pairs."""
_FEWEST_TEXTS = 3
"""Two texts are one pair, which may be alike by chance."""
_TYPICAL = 0.9
"""Share of the unrelated pairs that lie below the proposed threshold; the others may be related after all."""


class ExpectedTexts:
    """Expected texts of different cases with their vectors. Two of them are an unrelated pair."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._vectors: dict[tuple[str, float], dict[str, Sequence[float]]] = {}

    def add(self, model: str, threshold: float, text: str, vector: Sequence[float]) -> None:
        """Keep a text; of many, those that come first in the order of the alphabet.

        Args:
            model: name of the embedding model.
            threshold: lowest passing score of the metric.
            text: the expected text.
            vector: the text's vector, of length 1.
        """
        kept = self._vectors.setdefault((model, threshold), {})
        kept[text] = vector
        if len(kept) > _MOST_TEXTS:
            # Independent of the order in which cases end.
            del kept[max(kept)]

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence for each threshold that at least half of the unrelated pairs reach."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        for (model, threshold), vectors in sorted(self._vectors.items()):
            if len(vectors) < _FEWEST_TEXTS:
                continue
            cosines = sorted(
                math.fsum(a * b for a, b in zip(first, second, strict=True))
                for first, second in combinations(vectors.values(), 2)
            )
            reached = sum(round(cosine, 4) >= threshold for cosine in cosines)
            if 2 * reached >= len(cosines):
                typical = math.ceil(100 * cosines[math.ceil(_TYPICAL * len(cosines)) - 1]) / 100
                remedy = f"raise it above {typical:.2f}" if typical < 1 else "choose another embedding model"
                yield (
                    f"similar: {reached} of {len(cosines)} unrelated pairs of this suite's expected texts reach the "
                    f"threshold {threshold:g} with {model}; {remedy}"
                )
