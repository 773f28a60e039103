"""One event loop for all calls of a worker process, so that clients which user code keeps stay usable."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any


class LastingLoop:
    """Runs one awaitable after the other."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner() if sys.version_info >= (3, 11) else _OlderRunner()
        self.close = self._runner.close

    def result(self, value: Awaitable[Any], inside: Callable[[], AbstractContextManager[None]]) -> Any:
        """Return what an awaitable comes to `inside` of a context of its own; what it raises is raised."""

        async def wait() -> Any:
            with inside():
                return await value

        return self._runner.run(wait())


class _OlderRunner:
    """What is needed of `asyncio.Runner`, which Python 3.9 and 3.10 do not have."""

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
