"""What limits the loop over trials: slots for concurrent sessions, and the request to stop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from msgspec import Struct

from holodeck_action.record.record import TrialRecord
from holodeck_action.suite.values import Case


class Trials(Protocol):
    """Runs trials: `run.trial.TrialRunner` calls the agent, `run.stored.StoredTrials` grades stored answers again."""

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial of a case; hold `slot` as long as the trial counts toward the concurrency limit."""
        ...


class Stop:
    """Requests the early end of a run; `reason` is the first reason given, or None if no end is requested."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: str | None = None
        self.draining = False

    def request(self, reason: str) -> None:
        """End the run as soon as possible; finished trials are kept."""
        if self.reason is None:
            self.reason = reason
        self._event.set()

    @property
    def is_requested(self) -> bool:
        """Whether the run is to end as soon as possible."""
        return self._event.is_set()

    def drain(self, reason: str) -> None:
        """Start no more trials, and end the run when the current ones have ended."""
        if self.reason is None:
            self.reason = reason
        self.draining = True

    async def wait(self) -> None:
        """Wait until `request` is called."""
        await self._event.wait()


class Slots:
    """Limits concurrent sessions to `count`; a session that waits for a rate limit lends its slot to another session.

    Each of several concurrent runs has a lane, which is a queue of waiting sessions. Slots are granted to lanes in
    turn, so that changes over time, such as the load of a service, affect all runs equally. At most `count` slots are
    lent at a time.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._lendable = count
        self._owed = 0
        self._lanes: deque[deque[asyncio.Future[None]]] = deque()
        self._granting = False

    def lane(self) -> Lane:
        """Add a queue of waiting sessions for one of the runs, and return it."""
        waiting: deque[asyncio.Future[None]] = deque()
        self._lanes.append(waiting)
        return Lane(self, waiting)

    async def acquire(self, waiting: deque[asyncio.Future[None]]) -> None:
        """Wait in a lane for a free slot, and take it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        self._grant_soon()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def lend(self) -> bool:
        """Lend a slot to another session; return whether that was possible."""
        if not self._lendable:
            return False
        self._lendable -= 1
        self.give_back()
        return True

    def take_back(self) -> None:
        """Take a lent slot back without waiting; in exchange, the next slot that becomes free is not granted."""
        self._lendable += 1
        self._owed += 1

    def give_back(self) -> None:
        """Free a slot."""
        if self._owed:
            self._owed -= 1
        else:
            self._free += 1
            self._grant_soon()

    def _grant_soon(self) -> None:
        """Grant slots in the next step of the event loop, so that all sessions that arrive in this step are waiting."""
        if not self._granting and self._free:
            self._granting = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        self._granting = False
        while self._free and (turn := self._next_waiting()) is not None:
            self._free -= 1
            turn.set_result(None)

    def _next_waiting(self) -> asyncio.Future[None] | None:
        """Remove and return the longest-waiting session of the next lane that is not empty; None if all are empty."""
        for _ in range(len(self._lanes)):
            lane = self._lanes[0]
            self._lanes.rotate(-1)
            while lane:
                turn = lane.popleft()
                if not turn.done():
                    return turn
        return None


class Lane(Struct, frozen=True):
    """One run's queue for slots."""

    slots: Slots
    waiting: deque[asyncio.Future[None]]

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[Slot]:
        """Wait for a slot, and hold it within the block."""
        await self.slots.acquire(self.waiting)
        slot = Slot(self.slots)
        try:
            yield slot
        finally:
            slot.end()


class Slot:
    """A session's slot (`llm.limits.pauses.ConversationSlot`), which is lent while a call of the session waits."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._waiting_calls = 0
        self._lent = False

    def lend(self) -> None:
        """Lend the slot to another session when a call begins to wait."""
        self._waiting_calls += 1
        if not self._lent:
            self._lent = self._slots.lend()

    def take_back(self) -> None:
        """Take the slot back when the last waiting call continues."""
        self._waiting_calls -= 1
        if self._lent and not self._waiting_calls:
            self._lent = False
            self._slots.take_back()

    def end(self) -> None:
        """Free the slot."""
        self._slots.give_back()
