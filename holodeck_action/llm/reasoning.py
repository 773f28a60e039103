"""How hard a model is asked to think: `effort` and `extended_thinking` as each provider's models take them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from holodeck_action.llm.model_facts import EFFORTS, KnownModel
from holodeck_action.llm.providers import ModelPlan

_LEAST_BUDGET = 1024
"""Fewest thinking tokens that Anthropic takes (its guide on extended thinking)."""

_NEVER_REASONS = re.compile(r"(?:^|[/:])(?:gpt-3|gpt-4|chatgpt-4o|gpt-5-chat)")
"""Names of OpenAI models that have no effort to set."""

_WITH_LEVELS = re.compile(r"(?:^|/)gpt-oss")
"""Names of the models of Ollama whose effort has levels."""


class Thinking(Struct, frozen=True):
    """What is sent for it.

    Attributes:
        settings: what is sent (see `codecs.codec.Codec.outgoing`).
        without_sampling: whether temperature and top_p must be omitted.
        more_tokens: tokens by which the limit of the answer must be raised.
        notices: what is not sent, or not as it is written, each one sentence.
    """

    settings: Mapping[str, Any]
    without_sampling: bool = False
    more_tokens: int = 0
    notices: tuple[str, ...] = ()


def thinking_of(plan: ModelPlan, known: KnownModel) -> Thinking:
    """Decide what a model is sent.

    Args:
        plan: the model, with `reasoning`.
        known: what is known about the model.
    """
    wanted = plan.reasoning
    if wanted.effort is None and wanted.budget is None:
        return Thinking({})
    if plan.provider == "anthropic":
        return _anthropic(plan, known)
    notices: list[str] = []
    if wanted.budget is not None:
        notices.append(_not_sent(plan, "extended_thinking"))
    effort = _openai_effort(plan, known)
    if wanted.effort is not None:
        if effort is None:
            notices.append(_not_sent(plan, "effort"))
        elif effort != {"max": "xhigh"}.get(wanted.effort, wanted.effort):
            notices.append(_changed(plan, effort))
    if effort is None:
        return Thinking({}, notices=tuple(notices))
    return Thinking({"effort": effort}, known.reasons, notices=tuple(notices))


def _openai_effort(plan: ModelPlan, known: KnownModel) -> str | None:
    """Return the effort to send, the closest one that the model takes; None when it takes none."""
    if plan.reasoning.effort is None:
        return None
    wanted = {"max": "xhigh"}.get(plan.reasoning.effort, plan.reasoning.effort)
    if plan.provider == "ollama":
        return min(wanted, "high", key=EFFORTS.index) if _WITH_LEVELS.search(plan.name) else None
    # Other names may be deployments, or models of compatible servers, of which nothing is known.
    named = urlsplit(plan.account.base_url).hostname == "api.openai.com" or _NEVER_REASONS.search(plan.name)
    if named and not known.reasons:
        return None
    above = [effort for effort in known.efforts if EFFORTS.index(effort) >= EFFORTS.index(wanted)]
    return above[0] if above else known.efforts[-1]


def _anthropic(plan: ModelPlan, known: KnownModel) -> Thinking:
    wanted, more_tokens = plan.reasoning, 0
    settings: dict[str, Any] = {}
    notices: list[str] = []
    if wanted.effort is not None:
        if known.takes_effort:
            top = wanted.effort == "max" and not known.takes_top_effort
            settings["effort"] = "high" if top else wanted.effort
            if top:
                notices.append(_changed(plan, "high"))
        else:
            notices.append(_not_sent(plan, "effort"))
    if wanted.budget is not None:
        if not known.takes_budget:
            settings["thinking"] = {"type": "adaptive"}
            notices.append(
                f"{wanted.block}.extended_thinking.budget_tokens is not sent to {plan.name}, which thinks as long as "
                f"it needs; `{wanted.block}.effort` guides it"
            )
        else:
            more_tokens = max(_LEAST_BUDGET, wanted.budget)
            settings["thinking"] = {"type": "enabled", "budget_tokens": more_tokens}
            if more_tokens != wanted.budget:
                notices.append(
                    f"{wanted.block}.extended_thinking.budget_tokens {wanted.budget} is sent to {plan.name} as "
                    f"{more_tokens}, the least it takes"
                )
    return Thinking(settings, "thinking" in settings, more_tokens, tuple(notices))


def _not_sent(plan: ModelPlan, field: str) -> str:
    return f"{plan.reasoning.block}.{field} is not sent to {plan.name}, which does not take it"


def _changed(plan: ModelPlan, effort: str) -> str:
    wanted = plan.reasoning
    return f"{wanted.block}.effort {wanted.effort} is sent to {plan.name} as {effort}, the closest it takes"
