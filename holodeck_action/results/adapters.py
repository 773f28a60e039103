"""Reading and writing of values as JSON, made when first used: making it takes longer than most of a start-up."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Return what reads and writes values of a kind, the same each time.

    Args:
        kind: a dataclass or model.
    """
    return _made(cast(Hashable, kind))


@cache
def _made(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
