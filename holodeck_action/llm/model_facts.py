"""Features of models: the supported settings, and the dialect of JSON schemas.

`known_models.py` lists the models. A model that is not listed gets the defaults of its provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal

from msgspec import Struct

from holodeck_action.llm.known_models import FAMILIES
from holodeck_action.suite.model.providers import ProviderName

Schemas = Literal["openai", "openai_compatible", "inlined", "inlined_openai", "grok", "gemma", "anthropic"]
"""Dialects of JSON schemas; see `codecs.schemas`."""

EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
"""Levels of reasoning effort, from lowest to highest."""


class KnownModel(Struct, frozen=True):
    """The features of a model.

    Attributes:
        schemas: dialect of the JSON schemas that the model accepts.
        structured: whether schemas of answers can be enforced.
        reasons: whether the model can think before it answers.
        efforts: supported levels of reasoning effort, from lowest to highest.
        no_effort: whether thinking can be switched off.
        reasons_unasked: whether the model thinks by default, without a setting.
        system_role: role of messages with instructions.
        strict: whether requests mark tools and schemas as strict.
        thought_field: name of the answer field that contains thoughts; None if several fields are possible.
        sampling: whether the model supports temperature and top_p.
        most_tokens: maximum tokens of an answer; None if unknown.
        default_tokens: maximum tokens of an answer if the suite sets no limit; only for Anthropic's models.
        takes_effort: whether an Anthropic model supports the setting `effort`.
        takes_top_effort: whether an Anthropic model supports the effort `max`.
        takes_budget: whether the model supports a token budget for thinking.
        binds_thoughts: whether thoughts of the model are valid only in the conversation that they come from.
    """

    schemas: Schemas
    structured: bool = True
    reasons: bool = False
    efforts: tuple[str, ...] = EFFORTS
    no_effort: bool = False
    reasons_unasked: bool = False
    system_role: Literal["system", "user"] = "system"
    strict: bool = True
    thought_field: str | None = None
    sampling: bool = True
    most_tokens: int | None = None
    default_tokens: int = 16_384
    takes_effort: bool = False
    takes_top_effort: bool = True
    takes_budget: bool = True
    binds_thoughts: bool = False


def known_model(provider: ProviderName, name: str) -> KnownModel:
    """Return the features of a model.

    Args:
        provider: the provider's name in agent.yaml; services with OpenAI's API are treated as OpenAI.
        name: the name of the model, or of the deployment for Azure OpenAI.
    """
    families = _families(provider if provider in FAMILIES else "openai")
    name = _IN_BEDROCK.sub("", name) if provider == "anthropic" else name
    return families[longest_prefix(families, name.lower() if provider in _ANY_CASE else name)]


def longest_prefix(prefixes: Iterable[str], name: str) -> str:
    """Return the longest element of `prefixes` that is a prefix of a name. One element must be empty; `$` means the end
    of the name.
    """
    return max((start for start in prefixes if f"{name}$".startswith(start)), key=len)


@cache
def _families(provider: str) -> dict[str, KnownModel]:
    return {start: KnownModel(**known) for known, starts in FAMILIES[provider] for start in starts}


_ANY_CASE = ("azure_openai", "ollama")
_IN_BEDROCK = re.compile(r"^(?:[a-z]+\.)?anthropic\.")
