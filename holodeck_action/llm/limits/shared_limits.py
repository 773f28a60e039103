"""The limits of accounts that several processes ask: how many places there are, and which process holds how many.

Places are leased (Gray and Cheriton, "Leases", SOSP 1989): who is lost does not give them back, and keeps them only as
long as its requests may be under way. How many there are is found as for one process (`limits.Window`, `gate.Gate`),
from what all of them report. A place of an account that is paced (`pace.Pace`) is for one request, and is given when
that may leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from holodeck_action.llm.limits.gate import Gate
from holodeck_action.llm.limits.leases import LEASE_S
from holodeck_action.llm.limits.limits import Window
from holodeck_action.llm.limits.pace import Pace

ANSWERS = 256
"""Newest answers, of which the shortest and the longest one tell when requests of a lost worker may end."""
AHEAD_S = 0.01
"""Seconds before which a place may be given: no more often are places moved for a pace."""
SETTLE_S = 0.1
"""Seconds after which places are moved although nobody has reported anything: gates open, leases end."""
UNKNOWN_S = 5.0
"""Seconds for which they may where no answer has come yet."""


class _Holder(Struct):
    """What one worker holds of an account; counts are those of `leases.Lease`."""

    granted: int = 0
    recalled: int = 0
    returned: int = 0
    seen: int = 0
    waiting: int = 0
    idle: int = 0
    hanging: int = 0
    begun: tuple[float, ...] = ()
    """When the requests that were under way at the last report were sent, at the latest."""
    ends: tuple[float, ...] = ()
    """When places of a lost worker are free before `until`."""
    until: float | None = None
    """When what it holds is nobody's any more; None while it lives."""

    @property
    def held(self) -> int:
        return self.granted - self.returned

    @property
    def staying(self) -> int:
        """How many places it has that are not asked back."""
        return self.held - max(0, self.recalled - self.returned)

    @property
    def sparing(self) -> int:
        """How many idle places it has that are not asked back."""
        return 0 if self.until is not None else self.idle - max(0, self.recalled - self.returned)

    @property
    def wanted(self) -> int:
        """How many places it asks for that are not on their way to it."""
        return 0 if self.until is not None else self.waiting - (self.granted - self.seen)


class SharedLimit:
    """The places of one account; times are monotonic seconds."""

    def __init__(self, most: int, longest_wait_s: float) -> None:
        """Begin with nobody.

        Args:
            most: places that are never exceeded, at least 1.
            longest_wait_s: seconds of refusals alone after which nobody waits for the account.
        """
        self._most = most
        self._window = Window(most)
        self._gate = Gate(longest_wait_s)
        self._pace = Pace()
        self._holders: dict[str, _Holder] = {}
        self._took: deque[float] = deque(maxlen=ANSWERS)
        self._shutting = False

    @property
    def held(self) -> int:
        """How many places are held, those of lost workers included."""
        return sum(holder.held for holder in self._holders.values())

    def reported(self, worker: str, said: Mapping[str, Any], now: float) -> None:
        """Take what a worker reports (`leases.Lease.report`)."""
        holder = self._holders.get(worker)
        if holder is None:
            # What it holds from before it was taken for lost is not its own any more.
            seen, returned = said["seen"], said["returned"]
            holder = self._holders[worker] = _Holder(granted=seen, recalled=seen, returned=returned)
        if holder.until is not None:
            return
        busy = max(1, self.held - sum(each.idle for each in self._holders.values()))
        holder.returned = max(holder.returned, said["returned"])
        holder.seen, holder.waiting = said["seen"], said["waiting"]
        holder.idle, holder.hanging = said["idle"], said["hanging"]
        holder.begun = tuple(now - age for age in said["ages"])
        others = any(other.waiting for name, other in self._holders.items() if name != worker)
        begun = [each for other in self._holders.values() for each in other.begun]
        for took, refused, asked, waiting, first in said["outcomes"]:
            if refused:
                self._refused(now - took, now, busy, begun, asked)
            else:
                self._took.append(took)
                self._gate.answered()
                full = waiting or others or busy >= self._window.size
                self._window.answered(now - took, now, busy, full=full)
                self._pace.answered(now - took, now, begun, first=first, full=waiting or others)

    def _refused(self, started: float, now: float, busy: int, begun: list[float], asked: float | None) -> None:
        paced = self._pace.rate is not None
        if self._gate.among_answers:
            if not paced:
                self._window.refused(started, now, busy, asked)
            if self._pace.refused(started, now, begun, busy):
                # It was not about how many are under way.
                self._window.limited_to(self._most)
        elif self._gate.unanswered:
            # Those that are still under way are, in the end, what the account took of all that were sent.
            self._window.limited_to(len(begun) or self._most)
            self._pace.refused_alone(started, now)
        self._gate.refused(now, asked)
        if self._gate.shut:
            self._pace.shut(now)
        # Places from before the pace are for more than one request.
        self._shutting = self._shutting or self._gate.shut or (self._pace.rate is not None) > paced

    def lost(self, worker: str, now: float) -> None:
        """Take note that a worker is gone; its requests may go on at the account for as long as they usually take."""
        holder = self._holders.get(worker)
        if holder is not None and holder.until is None:
            least, longest = min(self._took, default=0.0), max(self._took, default=UNKNOWN_S)
            holder.until = now + longest
            # Where one may have been answered since, another one may have followed: that place is kept until the end.
            holder.ends = tuple(begun + longest for begun in holder.begun if begun + least > now)

    def settle(self, now: float) -> None:
        """Give places to who waits for them, and ask back those that are too many."""
        self._holders = {name: each for name, each in self._holders.items() if each.until is None or each.until > now}
        for lost in self._holders.values():
            going_on = tuple(end for end in lost.ends if end > now)
            lost.returned, lost.ends = lost.returned + len(lost.ends) - len(going_on), going_on
        gate, holders = self._gate, list(self._holders.values())
        living = [holder for holder in holders if holder.until is None]
        shut = gate.shut and not gate.given_up(now)
        if self._shutting:
            self._shutting = False
            for holder in living:
                holder.recalled = holder.granted
        if shut and gate.wait(now) <= 0 and not gate.tries and not self.held:
            gate.open_a_little()
        room = min(self._window.size, self._most - sum(holder.hanging for holder in holders))
        while sum(holder.staying for holder in holders) > room:
            most = max(living, key=lambda holder: holder.staying, default=None)
            if most is None or not most.staying:
                break
            most.recalled = max(most.recalled, most.returned) + 1
        while self.held < room and (not shut or gate.tries) and self._pace.wait(now) <= AHEAD_S:
            waiting = [holder for holder in holders if holder.wanted > 0]
            if not waiting:
                return
            min(waiting, key=lambda holder: holder.held).granted += 1
            self._pace.sent(now)
            if shut:
                gate.tries -= 1
        coming = sum(max(0, holder.recalled - holder.returned) for holder in living)
        wanting = [holder for holder in living if holder.wanted > 0]
        for _ in range(0 if shut or self._pace.rate is not None else sum(holder.wanted for holder in wanting) - coming):
            spare = max(living, key=lambda holder: (max(0, holder.sparing), holder.staying))
            if spare.sparing <= 0 and spare.staying <= min(holder.held for holder in wanting) + coming + 1:
                # No worker has an idle place, or clearly more places than the waiting worker with the fewest.
                return
            spare.recalled = max(spare.recalled, spare.returned) + 1
            coming += 1

    def says(self, worker: str, now: float) -> dict[str, Any]:
        """Return what a worker must know (`leases.Lease.told`), as JSON values."""
        holder = self._holders.setdefault(worker, _Holder())
        refused_for = self._gate.refused_for(now) if self._gate.given_up(now) else None
        paced = self._pace.rate is not None
        return {"granted": holder.granted, "recalled": holder.recalled, "refused_for": refused_for, "paced": paced}

    def wait(self, now: float) -> float:
        """Return the seconds until the pace lets the next place be given."""
        return self._pace.wait(now)


