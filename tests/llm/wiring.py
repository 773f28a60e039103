"""What the tests of the wire share: a wire on the fake models, a clock without waiting, plain calls."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from holodeck_action.llm.calls import CALL, Account, CallContext, HttpRequest, Meter
from holodeck_action.llm.limits.pauses import Deadline
from holodeck_action.llm.wire import Wire, WireSettings
from tests.llm.ahead import clocks_ahead
from tests.llm.models import KEY, FakeModels
from tests.llm.models.memory import InMemory


class Clock:
    """Time that passes by waiting: `pause` adds to it and gives way once; `waits` holds what was waited."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._waited = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._waited

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._waited += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def opened(
    settings: WireSettings | None = None,
    clock: Clock | None = None,
    models: FakeModels | None = None,
    **options: Any,
) -> AsyncIterator[Wire]:
    """A wire to what is served, with a clock without waiting; or to models in memory, within `run_ahead`."""
    clock = clock or Clock()
    usual: dict[str, Any] = {"monotonic": clock.monotonic, "pause": clock.pause, "uniform": random.Random(7).uniform}
    if models is not None:
        usual |= {"network": InMemory(models), **clocks_ahead()}
    wire = Wire(settings or WireSettings(), **(usual | options))
    try:
        yield wire
    finally:
        await wire.close()


def account(base_url: str, provider: str = "openai", key: str = KEY) -> Account:
    return Account(provider, base_url, key)


def chat(text: str = "Hello?", **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": text}], **more}


async def post(
    wire: Wire,
    who: Account,
    body: dict[str, Any],
    *,
    repeat: int = 0,
    within: float | None = None,
    meter: Meter | None = None,
    headers: dict[str, str] | None = None,
    path: str = "/chat/completions",
) -> httpx2.Response:
    """Ask as those do who speak to a model; an answer is of use for `within` seconds."""
    deadline = None if within is None else Deadline(within, asyncio.get_running_loop().time)
    CALL.set(CallContext("agent", repeat, deadline, meter or Meter()))
    auth = {"x-api-key": who.key, "anthropic-version": "2023-06-01"} if who.provider == "anthropic" else {}
    auth = auth or {"authorization": f"Bearer {who.key}"}
    sent = {"content-type": "application/json", **auth, **(headers or {})}
    answer = await wire.answer(who, HttpRequest(f"{who.base_url}{path}", sent, json.dumps(body).encode(), body))
    # What was kept as a value has no body.
    content = answer.body or json.dumps(answer.payload).encode()
    return httpx2.Response(answer.status, headers=list(answer.headers), content=content)


def said(response: httpx2.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())
