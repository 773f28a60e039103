"""Clocks that stand still while a call waits its turn: a rate limit is no slowness of whoever asks.

Time limits of turns, cases and metrics enclose the calls that are made in them. They are found by a context variable,
so that the wire, far below, can stop them; the run's own deadline is not among them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol


class Stoppable(Protocol):
    """A clock that stands still as long as anybody has stopped it."""

    def stop(self) -> None:
        """Let it stand still."""
        ...

    def go_on(self) -> None:
        """Take one `stop` back."""
        ...


class Place(Protocol):
    """A place among those who work at a time, which whoever waits lends to others."""

    def lend(self) -> None:
        """Let another one work."""
        ...

    def take_back(self) -> None:
        """Work on, without waiting for anybody."""
        ...


_CLOCKS: ContextVar[tuple[Stoppable, ...]] = ContextVar("_CLOCKS", default=())
_PLACE: ContextVar[Place | None] = ContextVar("_PLACE", default=None)


class Deadline:
    """When something is of no use any more; it moves on by the time for which it is stopped."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin now.

        Args:
            seconds: until then.
            monotonic: the clock, in seconds.
        """
        self._monotonic = monotonic
        self._until = monotonic() + seconds
        self._stopped_at = 0.0
        self._stops = 0

    def left(self) -> float:
        """Return the seconds that are left; negative when it is over."""
        return self._until - (self._stopped_at if self._stops else self._monotonic())

    def stop(self) -> None:
        """Let it stand still."""
        if not self._stops:
            self._stopped_at = self._monotonic()
        self._stops += 1

    def go_on(self) -> None:
        """Take one `stop` back."""
        self._stops -= 1
        if not self._stops:
            self._until += self._monotonic() - self._stopped_at


class TimeLimit:
    """`asyncio.timeout` on a clock that stands still while a call in it waits its turn."""

    def __init__(self, seconds: float | None) -> None:
        """Prepare; the clock begins with the block. None for no limit."""
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._left = 0.0
        self._stops = 0
        self._open = False

    async def __aenter__(self) -> TimeLimit:
        """Begin."""
        await self._timeout.__aenter__()
        self._open = self._seconds is not None
        if self._seconds is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)
        self._token = _CLOCKS.set((*_CLOCKS.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End.

        Raises:
            TimeoutError: it took longer.
        """
        self._open = False
        _CLOCKS.reset(self._token)
        await self._timeout.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        """Tell whether the time was over."""
        return self._timeout.expired()

    def stop(self) -> None:
        """Let it stand still."""
        self._stops += 1
        if self._stops == 1 and self._runs():
            self._left = (self._timeout.when() or 0.0) - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        """Take one `stop` back."""
        self._stops -= 1
        if not self._stops and self._runs():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def _runs(self) -> bool:
        """Tell whether it limits anything: tasks that it began may outlive it."""
        return self._open and not self._timeout.expired()


class Clocks:
    """The clocks of those who wait for one call."""

    def __init__(self, clocks: Iterable[Stoppable] = ()) -> None:
        self._clocks = list(clocks)
        self._standing = 0

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the clocks for the block."""
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
                    clock.go_on()

    @contextmanager
    def joined_by(self, clocks: Clocks) -> Iterator[None]:
        """Stop the clocks of others, too, whenever these stand still within the block."""
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
                    clock.go_on()


def clocks_around(deadline: Deadline | None) -> Clocks:
    """Return the clocks that a call's waiting stops: of all limits around it, and of its own deadline."""
    around = _CLOCKS.get()
    return Clocks(around if deadline is None or deadline in around else (*around, deadline))


@contextmanager
def stopped_by_calls(clock: Stoppable | None) -> Iterator[None]:
    """Let calls that are made in the block stop a clock while they wait their turn."""
    token = _CLOCKS.set(_CLOCKS.get() if clock is None else (*_CLOCKS.get(), clock))
    try:
        yield
    finally:
        _CLOCKS.reset(token)


def is_late() -> bool:
    """Tell whether a deadline around is over: what fails from then on fails for want of time."""
    return any(isinstance(clock, Deadline) and clock.left() <= 0 for clock in _CLOCKS.get())


@contextmanager
def uncharged() -> Iterator[None]:
    """Stop all clocks around for the block: what it waits for is nobody's own."""
    with Clocks(_CLOCKS.get()).standing_still():
        yield


def apart() -> None:
    """Leave the limits and the place of whoever began this task: for tasks that are not part of what is limited."""
    _CLOCKS.set(())
    _PLACE.set(None)


@contextmanager
def working_at(place: Place) -> Iterator[None]:
    """Work at a place, which calls lend to others while they wait their turn."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


@asynccontextmanager
async def away(clocks: Clocks) -> AsyncIterator[None]:
    """Stop a call's clocks for the block, and lend the place of whoever makes it."""
    place = _PLACE.get()
    with clocks.standing_still():
        if place is not None:
            place.lend()
        try:
            yield
        finally:
            if place is not None:
                place.take_back()
