r"""Untrusted text in Markdown as prose: words stay words, and anything that Markdown or GitHub could interpret becomes
code.

After rendering, GitHub turns mentions, references and URLs into links, except inside `code` and `pre`, so escaping does
not help (docs/github.md). Words that could be such a link, HTML, a formula, an emoji's short name or a command are put
into code spans. In other words, Markdown's own characters are escaped. The result is one line that CommonMark and GFM
parse to text and code only; the difference of two texts also contains `<b>` and `<del>`. The result has no `|`, so that
it fits a table cell.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct

from holodeck_action.text.code_spans import EMPTY, inline_code
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line, short_line

_MOST_WORDS = 200
"""Maximum number of words of a text to compare, since the time grows faster than the square of this number."""
_LEAST_SIMILARITY = 0.3
"""Minimum proportion of common words for which a difference by words is shown."""
_MANY_RUNS = 3
"""Minimum number of runs of active words (see `_Word.is_active`) that are merged into one code span."""
_WORDS_BEFORE = 6
"""Words shown before the first difference of a long text."""

_HARMLESS = frozenset("!\"%&'()*+,-./:;=?[]^_{}~")
_ACTIVE = lazy_pattern(
    r"://|//|\bwww\.|:[\w+-]+:|:[\w+-]*[^\W\d][\w+-]*$|\bgh-\d|^/|\w\.[^\W\d_]{2}|^::|"
    r"(?<![^\W_])[0-9a-f]{7,64}(?![^\W_])",
    re.IGNORECASE,
)
_ESCAPED = lazy_pattern(r"([&*_\[\]~])")
# At the start of a line these would begin a list, a heading's underline or a quote.
_STARTS = lazy_pattern(r"^(?=[-+=]|[0-9]+[.)](?: |$))([0-9]*)(?=[-+=.)])")
_TOKEN = lazy_pattern(r"`[^`\s](?:[^`]*[^`\s])?`(?=[^\w`]*(?: |$))[^\w\s`]*|\S+")
_CODE = lazy_pattern(r"`([^`]+)`([^`]*)")
_EDGES = lazy_pattern(r"^\W+|\W+$")


def prose(text: str, limit: int = 300) -> str:
    """Return untrusted text as prose of one line.

    Args:
        text: untrusted text; line breaks become `⏎`.
        limit: maximum number of characters shown; a longer text is cut, and its length added.
    """
    return _join_words(_split_words(one_line(text, limit)))


def short_prose(text: str, limit: int = 100) -> str:
    """Return untrusted text as prose of at most `limit` characters, cut after a word."""
    return _join_words(_split_words(short_line(text, limit)))


class _Word(Struct, frozen=True):
    text: str
    element: Literal["", "b", "del"] = ""

    @property
    def code(self) -> re.Match[str] | None:
        """The match of `_CODE` if the word is a code span, with only inactive characters after it; otherwise None."""
        found = _CODE.fullmatch(self.text)
        return found if found is not None and not _Word(found[2]).is_active else None

    @property
    def is_active(self) -> bool:
        """Whether Markdown or GitHub could interpret the word or its NFKC form."""
        normal = unicodedata.normalize("NFKC", self.text)
        return not all(map(_is_harmless, normal)) or bool(_ACTIVE.search(normal)) or bool(_ACTIVE.search(self.text))


def _is_harmless(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in _HARMLESS
    return unicodedata.category(character)[0] in "LMNPS"


def difference(before: str, after: str, limit: int = 400) -> str | None:
    """Return the difference of two untrusted texts as prose: removed words in `<del>`, new words in `<b>`.

    A long text is shown from shortly before its first difference.

    Args:
        before: untrusted text.
        after: untrusted text.
        limit: maximum number of characters shown.

    Returns:
        The prose; None if the texts have little in common, or too many words to compare.
    """
    # Extra length, since the window may drop words at the front.
    one, other = (one_line(text, 20 * limit).split() for text in (before, after))
    if max(len(one), len(other)) > _MOST_WORDS or not one or not other:
        return None
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(
        None, [_comparison_key(word) for word in one], [_comparison_key(word) for word in other], autojunk=False
    )
    if matcher.ratio() < _LEAST_SIMILARITY:
        return None
    words: list[_Word] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag != "equal":
            words += (_Word(word, "del") for word in one[start:end])
        words += (_Word(word, "" if tag == "equal" else "b") for word in other[other_start:other_end])
    first = next((at for at, word in enumerate(words) if word.element), 0)
    return _join_words(_window(words, first, limit))


def _comparison_key(word: str) -> str:
    """Return a word without the punctuation around it, for comparison."""
    return _EDGES.sub("", word) or word


def _window(words: list[_Word], first_word: int, limit: int) -> list[_Word]:
    """Return the words that fit into `limit`: from the start or, if word `first_word` would not fit, from shortly
    before it."""
    size = 0
    start = 0
    if sum(len(word.text) + 1 for word in words[: first_word + 1]) > limit:
        start = max(0, first_word - _WORDS_BEFORE)
    shown: list[_Word] = [_Word("…")] if start else []
    for word in words[start:]:
        size += len(word.text) + 1
        if size > limit:
            return [*shown, _Word("…")]
        shown.append(word)
    return shown


def _split_words(line: str) -> list[_Word]:
    return [_Word(word) for word in _TOKEN.findall(line)]


def _join_words(words: Sequence[_Word]) -> str:
    return " ".join(_join_runs(words)) if words else EMPTY


def _join_runs(words: Iterable[_Word]) -> Iterator[str]:
    """Yield adjacent words with the same HTML element as Markdown. Adjacent active words share one code span, because
    adjacent spans would merge."""
    begins = True
    for element, marked in groupby(words, key=lambda word: word.element):
        parts: list[str] = []
        runs = [(kind, list(run)) for kind, run in groupby(marked, key=_kind)]
        for kind, listed in _merge_active(runs):
            text = " ".join(word.text for word in listed)
            if kind == "code":
                parts += [f"{_span(found[1])}{_escape(found[2])}" for found in map(_code_match, listed)]
            elif kind == "acts":
                parts.append(_span(text))
            else:
                parts.append(_escape(text, at_line_start=begins and not parts))
        begins = False
        yield f"<{element}>{' '.join(parts)}</{element}>" if element else " ".join(parts)


def _kind(word: _Word) -> str:
    return "code" if word.code else "acts" if word.is_active else ""


def _merge_active(runs: list[tuple[str, list[_Word]]]) -> list[tuple[str, list[_Word]]]:
    """Merge all runs from the first to the last active one if at least `_MANY_RUNS` runs are active."""
    active = [at for at, (kind, _) in enumerate(runs) if kind == "acts"]
    if len(active) < _MANY_RUNS:
        return runs
    first, end = active[0], active[-1] + 1
    return [*runs[:first], ("acts", [word for _, listed in runs[first:end] for word in listed]), *runs[end:]]


def _span(text: str) -> str:
    # The text is already cut. Breaking up commands makes it longer.
    return inline_code(text, 2 * len(text) + 2)


def _code_match(word: _Word) -> re.Match[str]:
    found = word.code
    assert found is not None
    return found


def _escape(text: str, *, at_line_start: bool = False) -> str:
    escaped = _ESCAPED.sub(r"\\\1", text)
    return _STARTS.sub(r"\1\\", escaped) if at_line_start else escaped
