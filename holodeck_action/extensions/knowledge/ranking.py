"""Searches chunks by embeddings (cosine similarity), by words (BM25), by exact phrases, or by all of them, fused into
one ranking.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from holodeck_action.extensions.knowledge.structure import Chunk
from holodeck_action.suite.model.tools import HierarchicalDocumentTool
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIGITS = 6
"""Decimal places to which scores are rounded; differences between processors are much smaller."""


class Ranking(Struct, frozen=True):
    """The scores of one kind of search by index of the text, and the weight (0 to 1) of this search in a fusion."""

    scores: Mapping[int, float]
    weight: float


def sort_hits(scores: Mapping[int, float]) -> list[tuple[int, float]]:
    """Return pairs of a text's index and its rounded score, best first; equal scores are sorted by index."""
    rounded = ((position, round(score, DIGITS) + 0.0) for position, score in scores.items())
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))


def ranks(scores: Mapping[int, float]) -> dict[int, int]:
    """Return the rank of each text, from 1, by index; equal scores share the better rank, as in 1, 2, 2, 4."""
    found: dict[int, int] = {}
    before, rank = None, 0
    for place, (position, score) in enumerate(sort_hits(scores), start=1):
        if score != before:
            before, rank = score, place
        found[position] = rank
    return found


def fuse(rankings: Sequence[Ranking], k: int) -> dict[int, float]:
    """Fuse rankings by weighted reciprocal rank; return the fused scores by index of the text.

    score(d) = (k + 1) · Σ over the rankings that contain d: weight / (k + rank). If the weights add up to 1, a text
    that is first in all rankings scores 1. A text that is in no ranking gets no score. Source: G. Cormack, C. Clarke
    and S. Büttcher, Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods, SIGIR 2009, with
    weights.

    Args:
        rankings: rankings whose weights add up to 1.
        k: smoothing constant (60 in the source); a larger value reduces the advantage of the first ranks.
    """
    found: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        if ranking.weight > 0.0:
            for position, rank in ranks(ranking.scores).items():
                found[position] += (k + 1) * ranking.weight / (k + rank)
    return dict(found)


_TERM = lazy_pattern(r"\d+(?:[.\-–]\d+)+|\w+")
_QUOTED = lazy_pattern(r"[\"“]([^\"“”]+)[\"”]")
_NAMED_NUMBER = lazy_pattern(
    r"(?:§§?|\b(?:sections?|sec\.?|clauses?|articles?|art\.?|paragraphs?|para\.?|subsections?|s))[ \t]*"
    r"(\d[\w.\-–]*\w|\d|[IVXLCDM]+\b)((?:\(\w{1,5}\))*)",
    re.IGNORECASE,
)
_BARE_NUMBER = lazy_pattern(r"(?<![\w.$€£])(\d+[A-Z]{0,3}(?:\.\d+)+)((?:\(\w{1,5}\))*)(?![\w%])")

K1 = 1.5
B = 0.75


def split_terms(text: str) -> list[str]:
    """Return the words of a text in lower case; a number such as `4.2` is one word."""
    return _TERM.findall(text.casefold())


