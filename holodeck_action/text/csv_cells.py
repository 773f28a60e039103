"""Cells of CSV that no spreadsheet computes, and the texts that were written into them."""

from __future__ import annotations

import re

# White space and invisible characters, which spreadsheets skip in front of a formula or drop around a text.
_BLANK = (
    "\\x00-\\x20\\x7f-\\xa0\\xad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f"
    "\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\U000e0000-\\U000e0fff"
)
# = + - @ (OWASP, CSV Injection) and their full-width, small, superscript and subscript forms, and the minus sign.
_FORMULA = "=+\\-@＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋−"
# The viewer writes labels with the same pattern (viewer/src/labels.ts).
GUARDED = re.compile(f"^'*[{_FORMULA}{_BLANK}]|[{_BLANK}]\\Z")
"""What gets an apostrophe; with apostrophes of its own in front, so that `unguarded` takes none of them away."""


def guarded(text: str) -> str:
    """Return a text as a cell: with an apostrophe in front if a spreadsheet would compute or change it.

    >>> guarded("=1+1")
    "'=1+1"
    """
    return f"'{text}" if GUARDED.search(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell that `guarded` made; a text that it would not have changed stays as it is."""
    return cell[1:] if cell.startswith("'") and GUARDED.search(cell[1:]) else cell
