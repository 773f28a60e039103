"""Features of models: the supported settings, and the dialect of JSON schemas.

What follows from the family and version of a model is in `model_rules.py`; what depends on the service is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.llm.model_rules import find_family

Schemas = Literal["openai", "openai_compatible", "inlined", "inlined_openai", "grok", "gemma", "anthropic"]
"""Dialects of JSON schemas; see `codecs.schemas`."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Levels of reasoning effort, from lowest to highest."""


class KnownModel(Struct, frozen=True):
    """The features of a model.

    Attributes:
        schemas: dialect of the JSON schemas that the model accepts.
        structured: whether schemas of answers can be enforced.
        reasons: whether the model thinks before it answers if an effort is set.
        efforts: supported levels of reasoning effort, from lowest to highest; None if unknown.
        reasons_unasked: whether the model thinks by default, without a setting.
        system_role: role of messages with instructions.
        strict: whether requests mark tools and schemas as strict.
        thought_field: name of the answer field that contains thoughts; None if several fields are possible.
        sampling: whether the model supports temperature and top_p.
        samples_thinking: whether it supports them while it thinks.
        completion_tokens: whether the service accepts the field `max_completion_tokens` for the model.
        most_tokens: maximum tokens of an answer; None if unknown.
        default_tokens: maximum tokens of an answer if the suite sets no limit; only for Anthropic's models.
        takes_budget: whether the model supports a token budget for thinking.
        binds_thoughts: whether thoughts of the model are valid only in the conversation that they come from.
    """

    schemas: Schemas
    structured: bool = True
    reasons: bool = False
    efforts: tuple[str, ...] | None = None
    reasons_unasked: bool = False
    system_role: Literal["system", "user"] = "system"
    strict: bool = True
    thought_field: str | None = None
    sampling: bool = True
    samples_thinking: bool = False
    completion_tokens: bool = True
    most_tokens: int | None = None
    default_tokens: int = 16_384
    takes_budget: bool = True
    binds_thoughts: bool = False

    @property
    def no_effort(self) -> bool:
        """Whether thinking can be switched off."""
        return self.efforts is not None and "none" in self.efforts


def thinks(known_model: KnownModel, settings: Mapping[str, Any]) -> bool:
    """Return whether a model thinks before it answers.

    Args:
        known_model: features of the model.
        settings: the settings of the request; see `codecs.codec.Codec.build_request`.
    """
    effort = settings.get("effort")
    if "thinking" in settings:
        return True
    if effort is None or not known_model.reasons:
        return known_model.reasons_unasked
    return effort != "none" or not known_model.no_effort


def accepts_sampling(known_model: KnownModel, settings: Mapping[str, Any]) -> bool:
    """Return whether a model accepts temperature and top_p together with other settings (see `thinks`)."""
    return known_model.sampling and (known_model.samples_thinking or not thinks(known_model, settings))


@cache
def known_model(provider: str, name: str) -> KnownModel:
    """Return the features of a model.

    Args:
        provider: the provider's name in agent.yaml.
        name: the name of the model, or of the deployment for Azure OpenAI.
    """
    family = None if provider == "ollama" else find_family(name)
    features: Mapping[str, Any] = {} if family is None else family.features
    if provider == "anthropic":
        ours = features if family is not None and family.maker == "anthropic" else _UNKNOWN_CLAUDE
        return KnownModel(**{"schemas": "anthropic", **ours})
    if family is not None and family.maker == "anthropic":
        # Other services put Claude behind OpenAI's API.
        features = {field: value for field, value in features.items() if field not in _OF_ANTHROPICS_API}
    return KnownModel(**{**features, **_dialect(provider, name)})


_UNKNOWN_CLAUDE: Mapping[str, Any] = {"structured": False, "efforts": ()}
_OF_ANTHROPICS_API = ("structured", "efforts", "most_tokens", "default_tokens", "takes_budget", "binds_thoughts")
_OLLAMA: Mapping[str, Any] = {
    "strict": False,
    "thought_field": "reasoning",
    "samples_thinking": True,
    "efforts": (),
}
_DIALECTS: Mapping[str, tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...]] = {
    "azure_openai": (
        (
            ("magistral", "ministral", "mistral"),
            {"schemas": "openai_compatible", "structured": False, "completion_tokens": False},
        ),
        (("cohere-", "deepseek"), {"schemas": "openai_compatible", "structured": False}),
        (("gpt-oss",), {"schemas": "inlined_openai"}),
        (("grok",), {"schemas": "grok"}),
        (("llama", "meta-"), {"schemas": "inlined", "structured": False}),
        (("",), {"schemas": "openai_compatible"}),
    ),
    "ollama": (
        (("gemma",), {**_OLLAMA, "schemas": "gemma"}),
        (("glm-5.3", "llama", "qwen", "qwq"), {**_OLLAMA, "schemas": "inlined"}),
        (("gpt-oss",), {**_OLLAMA, "schemas": "inlined_openai", "efforts": ("low", "medium", "high")}),
        (("",), {**_OLLAMA, "schemas": "openai_compatible"}),
    ),
    "": ((("ft:",), {"schemas": "openai_compatible"}), (("",), {"schemas": "openai"})),
}
"""By service: the beginnings of names, in lower case, and how the service serves these models. The first pair applies;
other services serve models as OpenAI does.
"""


def _dialect(provider: str, name: str) -> Mapping[str, Any]:
    dialects = _DIALECTS.get(provider, _DIALECTS[""])
    return next(features for beginnings, features in dialects if name.lower().startswith(beginnings))
