"""Calls that tools make to search documents: known once the documents are read, before anybody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holodeck_action.llm.providers import ModelPlan

CONTEXTS = "contexts of chunks"
EMBEDDINGS = "embeddings of documents"
QUERIES = "embedding of the query"
RERANKING = "reranking"


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """Calls of one model for one purpose, before the first case.

    Attributes:
        purpose: such as `contexts of chunks`.
        model: who is asked.
        calls: the least and the most.
        prompt_tokens: of all calls together, the least and the most.
        answer_tokens: of all answers together, at most; 0 for embeddings.
        per_search: whether they are made for each search of the agent instead, whose number nobody can foretell.
    """

    purpose: str
    model: ModelPlan
    calls: tuple[int, int]
    prompt_tokens: tuple[int, int] = (0, 0)
    answer_tokens: int = 0
    per_search: bool = False


@runtime_checkable
class PlansCalls(Protocol):
    """Tools that can tell their calls."""

    async def planned(self) -> Sequence[PlannedCalls]:
        """Read the documents, which are kept for `open`, and reckon.

        Raises:
            AgentError: `tool_unavailable`, a file cannot be read.
        """
        ...
