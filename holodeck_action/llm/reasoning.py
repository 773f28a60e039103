"""Converts the reasoning settings `effort` and `extended_thinking` to the form that each provider's models support."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from holodeck_action.llm.model_facts import EFFORTS, KnownModel
from holodeck_action.llm.providers import ModelPlan

_LEAST_BUDGET = 1024
"""Minimum thinking tokens that Anthropic accepts (its guide on extended thinking)."""

_NEVER_REASONS = re.compile(r"(?:^|[/:])(?:gpt-3|gpt-4|chatgpt-4o|gpt-5-chat)")
"""Matches names of OpenAI models that do not support the setting `effort`."""

_WITH_LEVELS = re.compile(r"(?:^|/)gpt-oss")
"""Matches names of Ollama models that support levels of effort."""


class Thinking(Struct, frozen=True):
    """Request settings for reasoning.

    Attributes:
        settings: the settings to send (see `codecs.codec.Codec.build_request`).
        without_sampling: whether temperature and top_p must be omitted.
        more_tokens: tokens to add to the limit of the answer.
        notices: one sentence for each setting that is changed or not sent.
    """

    settings: Mapping[str, Any]
    without_sampling: bool = False
    more_tokens: int = 0
    notices: tuple[str, ...] = ()


def thinking_settings(plan: ModelPlan, known_model: KnownModel) -> Thinking:
    """Return the request settings for a model's reasoning.

    Args:
        plan: the model, with `reasoning`.
        known_model: features of the model.
    """
    wanted = plan.reasoning
    if wanted.effort is None and wanted.budget is None:
        return Thinking({})
    if plan.provider == "anthropic":
        return _anthropic_thinking(plan, known_model)
    notices: list[str] = []
    if wanted.budget is not None:
        notices.append(_unsent_notice(plan, "extended_thinking"))
    effort = _openai_effort(plan, known_model)
    if wanted.effort is not None:
        if effort is None:
            notices.append(_unsent_notice(plan, "effort"))
        elif effort != {"max": "xhigh"}.get(wanted.effort, wanted.effort):
            notices.append(_changed_notice(plan, effort))
    if effort is None:
        return Thinking({}, notices=tuple(notices))
    return Thinking({"effort": effort}, known_model.reasons, notices=tuple(notices))


def _openai_effort(plan: ModelPlan, known_model: KnownModel) -> str | None:
    """Return the supported level of effort closest to the requested one; None if the model supports no level."""
    if plan.reasoning.effort is None:
        return None
    wanted = {"max": "xhigh"}.get(plan.reasoning.effort, plan.reasoning.effort)
    if plan.provider == "ollama":
        return min(wanted, "high", key=EFFORTS.index) if _WITH_LEVELS.search(plan.name) else None
    # Other names may be deployments or models of compatible servers, about which nothing is known.
    named = urlsplit(plan.account.base_url).hostname == "api.openai.com" or _NEVER_REASONS.search(plan.name)
    if named and not known_model.reasons:
        return None
    above = [effort for effort in known_model.efforts if EFFORTS.index(effort) >= EFFORTS.index(wanted)]
    return above[0] if above else known_model.efforts[-1]


def _anthropic_thinking(plan: ModelPlan, known_model: KnownModel) -> Thinking:
    wanted, more_tokens = plan.reasoning, 0
    settings: dict[str, Any] = {}
    notices: list[str] = []
    if wanted.effort is not None:
        if known_model.takes_effort:
            top = wanted.effort == "max" and not known_model.takes_top_effort
            settings["effort"] = "high" if top else wanted.effort
            if top:
                notices.append(_changed_notice(plan, "high"))
        else:
            notices.append(_unsent_notice(plan, "effort"))
    if wanted.budget is not None:
        if not known_model.takes_budget:
            settings["thinking"] = {"type": "adaptive"}
            notices.append(
                f"{wanted.block}.extended_thinking.budget_tokens is not sent to {plan.name}, which decides "
                f"itself how long it thinks; `{wanted.block}.effort` guides it"
            )
        else:
            more_tokens = max(_LEAST_BUDGET, wanted.budget)
            settings["thinking"] = {"type": "enabled", "budget_tokens": more_tokens}
            if more_tokens != wanted.budget:
                notices.append(
                    f"{wanted.block}.extended_thinking.budget_tokens {wanted.budget} is sent to {plan.name} as "
                    f"{more_tokens}, the smallest value it accepts"
                )
    return Thinking(settings, "thinking" in settings, more_tokens, tuple(notices))


def _unsent_notice(plan: ModelPlan, field: str) -> str:
    return f"{plan.reasoning.block}.{field} is not sent to {plan.name}, which does not accept it"


def _changed_notice(plan: ModelPlan, effort: str) -> str:
    wanted = plan.reasoning
    return f"{wanted.block}.effort {wanted.effort} is sent to {plan.name} as {effort}, the closest value it accepts"
