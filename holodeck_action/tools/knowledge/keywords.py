"""Search by words: BM25, and exact search for phrases and section numbers."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

_TERM = re.compile(r"\d+(?:[.\-–]\d+)+|\w+")
_QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
_NAMED_NUMBER = re.compile(
    r"(?:§§?|\b(?:sections?|sec\.?|clauses?|articles?|art\.?|paragraphs?|para\.?|subsections?|s))[ \t]*"
    r"(\d[\w.\-–]*\w|\d|[IVXLCDM]+\b)((?:\(\w{1,5}\))*)",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"(?<![\w.$€£])(\d+[A-Z]{0,3}(?:\.\d+)+)((?:\(\w{1,5}\))*)(?![\w%])")

K1 = 1.5
B = 0.75


def terms(text: str) -> list[str]:
    """Return the words of a text in lower case; a number such as 4.2 is one."""
    return _TERM.findall(text.casefold())


class Bm25:
    """BM25 over a fixed set of texts.

    score(q, d) = Σ over the terms t of q: idf(t) · tf · (k1 + 1) / (tf + k1 · (1 − b + b · |d| / avgdl)), with
    idf(t) = ln(1 + (N − n + 0.5) / (n + 0.5)), k1 = 1.5, b = 0.75. Source: S. Robertson and H. Zaragoza, The
    Probabilistic Relevance Framework: BM25 and Beyond, 2009; the 1 in the logarithm, which keeps the weight of a term
    that most texts have above zero, is Lucene's.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Count the words of the texts."""
        documents = [Counter(terms(text)) for text in texts]
        lengths = [counts.total() for counts in documents]
        mean = sum(lengths) / len(lengths) if lengths and any(lengths) else 1.0
        self._size = len(documents)
        self._norms = [K1 * (1.0 - B + B * length / mean) for length in lengths]
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, counts in enumerate(documents):
            for term, count in counts.items():
                self._postings[term].append((position, count))

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of each text that has a word of the query, by its position."""
        found: defaultdict[int, float] = defaultdict(float)
        for term, times in Counter(terms(query)).items():
            weight = times * self._idf(term)
            for position, count in self._postings.get(term, ()):
                found[position] += weight * count * (K1 + 1.0) / (count + self._norms[position])
        return dict(found)

    def limit(self, query: str) -> float:
        """Return what no score of the query reaches: Σ idf(t) · (k1 + 1), words that no text has included."""
        return sum(times * self._idf(term) * (K1 + 1.0) for term, times in Counter(terms(query)).items())

    def _idf(self, term: str) -> float:
        having = len(self._postings.get(term, ()))
        return math.log(1.0 + (self._size - having + 0.5) / (having + 0.5))


@dataclass(frozen=True, slots=True)
class Numbered:
    """A text for exact search, with the numbers of the sections in it, such as `4.2(a)`."""

    text: str
    numbers: tuple[str, ...] = ()


class Exact:
    """Finds phrases word for word, and sections by number.

    What is looked for: every "quoted phrase" of the query and every section number in it (`section 4.2(a)`, `§ 7`,
    `4.2`); without either, the whole query as one phrase, if it has two words or more. A text scores 1 for each phrase
    it has, 1 for a section of such a number, and one half for a section inside of it.
    """

    def __init__(self, texts: Sequence[Numbered]) -> None:
        """Prepare the texts."""
        self._words = [f" {' '.join(terms(each.text))} " for each in texts]
        self._numbers = [tuple(number.casefold() for number in each.numbers) for each in texts]

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of each text that has something of what is looked for, by its position."""
        phrases = [words for quoted in _QUOTED.findall(query) if (words := terms(quoted))]
        numbers = numbers_in(query)
        if not phrases and not numbers and len(whole := terms(query)) > 1:
            phrases = [whole]
        sought = [f" {' '.join(words)} " for words in phrases]
        found: dict[int, float] = {}
        for position, whole_text in enumerate(self._words):
            score = float(sum(phrase in whole_text for phrase in sought))
            score += sum(max((_fit(number, own) for own in self._numbers[position]), default=0.0) for number in numbers)
            if score:
                found[position] = score
        return found


def numbers_in(text: str) -> tuple[str, ...]:
    """Return the section numbers that a text names, in lower case, each once."""
    found = [match[1] + match[2] for match in _NAMED_NUMBER.finditer(text)]
    found += [match[1] + match[2] for match in _BARE_NUMBER.finditer(text)]
    return tuple(dict.fromkeys(number.casefold() for number in found))


def _fit(sought: str, own: str) -> float:
    if own == sought:
        return 1.0
    return 0.5 if own.startswith(sought) and own[len(sought)] in ".(-–" else 0.0
