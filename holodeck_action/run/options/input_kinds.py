"""What values settings take that come from outside, as texts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from holodeck_action.seam.manifest import Option
from holodeck_action.seam.registry import resolve
from holodeck_action.suite.model.base_sources import SOURCES

_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Kind(NamedTuple):
    """What values a setting takes.

    Attributes:
        read: makes a value of a text that is not blank; raises ValueError where it cannot.
        allowed: what can be given, for error messages.
        choices: all the words that it takes; none where it takes others.
        option: of an extension, whose kind it is; None for a kind of the core.
    """

    read: Callable[[str], Any]
    allowed: str
    choices: tuple[str, ...] = ()
    option: Option | None = None


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


def _margin(text: str) -> float:
    value = _rate(text)
    return value if value > 0.0 else _refuse()


def _shard(text: str) -> str:
    found = re.fullmatch(r"(?:([1-9][0-9]{0,5})|auto)/([1-9][0-9]{0,5})|auto", text) or _refuse()
    return text if found[1] is None or int(found[1]) <= int(found[2]) else _refuse()


def _base(text: str) -> str:
    return text if re.fullmatch(SOURCES, text) else _refuse()


def _history(text: str) -> Path | str:
    if not text.startswith("branch:"):
        return Path(text)
    return text if re.fullmatch(SOURCES, text) else _refuse()


def _refuse() -> Any:
    raise ValueError


def one_of(*words: str) -> Kind:
    """Return the kind of a setting that takes one of some words."""
    return Kind(_choice(*words), ", ".join(words), words)


def kind_of(option: Option) -> Kind:
    """Return the kind of an extension's option; what reads a value is imported with the first one."""
    if option.flag:
        return FLAG
    if option.many:
        return Kind(_lines, option.allowed, option=option)
    return Kind(lambda text: resolve(option.read)(text) if option.read else text, option.allowed, option=option)


COUNT = Kind(_count(0), "a whole number, 0 or more")
AT_LEAST_ONE = Kind(_count(1), "a whole number, 1 or more")
RATE = Kind(_rate, "a number from 0 to 1")
SECONDS = Kind(_seconds, "a number of seconds above 0")
DOLLARS = Kind(_number, "a number of US dollars, 0 or more")
FLAG = Kind(_flag, "true, false")
FOLDER = Kind(Path, "a folder")
FOLDERS = Kind(_folders, "folders, one per line")
FILE = Kind(Path, "a file")
RESULTS = Kind(Path, "a results.json")
TEXT = Kind(str, "a text")
TARGET = Kind(str, "recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model")
GLOBS = Kind(_lines, "globs, one per line")
BASE = Kind(_base, "file:PATH, artifact, artifact:NAME, branch:NAME, merge-base")
HISTORY = Kind(_history, "a folder, or branch:NAME")
MARGIN = Kind(_margin, "a number above 0 and up to 1")
SHARD = Kind(_shard, "I/N with I from 1 to N, auto, or auto/N")
REACTION = one_of("fail", "warn", "ignore")
PACKAGES = Kind(_lines, "a file or a Python, or packages, one per line")
TAGS = Kind(_lines, "tags, one per line")
SUITE = Kind(str, "a file or folder of a suite")
SUITES = Kind(_lines, "files, folders or globs, one per line")
PUBLISHED = Kind(_lines, "results.json files or folders of them, one per line")
TOKEN = Kind(str, "a token")
