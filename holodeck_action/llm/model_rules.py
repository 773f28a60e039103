"""Rules about models of OpenAI, Anthropic and Google, by family and version; the newest come first.

A name is split into its family, its version and the rest: `gpt-5.2-pro` is version 5.2 with the rest `-pro`. The first
rule that is not newer than the name, and whose kind begins the rest, gives the features (`model_facts.KnownModel`).
So a model that is newer than all rules has the features of the newest one.

Sources: OpenAI's guides on reasoning and the latest model, Anthropic's guides on effort, thinking and structured
outputs, Google's guide on thinking. `tests/llm/codecs/test_capabilities.py` compares with the profiles of pydantic-ai.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from holodeck_action.text.lazy_patterns import lazy_pattern

Maker = Literal["openai", "anthropic", "google"]
Version = tuple[int, int]


class Family(NamedTuple):
    """The maker of a model, and the fields of `KnownModel` that follow from its name."""

    maker: Maker
    features: Mapping[str, Any]


class Rule(NamedTuple):
    """The features of some models of a family.

    Attributes:
        since: the oldest version.
        kind: beginning of the rest of the name.
        features: fields of `KnownModel`.
    """

    since: Version
    kind: str
    features: Mapping[str, Any]


def _thinks(*efforts: str, **more: Any) -> dict[str, Any]:
    """Return the features of a model that thinks by default."""
    return {"reasons": True, "reasons_unasked": True, "efforts": efforts, **more}


_LEVELS = ("low", "medium", "high")
_GPT = (
    Rule((6, 1), "-sol", _thinks(*_LEVELS, "xhigh", "max")),
    Rule((6, 0), "-astra", _thinks(*_LEVELS, "xhigh", "max")),
    Rule((5, 2), "-pro", _thinks("medium", "high", "xhigh")),
    Rule((5, 1), "-chat", _thinks("medium")),
    Rule((5, 6), "", _thinks("none", *_LEVELS, "xhigh", "max")),
    Rule((5, 5), "", _thinks("none", *_LEVELS, "xhigh")),
    Rule((5, 2), "", {"reasons": True, "efforts": ("none", *_LEVELS, "xhigh")}),
    Rule((5, 1), "-codex-max", _thinks(*_LEVELS, "xhigh")),
    Rule((5, 1), "-codex", _thinks(*_LEVELS)),
    Rule((5, 1), "", {"reasons": True, "efforts": ("none", *_LEVELS)}),
    Rule((5, 0), "-chat", {"efforts": ()}),
    Rule((5, 0), "-pro", _thinks("high")),
    Rule((5, 0), "-codex", _thinks(*_LEVELS)),
    Rule((5, 0), "", _thinks("minimal", *_LEVELS)),
    Rule((0, 0), "", {"efforts": ()}),
)
_O_SERIES = (
    Rule((2, 0), "", _thinks(*_LEVELS)),
    Rule((1, 0), "-mini", _thinks(*_LEVELS, system_role="user")),
    Rule((0, 0), "", _thinks(*_LEVELS)),
)

_ADAPTIVE: Mapping[str, Any] = {
    "sampling": False,
    "most_tokens": 128_000,
    "default_tokens": 128_000,
    "efforts": (*_LEVELS, "xhigh", "max"),
    "takes_budget": False,
}
_UNASKED = {**_ADAPTIVE, "reasons": True, "reasons_unasked": True}
_SHORT = {"default_tokens": 4_096, "efforts": ()}
_UNSTRUCTURED = {"structured": False}
_CLAUDE = (
    Rule((5, 5), "", {**_UNASKED, "binds_thoughts": True}),
    Rule((5, 2), "mythos", {**_UNASKED, "binds_thoughts": True}),
    Rule((5, 1), "fable", {**_UNASKED, "binds_thoughts": True}),
    Rule((5, 0), "", _UNASKED),
    Rule((4, 7), "", _ADAPTIVE),
    Rule((4, 6), "", {"most_tokens": 128_000, "default_tokens": 128_000, "efforts": (*_LEVELS, "max")}),
    Rule((4, 5), "opus", {"most_tokens": 64_000, "default_tokens": 64_000, "efforts": _LEVELS}),
    Rule((4, 5), "", {"most_tokens": 64_000, "default_tokens": 64_000, "efforts": ()}),
    Rule((4, 1), "", _SHORT),
    Rule((0, 0), "", {**_SHORT, **_UNSTRUCTURED}),
)

_SAMPLES = {"samples_thinking": True}
_NO_THOUGHTS = {"efforts": ()}
_GEMINI = (
    Rule((3, 7), "", _thinks(*_LEVELS, **_SAMPLES)),
    Rule((3, 1), "-pro", _thinks(*_LEVELS, **_SAMPLES)),
    Rule((3, 0), "-pro", _thinks("low", "high", **_SAMPLES)),
    Rule((3, 0), "", _thinks("minimal", *_LEVELS, **_SAMPLES)),
    Rule((2, 5), "-pro", _thinks("minimal", *_LEVELS, **_SAMPLES)),
    Rule((2, 5), "-flash-image", _NO_THOUGHTS),
    Rule((2, 5), "-flash-lite", {"reasons": True, "efforts": ("none", "minimal", *_LEVELS), **_SAMPLES}),
    Rule((2, 5), "", _thinks("none", "minimal", *_LEVELS, **_SAMPLES)),
    Rule((0, 0), "", _NO_THOUGHTS),
)

_FAMILIES: tuple[tuple[Maker, re.Pattern[str], tuple[Rule, ...]], ...] = (
    ("openai", lazy_pattern(r"(?:chat)?gpt-(?!35\b)(?P<major>\d+)(?:\.(?P<minor>\d+))?(?P<rest>.*)"), _GPT),
    ("openai", lazy_pattern(r"gpt-(?P<major>3)(?P<minor>5)(?P<rest>-.*|$)"), _GPT),
    ("openai", lazy_pattern(r"o(?P<major>\d+)(?P<rest>-.*|$)"), _O_SERIES),
    (
        "anthropic",
        lazy_pattern(r"claude-(?P<rest>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"),
        _CLAUDE,
    ),
    (
        "anthropic",
        lazy_pattern(r"claude-v?(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)(?:-(?P<rest>[a-z]+))?"),
        _CLAUDE,
    ),
    ("google", lazy_pattern(r"gemini-(?:[a-z]+-)*(?P<major>\d+)(?:\.(?P<minor>\d+))?(?P<rest>.*)"), _GEMINI),
    ("google", lazy_pattern(r"gemini(?P<rest>-(?:pro|flash|flash-lite)-latest)$"), _GEMINI),
)
_NEWEST = 1_000
"""The version of a name such as `gemini-flash-latest`, which has none."""
_CLOUD = lazy_pattern(r"^(?:[a-z-]+\.)?(?:openai|anthropic|google)\.")
"""Matches what Amazon writes before a model's name, such as `us.anthropic.`."""


def find_family(name: str) -> Family | None:
    """Return the maker and features of a model; None if its name belongs to no known family."""
    plain = plain_name(name)
    for maker, pattern, rules in _FAMILIES:
        if found := pattern.match(plain):
            parts = found.groupdict()
            version = int(parts.get("major") or _NEWEST), int(parts.get("minor") or 0)
            rest = parts["rest"] or ""
            rule = next(rule for rule in rules if rule.since <= version and rest.startswith(rule.kind))
            return Family(maker, rule.features)
    return None


def plain_name(name: str) -> str:
    """Return a model's name in lower case, without the prefixes of routers, clouds and fine-tuning."""
    return _CLOUD.sub("", name.lower().rpartition("/")[2].removeprefix("ft:"))
