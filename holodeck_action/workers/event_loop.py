"""One event loop for all calls of a worker process, so that network clients kept by user code stay usable."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any


class LastingLoop:
    """An event loop that stays open between the awaitables that it runs, one after the other."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner() if sys.version_info >= (3, 11) else _OlderRunner()
        self.close = self._runner.close

    def run(self, value: Awaitable[Any], inside: Callable[[], AbstractContextManager[None]]) -> Any:
        """Await a value within the context manager that `inside` returns; return its result or raise its exception."""

        async def wait() -> Any:
            with inside():
                return await value

        return self._runner.run(wait())


class _OlderRunner:
    """The needed part of `asyncio.Runner`, which Python 3.9 and 3.10 lack."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        self._loop.close()
