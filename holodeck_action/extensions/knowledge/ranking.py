"""Search of chunks by meaning (cosine), by words (BM25, exact), or both fused into one ranking."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from holodeck_action.extensions.knowledge.structure import Chunk
from holodeck_action.suite.model.tools import HierarchicalDocumentTool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIGITS = 6
"""Decimal places of scores: what processors compute differently lies far behind them."""


class Ranking(Struct, frozen=True):
    """What one kind of search found: scores by position, and how much they weigh (0 to 1)."""

    scores: Mapping[int, float]
    weight: float


def ordered(scores: Mapping[int, float]) -> list[tuple[int, float]]:
    """Return positions with rounded scores, the best first, equal ones in the order of their positions."""
    rounded = ((position, round(score, DIGITS) + 0.0) for position, score in scores.items())
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))


def ranks(scores: Mapping[int, float]) -> dict[int, int]:
    """Return the rank of each position from 1; equal scores share the better rank (1, 2, 2, 4)."""
    found: dict[int, int] = {}
    before, rank = None, 0
    for place, (position, score) in enumerate(ordered(scores), start=1):
        if score != before:
            before, rank = score, place
        found[position] = rank
    return found


def fuse(rankings: Sequence[Ranking], k: int) -> dict[int, float]:
    """Fuse rankings by weighted reciprocal rank.

    score(d) = (k + 1) · Σ over the rankings that have d: weight / (k + rank). With weights that add up to 1, a text
    that is first everywhere scores 1 and one that is found nowhere 0. Source: G. Cormack, C. Clarke and S. Büttcher,
    Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods, SIGIR 2009, with weights.

    Args:
        rankings: their weights add up to 1.
        k: the larger, the less the first ranks stand out (60 in the source).
    """
    found: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        if ranking.weight > 0.0:
            for position, rank in ranks(ranking.scores).items():
                found[position] += (k + 1) * ranking.weight / (k + rank)
    return dict(found)


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


class Numbered(Struct, frozen=True):
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


_GRID = 2**24
"""Steps in which coordinates are kept: whole numbers that a float32 holds. Their products add up to less than 2**53,
so a float64 holds every sum exactly, in whichever order a processor adds."""
_ROWS = 4096
"""Rows that are widened to float64 at once."""


class VectorIndex:
    """Vectors of length 1, found by their likeness to another."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        """Keep the vectors.

        Args:
            rows: shape (n, d), each of length 1.
        """
        self._steps = _steps(rows)

    def search(
        self, query: NDArray[np.float32], *, most: int | None = None, least: float | None = None
    ) -> list[tuple[int, float]]:
        """Return the nearest vectors.

        Args:
            query: shape (d,), of length 1.
            most: how many at most; None for all.
            least: smallest score to return.

        Returns:
            Row and score of each, best first and equal ones in the order of rows. A score is the cosine of the angle,
            from -1 to 1, rounded to six digits.
        """
        import numpy as np

        asked = _steps(query).astype(np.float64)
        parts = [
            self._steps[begin : begin + _ROWS].astype(np.float64) @ asked for begin in range(0, len(self._steps), _ROWS)
        ]
        exact = np.concatenate(parts) if parts else np.zeros(0)
        scores = np.clip(np.round(exact / (_GRID * _GRID), DIGITS), -1.0, 1.0)
        order = np.argsort(-scores, kind="stable")[:most]
        found = [(int(row), float(scores[row])) for row in order]
        return found if least is None else [(row, score) for row, score in found if score >= least]


def _steps(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    steps: NDArray[np.float32] = np.rint(vectors * np.float32(_GRID)).astype(np.float32)
    return steps


def searches_by_meaning(entry: HierarchicalDocumentTool) -> bool:
    """Tell whether a tool needs vectors."""
    return entry.search_mode == "semantic" or (entry.search_mode == "hybrid" and entry.semantic_weight > 0.0)


class ChunkSearch:
    """The chunks of a tool, ready to be searched."""

    def __init__(self, chunks: Sequence[Chunk], entry: HierarchicalDocumentTool, vectors: VectorIndex | None) -> None:
        """Index the chunks.

        Args:
            entry: how they are searched: by the cosine of vectors (`semantic`), by BM25 (`keyword`), or by both and
                exact search, fused with its weights (`hybrid`).
            vectors: of the chunks in their order; needed where it searches by meaning.
        """
        self._entry = entry
        self._vectors = vectors
        self._words = Bm25([chunk.text for chunk in chunks]) if entry.search_mode != "semantic" else None
        exact = entry.search_mode == "hybrid" and entry.exact_weight > 0.0
        self._exact = Exact([Numbered(chunk.text, chunk.numbers) for chunk in chunks]) if exact else None

    def find(self, query: str, vector: NDArray[np.float32] | None = None) -> list[tuple[int, float]]:
        """Return positions and scores of the hits, best first, equal ones in the order of the chunks.

        Scores are from 0 to 1: the cosine where it is above 0, BM25 as a part of what the query's words could reach
        (see `Bm25.limit`), or the fused ranks (see `fuse`).

        Args:
            vector: the query's, of length 1; needed where vectors are.
        """
        entry = self._entry
        if entry.search_mode == "keyword":
            found = self._by_words(query)
        elif entry.search_mode == "semantic":
            found = self._by_meaning(vector)
        else:
            rankings = [Ranking(self._by_meaning(vector), entry.semantic_weight)]
            rankings.append(Ranking(self._by_words(query), entry.keyword_weight))
            if self._exact is not None:
                rankings.append(Ranking(self._exact.scores(query), entry.exact_weight))
            found = fuse(rankings, entry.rrf_k)
        hits = ordered(found)
        return hits if entry.min_score is None else [hit for hit in hits if hit[1] >= entry.min_score]

    def _by_words(self, query: str) -> Mapping[int, float]:
        assert self._words is not None
        limit = self._words.limit(query)
        return {position: score / limit for position, score in self._words.scores(query).items()}

    def _by_meaning(self, vector: NDArray[np.float32] | None) -> Mapping[int, float]:
        if self._vectors is None or vector is None:
            return {}
        return {position: score for position, score in self._vectors.search(vector) if score > 0.0}
