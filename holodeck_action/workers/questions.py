"""Questions that code in a worker process asks the run during a call, such as those of a metric to its judge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

MOST_OPEN = 32
"""Maximum number of questions of one call that wait for their answers at the same time."""


class Questions:
    """Sends the questions of one call, from any thread, and returns their answers.

    Each thread waits for its own answer; one of the waiting threads reads from the connection for all.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None], receive: Callable[[], Any]) -> None:
        """Start without questions.

        Args:
            send: sends a message to the run.
            receive: waits for the next message of the run, and returns it.
        """
        self._send = send
        self._receive = receive
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[int, Any] = {}
        self._asked = 0
        self._reading = False

    def ask(self, question: dict[str, Any]) -> Any:
        """Send a question, which is a JSON object, and wait for its answer.

        Raises:
            EOFError: the connection has ended.
        """
        with self._sending:
            self._asked += 1
            number = self._asked
            self._send({"ask": number, "question": question})
        with self._changed:
            while number not in self._answers:
                if self._reading:
                    self._changed.wait()
                    continue
                self._reading = True
                self._changed.release()
                try:
                    message = self._receive()
                finally:
                    self._changed.acquire()
                    self._reading = False
                    self._changed.notify_all()
                if message is None:
                    raise EOFError("the run has ended")
                self._answers[message["ask"]] = message["answer"]
            return self._answers.pop(number)
