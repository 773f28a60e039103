"""Suspension of garbage collection while many long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collection(*, freeze: bool = False) -> Iterator[None]:
    """Suspend garbage collection inside the context.

    Args:
        freeze: whether all objects that exist at the end of the context, such as imported packages, stay until the
            process ends, so that later collections skip them.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
        if freeze:
            gc.freeze()
    finally:
        if collecting:
            gc.enable()
