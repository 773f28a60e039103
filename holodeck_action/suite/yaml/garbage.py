"""Making many objects that stay, without looking through them for garbage again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections(*, to_the_end: bool = False) -> Iterator[None]:
    """Collect no garbage meanwhile.

    Args:
        to_the_end: whether what there is afterwards stays until the process ends, such as imported packages: later
            collections leave it out, too.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
        if to_the_end:
            gc.freeze()
    finally:
        if collecting:
            gc.enable()
