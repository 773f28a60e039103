"""Untrusted text on a terminal or in a log: one line, no control characters, nothing a runner takes for a command."""

from __future__ import annotations

import unicodedata

# Bidirectional and zero-width characters are format characters (Cf): they can make text read as something else.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def one_line(text: str, limit: int = 300) -> str:
    """Return text as one printable line of at most `limit` characters, cut with the number of characters left out.

    Line breaks become `⏎`, other control and format characters disappear, and `##[`, which GitHub's runner reads as a
    command anywhere in a line, is taken apart. Callers put it behind text of their own, so that it never starts a line.
    """
    shown = text[: 4 * limit].replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", " ")
    shown = "".join(character for character in shown if unicodedata.category(character) not in _HIDDEN)
    shown = " ".join(shown.split()).replace("##[", "# #[")
    if len(shown) > limit or len(text) > 4 * limit:
        shown = f"{shown[:limit]} … ({len(text):,} characters)"
    return shown
