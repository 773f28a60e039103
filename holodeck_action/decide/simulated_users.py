"""The models that played users in a run, and their usage."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.decide.consumption import Amounts, KnownTotal
from holodeck_action.record.record import CaseRecord, SimulatedUser, Usage


class UserSummary(Struct, frozen=True):
    """The conversations, calls and usage of one model that played users, over a whole run.

    Attributes:
        model: the model, such as `openai/gpt-6-luna`.
        temperature: the model's temperature; None if the provider's default applied.
        prompt_digest: SHA-256, in hex, of the model's prompt.
        conversations: number of conversations.
        calls: number of answers of the model.
        asked_again: number of invalid messages, each followed by another call.
        failed: number of conversations that ended because the model gave no valid message.
        tokens: tokens of the calls.
        cost_usd: cost of the calls, US dollars.
    """

    model: str
    temperature: float | None
    prompt_digest: str
    conversations: int
    calls: int
    asked_again: int
    failed: int
    tokens: KnownTotal
    cost_usd: KnownTotal


class UsersTally:
    """Sums conversations, calls, tokens and cost of simulated users, per model, temperature and prompt."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, float | None, str], _Tally] = {}

    def add(self, case: CaseRecord) -> None:
        """Add a case; a case without a simulated user adds nothing."""
        if case.user is not None:
            key = case.user.model, case.user.temperature, case.user.prompt_digest
            self._found.setdefault(key, _Tally(case.user)).add(case)

    @property
    def summaries(self) -> Sequence[UserSummary]:
        """A summary for each model with its temperature and prompt, sorted by name."""
        return tuple(self._found[key].summary for key in sorted(self._found, key=str))


class _Tally:
    def __init__(self, user: SimulatedUser) -> None:
        self._user = user
        self._conversations = self._calls = self._asked_again = self._failed = 0
        self._tokens, self._cost = Amounts(), Amounts()

    def add(self, case: CaseRecord) -> None:
        for trial in case.all_trials:
            if trial.user is None:
                continue
            self._conversations += 1
            self._calls += trial.user.calls
            self._asked_again += trial.user.asked_again
            self._failed += not trial.user.ended and trial.error is not None
            if trial.user.calls:
                used = trial.user.usage or Usage()
                self._tokens.add(used.tokens)
                self._cost.add(used.cost_usd)

    @property
    def summary(self) -> UserSummary:
        user = self._user
        counts = self._conversations, self._calls, self._asked_again, self._failed
        return UserSummary(
            user.model, user.temperature, user.prompt_digest, *counts, self._tokens.total, self._cost.total
        )
