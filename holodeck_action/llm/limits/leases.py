"""The worker's side of rate limits that several processes share: slots for requests, leased from the coordinator.

A slot is the permission to have one request in progress. The coordinator (`shared_limits`) determines how many slots an
account has. A worker requests slots, sends requests only in its slots, reuses them, and returns slots that are
recalled. All counters only increase, so that messages may be late or repeated. Worker and coordinator both end a lease
if no message has arrived for `LEASE_S`.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from holodeck_action.llm.calls import Account, Answer, Call
from holodeck_action.llm.limits.limits import AccountLimit, outage_error
from holodeck_action.llm.outcomes import is_throttled, retry_after

LEASE_S = 10.0
"""Seconds without a message after which leased slots become free."""
_REPORTS = 64
"""Number of reports whose sending time is remembered."""


class Lease:
    """The slots that a worker may use for one account.

    Attributes:
        granted: total number of slots granted so far.
        recalled: total number of slots recalled so far, which must be returned when their requests have ended.
        returned: total number of slots returned so far.
        outcomes: one tuple per request that ended since the last report: its duration in seconds, whether it was
            refused, the waiting time in seconds that the provider requested or None, whether more requests were
            waiting, and whether it was the call's first attempt.
        paced: whether a slot is valid for one request only, because the coordinator limits the rate.
        limits: the links that use the slots, one per run.
    """

    def __init__(self, owner: Leases) -> None:
        self.owner = owner
        self.granted = self.recalled = self.returned = 0
        self.refused_seconds: float | None = None
        self.paced = False
        self.outcomes: list[tuple[float, bool, float | None, bool, bool]] = []
        self.limits: list[LeasedLimit] = []

    @property
    def held_count(self) -> int:
        """Number of slots that the worker has now."""
        return self.granted - self.returned

    def give_back(self, idle_slots: int) -> None:
        """Return recalled slots, at most `idle_slots` of them."""
        self.returned += max(0, min(idle_slots, self.recalled - self.returned))

    def report(self) -> dict[str, Any]:
        """Return the lease's state for the coordinator as JSON values, and clear the outcomes."""
        outcomes, self.outcomes = self.outcomes, []
        return {
            "seen": self.granted,
            "returned": self.returned,
            "waiting": sum(limit.waiting_count for limit in self.limits),
            "idle": max(0, self.held_count - sum(limit.taken_count for limit in self.limits)),
            "hanging": sum(limit.hanging_count for limit in self.limits),
            "ages": [age for limit in self.limits for age in limit.ages()],
            "outcomes": outcomes,
        }

    def apply_update(self, message: dict[str, Any]) -> None:
        """Apply a message of the coordinator."""
        self.granted = max(self.granted, message["granted"])
        self.recalled = max(self.recalled, message["recalled"])
        self.refused_seconds, self.paced = message["refused_seconds"], message["paced"]
        for limit in self.limits:
            limit.resume()


class Leases:
    """All leases of a worker, used in one event loop."""

    def __init__(self, changed: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        """Create the instance without leases.

        Args:
            changed: called when a new report should be sent.
            monotonic: returns monotonic seconds.
        """
        self.changed = changed
        self._monotonic = monotonic
        self._leases: dict[str, Lease] = {}
        self._sent: deque[tuple[int, float]] = deque(maxlen=_REPORTS)
        self._number = 0
        self._valid_until = float("-inf")

    @property
    def are_valid(self) -> bool:
        """Whether the coordinator still considers the leases valid."""
        return self._monotonic() < self._valid_until

    def lease_of(self, account: Account) -> Lease:
        """Return the lease of an account. It is identified by a name that is the same in all workers and does not
        reveal the key.
        """
        text = f"{account.provider} {account.base_url} {account.key}"
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._leases.setdefault(name, Lease(self))

    def report(self) -> dict[str, Any]:
        """Return a numbered report on all leases for the coordinator, as JSON values."""
        self._number += 1
        self._sent.append((self._number, self._monotonic()))
        return {"number": self._number, "accounts": {name: lease.report() for name, lease in self._leases.items()}}

    def apply_update(self, message: dict[str, Any]) -> None:
        """Apply a message of the coordinator: the number of the last report it received, and changes to slots."""
        for number, sent in self._sent:
            if number <= message["heard"]:
                self._valid_until = max(self._valid_until, sent + LEASE_S)
        for name, update in message["accounts"].items():
            if name in self._leases:
                self._leases[name].apply_update(update)


class LeasedLimit(AccountLimit):
    """The link of the wire that delays an account's requests until the worker has slots for them."""

    def __init__(self, lease: Lease, *given: Any, **more: Any) -> None:
        """Create the link; `AccountLimit` describes the arguments after the lease."""
        super().__init__(*given, **more)
        self._lease = lease
        lease.limits.append(self)

    @property
    def taken_count(self) -> int:
        """Number of slots in use."""
        return self._taken

    @property
    def hanging_count(self) -> int:
        """Number of hanging requests, which have given up their slot."""
        return self._hanging

    def ages(self) -> list[float]:
        """Return the age in seconds of each request that has a slot."""
        now = self._monotonic()
        return [round(now - begun, 3) for begun in self._begun]

    @property
    def waiting_count(self) -> int:
        """Number of requests that wait for a slot."""
        return sum(not turn.done() for _, _, turn in self._queue)

    def resume(self) -> None:
        """Send waiting requests in new slots, or end the waiting calls if the account has refused all calls for too
        long.
        """
        if self._lease.refused_seconds is not None:
            for _, _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(outage_error(self._label, self._lease.refused_seconds))
            self._queue.clear()
        self._wake()

    async def __call__(self, call: Call) -> Answer:
        """Send the request when a slot is free; see `AccountLimit`."""
        answer = await super().__call__(call)
        call.given_up, call.paced = self._lease.refused_seconds is not None, self._lease.paced
        return answer

    def _has_free_slot(self) -> bool:
        return self._taken < self._lease.held_count and self._lease.owner.are_valid

    def _occupy(self) -> None:
        self._taken += 1

    def _wake(self) -> None:
        self._lease.give_back(self._lease.held_count - self._taken)
        super()._wake()
        self._lease.owner.changed()

    def _note_outcome(self, answer: Answer, started: float, concurrent: int, in_flight: int, is_first: bool) -> None:
        took, waiting = self._monotonic() - started, self.waiting_count > 0
        if is_throttled(answer) or self._lease.paced:
            # The coordinator decides whether the worker keeps this slot; the slot is not reused before.
            self._lease.recalled = max(self._lease.recalled, self._lease.returned + 1)
        if is_throttled(answer):
            self._lease.outcomes.append((took, True, retry_after(answer, self._now()), waiting, is_first))
        elif answer.status < 400:
            self._update_usual_time(took)
            self._lease.outcomes.append((took, False, None, waiting, is_first))
