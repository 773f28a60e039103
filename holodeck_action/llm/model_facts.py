"""What is known about a model by its name: what it takes, and how its schemas must be written.

`known_models.py` holds the facts; a model that it does not tell of gets what its provider takes of all.
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
"""How JSON schemas are written for a model; see `codecs.schemas`."""

EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
"""How hard a model can be asked to think, from least to most."""


class KnownModel(Struct, frozen=True):
    """What a model takes.

    Attributes:
        schemas: how JSON schemas are written.
        structured: whether it can be held to a schema.
        reasons: whether it can think before it answers.
        efforts: how hard it can be asked to think, from least to most.
        no_effort: whether it can be asked not to think.
        reasons_unasked: whether it thinks where the request does not say.
        system_role: the role of instructions.
        strict: whether tools and schemas are marked as strict.
        thought_field: the field of an answer with its thoughts, where only one is meant; None for any.
        sampling: whether it takes temperature and top_p at all.
        most_tokens: of an answer; None where that is not known.
        default_tokens: what an answer of Anthropic's models is limited to where the suite sets no limit.
        takes_effort: whether an Anthropic model takes an effort.
        takes_top_effort: whether it takes the effort `max`.
        takes_budget: whether it takes a number of tokens to think.
        binds_thoughts: whether its thoughts belong to the conversation in which it had them.
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
    """Return what is known of a model.

    Args:
        provider: the format's name of the provider; services that speak OpenAI's language are taken for OpenAI.
        name: the model, or the deployment for Azure OpenAI.
    """
    families = _families(provider if provider in FAMILIES else "openai")
    name = _IN_BEDROCK.sub("", name) if provider == "anthropic" else name
    return families[longest(families, name.lower() if provider in _ANY_CASE else name)]


def longest(starts: Iterable[str], name: str) -> str:
    """Return the longest of some beginnings that a name has, of which one is empty; `$` stands for the end."""
    return max((start for start in starts if f"{name}$".startswith(start)), key=len)


@cache
def _families(provider: str) -> dict[str, KnownModel]:
    return {start: KnownModel(**known) for known, starts in FAMILIES[provider] for start in starts}


_ANY_CASE = ("azure_openai", "ollama")
_IN_BEDROCK = re.compile(r"^(?:[a-z]+\.)?anthropic\.")
