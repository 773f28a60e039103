"""The coordinator's side of rate limits that several processes share: it counts slots for requests and leases them to
workers.

Leases (Gray and Cheriton, "Leases", SOSP 1989) handle lost workers: their slots become free when their requests have
probably ended. The number of slots is determined as for one process (`limits.Window`, `CircuitBreaker`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from holodeck_action.llm.limits.circuit_breaker import CircuitBreaker
from holodeck_action.llm.limits.leases import LEASE_S
from holodeck_action.llm.limits.limits import Window
from holodeck_action.llm.limits.pace import Pace

KEPT_ANSWER_TIMES = 256
"""Number of recent answer times that are kept. The shortest and the longest of them estimate when the requests of a
lost worker end."""
EARLY_GRANT_S = 0.01
"""If the rate is limited, a slot may be granted this many seconds early. Also the minimum seconds between calls of
`move_slots`.
"""
MAX_MOVE_INTERVAL_S = 0.1
"""Maximum seconds between calls of `move_slots`: even without a report, waiting times end and leases expire."""
ASSUMED_ANSWER_S = 5.0
"""Seconds that requests of a lost worker are assumed to last if no answer time is known."""


class _WorkerSlots(Struct):
    """The slots of one worker for an account; see `leases.Lease` for the counters."""

    granted: int = 0
    recalled: int = 0
    returned: int = 0
    seen: int = 0
    waiting: int = 0
    idle: int = 0
    hanging: int = 0
    begun: tuple[float, ...] = ()
    """Latest possible sending times of the requests that were in progress at the last report."""
    slot_ends: tuple[float, ...] = ()
    """Times before `until` at which single slots of a lost worker become free."""
    until: float | None = None
    """Time when all slots of a lost worker become free; None while the worker is alive."""

    @property
    def held_count(self) -> int:
        return self.granted - self.returned

    @property
    def kept_count(self) -> int:
        """Number of slots that were not recalled."""
        return self.held_count - max(0, self.recalled - self.returned)

    @property
    def spare_count(self) -> int:
        """Number of idle slots that were not recalled; 0 if the worker is lost."""
        return 0 if self.until is not None else self.idle - max(0, self.recalled - self.returned)

    @property
    def wanted_count(self) -> int:
        """Number of requested slots that were not granted yet; 0 if the worker is lost."""
        return 0 if self.until is not None else self.waiting - (self.granted - self.seen)


class SharedLimit:
    """The slots of one account; times are monotonic seconds."""

    def __init__(self, max_slots: int, longest_wait_s: float) -> None:
        """Create the limit without workers.

        Args:
            max_slots: maximum number of slots, at least 1.
            longest_wait_s: seconds without a successful answer after which calls no longer wait for the account.
        """
        self._most = max_slots
        self._window = Window(max_slots)
        self._breaker = CircuitBreaker(longest_wait_s)
        self._pace = Pace()
        self._holders: dict[str, _WorkerSlots] = {}
        self._answer_times: deque[float] = deque(maxlen=KEPT_ANSWER_TIMES)
        self._recall_all = False

    @property
    def held_count(self) -> int:
        """Number of slots in use, including slots of lost workers."""
        return sum(holder.held_count for holder in self._holders.values())

    def apply_report(self, worker: str, state: Mapping[str, Any], now: float) -> None:
        """Apply a report of a worker about this account (`leases.Lease.report`)."""
        holder = self._holders.get(worker)
        if holder is None:
            # Slots from before the worker was considered lost no longer belong to it.
            seen, returned = state["seen"], state["returned"]
            holder = self._holders[worker] = _WorkerSlots(granted=seen, recalled=seen, returned=returned)
        if holder.until is not None:
            return
        busy = max(1, self.held_count - sum(each.idle for each in self._holders.values()))
        holder.returned = max(holder.returned, state["returned"])
        holder.seen, holder.waiting = state["seen"], state["waiting"]
        holder.idle, holder.hanging = state["idle"], state["hanging"]
        holder.begun = tuple(now - age for age in state["ages"])
        others = any(other.waiting for name, other in self._holders.items() if name != worker)
        begun = [each for other in self._holders.values() for each in other.begun]
        for took, refused, requested_s, waiting, first in state["outcomes"]:
            if refused:
                self._note_refusal(now - took, now, busy, begun, requested_s)
            else:
                self._answer_times.append(took)
                self._breaker.note_answer()
                full = waiting or others or busy >= self._window.size
                self._window.note_answer(now - took, now, busy, full=full)
                self._pace.note_answer(now - took, now, begun, first=first, full=waiting or others)

    def _note_refusal(
        self, started: float, now: float, concurrent: int, start_times: list[float], requested_s: float | None
    ) -> None:
        paced = self._pace.rate is not None
        if self._breaker.has_recent_answers:
            if not paced:
                self._window.note_refusal(started, now, concurrent, requested_s)
            if self._pace.note_refusal(started, now, start_times, concurrent):
                # The refusal was about the rate, not about concurrency.
                self._window.limit_to(self._most)
        elif self._breaker.has_no_answers:
            # The requests still in progress are those that the account accepted.
            self._window.limit_to(len(start_times) or self._most)
            self._pace.note_early_refusal(started, now)
        self._breaker.note_refusal(now, requested_s)
        if self._breaker.is_open:
            self._pace.note_shutdown(now)
        # Slots granted before the rate was limited are valid for several requests, so they are recalled.
        self._recall_all = self._recall_all or self._breaker.is_open or (self._pace.rate is not None) > paced

    def remove_worker(self, worker: str, now: float) -> None:
        """Record that a worker is lost; its slots stay in use for as long as its requests may last."""
        holder = self._holders.get(worker)
        if holder is not None and holder.until is None:
            least, longest = min(self._answer_times, default=0.0), max(self._answer_times, default=ASSUMED_ANSWER_S)
            holder.until = now + longest
            # A slot whose request may have ended could have a second request, so it is kept until `until`.
            holder.slot_ends = tuple(begun + longest for begun in holder.begun if begun + least > now)

    def move_slots(self, now: float) -> None:
        """Grant slots to waiting workers, and recall surplus slots."""
        self._holders = {name: each for name, each in self._holders.items() if each.until is None or each.until > now}
        for lost in self._holders.values():
            going_on = tuple(end for end in lost.slot_ends if end > now)
            lost.returned, lost.slot_ends = lost.returned + len(lost.slot_ends) - len(going_on), going_on
        breaker, holders = self._breaker, list(self._holders.values())
        living = [holder for holder in holders if holder.until is None]
        is_open = breaker.is_open and not breaker.is_given_up(now)
        if self._recall_all:
            self._recall_all = False
            for holder in living:
                holder.recalled = holder.granted
        if is_open and breaker.seconds_to_wait(now) <= 0 and not breaker.trials and not self.held_count:
            breaker.allow_trials()
        room = min(self._window.size, self._most - sum(holder.hanging for holder in holders))
        while sum(holder.kept_count for holder in holders) > room:
            most = max(living, key=lambda holder: holder.kept_count, default=None)
            if most is None or not most.kept_count:
                break
            most.recalled = max(most.recalled, most.returned) + 1
        while (
            self.held_count < room
            and (not is_open or breaker.trials)
            and self._pace.seconds_to_wait(now) <= EARLY_GRANT_S
        ):
            waiting = [holder for holder in holders if holder.wanted_count > 0]
            if not waiting:
                return
            min(waiting, key=lambda holder: holder.held_count).granted += 1
            self._pace.note_sent(now)
            if is_open:
                breaker.trials -= 1
        coming = sum(max(0, holder.recalled - holder.returned) for holder in living)
        wanting = [holder for holder in living if holder.wanted_count > 0]
        for _ in range(
            0 if is_open or self._pace.rate is not None else sum(holder.wanted_count for holder in wanting) - coming
        ):
            spare = max(living, key=lambda holder: (max(0, holder.spare_count), holder.kept_count))
            if spare.spare_count <= 0 and spare.kept_count <= min(holder.held_count for holder in wanting) + coming + 1:
                # No worker has an idle slot, or clearly more slots than the waiting worker with the fewest.
                return
            spare.recalled = max(spare.recalled, spare.returned) + 1
            coming += 1

    def state_for(self, worker: str, now: float) -> dict[str, Any]:
        """Return a worker's current share of the limit as JSON values, for `leases.Lease.apply_update`."""
        holder = self._holders.setdefault(worker, _WorkerSlots())
        refused_seconds = self._breaker.refused_seconds(now) if self._breaker.is_given_up(now) else None
        paced = self._pace.rate is not None
        return {
            "granted": holder.granted,
            "recalled": holder.recalled,
            "refused_seconds": refused_seconds,
            "paced": paced,
        }

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until the limited rate allows the next request."""
        return self._pace.seconds_to_wait(now)


class _Worker(Struct):
    """A worker: number and time of its last report, and the last message sent to it."""

    number: int
    at: float
    last_message: Mapping[str, Any] = field(default_factory=dict)
    last_message_at: float = 0.0


class SharedLimits:
    """The shared limits of all accounts that the workers of a run use."""

    def __init__(self, max_slots: int, longest_wait_s: float) -> None:
        """Create the limits; see `SharedLimit` for the arguments."""
        self._most, self._longest_wait_s = max_slots, longest_wait_s
        self._accounts: dict[str, SharedLimit] = {}
        self._workers: dict[str, _Worker] = {}

    def apply_report(self, worker: str, report: Mapping[str, Any], now: float) -> None:
        """Apply a report of a worker about all accounts (`leases.Leases.report`); outdated reports are ignored."""
        known = self._workers.get(worker)
        if known is None:
            known = self._workers[worker] = _Worker(0, now)
        if report["number"] <= known.number:
            return
        known.number, known.at = report["number"], now
        for name, state in report["accounts"].items():
            if name not in self._accounts:
                self._accounts[name] = SharedLimit(self._most, self._longest_wait_s)
            self._accounts[name].apply_report(worker, state, now)

    def remove_worker(self, worker: str, now: float) -> None:
        """Record that a worker is lost."""
        if self._workers.pop(worker, None) is not None:
            for limit in self._accounts.values():
                limit.remove_worker(worker, now)

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until `move_slots` must be called at the latest."""
        waits = (limit.seconds_to_wait(now) for limit in self._accounts.values())
        return max(EARLY_GRANT_S, min([MAX_MOVE_INTERVAL_S, *(wait for wait in waits if wait > 0)]))

    def move_slots(self, now: float) -> dict[str, dict[str, Any]]:
        """Grant and recall slots; return messages by worker name, for the workers' `leases.Leases.apply_update`."""
        for worker in [name for name, known in self._workers.items() if now - known.at > LEASE_S]:
            self.remove_worker(worker, now)
        for limit in self._accounts.values():
            limit.move_slots(now)
        news: dict[str, dict[str, Any]] = {}
        for worker, known in self._workers.items():
            accounts = {name: limit.state_for(worker, now) for name, limit in self._accounts.items()}
            if accounts != known.last_message or now - known.last_message_at >= LEASE_S / 5:
                known.last_message, known.last_message_at = accounts, now
                news[worker] = {"heard": known.number, "accounts": accounts}
        return news
