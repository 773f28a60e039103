"""Kinds of values of inputs and options: how they are parsed from strings, and which values are allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from holodeck_action.seam.manifest import Option
from holodeck_action.seam.registry import resolve
from holodeck_action.suite.model.base_sources import SOURCES
from holodeck_action.text.option_lines import split_option_lines

_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class NumberRange(NamedTuple):
    """A range of allowed numbers; `above` excludes the minimum itself, `whole` allows only whole numbers."""

    least: float = 0.0
    most: float | None = None
    above: bool = False
    whole: bool = False

    def read(self, text: str) -> float:
        """Parse a number; raises ValueError if it is invalid or out of range."""
        pattern, number = (_WHOLE, int) if self.whole else (_DECIMAL, float)
        value = number(text) if pattern.fullmatch(text) else math.nan
        within = value > self.least if self.above else value >= self.least
        return value if within and value < math.inf and (self.most is None or value <= self.most) else _refuse()


class Kind(NamedTuple):
    """The kind of a setting's values: how to parse and describe them.

    Attributes:
        read: parses a non-blank string; raises ValueError if it is invalid.
        allowed: description of the allowed values, for error messages.
        choices: the allowed words, if the value is one of a fixed set of words, else empty.
        span: the allowed numbers; None if the value is not a number.
        many: whether the value is a list: the input has one entry per line, the option is repeated.
        word: placeholder for the value in the help; empty to use that of the click type.
    """

    read: Callable[[str], Any]
    allowed: str
    choices: tuple[str, ...] = ()
    span: NumberRange | None = None
    many: bool = False
    word: str = ""


def _split_lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _read_folders(text: str) -> tuple[Path, ...]:
    return tuple(map(Path, _split_lines(text)))


def _read_flag(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse()


def _read_shard(text: str) -> str:
    found = re.fullmatch(r"(?:([1-9][0-9]{0,5})|auto)/([1-9][0-9]{0,5})|auto", text) or _refuse()
    return text if found[1] is None or int(found[1]) <= int(found[2]) else _refuse()


def _read_source(text: str) -> str:
    return text if re.fullmatch(SOURCES, text) else _refuse()


def _read_history(text: str) -> Path | str:
    return _read_source(text) if text.startswith("branch:") else Path(text)


def _refuse() -> Any:
    raise ValueError


def one_of(*words: str) -> Kind:
    """Return the kind of a setting whose value is one of the words."""
    return Kind(lambda text: text if text in words else _refuse(), ", ".join(words), words)


def kind_of(option: Option) -> Kind:
    """Return the kind of an extension's option, whose parser is imported when the first value is parsed."""
    if option.flag:
        return FLAG
    read = _split_lines if option.many else lambda text: resolve(option.read)(text) if option.read else text
    return Kind(read, option.allowed, many=option.many, word=option.metavar)


def _number_kind(allowed: str, span: NumberRange) -> Kind:
    return Kind(span.read, allowed, span=span)


COUNT = _number_kind("a whole number, 0 or more", NumberRange(0, whole=True))
AT_LEAST_ONE = _number_kind("a whole number, 1 or more", NumberRange(1, whole=True))
RATE = _number_kind("a number from 0 to 1", NumberRange(0.0, 1.0))
MARGIN = _number_kind("a number above 0 and up to 1", NumberRange(0.0, 1.0, above=True))
SECONDS = _number_kind("a number of seconds above 0", NumberRange(above=True))
DOLLARS = _number_kind("a number of US dollars, 0 or more", NumberRange())
FLAG = Kind(_read_flag, "true, false")
FOLDER = Kind(Path, "a folder")
FOLDERS = Kind(_read_folders, "folders, one per line", many=True, word="DIR")
FILE = Kind(Path, "a file")
RESULTS = Kind(Path, "a results.json", word="RESULTS")
TEXT = Kind(str, "a text")
TARGET = Kind(str, "recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model")
GLOBS = Kind(_split_lines, "globs, one per line", many=True, word="GLOB")
BASE = Kind(_read_source, "file:PATH, artifact, artifact:NAME, branch:NAME, merge-base", word="SOURCE")
HISTORY = Kind(_read_history, "a folder, or branch:NAME", word="DIR")
SHARD = Kind(_read_shard, "I/N with I from 1 to N, auto, or auto/N", word="I/N")
REACTION = one_of("fail", "warn", "ignore")
PACKAGES = Kind(_split_lines, "a file or a Python, or packages, one per line", many=True, word="PACKAGES")
TAGS = Kind(_split_lines, "tags, one per line", many=True)
SUITE = Kind(str, "a file or folder of a suite", word="SUITE")
SUITES = Kind(_split_lines, "files, folders or globs, one per line", many=True)
PUBLISHED = Kind(_split_lines, "results.json files or folders of them, one per line", many=True)
TOKEN = Kind(str, "a token")
OPTION_LINES = Kind(split_option_lines, "options, one per line", many=True)
