"""A limit of time for one computation (used inside a process of its own)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTimeError(Exception):
    """A computation took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Break off what takes longer, in the main thread of a process.

    What does not return to the interpreter in time, such as one huge power, is left to the deadline of the call, which
    ends the process.

    Raises:
        OutOfTimeError: time ran out.
    """

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
