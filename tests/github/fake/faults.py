"""Trouble that a test orders: answers GitHub did not mean, late ones, and none at all."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to requests instead of, or beside, an answer.

    Attributes:
        method: HTTP method; `*` for all.
        path: regular expression that is searched for in the path (without the query).
        query: the same for the query, such as `page=2`.
        status: the answer's status; nothing is carried out. None: the request is answered as usual.
        body: the answer's body with `status`: text is sent as HTML, anything else as JSON.
        headers: the answer's further headers with `status`.
        drop: `before`: the connection is closed, nothing is carried out; `after`: it is carried out, then closed.
        delay: seconds that the answer is late; what was asked for is carried out first.
        late: whether the answer comes after every time limit on the clock of the hub, which clients take.
        until: the answer waits for this; what was asked for is carried out first.
        times: how many requests it happens to; None for all.
    """

    method: str
    path: str
    query: str = ""
    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: Literal["before", "after"] | None = None
    delay: float = 0.0
    late: bool = False
    until: threading.Event | None = None
    times: int | None = 1

    def hits(self, method: str, path: str, query: str) -> bool:
        """Tell whether it is about a request."""
        return (
            self.method in ("*", method)
            and re.search(self.path, path) is not None
            and re.search(self.query, query) is not None
        )


class Faults:
    """Ordered faults: the first that is about a request is used up by it."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Fault, int | None]] = []

    def add(self, fault: Fault) -> None:
        """Put a fault behind the others."""
        self._waiting.append((fault, fault.times))

    def clear(self) -> None:
        """Forget them all."""
        self._waiting.clear()

    def take(self, method: str, path: str, query: str) -> Fault | None:
        """Return what happens to a request; None for nothing."""
        for place, (fault, left) in enumerate(self._waiting):
            if fault.hits(method, path, query):
                if left is not None and left <= 1:
                    del self._waiting[place]
                elif left is not None:
                    self._waiting[place] = (fault, left - 1)
                return fault
        return None
