"""The settings of a model's requests: those of the suite, in the form that the model supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from holodeck_action.llm.model_facts import EFFORTS, KnownModel, accepts_sampling, known_model, thinks
from holodeck_action.llm.providers import ModelPlan, Reasoning
from holodeck_action.suite.model.providers import LLMProvider

_LEAST_BUDGET = 1024
"""Minimum thinking tokens that Anthropic accepts (its guide on extended thinking)."""

_RESPONSES_ONLY = ("max",)
"""Levels of effort that OpenAI accepts only over the Responses API."""


class SentSettings(Struct, frozen=True):
    """The settings of a model's requests.

    Attributes:
        settings: the settings to send (see `codecs.codec.Codec.build_request`).
        notices: one sentence for each setting of the suite that is changed or not sent.
    """

    settings: Mapping[str, Any]
    notices: tuple[str, ...] = ()


def sent_settings(plan: ModelPlan, known_model: KnownModel, *, responses: bool = False) -> SentSettings:
    """Return the settings of a model's requests.

    Args:
        plan: the model.
        known_model: features of the model.
        responses: whether requests use OpenAI's Responses API.
    """
    thinking, of_thinking = _thinking_settings(plan.provider, plan.name, plan.reasoning, known_model, responses)
    settings = {**plan.settings, **thinking}
    dropped: list[str] = [
        name for name in ("temperature", "top_p") if name in settings and not accepts_sampling(known_model, settings)
    ]
    notices = list(_unsent_notices(plan.name, [name for name in dropped if name in plan.written]))
    if "max_tokens" in settings:
        settings["max_tokens"] += _thinking_budget(settings)
        if "max_tokens" not in plan.written and _thinks_within_limit(known_model, settings):
            dropped.append("max_tokens")
            notices.append(
                f"no max_tokens is sent to {plan.name}, whose thinking would use up the default of "
                f"{settings['max_tokens']}; write `max_tokens` below `model:` to limit thinking and answer together"
            )
    sent = {name: value for name, value in settings.items() if name not in dropped}
    return SentSettings(sent, (*notices, *of_thinking))


def answer_limit(model: LLMProvider, reasoning: Reasoning) -> int | None:
    """Return the maximum tokens of a model's answers without a thinking budget; None if no limit is sent."""
    if "max_tokens" in model.model_fields_set:
        return model.max_tokens
    known = known_model(model.provider, model.name)
    thinking, _ = _thinking_settings(model.provider, model.name, reasoning, known, responses=False)
    return None if _thinks_within_limit(known, thinking) else model.max_tokens


def _thinks_within_limit(known_model: KnownModel, settings: Mapping[str, Any]) -> bool:
    """Return whether thinking counts towards the token limit of the answer."""
    return thinks(known_model, settings) and not _thinking_budget(settings)


def _thinking_budget(settings: Mapping[str, Any]) -> int:
    budget: int = settings.get("thinking", {}).get("budget_tokens", 0)
    return budget


def _thinking_settings(
    provider: str, name: str, wanted: Reasoning, known_model: KnownModel, responses: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the settings `effort` and `thinking`, and notices about changes."""
    settings: dict[str, Any] = {}
    notices: list[str] = []
    if wanted.effort is not None:
        field, effort = f"{wanted.block}.effort", _accepted_effort(provider, wanted.effort, known_model, responses)
        if effort is None:
            notices += _unsent_notices(name, [field])
        else:
            settings["effort"] = effort
            if effort != wanted.effort:
                notices.append(f"{field} {wanted.effort} is sent to {name} as {effort}, the closest value it accepts")
    if wanted.budget is None:
        return settings, notices
    field = f"{wanted.block}.extended_thinking"
    if provider != "anthropic":
        return settings, [*_unsent_notices(name, [field]), *notices]
    field = f"{field}.budget_tokens"
    if not known_model.takes_budget:
        notices.append(
            f"{field} is not sent to {name}, which decides itself how long it thinks; `{wanted.block}.effort` guides it"
        )
        return {**settings, "thinking": {"type": "adaptive"}}, notices
    sent = max(_LEAST_BUDGET, wanted.budget)
    if sent != wanted.budget:
        notices.append(f"{field} {wanted.budget} is sent to {name} as {sent}, the smallest value it accepts")
    return {**settings, "thinking": {"type": "enabled", "budget_tokens": sent}}, notices


def closest_effort(wanted: str, accepted: Sequence[str]) -> str:
    """Return the lowest accepted level of effort that is not below the wanted one; the highest if all are below it."""
    return next((level for level in accepted if EFFORTS.index(level) >= EFFORTS.index(wanted)), accepted[-1])


def _accepted_effort(provider: str, wanted: str, known_model: KnownModel, responses: bool) -> str | None:
    """Return the level of effort to send; None if the model supports no level."""
    if known_model.efforts is None:
        # A deployment, or a model of another service: its refusal shows what it accepts.
        return wanted
    by_chat = provider != "anthropic" and not responses
    accepted = [level for level in known_model.efforts if not (by_chat and level in _RESPONSES_ONLY)]
    return closest_effort(wanted, accepted) if accepted else None


def _unsent_notices(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return a tuple with one notice about all settings that a model does not support, or an empty tuple."""
    if not names:
        return ()
    verb = "are" if len(names) > 1 else "is"
    return (f"{' and '.join(names)} {verb} not sent to {name}, which does not accept it",)
