"""Creates rich's console for a stream, without reading settings from the process."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, TextIO

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console

_LOG_WIDTH = 160
"""Width of a log with colours, in columns."""
_EXTRA_INDENT = 2
_LABEL = lazy_pattern(r"\s+(?:\w+:\s{2,}|expected: )")
"""Matches the label before a value; wrapped lines are indented to the value. `expected` is the longest label."""
_KIND = lazy_pattern("(?:error|note): ")


def wrap_line(line: str, width: int) -> str:
    """Wrap a line to a width without breaking words; continuation lines are indented."""
    if len(line) <= width:
        return line
    label = _LABEL.match(line) or _KIND.match(line)
    hanging = len(line) - len(line.lstrip()) + _EXTRA_INDENT if label is None else len(label[0])
    broken = textwrap.wrap(line, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)
    return "\n".join(broken)


def make_console(stream: TextIO, terminal: Terminal) -> Console:
    """Return a console that writes to a stream with the terminal's features."""
    # rich takes 50 ms to import, so only import it for terminals.
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