class _Worker(Struct):
    """A worker that reports: the number and the time of its last report, and what it was told last."""

    number: int
    at: float
    told: Mapping[str, Any] = field(default_factory=dict)
    told_at: float = 0.0


class SharedLimits:
    """The limits of all accounts that the workers of a run ask."""

    def __init__(self, most: int, longest_wait_s: float) -> None:
        """Begin; the arguments are those of `SharedLimit`."""
        self._most, self._longest_wait_s = most, longest_wait_s
        self._accounts: dict[str, SharedLimit] = {}
        self._workers: dict[str, _Worker] = {}

    def reported(self, worker: str, report: Mapping[str, Any], now: float) -> None:
        """Take a report (`leases.Leases.report`); one that is older than the last one says nothing."""
        known = self._workers.get(worker)
        if known is None:
            known = self._workers[worker] = _Worker(0, now)
        if report["number"] <= known.number:
            return
        known.number, known.at = report["number"], now
        for name, said in report["accounts"].items():
            if name not in self._accounts:
                self._accounts[name] = SharedLimit(self._most, self._longest_wait_s)
            self._accounts[name].reported(worker, said, now)

    def lost(self, worker: str, now: float) -> None:
        """Take note that a worker is gone."""
        if self._workers.pop(worker, None) is not None:
            for limit in self._accounts.values():
                limit.lost(worker, now)

    def wait(self, now: float) -> float:
        """Return the seconds after which places should be moved at the latest."""
        waits = (limit.wait(now) for limit in self._accounts.values())
        return max(AHEAD_S, min([SETTLE_S, *(wait for wait in waits if wait > 0)]))

    def settle(self, now: float) -> dict[str, dict[str, Any]]:
        """Move places; return what each worker must be told now (`leases.Leases.told`), by its name."""
        for worker in [name for name, known in self._workers.items() if now - known.at > LEASE_S]:
            self.lost(worker, now)
        for limit in self._accounts.values():
            limit.settle(now)
        news: dict[str, dict[str, Any]] = {}
        for worker, known in self._workers.items():
            accounts = {name: limit.says(worker, now) for name, limit in self._accounts.items()}
            if accounts != known.told or now - known.told_at >= LEASE_S / 5:
                known.told, known.told_at = accounts, now
                news[worker] = {"heard": known.number, "accounts": accounts}
        return news
