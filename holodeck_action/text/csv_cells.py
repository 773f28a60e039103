"""Escapes CSV cells, so that no spreadsheet runs them as formulas, and reverses this escaping."""

from __future__ import annotations

from holodeck_action.text.lazy_patterns import lazy_pattern

# White space and invisible characters, which spreadsheets skip in front of a formula or drop around a text.
_BLANK = (
    "\\x00-\\x20\\x7f-\\xa0\\xad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f"
    "\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\U000e0000-\\U000e0fff"
)
# = + - @ (OWASP, CSV Injection) and their full-width, small, superscript and subscript forms, and the minus sign.
_FORMULA = "=+\\-@＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋−"
# The viewer writes labels with the same pattern (viewer/src/labels.ts).
GUARDED = lazy_pattern(f"^'*[{_FORMULA}{_BLANK}]|[{_BLANK}]\\Z")
"""Matches texts that get an apostrophe. Texts that begin with apostrophes get another one, so that `unguard_cell` can
undo the change."""


def guard_cell(text: str) -> str:
    """Return a string as a CSV cell, with an apostrophe in front if a spreadsheet would compute or change it.

    >>> guard_cell("=1+1")
    "'=1+1"
    """
    return f"'{text}" if GUARDED.search(text) else text


def unguard_cell(cell: str) -> str:
    """Reverse `guard_cell`; a cell that it did not change is returned as it is."""
    return cell[1:] if cell.startswith("'") and GUARDED.search(cell[1:]) else cell
