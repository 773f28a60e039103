"""Reads the variants of a race, from `--vary` or a file of named variants, and applies a variant to a suite."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.agent import AgentConfig, Instructions
from holodeck_action.suite.model.named_models import LARGE, SMALL
from holodeck_action.suite.model.providers import LLMProvider, ProviderName
from holodeck_action.suite.values import Suite
from holodeck_action.suite.yaml.document import Document, MarkedMap
from holodeck_action.suite.yaml.reading import read_foreign_yaml
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import mask_keys

MOST_VARIANTS = 32
TARGET, MODEL, INSTRUCTIONS = "target", "model", "instructions"
_ROOTS = ("model", "tools", "claude", "openai")
"""Sections of agent.yaml in which a variant can change a scalar. Other sections define the test or have no effect."""
_OF_SERVICE = ("endpoint", "api_key", "api_version", "auth_provider")
"""Settings of a model that belong to its provider."""
_KEY = "api_key"
_SHOWN = 100
Value = str | int | float | bool


class Variant(Struct, frozen=True):
    """A variant: its name, and the settings that it changes, by key; values are as the user gave them."""

    name: str
    settings: Mapping[str, Value]


class VariantError(ValueError):
    """A setting of a variant cannot be used; the message is a clause with the reason and a remedy."""


def parse_axes(options: Sequence[str]) -> list[Variant]:
    """Return a variant for each combination of the values of `--vary KEY=VALUE`, in the order given.

    Raises:
        ConfigurationError: an entry has no key or no value, or a value is given twice.
    """
    axes: dict[str, list[str]] = {}
    for entry in options:
        key, found, value = (part.strip() for part in entry.partition("="))
        shown = one_line(mask_keys(entry), _SHOWN)
        if not found or not key or not value:
            raise ConfigurationError([f"--vary {shown}: must be KEY=VALUE, such as model={SMALL}"])
        if value in axes.setdefault(key, []):
            raise ConfigurationError([f"--vary {shown}: is given twice; leave out one of them"])
        axes[key].append(value)
    grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()) if values]
    return [Variant(", ".join(f"{key}={value}" for key, value in each.items()), each) for each in grid]


def read_variants(file: GivenPath, cwd: Path) -> list[Variant]:
    """Read a file of named variants: a mapping from names to the settings that each changes; `{}` changes nothing.

    Raises:
        ConfigurationError: the file cannot be read, or is not such a mapping.
    """
    try:
        content = Checkout.unbounded(cwd).read(file.path)
        document = read_foreign_yaml(content, file=str(file))
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise ConfigurationError([f"--variants {file}: cannot be read: {reason}"]) from error
    problems = [str(problem) for problem in document.problems] or [*_shape_problems(document)]
    if problems:
        raise ConfigurationError(problems)
    return [Variant(str(name), dict(settings or {})) for name, settings in document.root.items()]


def _shape_problems(document: Document) -> Iterator[str]:
    root = document.root
    if not isinstance(root, MarkedMap) or not root:
        yield str(
            document.problem((), f"must be a mapping from names to settings, such as `cheap: {{model: {SMALL}}}`")
        )
        return
    for name, settings in root.items():
        if not isinstance(settings, MarkedMap | None):
            yield str(document.problem((name,), f"must be a mapping of settings, such as {{model: {SMALL}}}"))
            continue
        for key, value in (settings or {}).items():
            if not isinstance(value, Value) or not isinstance(key, str):
                yield str(document.problem((name, key), "must be a text, a number, true or false"))


def check_variants(variants: Sequence[Variant]) -> None:
    """Check the number of variants, and that they differ.

    Raises:
        ConfigurationError: there are fewer than two or too many variants, or two are alike.
    """
    if len(variants) < 2:
        raise ConfigurationError(
            [
                f"a race needs at least 2 variants, and there {'is 1' if variants else 'are none'}; repeat --vary, "
                f"such as --vary model={LARGE} --vary model={SMALL}, or give --variants FILE"
            ]
        )
    if len(variants) > MOST_VARIANTS:
        raise ConfigurationError([f"a race has at most {MOST_VARIANTS} variants, not {len(variants)}; leave some out"])
    seen: dict[tuple[tuple[str, Value], ...], str] = {}
    for variant in variants:
        key = tuple(sorted(variant.settings.items()))
        if key in seen:
            raise ConfigurationError(
                [f"the variants {seen[key]} and {variant.name} are the same; leave out one of them"]
            )
        seen[key] = variant.name


def changes_agent(variant: Variant) -> bool:
    """Return whether a variant changes a setting of the suite's agent, not only the target."""
    return any(key != TARGET for key in variant.settings)


