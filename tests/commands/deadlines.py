"""Deadlines that strike what hangs, and nothing else, on a machine as busy as it may be."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = (3, 15, 60)


def ever_longer(attempt: Callable[[float], T], met: Callable[[T], bool], seconds: Sequence[float] = SECONDS) -> T:
    """Return the first result in which all that should meet the deadline met it, or that of the longest deadline.

    What hangs meets none of them. A short one may end what was only slow, and then a longer one is tried: an idle
    machine needs the first alone.

    Args:
        attempt: runs something with a deadline in seconds.
        met: whether all that does not hang met the deadline.
        seconds: the deadlines.
    """
    for deadline in seconds[:-1]:
        if met(result := attempt(deadline)):
            return result
    return attempt(seconds[-1])


class _Timers(selectors.DefaultSelector):
    """Waits for no timer: its clock is put forward to the next one."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(None if timeout is None else 0)
        if not events and timeout is not None:
            self.now += timeout
        return events


class _TimerLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._timers = _Timers()
        super().__init__(self._timers)

    def time(self) -> float:
        return self._timers.now


def run_without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """Run what waits for timers alone, on a clock that jumps to the next one; return its result."""
    with asyncio.Runner(loop_factory=_TimerLoop) as runner:
        return runner.run(work)
