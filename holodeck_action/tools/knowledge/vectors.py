"""Search by cosine similarity, in memory, with the same scores on every processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GRID = 2**24
"""Steps in which coordinates are kept: whole numbers that a float32 holds. Their products add up to less than 2**53,
so a float64 holds every sum exactly, in whichever order a processor adds."""
_ROWS = 4096
"""Rows that are widened to float64 at once."""
SCORE_DIGITS = 6


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
        scores = np.clip(np.round(exact / (_GRID * _GRID), SCORE_DIGITS), -1.0, 1.0)
        order = np.argsort(-scores, kind="stable")[:most]
        found = [(int(row), float(scores[row])) for row in order]
        return found if least is None else [(row, score) for row, score in found if score >= least]


def _steps(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    steps: NDArray[np.float32] = np.rint(vectors * np.float32(_GRID)).astype(np.float32)
    return steps