def vary_suite(suite: Suite, variant: Variant, checkout: Checkout) -> Suite:
    """Return the suite with the settings of a variant, except its target.

    Args:
        suite: the suite.
        variant: the variant.
        checkout: the folder that paths of instructions are relative to.

    Raises:
        VariantError: a setting does not exist, its value is not valid, or instructions cannot be read.
    """
    agent = suite.agent
    for key, value in variant.settings.items():
        if key == INSTRUCTIONS:
            text = _read_instructions(str(value), checkout)
            agent = agent.model_copy(update={"instructions": Instructions(inline=text)})
        elif key == MODEL:
            agent = agent.model_copy(update={"model": _with_name(agent.model, str(value))})
        elif key != TARGET:
            agent = _with_setting(agent, key, value)
    return replace(suite, agent=agent)


def read_setting(agent: AgentConfig, key: str) -> Value | None:
    """Return the scalar that a key names, such as `model.temperature`; None if there is none."""
    found: Any = agent
    for name in key.split("."):
        if isinstance(found, list | tuple):
            found = next((each for each in found if getattr(each, "name", None) == name), None)
        else:
            found = getattr(found, name, None)
    return found if isinstance(found, Value) else None


def _read_instructions(name: str, checkout: Checkout) -> str:
    try:
        text: str = checkout.read(name).text()
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise VariantError(f"instructions={one_line(name, _SHOWN)}: cannot be read: {reason}") from error
    if not text.strip():
        raise VariantError(f"instructions={one_line(name, _SHOWN)}: holds no instructions")
    return text


def _with_name(model: LLMProvider, value: str) -> LLMProvider:
    """Return a model with another name, given as NAME or PROVIDER/NAME; OpenRouter's and others' names have a slash."""
    provider, slash, name = value.partition("/")
    changes: dict[str, Any] = {"name": value}
    if slash and provider in get_args(ProviderName) and model.provider not in ("openrouter", "huggingface"):
        others = {} if provider == model.provider else dict.fromkeys(_OF_SERVICE)
        changes = {**others, "provider": provider, "name": name}
    changed: LLMProvider = _replace(model, changes, f"{MODEL}={value}")
    return changed


def _with_setting(agent: AgentConfig, key: str, value: Value) -> AgentConfig:
    """Return the agent with a scalar changed, such as `tools.NAME.top_k`, or `temperature` (of the model)."""
    path = key.split(".")
    if len(path) == 1 and key in LLMProvider.model_fields and key not in _ROOTS:
        path = ["model", key]
    if len(path) < 2 or path[0] not in _ROOTS or path[-1] == _KEY:
        raise VariantError(_unknown(key, agent))
    changed: AgentConfig = _set_at(agent, path, value, key, agent)
    return changed


def _set_at(section: Any, path: Sequence[str], value: Value, key: str, agent: AgentConfig) -> Any:
    """Return a copy of a section in which the scalar at `path` is replaced."""
    name, *rest = path
    if isinstance(section, list | tuple):
        at = next((at for at, each in enumerate(section) if getattr(each, "name", None) == name), None)
        if at is None or not rest:
            raise VariantError(_unknown(key, agent))
        return type(section)(
            _set_at(each, rest, value, key, agent) if at == place else each for place, each in enumerate(section)
        )
    if not isinstance(section, BaseModel) or name not in type(section).model_fields:
        raise VariantError(_unknown(key, agent))
    inner = getattr(section, name)
    if rest:
        return section.model_copy(update={name: _set_at(inner, rest, value, key, agent)})
    if not isinstance(inner, Value | None):
        raise VariantError(f"{key}: is not a single value; a race varies texts, numbers, true and false")
    return _replace(section, {name: value}, f"{key}={value}")


def _replace(model: Any, values: Mapping[str, Any], option_text: str) -> Any:
    """Return a validated copy of a model with other values."""
    kept = {name: getattr(model, name) for name in model.model_fields_set}
    given = {name: value for name, value in {**kept, **values}.items() if value is not None or name not in values}
    try:
        return type(model).model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise VariantError(f"{one_line(mask_keys(option_text), _SHOWN)}: {first['msg']}") from error


def _unknown(key: str, agent: AgentConfig) -> str:
    known = [TARGET, MODEL, INSTRUCTIONS, *_scalars(agent)]
    shorts = [name.removeprefix("model.") for name in known if name.startswith("model.")]
    close = get_close_matches(key, [*known, *shorts], n=1, cutoff=0.6)
    hint = (
        f"; did you mean {close[0]}?" if close else f"; there are {', '.join([TARGET, MODEL, INSTRUCTIONS, *shorts])}"
    )
    return f"{one_line(key, _SHOWN)}: there is no such setting of the agent{hint}"


def _scalars(agent: AgentConfig) -> Iterator[str]:
    """Yield the paths of the scalars that a variant can change."""
    for root in _ROOTS:
        found = getattr(agent, root)
        items = (
            [(root, found)] if isinstance(found, BaseModel) else [(f"{root}.{each.name}", each) for each in found or ()]
        )
        for place, model in items:
            for name in type(model).model_fields:
                if name != _KEY and isinstance(getattr(model, name), Value | None):
                    yield f"{place}.{name}"
