"""Kinds of values of inputs and options: how they are parsed from strings, and which values are allowed."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from holodeck_action.seam.manifest import Option
from holodeck_action.seam.registry import resolve
from holodeck_action.suite.model.base_sources import SOURCE_PATTERN
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.option_lines import split_option_lines

_WHOLE = lazy_pattern(r"[0-9]{1,18}")
_DECIMAL = lazy_pattern(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


class NumberRange(NamedTuple):
    """A range of allowed numbers; `exclusive` excludes the minimum itself, `integer` allows only whole numbers."""

    minimum: float = 0.0
    maximum: float | None = None
    exclusive: bool = False
    integer: bool = False

    def read(self, text: str) -> float:
        """Parse a number; raise ValueError if it is invalid or out of range."""
        pattern, number = (_WHOLE, int) if self.integer else (_DECIMAL, float)
        value = number(text) if pattern.fullmatch(text) else math.nan
        within = value > self.minimum if self.exclusive else value >= self.minimum
        return value if within and value < math.inf and (self.maximum is None or value <= self.maximum) else _refuse()


class Kind(NamedTuple):
    """The kind of a setting's values: how to parse and describe them.

    Attributes:
        read: parses a non-blank string; raises ValueError if it is invalid.
        allowed: description of the allowed values, for error messages.
        choices: the allowed words; empty if the value is not one of a fixed set of words.
        numbers: the allowed numbers; None if the value is not a number.
        many: whether the value is a list; the input then has one entry per line, and the option can be repeated.
        metavar: placeholder for the value in the help; empty to use that of the click type.
    """

    read: Callable[[str], Any]
    allowed: str
    choices: tuple[str, ...] = ()
    numbers: NumberRange | None = None
    many: bool = False
    metavar: str = ""


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
    return text if re.fullmatch(SOURCE_PATTERN, text) else _refuse()


def _read_history(text: str) -> Path | str:
    return _read_source(text) if text.startswith("branch:") else Path(text)


def _refuse() -> Any:
    raise ValueError


def one_of(*words: str) -> Kind:
    """Return the kind of a setting whose value is one of the words."""
    return Kind(lambda text: text if text in words else _refuse(), ", ".join(words), words)


def kind_of(option: Option) -> Kind:
    """Return the kind of an extension's option; the option's parser is imported when a value is parsed."""
    if option.flag:
        return FLAG
    read = _split_lines if option.many else lambda text: resolve(option.read)(text) if option.read else text
    return Kind(read, option.allowed, many=option.many, metavar=option.metavar)


def _number_kind(allowed: str, numbers: NumberRange) -> Kind:
    return Kind(numbers.read, allowed, numbers=numbers)


COUNT = _number_kind("a whole number, 0 or more", NumberRange(0, integer=True))
AT_LEAST_ONE = _number_kind("a whole number, 1 or more", NumberRange(1, integer=True))
RATE = _number_kind("a number from 0 to 1", NumberRange(0.0, 1.0))
MARGIN = _number_kind("a number above 0 and up to 1", NumberRange(0.0, 1.0, exclusive=True))
SECONDS = _number_kind("a number of seconds above 0", NumberRange(exclusive=True))
DOLLARS = _number_kind("a number of US dollars, 0 or more", NumberRange())
FLAG = Kind(_read_flag, "true, false")
FOLDER = Kind(Path, "a folder")
FOLDERS = Kind(_read_folders, "folders, one per line", many=True, metavar="DIR")
FILE = Kind(Path, "a file")
RESULTS = Kind(Path, "a results.json", metavar="RESULTS")
TEXT = Kind(str, "a text")
TARGET = Kind(str, "recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model")
GLOBS = Kind(_split_lines, "globs, one per line", many=True, metavar="GLOB")
BASE = Kind(_read_source, "file:PATH, artifact, artifact:NAME, branch:NAME, merge-base", metavar="SOURCE")
HISTORY = Kind(_read_history, "a folder, or branch:NAME", metavar="DIR")
SHARD = Kind(_read_shard, "I/N with I from 1 to N, auto, or auto/N", metavar="I/N")
REACTION = one_of("fail", "warn", "ignore")
CASE_REACTION = one_of("fail", "confirm", "warn", "ignore")
PACKAGES = Kind(_split_lines, "a file or a Python, or packages, one per line", many=True, metavar="PACKAGES")
TAGS = Kind(_split_lines, "tags, one per line", many=True)
SUITE = Kind(str, "a file or folder of a suite", metavar="SUITE")
SUITES = Kind(_split_lines, "files, folders or globs, one per line", many=True)
PUBLISHED = Kind(_split_lines, "results.json files or folders of them, one per line", many=True)
TOKEN = Kind(str, "a token")
OPTION_LINES = Kind(split_option_lines, "options, one per line", many=True)
