"""Computes embeddings of texts with the embedding model of a suite."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holodeck_action.llm.embeddings import Embedder, EmbeddingPlan, resolve_embedding
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.llm.usage import list_price
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.run.loading import LoadedSuite
from holodeck_action.run.model_calls import make_budget
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
