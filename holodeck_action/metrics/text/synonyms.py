"""Synonyms of single words from WordNet 3.0, read from the table that `scripts/build_wordnet_table.py` builds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from holodeck_action.metrics.text.memo import Memo

# The detachment rules of morphy(7WN) as NLTK applies them, for noun, verb, adjective and adverb.
_DETACHMENTS: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
        *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    (
        *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")),
        *(("ing", "e"), ("ing", "")),
    ),
    (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    (),
)


_Detachments = dict[str, list[tuple[str, str]]]


def _by_last_letter(rules: tuple[tuple[str, str], ...]) -> _Detachments:
    by_letter: _Detachments = {}
    for rule in rules:
        by_letter.setdefault(rule[0][-1], []).append(rule)
    return by_letter


class _PartOfSpeech(NamedTuple):
    """Words with their names, irregular forms with their base forms (space-separated), and the rules for the others."""

    names: dict[str, str]
    exceptions: dict[str, str]
    detachments: _Detachments

    def base_forms(self, word: str) -> Iterator[str]:
        """`word` itself, then its irregular base forms or, when there are none, those by rule."""
        yield word
        if word in self.exceptions:
            yield from self.exceptions[word].split(" ")
            return
        for ending, replacement in self.detachments.get(word[-1:], ()):
            if word.endswith(ending):
                yield word[: len(word) - len(ending)] + replacement


@cache
def _wordnet() -> tuple[_PartOfSpeech, ...]:
    import gzip
    from importlib.resources import files

    data = files("holodeck_action.metrics").joinpath("data", "wordnet30.txt.gz").read_bytes()
    lines = [line.split("\t") for line in gzip.decompress(data).decode("ascii").split("\n")]
    return tuple(
        _PartOfSpeech(
            names=dict(zip(*lines[at : at + 2], strict=True)),
            exceptions=dict(zip(*lines[at + 2 : at + 4], strict=True)),
            detachments=_by_last_letter(rules),
        )
        for at, rules in zip(range(0, len(lines), 4), _DETACHMENTS, strict=True)
    )


def _find(word: str) -> frozenset[str]:
    found: list[str] = []
    for part in _wordnet():
        for form in part.base_forms(word):
            names = part.names.get(form)
            if names is not None:
                found += names.split(" ")
    return frozenset(found)


synonyms: Memo[frozenset[str]] = Memo(_find)
"""`synonyms[word]`: the lower-case one-word names in all synsets of a lower-case word and its base forms, in any part
of speech, remembered. Through these names NLTK's METEOR can match a word; it also offers names with capitals, which no
lower-cased word equals."""
