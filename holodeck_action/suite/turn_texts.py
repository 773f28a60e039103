"""The long texts of turns: of a large suite they are in a file until somebody asks for them."""

from __future__ import annotations

from holodeck_action.text.kept_texts import KeptTexts


class TurnTexts:
    """What a turn asks, and the answer that it expects (None: none).

    Attributes:
        expects_answer: whether it expects one.
    """

    __slots__ = ("_kept", "_place", "expects_answer")

    def __init__(self, asked: str, ground_truth: str | None = None, kept: KeptTexts | None = None) -> None:
        """Take both texts; `kept` holds those of a whole suite."""
        self._kept = KeptTexts() if kept is None else kept
        self._place = self._kept.add(asked.encode("utf-8", "surrogatepass"))
        self.expects_answer = ground_truth is not None
        if ground_truth is not None:
            self._kept.add(ground_truth.encode("utf-8", "surrogatepass"))

    @property
    def asked(self) -> str:
        """What is asked."""
        return self._kept.read(self._place).decode("utf-8", "surrogatepass")

    @property
    def ground_truth(self) -> str | None:
        """The answer that is expected."""
        if not self.expects_answer:
            return None
        return self._kept.read(self._place + 1).decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TurnTexts) and (self.asked, self.ground_truth) == (other.asked, other.ground_truth)

    def __hash__(self) -> int:
        return hash((self.asked, self.ground_truth))

    def __repr__(self) -> str:
        return f"TurnTexts({self.asked!r}, {self.ground_truth!r})"

    def __reduce__(self) -> tuple[type[TurnTexts], tuple[str, str | None]]:
        return TurnTexts, (self.asked, self.ground_truth)
