"""Capabilities of an output stream: whether it is a terminal, its width, and whether colours are wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from msgspec import Struct

_DUMB = ("dumb", "unknown")
_OFF = ("", "0", "false")
_DEFAULT_WIDTH = 80
_LEAST_WIDTH = 20


class Terminal(Struct, frozen=True):
    """Capabilities of an output stream.

    Attributes:
        width: columns of the terminal; None if the stream is a log, whose lines are not wrapped.
        colour: whether to write colours.
        live: whether lines can be overwritten, as a progress bar does.
    """

    width: int | None
    colour: bool
    live: bool


def terminal_of(stream: TextIO, environ: Mapping[str, str]) -> Terminal:
    """Return the capabilities of an output stream.

    A terminal shows colours. `NO_COLOR` switches them off and `FORCE_COLOR` on, also in logs; `NO_COLOR` wins. A `dumb`
    terminal, and every stream if `CI` is set, is not live.
    """
    is_terminal = stream.isatty()
    able = is_terminal and environ.get("TERM") not in _DUMB
    forced = environ.get("FORCE_COLOR", "").lower() not in _OFF
    return Terminal(
        width=_width(stream, environ) if is_terminal else None,
        colour=(able or forced) and not environ.get("NO_COLOR"),
        live=able and environ.get("CI", "").lower() in _OFF,
    )


def _width(stream: TextIO, environ: Mapping[str, str]) -> int:
    given = environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return max(_LEAST_WIDTH, int(given))
    try:
        return max(_LEAST_WIDTH, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return _DEFAULT_WIDTH
