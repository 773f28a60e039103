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


class Span(NamedTuple):
    """The numbers that a setting takes; `above` leaves out the least one, `whole` all but whole numbers."""

    least: float = 0.0
    most: float | None = None
    above: bool = False
    whole: bool = False

    def read(self, text: str) -> float:
        """Return the number that a text is; raises ValueError where it is none of these."""
        pattern, number = (_WHOLE, int) if self.whole else (_DECIMAL, float)
        value = number(text) if pattern.fullmatch(text) else math.nan
        within = value > self.least if self.above else value >= self.least
        return value if within and value < math.inf and (self.most is None or value <= self.most) else _refuse()


class Kind(NamedTuple):
    """What values a setting takes.

    Attributes:
        read: makes a value of a text that is not blank; raises ValueError where it cannot.
        allowed: what can be given, for error messages.
        choices: all the words that it takes; none where it takes others.
        span: the numbers that it takes; None where it takes none.
        many: whether it is a list, an entry a line; an option is given once for each.
        word: what stands for a value in the help; empty for the word of its type.
    """

    read: Callable[[str], Any]
    allowed: str
    choices: tuple[str, ...] = ()
    span: Span | None = None
    many: bool = False
    word: str = ""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(map(Path, _lines(text)))


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse()


def _shard(text: str) -> str:
    found = re.fullmatch(r"(?:([1-9][0-9]{0,5})|auto)/([1-9][0-9]{0,5})|auto", text) or _refuse()
    return text if found[1] is None or int(found[1]) <= int(found[2]) else _refuse()


def _base(text: str) -> str:
    return text if re.fullmatch(SOURCES, text) else _refuse()


def _history(text: str) -> Path | str:
    return _base(text) if text.startswith("branch:") else Path(text)


def _refuse() -> Any:
    raise ValueError


def one_of(*words: str) -> Kind:
    """Return the kind of a setting that takes one of some words."""
    return Kind(lambda text: text if text in words else _refuse(), ", ".join(words), words)


def kind_of(option: Option) -> Kind:
    """Return the kind of an extension's option; what reads a value is imported with the first one."""
    if option.flag:
        return FLAG
    read = _lines if option.many else lambda text: resolve(option.read)(text) if option.read else text
    return Kind(read, option.allowed, many=option.many, word=option.metavar)


def _numbers(allowed: str, span: Span) -> Kind:
    return Kind(span.read, allowed, span=span)


COUNT = _numbers("a whole number, 0 or more", Span(0, whole=True))
AT_LEAST_ONE = _numbers("a whole number, 1 or more", Span(1, whole=True))
RATE = _numbers("a number from 0 to 1", Span(0.0, 1.0))
MARGIN = _numbers("a number above 0 and up to 1", Span(0.0, 1.0, above=True))
SECONDS = _numbers("a number of seconds above 0", Span(above=True))
DOLLARS = _numbers("a number of US dollars, 0 or more", Span())
FLAG = Kind(_flag, "true, false")
FOLDER = Kind(Path, "a folder")
FOLDERS = Kind(_folders, "folders, one per line", many=True, word="DIR")
FILE = Kind(Path, "a file")
RESULTS = Kind(Path, "a results.json", word="RESULTS")
TEXT = Kind(str, "a text")
TARGET = Kind(str, "recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model")
GLOBS = Kind(_lines, "globs, one per line", many=True, word="GLOB")
BASE = Kind(_base, "file:PATH, artifact, artifact:NAME, branch:NAME, merge-base", word="SOURCE")
HISTORY = Kind(_history, "a folder, or branch:NAME", word="DIR")
SHARD = Kind(_shard, "I/N with I from 1 to N, auto, or auto/N", word="I/N")
REACTION = one_of("fail", "warn", "ignore")
PACKAGES = Kind(_lines, "a file or a Python, or packages, one per line", many=True, word="PACKAGES")
TAGS = Kind(_lines, "tags, one per line", many=True)
SUITE = Kind(str, "a file or folder of a suite", word="SUITE")
SUITES = Kind(_lines, "files, folders or globs, one per line", many=True)
PUBLISHED = Kind(_lines, "results.json files or folders of them, one per line", many=True)
TOKEN = Kind(str, "a token")
