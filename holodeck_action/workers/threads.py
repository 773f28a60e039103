"""Daemon threads for computations, which do not block the event loop. A hung thread does not delay the exit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads:
    """A small pool of daemon threads, each started when it is first needed.

    C code that never returns may hold the interpreter lock, and then blocks all threads of the process.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._started = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run a callable in a thread of the pool; the returned future gets its result or exception."""
        future: Future[T] = Future()
        with self._lock:
            self._jobs.put((future, job))
            if self._idle:
                self._idle -= 1
            elif self._started < self._size:
                self._start()
        return future

    def replace_hung(self) -> None:
        """Allow one more thread, in place of a thread whose job hangs."""
        with self._lock:
            self._size += 1
            if not self._jobs.empty():
                self._start()

    def close(self) -> None:
        """End the threads after all submitted jobs; does not wait for them."""
        with self._lock:
            for _ in range(self._started):
                self._jobs.put(None)

    def _start(self) -> None:
        self._started += 1
        threading.Thread(target=self._work, name=f"evaluation-{self._started}", daemon=True).start()

    def _work(self) -> None:
        while (entry := self._next()) is not None:
            future, job = entry
            if future.set_running_or_notify_cancel():
                _run(future, job)
            del entry, future, job

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._lock:
            try:
                return self._jobs.get_nowait()
            except queue.Empty:
                self._idle += 1
        return self._jobs.get()


def _run(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        result = job()
    except BaseException as error:  # noqa: BLE001 - the waiting side decides what it means
        future.set_exception(error)
    else:
        future.set_result(result)


def in_daemon_thread(job: Callable[[], T]) -> Future[T]:
    """Run a callable in its own daemon thread; the returned future gets its result or exception."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_run, args=(future, job), name="evaluation", daemon=True).start()
    return future
