"""Deadlines that strike what hangs, and nothing else, on a machine as busy as it may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

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
