"""The console of rich as a stream can show it: nothing is read from the process."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, TextIO

from holodeck_action.text.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console

_LOG_WIDTH = 160
"""Columns of a log that wants colours."""
_HANGING = 2
_LABEL = re.compile(r"\s+\w+:\s{2,}")
"""What stands before a value below which the rest of it hangs."""
_KIND = re.compile("(?:error|note): ")


def wrapped(line: str, width: int) -> str:
    """Return a line as lines of at most so many columns: words stay whole, and lines hang below the first one."""
    if len(line) <= width:
        return line
    label = _LABEL.match(line) or _KIND.match(line)
    hanging = len(line) - len(line.lstrip()) + _HANGING if label is None else len(label[0])
    broken = textwrap.wrap(line, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)
    return "\n".join(broken)


def console_on(stream: TextIO, terminal: Terminal) -> Console:
    """Return a console that writes to a stream what it can show."""
    # rich takes 50 ms to import: only terminals pay.
    from rich.console import Console

    return Console(
        file=stream,
        width=terminal.width or _LOG_WIDTH,
        force_terminal=True,
        color_system="standard" if terminal.colour else None,
        no_color=not terminal.colour,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
