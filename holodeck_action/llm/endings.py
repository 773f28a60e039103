"""How a model ended an answer: whole, declined, or so that there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holodeck_action.llm.errors import filtered, malformed
from holodeck_action.llm.providers import ModelPlan

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def refusal_of(response: ModelResponse, plan: ModelPlan) -> str | None:
    """Return what a model said that declined to answer, perhaps nothing; None where it did not decline.

    Args:
        response: the answer, of pydantic-ai.
        plan: the model that was asked.

    Raises:
        ModelCallError: the provider's filter took the answer away (`content_filter`), or it is not whole (`bad_reply`).
    """
    details = response.provider_details or {}
    refusal = details.get("refusal")
    refused = bool(refusal) or details.get("finish_reason") == "refusal"
    if response.finish_reason == "content_filter" and not refused:
        raise filtered(plan, details)
    if plan.provider == "anthropic" and response.finish_reason is None and not details.get("finish_reason"):
        # Its streams are joined here, and one that ends too early would pass for a whole answer.
        raise malformed(plan, "it breaks off before its end")
    if response.finish_reason == "error":
        raise malformed(plan, "it ended with an error")
    if not refused:
        return None
    return refusal if isinstance(refusal, str) else response.text or ""
