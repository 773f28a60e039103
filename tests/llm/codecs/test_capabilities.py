"""What the rules say about models, held against the profiles of pydantic-ai for all models whose price is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast, get_args

import pytest
from genai_prices.data import providers as sellers
from msgspec import structs

from holodeck_action.llm.clients import codec_of
from holodeck_action.llm.messages import AnswerSchema
from holodeck_action.llm.model_facts import EFFORTS, KnownModel, known_model
from holodeck_action.llm.model_rules import find_family
from holodeck_action.llm.providers import Reasoning
from holodeck_action.llm.reasoning import sent_settings
from holodeck_action.suite.model.backends import ClaudeEffort
from holodeck_action.suite.model.providers import Effort
from tests.llm.codecs.plans import answer_of, codec_body, package_of, plan_of
from tests.llm.codecs.test_requests import ASKED, CLOSED, SCHEMA, STREAM
from tests.tables import walk

LIMITED: Mapping[str, Any] = {"temperature": 0.3, "top_p": 0.9, "max_tokens": 500}
UNSET: Mapping[str, Any] = {"temperature": None, "max_tokens": None}
ROWS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Effort | None]] = {
    "plain": (UNSET, {}, None),
    "temperature": (LIMITED, {}, None),
    "tools": (LIMITED, {"tools": (CLOSED,)}, None),
    "schema": (LIMITED, {"answer": AnswerSchema("answer", SCHEMA)}, None),
    **{f"effort {level}": (LIMITED, {}, level) for level in cast(tuple[Effort, ...], EFFORTS)},
}
"""By row: the settings of the suite, what else the request has, and the effort."""
LEVELS = ("minimal", "low", "medium", "high")


class Difference(NamedTuple):
    """Requests in which we differ from pydantic-ai: of these models, in these rows, only in these fields."""

    reason: str
    names: Callable[[str], object]
    rows: Callable[[str], object]
    fields: frozenset[str]


def difference(reason: str, names: str, rows: str, *fields: str) -> Difference:
    return Difference(reason, re.compile(names).fullmatch, re.compile(rows).fullmatch, frozenset(fields))


SAMPLED = ("temperature", "top_p")
DIFFERENCES: Mapping[str, tuple[Difference, ...]] = {
    "openai": (
        difference("documented without it", r"gpt-5\.[1-5]\b.*", "effort minimal", "reasoning_effort"),
        difference("documented up to high", r"gpt-5\.1(-mini|-20.*)?", "effort (xhigh|max)", "reasoning_effort"),
        difference("retired, so it pins no level", r"gpt-5(\.1)?-codex(-m.*)?", "effort .*", "reasoning_effort"),
        difference("newer than its chat models", "gpt-5.5-chat.*", "effort .*", "reasoning_effort", *SAMPLED),
        difference("newer than its names", "gpt-6-(cyber|rosalind)", "(?!plain).*", "reasoning_effort", *SAMPLED),
        Difference(
            "says nothing about itself, so the API decides about the effort",
            lambda name: find_family(name) is None,
            re.compile("effort .*").fullmatch,
            frozenset({"reasoning_effort"}),
        ),
    ),
    "anthropic": (difference("wrote no more than 4,096 tokens", "claude-(2|v1)", "plain", "max_tokens"),),
}


def priced(seller: str) -> list[str]:
    """Return the names under which a seller's models are priced."""
    models = next(each.models for each in sellers if each.id == seller)
    return sorted({name for model in models for name in (model.id, *_equals(model.match))})


def _equals(clause: Any) -> Iterator[str]:
    if hasattr(clause, "equals"):
        yield clause.equals
    for inner in getattr(clause, "or_", ()):
        yield from _equals(inner)


def profile_of(provider: str, name: str) -> Mapping[str, Any]:
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    return (AnthropicProvider if provider == "anthropic" else OpenAIProvider).model_profile(name) or {}


