"""Computes distances between texts from their words and pairs of neighbouring words, without a model."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIZE = 2048
_MOST_WORDS = 2000
_WORD = re.compile(r"\w+")


def text_vectors(texts: Iterable[str]) -> NDArray[np.float32]:
    """Return a vector of length 1 for each text; texts without words get a vector of zeros.

    A vector counts the text's words and pairs of neighbouring words; a checksum of the word or pair selects the
    position in the vector (feature hashing).
    """
    import numpy as np

    rows = []
    for text in texts:
        row = np.zeros(_SIZE, dtype=np.float32)
        words = _WORD.findall(text.casefold())[:_MOST_WORDS]
        for item in (*words, *(" ".join(pair) for pair in pairwise(words))):
            row[zlib.crc32(item.encode("utf-8", "replace")) % _SIZE] += 1
        length = float(np.linalg.norm(row))
        rows.append(row / length if length else row)
    return np.array(rows, dtype=np.float32).reshape(len(rows), _SIZE)


def farthest_first(vectors: NDArray[np.float32], known: NDArray[np.float32], count: int) -> list[int]:
    """Return indexes of vectors, each the farthest from `known` and from the vectors chosen before it.

    Of equally distant vectors, the first one is chosen. The distance of a vector from a set is 1 minus its largest
    cosine similarity to a vector of the set.

    Args:
        vectors: vectors of length 1, one per row.
        known: vectors of length 1, one per row; may be empty.
        count: maximum number of indexes.
    """
    import numpy as np

    nearest = (vectors @ known.T).max(axis=1) if len(known) else np.full(len(vectors), -1, dtype=np.float32)
    found: list[int] = []
    while len(found) < min(count, len(vectors)):
        at = int(nearest.argmin())
        found.append(at)
        nearest = np.maximum(nearest, vectors @ vectors[at])
        nearest[found] = np.inf
    return found
