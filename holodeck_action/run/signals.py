"""Ends a run early on a signal or at its deadline."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from signal import SIGINT, Signals, getsignal, signal
from types import FrameType
from typing import Any, TypeVar

from holodeck_action.run.schedule import Stop

T = TypeVar("T")


def run_to_end(main: Coroutine[Any, Any, T], run: Callable[[Coroutine[Any, Any, T]], T] = asyncio.run) -> T:
    """Run a coroutine in an event loop by `run`, and return its result.

    Raises:
        KeyboardInterrupt: a second signal cancelled it (see `stop_on_signals`).
    """
    try:
        return run(main)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@contextmanager
def raise_on_signals(signals: Sequence[Signals]) -> Iterator[None]:
    """Raise KeyboardInterrupt on a signal within the block, so that open resources are closed.

    Args:
        signals: the signals to catch, except SIGINT, for which Python raises KeyboardInterrupt itself. Handlers that
            `stop_on_signals` sets within the block take precedence.
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
def stop_on_signals(stop: Stop, remaining_s: float | None, reason: str, signals: Sequence[Signals]) -> Iterator[None]:
    """Request an orderly stop on the first signal, and at a deadline.

    A second signal cancels the current task, which still closes its resources. A third signal ends the process.

    Args:
        stop: the stop to request.
        remaining_s: seconds until the deadline; None if there is no deadline.
        reason: the reason to record if the deadline stops the run.
        signals: the signals to catch.
    """
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    received = itertools.count(1)
    before = {number: getsignal(number) for number in signals if number != SIGINT}

    def restore() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        # The loop does not restore earlier handlers.
        for number, handler in before.items():
            signal(number, handler)

    def request(number: Signals) -> None:
        stop.request(f"{number.name} was received")
        if next(received) > 1 and running is not None:
            # An exception raised in the loop would abandon its current callback, and a task may wait for it forever.
            running.cancel()
            restore()

    for number in signals:
        loop.add_signal_handler(number, request, number)
    if remaining_s is not None:
        loop.call_later(max(0.0, remaining_s), stop.request, reason)
    try:
        yield
    finally:
        restore()
