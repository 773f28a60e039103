"""Reads inputs strictly (docs/action.md): refuses values that are not allowed, and options given as inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from holodeck_action.run.options.action_inputs import INPUTS, POLICY
from holodeck_action.run.options.declarations import Input
from holodeck_action.run.options.input_kinds import FLAG
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

_SHOWN = 100


class InputError(ConfigurationError):
    """Inputs have invalid values; `lines` name each such input, its value and the allowed values."""


def read_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the Action's inputs that are not blank, by setting name.

    Raises:
        InputError: an input has an invalid value, or an option of the command line is set as an input.
    """
    problems = [*misplaced_options(environ, lambda item, text: f"add {option_lines(item, text)} to the command")]
    settings = parse_values({item: item.text_in(environ) for item in INPUTS if item.action}, "input ", problems)
    if problems:
        raise InputError(tuple(problems))
    return settings


def parse_values(texts: Mapping[Input, str], prefix: str, problems: list[str]) -> dict[str, Any]:
    """Return the values of settings that are not blank, by setting name.

    Args:
        texts: the text of each setting.
        prefix: text before the name of a setting in messages.
        problems: list to which a sentence is added for each value that is not allowed.
    """
    given: dict[str, Any] = {}
    for item, text in texts.items():
        if not text:
            continue
        try:
            given[item.setting] = item.kind.read(text)
        except ValueError:
            shown = "its value" if item.secret else repr(text[:_SHOWN])
            problems.append(f"{prefix}{item.name}: {shown} is not allowed (allowed: {item.kind.allowed})")
    return given


def misplaced_options(environ: Mapping[str, str], remedy: Callable[[Input, str], str]) -> Iterator[str]:
    """Yield an error sentence for each option that is given as an input of the Action.

    Args:
        environ: the environment variables.
        remedy: takes an option and its text, and returns how to write it instead.
    """
    for item in (*INPUTS, POLICY):
        if not item.action and (text := item.text_in(environ)):
            instead = "leave it out" if text == item.default else remedy(item, text)
            yield f"input {item.name}: there is no such input, since it is an option: {instead}"


def option_lines(option: Input, text: str) -> str:
    """Return an option with the value `text` as written on a command line or in `args`."""
    if option.kind is FLAG:
        return f"`--no-{option.name}`" if option.default == "true" else f"`--{option.name}`"
    values = text.splitlines() if option.kind.many else [text]
    shown = (one_line(value.strip(), _SHOWN) for value in values if value.strip())
    return " and ".join(f"`--{option.name} {value}`" for value in shown)


def anchor_paths(settings: Mapping[str, Any], start: Path) -> dict[str, Any]:
    """Return settings in which relative paths are resolved against the folder `start`."""

    def anchor(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(anchor, value))
        return GivenPath(value, start) if isinstance(value, Path) else value

    return {setting: anchor(value) for setting, value in settings.items()}


def output_dir_of(environ: Mapping[str, str], start: Path, *, default: bool = False) -> GivenPath | None:
    """Return the input `output-dir`, even if other inputs are invalid. If the input is empty, return its default if
    `default` is true, else None.
    """
    item = _find_input("output_dir")
    text = item.text_in(environ) or (item.default if default else "")
    return GivenPath(item.kind.read(text), start) if text else None


def github_token(environ: Mapping[str, str]) -> str:
    """Return the GitHub token from the input, or else from `GITHUB_TOKEN`; empty if there is no token."""
    return _find_input("github_token").text_in(environ) or environ.get("GITHUB_TOKEN", "").strip()


def _find_input(setting: str) -> Input:
    return next(item for item in INPUTS if item.setting == setting)