class Bm25:
    """BM25 search over a fixed set of texts.

    score(q, d) = Σ over the terms t of q: idf(t) · tf · (k1 + 1) / (tf + k1 · (1 − b + b · |d| / avgdl)), with idf(t) =
    ln(1 + (N − n + 0.5) / (n + 0.5)), k1 = 1.5, b = 0.75. Source: S. Robertson and H. Zaragoza, The Probabilistic
    Relevance Framework: BM25 and Beyond, 2009. The 1 in the logarithm is Lucene's: it keeps the weight of a frequent
    term above zero.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Index the words of the texts."""
        documents = [Counter(split_terms(text)) for text in texts]
        lengths = [counts.total() for counts in documents]
        mean = sum(lengths) / len(lengths) if lengths and any(lengths) else 1.0
        self._size = len(documents)
        self._norms = [K1 * (1.0 - B + B * length / mean) for length in lengths]
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, counts in enumerate(documents):
            for term, count in counts.items():
                self._postings[term].append((position, count))

    def scores(self, query: str) -> dict[int, float]:
        """Return the scores of the texts that contain a word of the query, by index of the text."""
        found: defaultdict[int, float] = defaultdict(float)
        for term, times in Counter(split_terms(query)).items():
            weight = times * self._idf(term)
            for position, count in self._postings.get(term, ()):
                found[position] += weight * count * (K1 + 1.0) / (count + self._norms[position])
        return dict(found)

    def upper_bound(self, query: str) -> float:
        """Return an upper bound of the scores for a query: Σ idf(t) · (k1 + 1) over its words, even if no text contains
        them.
        """
        return sum(times * self._idf(term) * (K1 + 1.0) for term, times in Counter(split_terms(query)).items())

    def _idf(self, term: str) -> float:
        having = len(self._postings.get(term, ()))
        return math.log(1.0 + (self._size - having + 0.5) / (having + 0.5))


class NumberedText(Struct, frozen=True):
    """A text for exact search, with the numbers of its sections, such as `4.2(a)`."""

    text: str
    numbers: tuple[str, ...] = ()


class ExactSearch:
    """Searches for phrases word for word and for sections by number.

    The search terms are the "quoted phrases" and the section numbers (`section 4.2(a)`, `§ 7`, `4.2`) in the query. If
    there are none, and the query has at least two words, the whole query is one phrase. A text scores 1 for each phrase
    that it contains, 1 if it has a section with a number in the query, and ½ if it only has a subsection of that
    section.
    """

    def __init__(self, texts: Sequence[NumberedText]) -> None:
        """Index the texts."""
        self._words = [f" {' '.join(split_terms(each.text))} " for each in texts]
        self._numbers = [tuple(number.casefold() for number in each.numbers) for each in texts]

    def scores(self, query: str) -> dict[int, float]:
        """Return the scores of the texts that match a search term, by index of the text."""
        phrases = [words for quoted in _QUOTED.findall(query) if (words := split_terms(quoted))]
        numbers = numbers_in(query)
        if not phrases and not numbers and len(whole := split_terms(query)) > 1:
            phrases = [whole]
        sought = [f" {' '.join(words)} " for words in phrases]
        found: dict[int, float] = {}
        for position, whole_text in enumerate(self._words):
            score = float(sum(phrase in whole_text for phrase in sought))
            score += sum(
                max((_number_match(number, own) for own in self._numbers[position]), default=0.0) for number in numbers
            )
            if score:
                found[position] = score
        return found


def numbers_in(text: str) -> tuple[str, ...]:
    """Return the section numbers in a text, in lower case and without duplicates."""
    found = [match[1] + match[2] for match in _NAMED_NUMBER.finditer(text)]
    found += [match[1] + match[2] for match in _BARE_NUMBER.finditer(text)]
    return tuple(dict.fromkeys(number.casefold() for number in found))


def _number_match(number: str, own_number: str) -> float:
    if own_number == number:
        return 1.0
    return 0.5 if own_number.startswith(number) and own_number[len(number)] in ".(-–" else 0.0


_GRID = 2**24
"""Coordinates are rounded to multiples of 1 / 2**24 and stored as whole numbers, which a float32 holds exactly.
Sums of their products stay below 2**53, so a float64 holds them exactly, in any order of addition."""
_ROWS = 4096
"""Number of rows to convert to float64 at a time."""


