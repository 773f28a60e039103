"""The long texts of turns; in a large suite they are stored in a file."""

from __future__ import annotations

from holodeck_action.text.text_store import TextStore


class TurnTexts:
    """The input of a turn and its expected answer, if it has one.

    Attributes:
        expects_answer: whether there is an expected answer.
    """

    __slots__ = ("_place", "_store", "expects_answer")

    def __init__(self, message: str, ground_truth: str | None = None, store: TextStore | None = None) -> None:
        """Store both texts in `store`, the store of the whole suite, or in a new store if `store` is None."""
        self._store = TextStore() if store is None else store
        self._place = self._store.add(message.encode("utf-8", "surrogatepass"))
        self.expects_answer = ground_truth is not None
        if ground_truth is not None:
            self._store.add(ground_truth.encode("utf-8", "surrogatepass"))

    @property
    def input(self) -> str:
        """The user's message."""
        return self._store.read(self._place).decode("utf-8", "surrogatepass")

    @property
    def ground_truth(self) -> str | None:
        """The expected answer; None if the turn has none."""
        if not self.expects_answer:
            return None
        return self._store.read(self._place + 1).decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TurnTexts) and (self.input, self.ground_truth) == (other.input, other.ground_truth)

    def __hash__(self) -> int:
        return hash((self.input, self.ground_truth))

    def __repr__(self) -> str:
        return f"TurnTexts({self.input!r}, {self.ground_truth!r})"

    def __reduce__(self) -> tuple[type[TurnTexts], tuple[str, str | None]]:
        return TurnTexts, (self.input, self.ground_truth)
