"""One event loop for all calls of a worker process, since network clients that user code keeps between calls are bound
to a loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any


class PersistentEventLoop:
    """Runs awaitables one after the other in the same event loop."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner() if sys.version_info >= (3, 11) else _OlderRunner()
        self.close = self._runner.close

    def run(self, value: Awaitable[Any], new_context: Callable[[], AbstractContextManager[None]]) -> Any:
        """Await `value` within the context that `new_context` creates; return the result or raise the exception."""

        async def wait() -> Any:
            with new_context():
                return await value

        return self._runner.run(wait())


class _OlderRunner:
    """Replaces `asyncio.Runner`, which Python 3.9 and 3.10 lack."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        self._loop.close()