class VectorIndex:
    """Finds the vectors that are nearest to a query; all vectors have length 1."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        """Store the vectors to search.

        Args:
            rows: n vectors of length 1, shape (n, d).
        """
        self._steps = _to_grid(rows)

    def search(
        self, query: NDArray[np.float32], *, max_hits: int | None = None, min_score: float | None = None
    ) -> list[tuple[int, float]]:
        """Return the nearest vectors.

        Args:
            query: vector of length 1, shape (d,).
            max_hits: largest number of vectors to return; None if there is no limit.
            min_score: smallest score to return; None if there is no limit.

        Returns:
            The row and score of each vector, best first; equal scores are in the order of rows. The score is the cosine
            similarity, from -1 to 1, rounded to six digits.
        """
        import numpy as np

        asked = _to_grid(query).astype(np.float64)
        parts = [
            self._steps[begin : begin + _ROWS].astype(np.float64) @ asked for begin in range(0, len(self._steps), _ROWS)
        ]
        exact = np.concatenate(parts) if parts else np.zeros(0)
        scores = np.clip(np.round(exact / (_GRID * _GRID), DIGITS), -1.0, 1.0)
        order = np.argsort(-scores, kind="stable")[:max_hits]
        found = [(int(row), float(scores[row])) for row in order]
        return found if min_score is None else [(row, score) for row, score in found if score >= min_score]


def _to_grid(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    steps: NDArray[np.float32] = np.rint(vectors * np.float32(_GRID)).astype(np.float32)
    return steps


def uses_embeddings(entry: HierarchicalDocumentTool) -> bool:
    """Return whether a tool uses semantic search, so it needs embeddings."""
    return entry.search_mode == "semantic" or (entry.search_mode == "hybrid" and entry.semantic_weight > 0.0)


class ChunkSearch:
    """Searches the chunks of one tool."""

    def __init__(self, chunks: Sequence[Chunk], entry: HierarchicalDocumentTool, vectors: VectorIndex | None) -> None:
        """Index the chunks.

        Args:
            entry: the tool. Its `search_mode` is `semantic` (cosine similarity), `keyword` (BM25), or `hybrid` (both
                and exact search, fused with the entry's weights).
            vectors: embeddings of the chunks, in the order of the chunks; required for semantic search.
        """
        self._entry = entry
        self._vectors = vectors
        self._words = Bm25([chunk.text for chunk in chunks]) if entry.search_mode != "semantic" else None
        exact = entry.search_mode == "hybrid" and entry.exact_weight > 0.0
        self._exact = ExactSearch([NumberedText(chunk.text, chunk.numbers) for chunk in chunks]) if exact else None

    def find(self, query: str, vector: NDArray[np.float32] | None = None) -> list[tuple[int, float]]:
        """Return the positions and scores of the hits, best first; equal scores are in the order of the chunks.

        Scores are from 0 to 1: the cosine similarity (only above 0), the BM25 score divided by its upper bound (see
        `Bm25.upper_bound`), or the fused score (see `fuse`).

        Args:
            vector: the query's embedding, of length 1; required for semantic search.
        """
        entry = self._entry
        if entry.search_mode == "keyword":
            found = self._word_scores(query)
        elif entry.search_mode == "semantic":
            found = self._vector_scores(vector)
        else:
            rankings = [Ranking(self._vector_scores(vector), entry.semantic_weight)]
            rankings.append(Ranking(self._word_scores(query), entry.keyword_weight))
            if self._exact is not None:
                rankings.append(Ranking(self._exact.scores(query), entry.exact_weight))
            found = fuse(rankings, entry.rrf_k)
        hits = sort_hits(found)
        return hits if entry.min_score is None else [hit for hit in hits if hit[1] >= entry.min_score]

    def _word_scores(self, query: str) -> Mapping[int, float]:
        assert self._words is not None
        limit = self._words.upper_bound(query)
        return {position: score / limit for position, score in self._words.scores(query).items()}

    def _vector_scores(self, vector: NDArray[np.float32] | None) -> Mapping[int, float]:
        if self._vectors is None or vector is None:
            return {}
        return {position: score for position, score in self._vectors.search(vector) if score > 0.0}
