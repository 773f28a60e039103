"""Inputs of the Action: `INPUT_*` variables read strictly (docs/action.md).

The runner upper-cases an input's name, turns spaces to `_`, keeps hyphens, and sets inputs that were not given to the
empty text (runner source, `Handler.cs`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holodeck_action.text.given_paths import GivenPath

_SHOWN = 100
_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class InputError(Exception):
    """Inputs that cannot be used; `lines` name each input, its value and what is allowed."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


@dataclass(frozen=True, slots=True)
class Input:
    """One input.

    Attributes:
        name: as it is written under `with:`.
        setting: what it sets.
        read: makes a value of a text that is not blank; raises ValueError where it cannot.
        allowed: what can be given, for error messages.
        default: the text that stands for no text; empty for none.
        secret: its value is shown nowhere.
    """

    name: str
    setting: str
    read: Callable[[str], Any]
    allowed: str
    default: str = ""
    secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that carries it."""
        return f"INPUT_{self.name.replace(' ', '_').upper()}"


def read_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the inputs that are given: value by setting; what is empty or blank is not given.

    Raises:
        InputError: values that are not allowed, all of them.
    """
    given: dict[str, Any] = {}
    problems: list[str] = []
    for item in INPUTS:
        text = environ.get(item.variable, "").strip()
        if not text:
            continue
        try:
            given[item.setting] = item.read(text)
        except ValueError:
            shown = "its value" if item.secret else repr(text[:_SHOWN])
            problems.append(f"input {item.name}: {shown} is not allowed (allowed: {item.allowed})")
    if problems:
        raise InputError(tuple(problems))
    return given


def anchored(settings: Mapping[str, Any], start: Path) -> dict[str, Any]:
    """Return settings whose paths begin in a folder, where relative."""

    def of(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(of, value))
        return GivenPath(value, start) if isinstance(value, Path) else value

    return {setting: of(value) for setting, value in settings.items()}


def output_dir_of(environ: Mapping[str, str], start: Path, *, default: bool = False) -> GivenPath | None:
    """Return the output folder that is given, with or without its default, also where other inputs are of no use."""
    item = next(item for item in INPUTS if item.setting == "output_dir")
    text = environ.get(item.variable, "").strip() or (item.default if default else "")
    return GivenPath(item.read(text), start) if text else None


def read_action_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the inputs of a step: as `read_inputs`, with the defaults of action.yml, and misspelt names refused.

    The runner only warns of an unknown name, and a gate that nobody reads would make the step green. A name that is
    like no input's is left alone: the job may have variables of its own.

    Raises:
        InputError: misspelt names and values that are not allowed.
    """
    problems = (*_misspelt(environ), *_not_with_publish(environ))
    given = {name: value for name, value in environ.items() if value.strip()}
    try:
        settings = read_inputs({**{item.variable: item.default for item in INPUTS}, **given})
    except InputError as error:
        raise InputError((*problems, *error.lines)) from None
    if problems:
        raise InputError(problems)
    return settings


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    from difflib import get_close_matches

    names = [item.name for item in INPUTS]
    for variable in sorted(environ.keys() - {item.variable for item in INPUTS}):
        name = variable.removeprefix("INPUT_").lower()
        close = get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.8)
        if close and name != variable.lower():
            yield f"input {name}: there is no such input; did you mean {close[0]}?"


def _not_with_publish(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for every input that only a run has a use for, where nothing is to be run."""
    if not environ.get("INPUT_PUBLISH", "").strip():
        return
    for item in INPUTS:
        value = environ.get(item.variable, "").strip()
        if item.name not in _WITH_PUBLISH and value not in ("", item.default):
            yield f"input {item.name}: does not go with publish, which runs nothing; leave one of them out"


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(map(Path, _lines(text)))


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse()


def _choice(*values: str) -> Callable[[str], str]:
    return lambda text: text if text in values else _refuse()


def _count(least: int) -> Callable[[str], int]:
    return lambda text: int(text) if _WHOLE.fullmatch(text) and int(text) >= least else _refuse()


def _number(text: str) -> float:
    value = float(text) if _DECIMAL.fullmatch(text) else _refuse()
    return value if math.isfinite(value) else _refuse()


