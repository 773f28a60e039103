"""Places of accounts whose limits hold across processes: what a worker holds of them, and gives back.

The coordinator (`shared_limits`) knows how many requests an account takes; a worker asks it for places, sends no
request without one, keeps them for its next requests, and gives back those that are asked back. Counts only rise, so
that a message may come late or twice. A lease ends when nothing has been heard of the coordinator for `LEASE_S`, on
both sides.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from holodeck_action.llm.calls import Account, Answer, Call
from holodeck_action.llm.limits.limits import AccountLimit, given_up
from holodeck_action.llm.outcomes import held_off, retry_after

LEASE_S = 10.0
"""Seconds without a word after which places are nobody's."""
_REPORTS = 64
"""Reports whose time of sending is remembered."""


class Lease:
    """The places of one account that a worker holds.

    Attributes:
        granted: how many it has been given so far.
        recalled: how many it must have given back, as soon as the requests at them have ended.
        returned: how many it has given back so far.
        outcomes: what has become of requests since the last report: seconds, whether the account refused it, the
            seconds that it asks to wait (None: nothing), whether more requests waited, and whether its call was sent
            for the first time.
        paced: whether a place is for one request: the coordinator gives them at the account's pace.
        limits: those who hold them; a run has one.
    """

    def __init__(self, owner: Leases) -> None:
        self.owner = owner
        self.granted = self.recalled = self.returned = 0
        self.refused_for: float | None = None
        self.paced = False
        self.outcomes: list[tuple[float, bool, float | None, bool, bool]] = []
        self.limits: list[LeasedLimit] = []

    @property
    def held(self) -> int:
        """How many places there are at this moment."""
        return self.granted - self.returned

    def give_back(self, idle: int) -> None:
        """Give back of the idle places those that are recalled."""
        self.returned += max(0, min(idle, self.recalled - self.returned))

    def report(self) -> dict[str, Any]:
        """Return what the coordinator must know, as JSON values."""
        outcomes, self.outcomes = self.outcomes, []
        return {
            "seen": self.granted,
            "returned": self.returned,
            "waiting": sum(limit.waiting for limit in self.limits),
            "idle": max(0, self.held - sum(limit.taken for limit in self.limits)),
            "hanging": sum(limit.hanging for limit in self.limits),
            "ages": [age for limit in self.limits for age in limit.ages()],
            "outcomes": outcomes,
        }

    def told(self, said: dict[str, Any]) -> None:
        """Take what the coordinator says."""
        self.granted = max(self.granted, said["granted"])
        self.recalled = max(self.recalled, said["recalled"])
        self.refused_for, self.paced = said["refused_for"], said["paced"]
        for limit in self.limits:
            limit.go_on()


class Leases:
    """All leases of a worker, used in one event loop."""

    def __init__(self, changed: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing.

        Args:
            changed: told that there is something to report.
            monotonic: seconds.
        """
        self.changed = changed
        self._monotonic = monotonic
        self._leases: dict[str, Lease] = {}
        self._sent: deque[tuple[int, float]] = deque(maxlen=_REPORTS)
        self._number = 0
        self._valid_until = float("-inf")

    @property
    def valid(self) -> bool:
        """Whether the coordinator still counts on them."""
        return self._monotonic() < self._valid_until

    def of(self, account: Account) -> Lease:
        """Return the lease of an account, which all workers know by the same name, and none by its key."""
        text = f"{account.provider} {account.base_url} {account.key}"
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._leases.setdefault(name, Lease(self))

    def report(self) -> dict[str, Any]:
        """Return a report with its number, as JSON values."""
        self._number += 1
        self._sent.append((self._number, self._monotonic()))
        return {"number": self._number, "accounts": {name: lease.report() for name, lease in self._leases.items()}}

    def told(self, said: dict[str, Any]) -> None:
        """Take an answer of the coordinator: the number of the last report it has heard, and what it says of places."""
        for number, sent in self._sent:
            if number <= said["heard"]:
                self._valid_until = max(self._valid_until, sent + LEASE_S)
        for name, places in said["accounts"].items():
            if name in self._leases:
                self._leases[name].told(places)


class LeasedLimit(AccountLimit):
    """The link that holds one account's requests back until there are places for them."""

    def __init__(self, lease: Lease, *given: Any, **more: Any) -> None:
        """Prepare; the arguments behind the lease are those of `AccountLimit`."""
        super().__init__(*given, **more)
        self._lease = lease
        lease.limits.append(self)

    @property
    def taken(self) -> int:
        """How many places have a request."""
        return self._taken

    @property
    def hanging(self) -> int:
        """How many requests have given their place away."""
        return self._hanging

    def ages(self) -> list[float]:
        """Return for how many seconds each request that has a place is under way."""
        now = self._monotonic()
        return [round(now - begun, 3) for begun in self._begun]

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return sum(not turn.done() for _, _, turn in self._queue)

    def go_on(self) -> None:
        """Use what has changed: there may be places, or nobody may wait any longer."""
        if self._lease.refused_for is not None:
            for _, _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(given_up(self._label, self._lease.refused_for))
            self._queue.clear()
        self._wake()

    async def __call__(self, call: Call) -> Answer:
        """Send when there is a place for it; see `AccountLimit`."""
        answer = await super().__call__(call)
        call.given_up, call.paced = self._lease.refused_for is not None, self._lease.paced
        return answer

    def _free(self) -> bool:
        return self._taken < self._lease.held and self._lease.owner.valid

    def _occupy(self) -> None:
        self._taken += 1

    def _wake(self) -> None:
        self._lease.give_back(self._lease.held - self._taken)
        super()._wake()
        self._lease.owner.changed()

    def _learn(self, answer: Answer, started: float, busy: int, beside: int, first: bool) -> None:
        took, waiting = self._monotonic() - started, self.waiting > 0
        if held_off(answer) or self._lease.paced:
            # Whether its place is still one, the coordinator says: nobody else takes it before.
            self._lease.recalled = max(self._lease.recalled, self._lease.returned + 1)
        if held_off(answer):
            self._lease.outcomes.append((took, True, retry_after(answer, self._now()), waiting, first))
        elif answer.status < 400:
            self._note_usual(took)
            self._lease.outcomes.append((took, False, None, waiting, first))
