"""Finds verdicts that a judge copied from its question instead of grading.

A question is a template with texts filled in: those of the case, the criteria, steps and rubric of the suite, and
earlier answers of the judge. A judge may quote what is filled in. What else it repeats is the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut

_SHORTEST = 6
"""Minimum words of a repeated text; shorter ones may agree by chance."""
_SHORTEST_EXAMPLE = 3
"""Minimum words of an answer that is equal to a quoted text of the question; `yes` and `no` are shorter."""
_SHARED = 4
"""Words in a row that show that a text is from what was filled in."""
_SHORTEST_WORD, _LONGEST_STEM = 3, 5
"""Minimum letters of a compared word, and the number of them that are compared, so that inflected forms agree."""
_COMMON = frozenset(
    (
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "was",
        "were",
        "are",
        "has",
        "have",
        "had",
        "its",
        "not",
        "but",
    )
)
"""Words that show no relation between two texts."""
_LONGEST_QUOTE = 80

_WORD = lazy_pattern(r"\w+(?:['’]\w+)*")
_ESCAPED = lazy_pattern(r"\\(?:[nrtbf]|u00[0-9a-f]{2})")
_QUOTED = lazy_pattern(r'"((?:[^"\\\n]|\\.)+)"')
_SENTENCE = lazy_pattern(r"[^.!?\n\"]+(?:[.!?](?!\s)[^.!?\n\"]*)*")
_ADDRESSED = lazy_pattern(r"\b(?:you|your|please|json|generate|return|explanation|concise)\b", re.IGNORECASE)
"""Matches in a sentence that instructs the judge; other sentences describe good and bad answers, and judges quote them.
"""
_DEFINITION = lazy_pattern(r"^[^\w\n]*+definition:.*$", re.IGNORECASE | re.MULTILINE)
"""Matches the definition of a level in a library's prompt, which judges quote as they quote a suite's rubric."""
_PLACEHOLDER = lazy_pattern(r"<[^<>/\n][^<>\n]{0,80}>")
_ONLY_PLACEHOLDER = lazy_pattern(r"\s*(?:<[^<>]+>|\.{3}|…)\s*")
_STATEMENTS = frozenset(("citation", "claim", "claims", "opinions", "statement", "statements", "truths"))
"""Fields for which a judge takes statements from the judged text."""
_LATIN_END = "\u0250"


class Question(Struct, frozen=True):
    """A question to a judge.

    Attributes:
        prompt: the whole text.
        filled: the texts that were filled into its template.
        system: the instructions that come with it.
    """

    prompt: str
    filled: tuple[str, ...]
    system: str = ""

    def problem_of(self, verdict: Any) -> str | None:
        """Return a clause that says what is copied or invented in an answer; None if it is neither.

        Args:
            verdict: the parsed answer, or its text if it is not JSON.
        """
        texts = [(name, text) for name, text in _free_texts(verdict) if _words(text) or text.strip()]
        if not texts:
            return None
        known = _Known(f"{self.system}\n{self.prompt}", self.filled)
        for name, text in texts:
            where = f"{name}: " if name else ""
            if (copied := known.find_copied(text)) is not None:
                return f'{where}it repeats "{cut(copied, _LONGEST_QUOTE)}" from the question instead of judging'
            if name in _STATEMENTS and known.is_invented(text):
                return f'{where}"{cut(text, _LONGEST_QUOTE)}" is not from the judged text'
        return None


def list_strings(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, without keys."""
    for _, text in _free_texts(value):
        yield text


class _Known:
    """The parts of a question, as words."""

    def __init__(self, prompt: str, filled: Sequence[str]) -> None:
        self._prompt = _DEFINITION.sub("", prompt)
        self._filled = filled
        self._asked = _padded(_words(self._prompt))
        self._given = " | ".join(_padded(_words(text)) for text in filled)

    def find_copied(self, text: str) -> str | None:
        """Return the part of the template that a text repeats; None if it repeats none."""
        if _ONLY_PLACEHOLDER.fullmatch(text) and not self._is_filled_in(text):
            return text.strip()
        for found in _PLACEHOLDER.findall(text):
            is_tag = f"</{found[1:]}" in self._prompt
            if found in self._prompt and not is_tag and not self._is_filled_in(found):
                return str(found)
        words = _words(text)
        given = _padded(words)
        if len(words) >= _SHORTEST and given in self._asked and self._is_of_template(words):
            return text.strip()
        for example in _QUOTED.findall(self._prompt):
            repeated = _words(example)
            is_equal = len(repeated) >= _SHORTEST_EXAMPLE and repeated == words
            if (is_equal or _is_part(repeated, given)) and self._is_of_template(repeated):
                return str(example)
        for sentence in _SENTENCE.findall(self._prompt):
            if _ADDRESSED.search(sentence):
                repeated = _words(sentence)
                if _is_part(repeated, given) and self._is_of_template(repeated):
                    return str(sentence).strip()
        return None

    def is_invented(self, text: str) -> bool:
        """Return whether a statement of several words shares none of them with what was filled in."""
        given = " ".join(self._filled)
        if len(_words(text)) < _SHORTEST or _is_latin(text) != _is_latin(given):
            # A judge may translate.
            return False
        stems = _stems(given)
        return bool(stems) and not stems & _stems(text)

    def _is_filled_in(self, text: str) -> bool:
        return any(text in each for each in self._filled)

    def _is_of_template(self, words: Sequence[str]) -> bool:
        """Return whether words of the question are not, or not all, from the texts that were filled in."""
        if len(words) < _SHORTEST:
            return _padded(words) not in self._given
        longest = run = 0
        for is_covered in self._covered(words):
            run = 0 if is_covered else run + 1
            longest = max(longest, run)
        return longest >= _SHORTEST

    def _covered(self, words: Sequence[str]) -> list[bool]:
        covered = [False] * len(words)
        for start in range(len(words) - _SHARED + 1):
            if _padded(words[start : start + _SHARED]) in self._given:
                covered[start : start + _SHARED] = [True] * _SHARED
        return covered


def _free_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings of a JSON value, each with the key that is nearest to it."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _free_texts(each, str(key))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _free_texts(each, name)


def _is_part(repeated: Sequence[str], given: str) -> bool:
    return len(repeated) >= _SHORTEST and _padded(repeated) in given


def _words(text: str) -> list[str]:
    return [word.casefold().replace("’", "'") for word in _WORD.findall(_ESCAPED.sub(" ", text))]


def _padded(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "


def _stems(text: str) -> set[str]:
    return {
        word[:_LONGEST_STEM]
        for word in _words(text)
        if (len(word) >= _SHORTEST_WORD and word not in _COMMON) or any(map(str.isdigit, word))
    }


def _is_latin(text: str) -> bool:
    letters = [char for char in text if char.isalpha()]
    return sum(char < _LATIN_END for char in letters) * 2 >= len(letters)
