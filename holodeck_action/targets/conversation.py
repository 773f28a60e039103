"""What has been said in one trial of one case, and the request that command and HTTP agents get for a turn."""

from __future__ import annotations

from typing import Any

from holodeck_action.suite.values import Case, Turn


class Conversation:
    """The exchanges of one trial so far, turns that failed left out."""

    def __init__(self, case: Case, trial: int) -> None:
        self.case = case
        self.trial = trial
        self._history: list[tuple[str, str]] = []

    def add(self, turn: Turn, response: str) -> None:
        """Remember one exchange."""
        self._history += [("user", turn.input), ("assistant", response)]

    def history(self) -> list[dict[str, str]]:
        """What was said before the turn at hand: `[{role: user|assistant, content: text}]`."""
        return [{"role": role, "content": content} for role, content in self._history]

    def request(self, turn: Turn) -> dict[str, Any]:
        """Return the request for one turn, JSON values only.

        `messages` is the history with this turn's input as last message, `files` are paths or URLs, `turn_config` is
        the turn's, passed on as it is.
        """
        return {
            "case": self.case.id,
            "name": self.case.name,
            "trial": self.trial,
            "turn": turn.index,
            "input": turn.input,
            "messages": [*self.history(), {"role": "user", "content": turn.input}],
            "files": [file.path or file.url for file in turn.files],
            "turn_config": dict(turn.turn_config),
        }
