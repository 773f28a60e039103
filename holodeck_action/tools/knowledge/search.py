"""Search of chunks by meaning, by words, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from holodeck_action.tools.knowledge.fusion import Ranking, fuse, ordered
from holodeck_action.tools.knowledge.keywords import Bm25, Exact, Numbered
from holodeck_action.tools.knowledge.passages import Chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holodeck_action.tools.knowledge.vectors import VectorIndex


@dataclass(frozen=True, slots=True)
class SearchRules:
    """How chunks are searched.

    Attributes:
        mode: `semantic`: the cosine of the vectors; `keyword`: BM25; `hybrid`: both and exact search, fused.
        semantic_weight, keyword_weight, exact_weight: what each counts in `hybrid`; they add up to 1.
        rrf_k: see `fusion.fuse`.
        min_score: smallest score of a hit; None for none.
    """

    mode: Literal["semantic", "keyword", "hybrid"] = "hybrid"
    semantic_weight: float = 0.5
    keyword_weight: float = 0.3
    exact_weight: float = 0.2
    rrf_k: int = 60
    min_score: float | None = None

    @property
    def by_meaning(self) -> bool:
        """Whether vectors are needed."""
        return self.mode == "semantic" or (self.mode == "hybrid" and self.semantic_weight > 0.0)


class ChunkSearch:
    """The chunks of a tool, ready to be searched."""

    def __init__(self, chunks: Sequence[Chunk], rules: SearchRules, vectors: VectorIndex | None) -> None:
        """Index the chunks.

        Args:
            chunks: any number.
            rules: how they are searched.
            vectors: of the chunks in their order; needed where `rules.by_meaning`.
        """
        self._rules = rules
        self._vectors = vectors
        self._words = Bm25([chunk.text for chunk in chunks]) if rules.mode != "semantic" else None
        exact = rules.mode == "hybrid" and rules.exact_weight > 0.0
        self._exact = Exact([Numbered(chunk.text, chunk.numbers) for chunk in chunks]) if exact else None

    def find(self, query: str, vector: NDArray[np.float32] | None = None) -> list[tuple[int, float]]:
        """Return positions and scores of the hits, best first, equal ones in the order of the chunks.

        Scores are from 0 to 1: the cosine where it is above 0, BM25 as a part of what the query's words could reach
        (see `Bm25.limit`), or the fused ranks (see `fusion.fuse`).

        Args:
            query: what is looked for.
            vector: the query's, of length 1; needed where vectors are.
        """
        rules = self._rules
        if rules.mode == "keyword":
            found = self._by_words(query)
        elif rules.mode == "semantic":
            found = self._by_meaning(vector)
        else:
            rankings = [Ranking(self._by_meaning(vector), rules.semantic_weight)]
            rankings.append(Ranking(self._by_words(query), rules.keyword_weight))
            if self._exact is not None:
                rankings.append(Ranking(self._exact.scores(query), rules.exact_weight))
            found = fuse(rankings, rules.rrf_k)
        hits = ordered(found)
        return hits if rules.min_score is None else [hit for hit in hits if hit[1] >= rules.min_score]

    def _by_words(self, query: str) -> Mapping[int, float]:
        assert self._words is not None
        limit = self._words.limit(query)
        return {position: score / limit for position, score in self._words.scores(query).items()}

    def _by_meaning(self, vector: NDArray[np.float32] | None) -> Mapping[int, float]:
        if self._vectors is None or vector is None:
            return {}
        return {position: score for position, score in self._vectors.search(vector) if score > 0.0}