def differing_rows(provider: str, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the rows in which our request differs, with both requests."""
    profile = profile_of(provider, name)
    for row, (fields, more, effort) in ROWS.items():
        if "answer" in more and not profile["supports_json_schema_output"]:
            continue
        if effort not in (None, *get_args(Effort if provider == "openai" else ClaudeEffort)):
            continue
        plan = structs.replace(plan_of(provider, name, **fields), reasoning=Reasoning(effort))
        settings = sent_settings(plan, codec_of(plan).known_model).settings
        ours = codec_body(plan, ASKED, settings, **more)
        theirs = package_of(plan)
        given = {key: value for key, value in fields.items() if value is not None}
        reply = STREAM if ours["stream"] else answer_of(provider)
        theirs.ask(ASKED, (200, reply), settings=given | their_effort(provider, effort, profile), **more)
        if ours != theirs.bodies[0]:
            yield row, ours, theirs.bodies[0]


def their_effort(provider: str, effort: Effort | None, profile: Mapping[str, Any]) -> dict[str, Any]:
    from pydantic_ai.profiles.anthropic import resolve_anthropic_effort

    if effort is None or (provider == "anthropic" and not profile["anthropic_supports_effort"]):
        return {}
    if provider == "openai":
        return {"thinking": False if effort == "none" else effort}
    xhigh, most = profile["anthropic_supports_xhigh_effort"], profile["anthropic_supports_max_effort"]
    return {"effort": resolve_anthropic_effort(cast(Any, effort), supports_xhigh=xhigh, supports_max=most)}


@pytest.mark.full
@walk("provider", DIFFERENCES)
def test_requests_are_those_of_pydantic_ai(provider: str) -> None:
    # Models with the same features and profile get the same request.
    groups: dict[tuple[KnownModel, str], list[str]] = {}
    for name in priced(provider):
        profile = sorted((key, repr(value)) for key, value in profile_of(provider, name).items())
        groups.setdefault((known_model(provider, name), str(profile)), []).append(name)
    assert len(groups) > 15
    unexplained, seen = [], set[str]()
    for names in groups.values():
        for row, ours, theirs in differing_rows(provider, names[0]):
            fields = {field for field in {*ours, *theirs} if ours.get(field) != theirs.get(field)}
            known = [
                each
                for each in DIFFERENCES[provider]
                if all(map(each.names, names)) and each.rows(row) and fields <= each.fields
            ]
            seen.update(each.reason for each in known)
            if not known:
                unexplained.append((names, row, {field: (ours.get(field), theirs.get(field)) for field in fields}))
    assert unexplained == []
    assert seen == {each.reason for each in DIFFERENCES[provider]}, "a difference is gone: delete its row"


@pytest.mark.full
def test_gemini_thinks_at_the_levels_of_google() -> None:
    from pydantic_ai.profiles.google import google_model_profile

    talking = [name for name in priced("google") if name.startswith("gemini-") and not NO_CHAT.search(name)]
    assert len(talking) > 20
    differing = set()
    for name in talking:
        known, profile = known_model("gemini", name), cast(Mapping[str, Any], google_model_profile(name))
        named = {*profile.get("google_thinking_levels", map(str.upper, LEVELS))}
        levels = [level for level in LEVELS if level.upper() in named] if profile["supports_thinking"] else []
        if levels and not profile["google_supports_thinking_level"] and not profile["thinking_always_enabled"]:
            levels.insert(0, "none")
        # By default Flash-Lite 2.5 is the only one that does not think.
        assert known.reasons_unasked is (bool(levels) and "2.5-flash-lite" not in name), name
        assert known.samples_thinking is bool(levels), name
        if known.efforts != tuple(levels):
            differing.add(name)
    assert differing == UNLISTED


UNLISTED = {"gemini-3-pro-text-preview", "gemini-flash-latest", "gemini-flash-lite-latest", "gemini-pro-latest"}
"""Names to which pydantic-ai gives all levels, because it does not list them; ours are those of their generation."""
NO_CHAT = re.compile("image|tts|live|embedding|omni|robotics|banana|gemini-(flash|pro)-1|gemini-pro$")
"""Matches what does not answer in text, and old names, among them those that pydantic-ai takes for Gemini 3."""


@pytest.mark.full
def test_azure_gets_the_limit_under_the_name_it_takes() -> None:
    from pydantic_ai.providers.azure import AzureProvider

    for name in (*priced("azure"), *priced("mistral"), "Llama-3.3-70B", "grok-4", "our deployment"):
        plan = plan_of("azure_openai", name, endpoint="https://a.example")
        profile = AzureProvider.model_profile(name) or {}
        assert (name, plan.completion_tokens) == (
            name,
            profile.get("openai_chat_supports_max_completion_tokens", True),
        )


@walk(
    ("provider", "newer", "like"),
    [
        ("openai", "gpt-7-x", "gpt-6.1-terra"),
        ("openai", "gpt-7.2-sol-2027-01-01", "gpt-6.1-sol"),
        ("openai", "gpt-8-pro", "gpt-5.5-pro"),
        ("openai", "o9-mini", "o4-mini"),
        ("azure_openai", "GPT-7", "gpt-6-luna"),
        ("openrouter", "openai/gpt-7", "openai/gpt-6-luna"),
        ("bedrock", "global.openai.gpt-7", "openai.gpt-6-luna"),
        ("anthropic", "claude-opus-9", "claude-opus-5-5"),
        ("anthropic", "eu.anthropic.claude-sonnet-12-1-v1:0", "claude-sonnet-5-5"),
        ("anthropic", "claude-nova-6-20270101", "claude-opus-5-5"),
        ("openrouter", "anthropic/claude-opus-9", "anthropic/claude-opus-5.5"),
        ("gemini", "gemini-5-pro", "gemini-4-argon"),
        ("vertex", "google/gemini-12-flash", "gemini-3.8-flash"),
    ],
)
def test_a_newer_model_is_like_the_newest_of_its_family(provider: Any, newer: str, like: str) -> None:
    known = known_model(provider, newer)
    assert known == known_model(provider, like)
    assert known.reasons_unasked


@walk("name", ["solo1", "o2x", "opus-9", "gpt-35-turbo", "my-gpt", "mixtral-8x22b", "text-embedding-3-small"])
def test_other_names_are_of_no_model_that_thinks(name: str) -> None:
    for provider in ("openai", "azure_openai", "groq", "anthropic"):
        known = known_model(provider, name)
        assert (known.reasons, known.reasons_unasked, known.sampling) == (False, False, True)
