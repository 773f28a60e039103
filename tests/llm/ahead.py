"""Time that runs ahead: an event loop whose waits end at once, and model services that keep limits in its time."""

from __future__ import annotations

import asyncio
import json
import selectors
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

import httpx2

from holodeck_action.llm.wire import Wire, WireSettings
from tests.turned_time import TurnedLoop

T = TypeVar("T")

LATENCY_S = 0.2
STARTED_AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
"""The date and time at the start of `run_ahead`."""
_STARTED_S = 1000.0

Says = Callable[["Service", str, float], str | None]
"""Whether a service refuses: given itself, the question and the time, its `Retry-After`, "" for none; None answers."""


class _Selector(selectors.SelectSelector):
    loop: TurnedLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "no timer is left to wait for: a task would wait for ever"
            self.loop.ahead += timeout
        return ready


def _loop_ahead() -> TurnedLoop:
    selector = _Selector()
    selector.loop = TurnedLoop(lambda: 0.0, _STARTED_S, selector)
    return selector.loop


class Service(httpx2.AsyncBaseTransport):
    """Answers after `LATENCY_S`, refusals too where nothing else is said."""

    def __init__(
        self, says: Says, refusal_s: float = LATENCY_S, refusal_headers: Mapping[str, str] | None = None
    ) -> None:
        self._says, self._refusal_s = says, refusal_s
        self._refusal_headers = refusal_headers or {}
        self.statuses: Counter[int] = Counter()
        self.times: list[float] = []
        self.at_once = 0

    @property
    def requests(self) -> int:
        return len(self.times)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        text = json.loads(request.content)["messages"][0]["content"]
        now = asyncio.get_running_loop().time()
        self.times.append(now)
        refusal = self._says(self, text, now)
        self.at_once += refusal is None
        try:
            await asyncio.sleep(LATENCY_S if refusal is None else self._refusal_s)
        finally:
            self.at_once -= refusal is None
        status = 200 if refusal is None else 429
        self.statuses[status] += 1
        headers = {"content-type": "application/json", **({"retry-after": refusal} if refusal else {})}
        if refusal is not None:
            headers |= self._refusal_headers
        return httpx2.Response(status, headers=headers, content=b'{"ok": true}')


def refusing_each(times: int, asks: str) -> Says:
    """Refuse every question so many times."""
    seen: Counter[str] = Counter()

    def says(service: Service, text: str, now: float) -> str | None:
        seen[text] += 1
        return asks if seen[text] <= times else None

    return says


def at_most_per_second(most: int, asks: str, span_s: float = 1.0) -> Says:
    """Answer so many within a second, or another span."""
    answered: deque[float] = deque()

    def says(service: Service, text: str, now: float) -> str | None:
        while answered and now - answered[0] > span_s:
            answered.popleft()
        if len(answered) >= most:
            return asks
        answered.append(now)
        return None

    return says


def from_a_bucket(most: int, capacity: int, asks: str) -> Says:
    """Answer from a token bucket that begins full, holds so many and gets `most` a second, evenly."""
    left, filled = float(capacity), float("-inf")

    def says(service: Service, text: str, now: float) -> str | None:
        nonlocal left, filled
        left, filled = min(capacity, left + most * (now - filled)), now
        if left < 1:
            return asks
        left -= 1
        return None

    return says


def at_most_at_once(most: int, asks: str) -> Says:
    return lambda service, text, now: asks if service.at_once >= most else None


def shut_for(seconds: float, asks: str) -> Says:
    return lambda service, text, now: asks if now - service.times[0] < seconds else None


def run_ahead(work: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """Run in time that runs ahead; return also the seconds that have passed in it."""
    with asyncio.Runner(loop_factory=_loop_ahead) as runner:
        loop = runner.get_loop()
        started = loop.time()
        return runner.run(work()), loop.time() - started


def clock() -> Callable[[], float]:
    """Return the clock of the running loop, in seconds."""
    return asyncio.get_running_loop().time


def wire_ahead(service: Service, most: int, started_at: datetime = STARTED_AT, **settings: Any) -> Wire:
    """Return a wire to a service; within `run_ahead`, which starts at a date and time."""
    given = WireSettings(max_in_flight=most, **settings)
    return Wire(given, uniform=Random(7).uniform, network=service, **clocks_ahead(started_at))


def clocks_ahead(started_at: datetime = STARTED_AT) -> dict[str, Any]:
    """Return the clocks of a wire; within `run_ahead`, which starts at a date and time."""
    monotonic = clock()

    def now() -> datetime:
        return started_at + timedelta(seconds=monotonic() - _STARTED_S)

    return {"monotonic": monotonic, "now": now, "pause": asyncio.sleep}
