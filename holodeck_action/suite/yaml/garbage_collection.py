"""Suspension of garbage collection while many long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collection(*, freeze: bool = False) -> Iterator[None]:
    """Suspend garbage collection inside the context.

    Args:
        freeze: whether later collections skip all objects that exist at the end of the context, such as imported
            packages.
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
