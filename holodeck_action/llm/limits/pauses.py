"""Clocks of time limits, which pause while a call waits for a rate limit: this time must not count as slowness of the
agent or judge.

The time limits of turns, cases and metrics enclose the calls made in them. A context variable holds them, so that the
wire can pause them. The deadline of the whole run is not among them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol


class Stoppable(Protocol):
    """A clock that can be paused, such as `Deadline` and `TimeLimit`."""

    def stop(self) -> None:
        """Pause the clock."""
        ...

    def resume(self) -> None:
        """Undo one `stop`; the clock runs again once all are undone."""
        ...


class ConversationSlot(Protocol):
    """One of a limited number of slots for concurrent sessions. A session can lend its slot while it waits."""

    def lend(self) -> None:
        """Let another session work in this slot."""
        ...

    def take_back(self) -> None:
        """Continue working, without waiting for a free slot."""
        ...


_CLOCKS: ContextVar[tuple[Stoppable, ...]] = ContextVar("_CLOCKS", default=())
_SLOT: ContextVar[ConversationSlot | None] = ContextVar("_SLOT", default=None)


class Deadline:
    """A deadline after which a result is useless; pausing postpones the deadline."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start the clock.

        Args:
            seconds: the time limit.
            monotonic: returns monotonic seconds.
        """
        self.total_s = seconds
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        self._stopped_at = 0.0
        self._stops = 0

    def seconds_left(self) -> float:
        """Return the remaining seconds; negative after the deadline."""
        return self._until - (self._stopped_at if self._stops else self._monotonic())

    @property
    def ends_at(self) -> float | None:
        """Monotonic seconds of the deadline; None while the clock is paused, or if there is no limit."""
        return None if self._stops or self._until == math.inf else self._until

    def stop(self) -> None:
        """Pause the clock."""
        if not self._stops:
            self._stopped_at = self._monotonic()
        self._stops += 1

    def resume(self) -> None:
        """Undo one `stop`."""
        self._stops -= 1
        if not self._stops:
            self._until += self._monotonic() - self._stopped_at


class TimeLimit:
    """A time limit like `asyncio.timeout`; its clock pauses while a model call in the block waits to be sent."""

    def __init__(self, seconds: float | None) -> None:
        """Create the limit, whose clock starts with the block; `seconds` is None if there is no limit."""
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._deadline = Deadline(math.inf)
        self._open = False

    async def __aenter__(self) -> TimeLimit:
        """Start the clock."""
        await self._timeout.__aenter__()
        self._open = True
        if self._seconds is not None:
            self._deadline = Deadline(self._seconds, asyncio.get_running_loop().time)
            self._reschedule()
        self._token = _CLOCKS.set((*_CLOCKS.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the clock.

        Raises:
            TimeoutError: the block took longer than the limit.
        """
        self._open = False
        _CLOCKS.reset(self._token)
        await self._timeout.__aexit__(kind, error, trace)

    def has_expired(self) -> bool:
        """Return whether the limit was exceeded."""
        return self._timeout.expired()

    def stop(self) -> None:
        """Pause the clock."""
        self._deadline.stop()
        self._reschedule()

    def resume(self) -> None:
        """Undo one `stop`."""
        self._deadline.resume()
        self._reschedule()

    def _reschedule(self) -> None:
        """End the block at the deadline, unless the block or its time is over: tasks started in it may outlive it."""
        if self._open and not self._timeout.expired():
            self._timeout.reschedule(self._deadline.ends_at)


class Clocks:
    """The clocks of all callers that wait for the same call."""

    def __init__(self, clocks: Iterable[Stoppable] = ()) -> None:
        self._clocks = list(clocks)
        self._standing = 0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the clocks within the block."""
        self._standing += 1
        if self._standing == 1:
            for clock in self._clocks:
                clock.stop()
        try:
            yield
        finally:
            self._standing -= 1
            if not self._standing:
                for clock in self._clocks:
                    clock.resume()

    @contextmanager
    def join(self, clocks: Clocks) -> Iterator[None]:
        """Within the block, pause another caller's clocks whenever these clocks are paused."""
        others = list(clocks._clocks)
        self._clocks += others
        if self._standing:
            for clock in others:
                clock.stop()
        try:
            yield
        finally:
            for clock in others:
                self._clocks.remove(clock)
                if self._standing:
                    clock.resume()


def clocks_around(deadline: Deadline | None) -> Clocks:
    """Return the clocks to pause while a call waits: those of all time limits around the call, and `deadline` if it is
    not None.
    """
    around = _CLOCKS.get()
    return Clocks(around if deadline is None or deadline in around else (*around, deadline))


@contextmanager
def stop_during_calls(clock: Stoppable | None) -> Iterator[None]:
    """Within the block, pause `clock` while a model call waits to be sent; do nothing if `clock` is None."""
    token = _CLOCKS.set(_CLOCKS.get() if clock is None else (*_CLOCKS.get(), clock))
    try:
        yield
    finally:
        _CLOCKS.reset(token)


def is_late() -> bool:
    """Return whether a deadline around the current code has passed. A failure after the deadline must be reported as a
    timeout."""
    return any(isinstance(clock, Deadline) and clock.seconds_left() <= 0 for clock in _CLOCKS.get())


def pause_all_clocks() -> AbstractContextManager[None]:
    """Within the block, pause the clocks of all time limits around it, so that the time of the block is not counted."""
    return clocks_around(None).pause()


def detach_limits() -> None:
    """Detach the current task from the time limits and the slot of the task that created it."""
    _CLOCKS.set(())
    _SLOT.set(None)


@contextmanager
def use_slot(slot: ConversationSlot) -> Iterator[None]:
    """Within the block, a model call that waits lends this slot to other sessions."""
    token = _SLOT.set(slot)
    try:
        yield
    finally:
        _SLOT.reset(token)


@asynccontextmanager
async def lend_slot(clocks: Clocks) -> AsyncIterator[None]:
    """Within the block, pause a call's clocks and lend the caller's slot to other sessions."""
    slot = _SLOT.get()
    with clocks.pause():
        if slot is not None:
            slot.lend()
        try:
            yield
        finally:
            if slot is not None:
                slot.take_back()