def _rate(text: str) -> float:
    value = _number(text)
    return value if 0.0 <= value <= 1.0 else _refuse()


def _seconds(text: str) -> float:
    value = _number(text)
    return value if value > 0.0 else _refuse()


def _refuse() -> Any:
    raise ValueError


COMMENT_MODES = ("always", "changes", "failures", "off")

_COUNT = "a whole number, 0 or more"
_AT_LEAST_ONE = "a whole number, 1 or more"
_RATE = "a number from 0 to 1"
_SECONDS = "a number of seconds above 0"
_DOLLARS = "a number of US dollars, 0 or more"
_FLAG = "true, false"

_WITH_PUBLISH = frozenset(
    {"template", "fail-on", "summary", "comment", "comment-id", "check", "check-name", "check-fail-on", "review"}
    | {"require-publish", "publish", "github-token"}
)

INPUTS: tuple[Input, ...] = (
    Input("suite", "suites", _lines, "files, folders or globs, one per line", default="agent.yaml"),
    Input("target", "target", str, "recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model"),
    Input("output-dir", "output_dir", Path, "a folder", default="holodeck-results"),
    Input("concurrency", "concurrency", _count(1), _AT_LEAST_ONE),
    Input("turn-timeout", "turn_timeout", _seconds, _SECONDS),
    Input("case-timeout", "case_timeout", _seconds, _SECONDS),
    Input("run-timeout", "run_timeout", _seconds, _SECONDS),
    Input("max-response-bytes", "max_response_bytes", _count(1), _AT_LEAST_ONE),
    Input("max-cost-usd", "max_cost_usd", _number, _DOLLARS),
    Input("max-tokens", "max_tokens", _count(0), _COUNT),
    Input("repeat", "repeat", _count(1), _AT_LEAST_ONE),
    Input("min-pass", "min_pass", _count(1), _AT_LEAST_ONE),
    Input("min-pass-rate", "min_pass_rate", _rate, _RATE),
    Input("min-pass-rate-lower-bound", "min_pass_rate_lower_bound", _rate, _RATE),
    Input("min-completeness", "min_completeness", _rate, _RATE),
    Input("max-errors", "max_errors", _count(0), _COUNT),
    Input("max-flaky", "max_flaky", _count(0), _COUNT),
    Input("case", "case_globs", _lines, "globs, one per line"),
    Input("tag", "tags", _lines, "tags, one per line"),
    Input("limit", "limit", _count(1), _AT_LEAST_ONE),
    Input("failed-from", "failed_from", Path, "a results.json"),
    Input("resume", "resume", _flag, _FLAG, default="false"),
    Input("allow-empty", "allow_empty", _flag, _FLAG, default="false"),
    Input("env-file", "env_file", Path, "a file"),
    Input("allow-path", "allow_paths", _folders, "folders, one per line"),
    Input("allow-plain-http", "allow_plain_http", _flag, _FLAG, default="false"),
    Input("record", "record", Path, "a folder"),
    Input("replay", "replay", Path, "a folder"),
    Input("cache", "cache", Path, "a folder"),
    Input("dry-run", "dry_run", _flag, _FLAG, default="false"),
    Input("template", "template", Path, "a file"),
    Input("fail-on", "fail_on", _choice("violation", "never"), "violation, never", default="violation"),
    Input("summary", "summary", _flag, _FLAG, default="true"),
    Input("comment", "comment", _choice(*COMMENT_MODES), ", ".join(COMMENT_MODES), default="always"),
    Input("comment-id", "comment_id", str, "a text"),
    Input("check", "check", _flag, _FLAG, default="true"),
    Input("check-name", "check_name", str, "a text"),
    Input("check-fail-on", "check_fail_on", _choice("violation", "never"), "violation, never", default="violation"),
    Input("review", "review", _choice("off", "failures"), "off, failures", default="off"),
    Input("require-publish", "require_publish", _flag, _FLAG, default="false"),
    Input("allow-unsafe-forks", "allow_unsafe_forks", _flag, _FLAG, default="false"),
    Input("publish", "publish", _lines, "results.json files or folders of them, one per line"),
    Input("github-token", "github_token", str, "a token", secret=True),
)
