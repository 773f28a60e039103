"""Computes vectors of texts, from their words or with the embedding model of a suite, and their distances."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from holodeck_action.llm.embeddings import Embedder, EmbeddingPlan, resolve_embedding
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.llm.usage import list_price
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.run.loading import LoadedSuite
from holodeck_action.run.model_calls import make_budget
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIZE = 2048
_MOST_WORDS = 2000
_WORD = lazy_pattern(r"\w+")


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


def embedding_plan(loaded: LoadedSuite | None) -> EmbeddingPlan:
    """Return the embedding model of a suite.

    Raises:
        ConfigurationError: there is no suite, or its embedding model cannot be called.
    """
    if loaded is None:
        raise ConfigurationError(["--embed needs --suite, whose embedding model it calls"])
    try:
        return resolve_embedding(loaded.suite.agent, loaded.environ, model=None, dimensions=None, path="--embed")
    except ModelConfigError as error:
        raise ConfigurationError([loaded.redactor.text(str(error))]) from None


def model_vectors(
    texts: Sequence[str], plan: EmbeddingPlan, redactor: Redactor, max_tokens: int | None
) -> NDArray[np.float32]:
    """Return an embedding of length 1 for each text, one per row; the model calls use at most `max_tokens` in total.

    Raises:
        ModelCallError: the model gave no answer.
    """

    async def ask() -> NDArray[np.float32]:
        budget = make_budget(None, max_tokens)
        wire = Wire(WireSettings(), redactor=redactor, price=list_price, budgets=() if budget is None else (budget,))
        try:
            return await Embedder(plan, wire).embed(texts)
        finally:
            await wire.close()

    return asyncio.run(ask())
