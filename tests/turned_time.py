"""An event loop whose clock tests put forward."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable


class TurnedLoop(asyncio.SelectorEventLoop):
    """Its time, in seconds, is that of a clock and `ahead`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        ahead: float = 0.0,
        selector: selectors.BaseSelector | None = None,
    ) -> None:
        self._clock, self.ahead = clock, ahead
        super().__init__(selector)

    def time(self) -> float:
        return self._clock() + self.ahead
