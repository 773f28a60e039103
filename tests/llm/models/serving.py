"""The server that tests share, and the key that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tests.llm.models.server import FakeModels
from tests.llm.models.values import Reply, Request

KEY = "sk-planted-4711-secret"
"""The only key that the shared server accepts; nothing that is kept or shown may contain it."""


@contextmanager
def serve_models(
    *,
    answer: Callable[[Request], Reply] | None = None,
    keys: Iterable[str] | None = (KEY,),
    latency: float = 0.0,
) -> Iterator[FakeModels]:
    """Serve models until the block ends. Fails if a request did not fit the provider's interface.

    Args:
        answer: the rule that answers; None: `echo`.
        keys: the keys that are accepted; None: any.
        latency: seconds until an answer.
    """
    with FakeModels(keys=keys, latency=latency) as models:
        if answer is not None:
            models.answer(answer)
        yield models
        assert models.violations == [], models.violations
