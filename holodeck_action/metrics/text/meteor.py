"""METEOR, identical to NLTK's `meteor_score` with WordNet 3.0.

Synonyms of single words are read from the table that `scripts/build_wordnet_table.py` builds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from holodeck_action.metrics.text.porter import WordCache, stems
from holodeck_action.metrics.text.tokens import treebank_tokens
from holodeck_action.text.foreign import read_file

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
    """WordNet's words of one part of speech.

    Attributes:
        names: names (synonyms) of each word, separated by spaces.
        exceptions: base forms of each irregular form, separated by spaces.
        detachments: rules by which endings of regular forms are replaced.
    """

    names: dict[str, str]
    exceptions: dict[str, str]
    detachments: _Detachments

    def base_forms(self, word: str) -> Iterator[str]:
        """Yield `word` itself, then its irregular base forms or, if there are no such forms, its regular base forms."""
        yield word
        if word in self.exceptions:
            yield from self.exceptions[word].split(" ")
            return
        for ending, replacement in self.detachments.get(word[-1:], ()):
            if word.endswith(ending):
                yield word[: len(word) - len(ending)] + replacement


_MOST_TABLE = 64_000_000
"""Maximum bytes of the decompressed synonym table."""


@cache
def _wordnet() -> tuple[_PartOfSpeech, ...]:
    table = read_file(Path(__file__).parents[1] / "data" / "wordnet30.txt.gz").unpack(_MOST_TABLE).text()
    lines = [line.split("\t") for line in table.split("\n")]
    return tuple(
        _PartOfSpeech(
            names=dict(zip(*lines[at : at + 2], strict=True)),
            exceptions=dict(zip(*lines[at + 2 : at + 4], strict=True)),
            detachments=_by_last_letter(rules),
        )
        for at, rules in zip(range(0, len(lines), 4), _DETACHMENTS, strict=True)
    )


def _find_synonyms(word: str) -> frozenset[str]:
    found: list[str] = []
    for part in _wordnet():
        for form in part.base_forms(word):
            names = part.names.get(form)
            if names is not None:
                found += names.split(" ")
    return frozenset(found)


synonyms: WordCache[frozenset[str]] = WordCache(_find_synonyms)
"""`synonyms[word]` are the lower-case one-word names in all synsets of a lower-case word and its base forms, in any
part of speech; cached. NLTK's METEOR uses these names to match words. NLTK also uses names with capitals, which are
omitted here, since no lower-case word equals them.
"""


_ALPHA, _BETA, _GAMMA = 0.9, 3.0, 0.5


def _positions_by_word(words: list[str]) -> dict[str, list[int]]:
    """Return the ascending positions of each word."""
    places: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        places.setdefault(word, []).append(position)
    return places


def _positions_by_stem(places: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the ascending positions of each stem, for words that are not yet aligned."""
    by_stem: dict[str, list[int]] = {}
    for word, positions in places.items():
        if positions:
            by_stem.setdefault(stems[word], []).extend(positions)
    for positions in by_stem.values():
        positions.sort()
    return by_stem


def align(hypothesis: list[str], reference: list[str]) -> list[int]:
    """Return for each word of `hypothesis` the position of its partner in `reference`, or -1.

    Three passes (same word, same stem, synonym) go from the last word to the first and choose the last free partner, as
    in NLTK. As in NLTK, the third pass looks up synonyms of the *stems* of words that the second pass left unaligned,
    because scores depend on this.
    """
    partners = [-1] * len(hypothesis)
    places = _positions_by_word(reference)
    unmatched: list[int] = []
    for position in range(len(hypothesis) - 1, -1, -1):
        if free := places.get(hypothesis[position]):
            partners[position] = free.pop()
        else:
            unmatched.append(position)
    places = _positions_by_stem(places)
    without_stem: list[tuple[int, str]] = []
    for position in unmatched if places else ():
        stem = stems[hypothesis[position]]
        if free := places.get(stem):
            partners[position] = free.pop()
        else:
            without_stem.append((position, stem))
    places = {stem: free for stem, free in places.items() if free}
    for position, stem in without_stem:
        # Checked first, because it iterates the smaller side, and most words share nothing.
        if places.keys().isdisjoint(synonyms[stem]):
            continue
        last, nearest = max((places[name][-1], name) for name in places.keys() & synonyms[stem])
        partners[position] = last
        places[nearest].pop()
        if not places[nearest]:
            del places[nearest]
    return partners


def _count_chunks(partners: list[int]) -> int:
    """Return the number of chunks: runs of words whose partners are adjacent and in the same order."""
    chunks, expected = 0, -1
    for partner in partners:
        if partner not in (-1, expected):
            chunks += 1
        expected = partner + 1 if partner >= 0 else -1
    return chunks


def meteor(response: str, reference: str) -> float:
    """Return METEOR of `response` against `reference`, 0..1 (α = 0.9, β = 3, γ = 0.5).

    It is bit-identical to NLTK's `meteor_score([tokens(reference)], tokens(response))` with WordNet 3.0 (A. Lavie and
    A. Agarwal, "METEOR: an automatic metric for MT evaluation with high levels of correlation with human judgments",
    2007), where `tokens` is NLTK's `word_tokenize(text, preserve_line=True)`: see `treebank_tokens`. Texts without a
    common word score 0.0.
    """
    ours = [token.lower() for token in treebank_tokens(response)]
    theirs = [token.lower() for token in treebank_tokens(reference)]
    partners = align(ours, theirs)
    matched = len(partners) - partners.count(-1)
    if not matched:
        return 0.0
    precision, recall = matched / len(ours), matched / len(theirs)
    f_mean = (precision * recall) / (_ALPHA * precision + (1 - _ALPHA) * recall)
    penalty: float = _GAMMA * (_count_chunks(partners) / matched) ** _BETA
    return (1 - penalty) * f_mean
