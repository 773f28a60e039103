"""Keeps one object of a text that many values have, such as the name of a file."""

from __future__ import annotations

import sys

from msgspec import Struct
from msgspec.structs import force_setattr


def share_texts(value: Struct, *names: str) -> None:
    """Replace the texts of fields by the objects that other values have; to be called while `value` is made."""
    for name in names:
        text = getattr(value, name)
        if type(text) is str:
            force_setattr(value, name, sys.intern(text))
