"""What ends a run early from outside: signals and its deadline."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from signal import SIGINT, Signals, getsignal, signal
from types import FrameType

from holodeck_action.run.schedule import Stop


@contextmanager
def interrupting(signals: Sequence[Signals]) -> Iterator[None]:
    """Let signals end what is under way as an interrupt from the keyboard does, so that what is open is closed.

    Args:
        signals: those that are caught outside of `stopping`.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal(number, interrupt) for number in signals if number != SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal(number, handler)


@contextmanager
def stopping(stop: Stop, left_s: float | None, reason: str, signals: Sequence[Signals]) -> Iterator[None]:
    """Turn the first signal, and a deadline, into an orderly stop.

    A second signal gives the run up: the task is cancelled, which still closes what it opened. A third ends the
    process as usual.

    Args:
        stop: asked to stop.
        left_s: seconds until the deadline; None for no deadline.
        reason: what to say when it is reached.
        signals: those that are caught.
    """
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    received = itertools.count(1)
    before = {number: getsignal(number) for number in signals if number != SIGINT}

    def restore() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        # The loop forgets who had them.
        for number, handler in before.items():
            signal(number, handler)

    def request(number: Signals) -> None:
        stop.request(f"{number.name} was received")
        if next(received) > 1 and running is not None:
            # An exception that a signal throws into the loop loses what it was at, which may be waited for forever.
            running.cancel()
            restore()

    for number in signals:
        loop.add_signal_handler(number, request, number)
    if left_s is not None:
        loop.call_later(max(0.0, left_s), stop.request, reason)
    try:
        yield
    finally:
        restore()
