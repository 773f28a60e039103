"""Daemon threads for computations: the event loop is not blocked, and a hung computation cannot hold up the exit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads:
    """A small pool of daemon threads, started when they are first needed.

    Pure Python releases the interpreter lock between its steps; a single call into C that never returns does not, and
    no thread can be freed of it.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._started = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run a callable in a thread; its result or exception arrives in the future."""
        future: Future[T] = Future()
        with self._lock:
            self._jobs.put((future, job))
            if self._idle:
                self._idle -= 1
            elif self._started < self._size:
                self._start()
        return future

    def replace_hung(self) -> None:
        """Make room for a job that will never end: one more thread may run, for as long as it goes on."""
        with self._lock:
            self._size += 1
            if not self._jobs.empty():
                self._start()

    def close(self) -> None:
        """Let the threads end after the jobs that were submitted before; does not wait for them."""
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
    """Run one callable in a daemon thread of its own."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_run, args=(future, job), name="evaluation", daemon=True).start()
    return future
