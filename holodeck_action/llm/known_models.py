"""What is known about a model by its name: what it takes, and how its schemas must be written.

Facts about the providers' models (their documentation of reasoning, of structured output and of limits), in the form in
which a request is made of them. A new family is a row here; a model of no row gets what its provider takes of all.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

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
    match provider:
        case "anthropic":
            return _anthropic(name)
        case "azure_openai":
            return _azure(name.lower())
        case "ollama":
            return _ollama(name.lower())
        case _:
            # Tuned models may be of families that know fewer keywords.
            return _openai(name, "openai_compatible" if name.startswith("ft:") else "openai")


_PRO = ("medium", "high", "xhigh")


class _Reasoning(Struct, frozen=True):
    """How a family thinks: unasked, and whether it can be asked not to; its efforts where they are fewer than all."""

    unasked: bool
    can_stop: bool
    efforts: tuple[str, ...] = EFFORTS


_CHAT = _Reasoning(True, False, ("medium",))
_ON_REQUEST = _Reasoning(False, True)
_UNTIL_STOPPED = _Reasoning(True, True)
_O_SERIES = _Reasoning(True, False, ("low", "medium", "high"))
_LOW_UP = _Reasoning(True, False, ("low", "medium", "high", "xhigh"))

_REASONING: tuple[tuple[str, _Reasoning | None], ...] = (
    ("gpt-6-astra", _LOW_UP),
    ("gpt-6.1-sol", _LOW_UP),
    ("gpt-6.1-terra", _UNTIL_STOPPED),
    ("gpt-6-sol", _UNTIL_STOPPED),
    ("gpt-6-luna", _UNTIL_STOPPED),
    ("gpt-5.6", _UNTIL_STOPPED),
    ("gpt-5.5-pro", _Reasoning(True, False, _PRO)),
    ("gpt-5.5", _UNTIL_STOPPED),
    ("gpt-5.4-pro", _Reasoning(True, False, _PRO)),
    ("gpt-5.4", _ON_REQUEST),
    ("gpt-5.3-chat", _CHAT),
    ("gpt-5.3", _ON_REQUEST),
    ("gpt-5.2-pro", _Reasoning(True, False, _PRO)),
    ("gpt-5.2-chat", _CHAT),
    ("gpt-5.2", _ON_REQUEST),
    ("gpt-5.1-codex", _Reasoning(True, False)),
    ("gpt-5.1-chat", _CHAT),
    ("gpt-5.1", _ON_REQUEST),
    ("gpt-5-chat", None),
    ("gpt-5-pro", _Reasoning(True, False, ("high",))),
    ("gpt-5-codex", _Reasoning(True, False)),
    ("gpt-5", _Reasoning(True, False, ("minimal", "low", "medium", "high"))),
    ("o1", _O_SERIES),
    ("o3", _O_SERIES),
    ("o4", _O_SERIES),
)
"""OpenAI's families by the beginning of their names; the first that fits counts."""


def _openai(name: str, schemas: Schemas) -> KnownModel:
    reasoning = next((found for prefix, found in _REASONING if name.startswith(prefix)), None)
    known = KnownModel(schemas, system_role="user" if name.startswith("o1-mini") else "system")
    if reasoning is None:
        return known
    return replace(
        known,
        reasons=True,
        efforts=reasoning.efforts,
        no_effort=reasoning.can_stop,
        reasons_unasked=reasoning.unasked,
    )


_AZURE: tuple[tuple[str, KnownModel], ...] = (
    ("llama", KnownModel("inlined", structured=False)),
    ("meta-", KnownModel("inlined", structured=False)),
    ("deepseek", KnownModel("openai_compatible", structured=False)),
    ("mistral", KnownModel("openai_compatible", structured=False)),
    ("ministral", KnownModel("openai_compatible", structured=False)),
    ("magistral", KnownModel("openai_compatible", structured=False)),
    ("cohere-", KnownModel("openai_compatible", structured=False)),
    ("grok", KnownModel("grok")),
)
"""Deployments of other makers' models that bear their names, as Azure's catalogue suggests."""


def _azure(name: str) -> KnownModel:
    other = next((known for prefix, known in _AZURE if name.startswith(prefix)), None)
    if other is not None:
        return other
    return _openai(name, "inlined_openai" if name.startswith("gpt-oss") else "openai_compatible")


_OLLAMA: tuple[tuple[str, Schemas], ...] = (
    ("llama", "inlined"),
    ("gemma", "gemma"),
    ("qwen", "inlined"),
    ("qwq", "inlined"),
    ("gpt-oss", "inlined_openai"),
    ("glm-5.3", "inlined"),
)


def _ollama(name: str) -> KnownModel:
    schemas: Schemas = next((found for prefix, found in _OLLAMA if name.startswith(prefix)), "openai_compatible")
    return KnownModel(schemas, strict=False, thought_field="reasoning")


def _claude(*families: str) -> re.Pattern[str]:
    return re.compile("claude-(?:" + "|".join(families) + ")")


_FIVES = ("fable-5", "mythos-5", "opus-5", "sonnet-5", "haiku-5-5")
_SINCE_4_7 = ("opus-4-7", "opus-4-8", *_FIVES)
_SINCE_4_6 = ("opus-4-6", "sonnet-4-6", *_SINCE_4_7)
_STRUCTURED = _claude("haiku-4-5", "sonnet-4-5", "opus-4-1", "opus-4-5", *_SINCE_4_6)
_EFFORT = _claude("opus-4-5", *_SINCE_4_6)
_ADAPTIVE_ONLY = _claude(*_SINCE_4_7)
"""Those that decide themselves how long they think, and take neither temperature nor top_p."""
_LONG = _claude(*_SINCE_4_6)
_MIDDLE = _claude("haiku-4-5", "opus-4-5", "sonnet-4-5")
_BINDING = _claude("fable-5-1", "fable-5-2", "mythos-5-2", "opus-5-5", "sonnet-5-5", "haiku-5-5")
_SHORT = re.compile(r"claude-(?:3|4-|opus-4(?:-[012]|@|$)|sonnet-4(?:-[02]|@|$))")
"""Those that refuse a limit that the context window cannot hold beside the conversation."""


_IN_BEDROCK = re.compile(r"^(?:[a-z]+\.)?anthropic\.")


def _anthropic(full_name: str) -> KnownModel:
    name = _IN_BEDROCK.sub("", full_name)
    most = 128_000 if _LONG.match(name) else 64_000 if _MIDDLE.match(name) else None
    adaptive = _ADAPTIVE_ONLY.match(name) is not None
    return KnownModel(
        "anthropic",
        structured=_STRUCTURED.match(name) is not None,
        sampling=not adaptive,
        most_tokens=most,
        default_tokens=4096 if _SHORT.match(name) else most or 16_384,
        takes_effort=_EFFORT.match(name) is not None,
        takes_top_effort=not name.startswith("claude-opus-4-5"),
        takes_budget=not adaptive,
        binds_thoughts=_BINDING.match(name) is not None,
    )
