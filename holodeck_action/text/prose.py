r"""Untrusted text in Markdown as prose: words stay words, and what could act becomes code.

GitHub links mentions, references and addresses after rendering, in all text outside `code` and `pre`, so that escaping
does not help there (docs/github.md). A word that could be such a thing, HTML, a formula, an emoji's short name or a
command therefore stands in a code span, and Markdown's own characters in other words are escaped. The result is one
line that CommonMark and GFM parse to text, code and, of compared texts, `<b>`; it has no `|`, so that it fits a cell.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from msgspec import Struct

from holodeck_action.text.code_spans import EMPTY, inline_code
from holodeck_action.text.plain import one_line, short_line

_MOST_WORDS = 200
"""Words of a text that are compared: the time grows with more than their square."""
_ALIKE = 0.3
"""Share of common words below which two texts are different as a whole, and marks would say nothing."""
_LEAD = 6
"""Words before the first difference that are shown of a long text."""

_HARMLESS = frozenset("!\"%&'()*+,-./:;=?[]^_{}~")
_ACTS = re.compile(
    r"://|//|\bwww\.|:[\w+-]+:|:[\w+-]*[^\W\d][\w+-]*$|\bgh-\d|^/|\w\.[^\W\d_]{2}|^::|"
    r"(?<![^\W_])[0-9a-f]{7,64}(?![^\W_])",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"([&*_\[\]~])")
# At the start of a line these would begin a list, a heading's underline or a quote.
_STARTS = re.compile(r"^(?=[-+=]|[0-9]+[.)](?: |$))([0-9]*)(?=[-+=.)])")
_TOKEN = re.compile(r"`[^`\s](?:[^`]*[^`\s])?`(?=[^\w`]*(?: |$))[^\w\s`]*|\S+")
_CODE = re.compile(r"`([^`]+)`([^`]*)")
_EDGES = re.compile(r"^\W+|\W+$")


def prose(text: str, limit: int = 300) -> str:
    """Return untrusted text as prose of one line.

    Args:
        text: untrusted text; line breaks become `⏎`.
        limit: most characters shown; what is cut is told by the number of characters.
    """
    return _line(_words(one_line(text, limit)))


def short_prose(text: str, limit: int = 100) -> str:
    """Return untrusted text as prose of at most `limit` characters, cut after a word."""
    return _line(_words(short_line(text, limit)))


class _Word(Struct, frozen=True):
    text: str
    differs: bool = False

    @property
    def code(self) -> re.Match[str] | None:
        """A text in backticks, which is code already, and what is behind it, if that does not act."""
        found = _CODE.fullmatch(self.text)
        return found if found is not None and not _Word(found[2]).acts else None

    @property
    def acts(self) -> bool:
        """Whether it could be more than a word, as it stands or as Unicode says it is the same."""
        normal = unicodedata.normalize("NFKC", self.text)
        return not all(map(_is_harmless, normal)) or bool(_ACTS.search(normal)) or bool(_ACTS.search(self.text))


def _is_harmless(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in _HARMLESS
    return unicodedata.category(character)[0] in "LMNPS"


def compared(expected: str, got: str, limit: int = 400) -> tuple[str, str]:
    """Return two untrusted texts as prose, the words in which they differ in `<b>`.

    A long text is shown from shortly before its first difference. Texts that have little in common have no marks.

    Args:
        expected: untrusted text.
        got: untrusted text.
        limit: most characters shown of each.
    """
    # Room for what a cut removes at the front.
    one, other = (one_line(text, 20 * limit).split() for text in (expected, got))
    if max(len(one), len(other)) > _MOST_WORDS or not one or not other:
        return prose(expected, limit), prose(got, limit)
    matcher = SequenceMatcher(None, [_key(word) for word in one], [_key(word) for word in other], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return prose(expected, limit), prose(got, limit)
    marks: tuple[set[int], set[int]] = (set(), set())
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            marks[0].update(range(start, end))
            marks[1].update(range(other_start, other_end))
    first = min((min(found) for found in marks if found), default=0)
    shown = (
        _window([_Word(word, index in found) for index, word in enumerate(words)], first, limit)
        for words, found in zip((one, other), marks, strict=True)
    )
    left, right = map(_line, shown)
    return left, right


def _key(word: str) -> str:
    """Return what two words are compared by: punctuation around them does not count."""
    return _EDGES.sub("", word) or word


def _window(words: list[_Word], first: int, limit: int) -> list[_Word]:
    """Return the words that fit, from shortly before the one with this index if the beginning does not reach it."""
    size = 0
    start = 0
    if sum(len(word.text) + 1 for word in words[: first + 1]) > limit:
        start = max(0, first - _LEAD)
    shown: list[_Word] = [_Word("…")] if start else []
    for word in words[start:]:
        size += len(word.text) + 1
        if size > limit:
            return [*shown, _Word("…")]
        shown.append(word)
    return shown


def _words(line: str) -> list[_Word]:
    return [_Word(word) for word in _TOKEN.findall(line)]


def _line(words: Sequence[_Word]) -> str:
    return " ".join(_parts(words)) if words else EMPTY


def _parts(words: Iterable[_Word]) -> Iterator[str]:
    """Yield runs of words of one kind: code spans side by side would join to one."""
    begins = True
    for differs, marked in groupby(words, key=lambda word: word.differs):
        parts: list[str] = []
        for kind, run in groupby(marked, key=lambda word: "code" if word.code else "acts" if word.acts else ""):
            listed = list(run)
            text = " ".join(word.text for word in listed)
            if kind == "code":
                parts += [f"{_span(found[1])}{_escaped(found[2])}" for found in map(_code, listed)]
            elif kind == "acts":
                parts.append(_span(text))
            else:
                parts.append(_escaped(text, begins=begins and not parts))
        begins = False
        yield f"<b>{' '.join(parts)}</b>" if differs else " ".join(parts)


def _span(text: str) -> str:
    # The text was cut before; what takes commands apart makes it longer.
    return inline_code(text, 2 * len(text) + 2)


def _code(word: _Word) -> re.Match[str]:
    found = word.code
    assert found is not None
    return found


def _escaped(text: str, *, begins: bool = False) -> str:
    escaped = _ESCAPED.sub(r"\\\1", text)
    return _STARTS.sub(r"\1\\", escaped) if begins else escaped
