"""Builds holodeck_action/llm/known_models.py from the profiles of the pinned pydantic-ai; `--check` only compares.

python -m scripts.build_known_models [--check]

Profiles distinguish models by prefixes of their names. Each string in their source that may be a prefix is tried, and
those that make a difference are kept.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from msgspec.structs import fields
from pydantic_ai import profiles
from pydantic_ai.providers import Provider
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holodeck_action.llm.model_facts import EFFORTS, KnownModel, longest_prefix

MODULE = Path(__file__).parents[1] / "holodeck_action" / "llm" / "known_models.py"
INTRO = '''"""Features of models by name, from the profiles of pydantic-ai {version}; `make models` renews this file.

Each provider has a list of pairs: features (`KnownModel`), and the name prefixes of the models with these features. The
longest matching prefix applies; `$` means the end of a name.
"""

from typing import Any

'''
NAME = "FAMILIES: dict[str, tuple[tuple[dict[str, Any], tuple[str, ...]], ...]]"
PROVIDERS: dict[str, type[Provider[Any]]] = {
    "openai": OpenAIProvider,
    "azure_openai": AzureProvider,
    "ollama": OllamaProvider,
    "anthropic": AnthropicProvider,
}
SCHEMAS = {
    "_OpenAIJsonSchemaTransformer": "openai",
    "OpenAIJsonSchemaTransformer": "openai_compatible",
    "InlineDefsJsonSchemaTransformer": "inlined",
    "_GptOssJsonSchemaTransformer": "inlined_openai",
    "_AzureGrokJsonSchemaTransformer": "grok",
    "GoogleJsonSchemaTransformer": "gemma",
    "AnthropicJsonSchemaTransformer": "anthropic",
}
_NAME = re.compile(r"[a-z][\w.:@-]*")
LONG = 120
_REST = "~"
"""A suffix that no profile checks for, to test a prefix followed by other text."""


def model_facts(provider: str, name: str) -> dict[str, Any]:
    """Return the fields of `KnownModel` for a model, from its profile."""
    profile: Mapping[str, Any] = PROVIDERS[provider].model_profile(name) or {}
    return {
        "schemas": SCHEMAS[profile["json_schema_transformer"].__name__],
        "structured": profile.get("supports_json_schema_output", False),
        **(_anthropic_facts if provider == "anthropic" else _openai_facts)(profile),
    }


def _openai_facts(profile: Mapping[str, Any]) -> dict[str, Any]:
    reasons = profile.get("openai_supports_reasoning", False)
    known = {
        "reasons": reasons,
        "no_effort": profile.get("openai_supports_reasoning_effort_none", False),
        "system_role": profile.get("openai_system_prompt_role") or "system",
        "strict": profile.get("openai_supports_strict_tool_definition", True),
        "thought_field": profile.get("openai_chat_thinking_field"),
    }
    if reasons:
        known["reasons_unasked"] = profile["thinking_enabled_by_default"]
        known["efforts"] = tuple(each for each in EFFORTS if each in profile.get("openai_reasoning_efforts", EFFORTS))
    return known


def _anthropic_facts(profile: Mapping[str, Any]) -> dict[str, Any]:
    most = profile.get("anthropic_max_output_tokens")
    short = profile.get("anthropic_rejects_max_tokens_beyond_context_window")
    return {
        "sampling": not profile.get("anthropic_disallows_sampling_settings"),
        "most_tokens": most,
        "default_tokens": 4096 if short else most or 16_384,
        "takes_effort": profile.get("anthropic_supports_effort"),
        "takes_top_effort": profile.get("anthropic_supports_max_effort", True),
        "takes_budget": not profile.get("anthropic_disallows_budget_thinking"),
        "binds_thoughts": profile.get("anthropic_binds_thinking_blocks"),
    }


def build_module() -> str:
    """Return the text of the module."""
    families = {provider: tuple(_families(provider)) for provider in PROVIDERS}
    return f"{INTRO.format(version=version('pydantic-ai-slim'))}{NAME} = {_code_text(families, 0, len(NAME) + 3)}\n"


def _families(provider: str) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield the facts of each family with its name prefixes; families are in the order of their first prefix."""
    known: dict[str, dict[str, Any]] = {"": _non_default_facts(model_facts(provider, _REST))}
    for start in sorted(_name_prefixes()):
        for name, asked in ((start, start + _REST), (f"{start}$", start)):
            told = _non_default_facts(model_facts(provider, asked))
            if told != known[longest_prefix(known, name)]:
                known[name] = told
    families: list[tuple[dict[str, Any], list[str]]] = []
    for name, told in known.items():
        family = next((names for other, names in families if other == told), None)
        if family is None:
            families.append((told, [name]))
        else:
            family.append(name)
    yield from ((told, tuple(names)) for told, names in families)


@cache
def _name_prefixes() -> set[str]:
    """Return the strings in the profiles' source that may be prefixes of names."""
    files = [Path(str(inspect.getsourcefile(each))) for each in PROVIDERS.values()]
    return {
        node.value
        for file in [*files, *Path(str(profiles.__file__)).parent.glob("*.py")]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value)
    }


def _non_default_facts(known: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that differ from the defaults of `KnownModel`."""
    usual = {field.name: field.default for field in fields(KnownModel)}
    return {name: value for name, value in known.items() if value != usual[name]}


def _code_text(value: Any, indent: int, before: int) -> str:
    """Return the source of a value in ruff's format.

    Args:
        value: a text, a number, or a tuple or dictionary of them.
        indent: indentation of the first line.
        before: number of characters before the value on this line.
    """
    if isinstance(value, str):
        return f'"{value}"'
    if not isinstance(value, tuple | dict):
        return f"{value:_}" if type(value) is int else repr(value)
    begin, end = "()" if isinstance(value, tuple) else "{}"
    pairs = value.items() if isinstance(value, dict) else [("", item) for item in value]
    items = [(f'"{key}": ' if begin == "{" else "", item) for key, item in pairs]
    line = ", ".join(f"{key}{_code_text(item, 0, -sys.maxsize)}" for key, item in items)
    line = f"{begin}{line}{',' * (begin == '(' and len(items) == 1)}{end}"
    if indent + before + len(line) < LONG:
        return line
    inner = indent + 4
    lines = "".join(f"{' ' * inner}{key}{_code_text(item, inner, len(key))},\n" for key, item in items)
    return f"{begin}\n{lines}{' ' * indent}{end}"


@click.command()
@click.option("--check", is_flag=True, help="Only say whether the module is as it would be written.")
def main(check: bool) -> None:
    """Write the table, or compare it."""
    text = build_module()
    if not check:
        MODULE.write_text(text, encoding="utf-8")
    elif MODULE.read_text(encoding="utf-8") != text:
        sys.exit(f"{MODULE.name} is not what pydantic-ai says: run make models")


if __name__ == "__main__":
    main()
