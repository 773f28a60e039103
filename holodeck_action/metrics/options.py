"""Options of evaluators that are one of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice", bound=str)


def one_of(name: str, value: Choice, allowed: Sequence[str]) -> Choice:
    """Return an option that is one of the allowed ones.

    Raises:
        ValueError: it is not.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r:.80}")
    return value
