"""Untrusted text as plain text, without control sequences of terminals and runner commands, and cut visibly."""

from __future__ import annotations

import re
from typing import Any

from holodeck_action.text.lazy_patterns import lazy_pattern

# Control, format (bidirectional, zero-width, tags), surrogate, private-use, default-ignorable and non-characters: they
# are invisible or change how text reads. The ranges are explicit, so that all Python versions remove the same
# characters.
_HIDDEN = lazy_pattern(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]+"
)
# The same above U+FFFF. One pattern for both ranges is five times slower.
_ASTRAL = lazy_pattern("[\U00010000-\U0010ffff]")
_HIDDEN_ASTRAL = lazy_pattern(
    "[\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
    + "".join(f"{chr(0x10000 * plane + 0xFFFE)}{chr(0x10000 * plane + 0xFFFF)}" for plane in range(1, 14))
    + "]+"
)
_UNPRINTABLE = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
_BREAKS = lazy_pattern("\r\n|[\r\n\x0b\x0c\x85\u2028\u2029]")
_LONG = lazy_pattern(r"([^\n]{80,110}) (?=[^\n])")
_CHANGED = ("  ", "::", "##[")
"""Substrings that `one_line` changes in printable ASCII."""
# The runner may skip characters that are not letters before the start of a line.
_COMMAND = lazy_pattern(r"^([^\w\n:]*):(?=:)", re.MULTILINE)


def one_line(text: str, limit: int = 300) -> str:
    """Return text as one printable line. A line of more than `limit` characters is cut, and the length of the whole
    text in characters is appended.

    Line breaks become `⏎` and hidden characters are removed. Commands of GitHub's runner are broken up: `##[` anywhere,
    and `::` at the start, since the text may start a line of the log.
    """
    if len(text) <= limit and text.isascii() and text.isprintable() and not any(map(text.__contains__, _CHANGED)):
        return text.strip()
    shown = text[: 4 * limit]
    # Most text is printable and skips the patterns. Breaks and tabs are never printable.
    if not shown.isprintable():
        shown = _BREAKS.sub(" ⏎ ", shown).replace("\t", " ")
    if not (shown.isascii() and shown.isprintable()):
        shown = _remove_hidden(shown)
    shown = " ".join(shown.split())
    if "::" in shown:
        shown = _COMMAND.sub(r"\1: ", shown)
    shown = shown.replace("##[", "# #[")
    if len(shown) > limit or len(text) > 4 * limit:
        shown = f"{shown[:limit]} … ({len(text):,} characters)"
    return shown


def short_line(text: str, limit: int = 100) -> str:
    """Return text as one printable line of at most `limit` characters; a longer line is cut after a word and ends with
    `…`."""
    # Twice the limit, so that the text is cut below and not by `one_line`, which adds a character count.
    shown = one_line(text[: 8 * limit], 2 * limit)
    if len(shown) <= limit:
        return shown
    head = shown[: limit - 1]
    words, _, _ = head.rpartition(" ")
    return f"{(words if len(words) > limit // 2 else head).rstrip(' ,;:')}…"


def lines_of(text: str, limit: int = 2000, *, wrapped: bool = False) -> str:
    """Return a text of one or more printable lines. A text of more than `limit` characters is cut, and its length in
    characters is added in a new line.

    Hidden characters are removed; tabs and spaces stay. Commands of GitHub's runner (`##[`, and `::` at the start of a
    line) are broken up. `wrapped` breaks lines of more than 110 characters at spaces.
    """
    shown = text[:limit]
    if not shown.isprintable() or not shown.isascii():
        shown = _remove_hidden(_BREAKS.sub("\n", shown))
    if wrapped:
        shown = _LONG.sub(r"\1\n", shown)
    if "::" in shown:
        shown = _COMMAND.sub(r"\1: ", shown)
    shown = shown.replace("##[", "# #[")
    return f"{shown}\n… ({len(text):,} characters)" if len(text) > limit else shown


def excerpt(text: str, limit: int = 200) -> str:
    """Return untrusted text as one printable line of at most `limit` characters; a longer line is cut and ends with
    `…`."""
    line = _UNPRINTABLE.sub(" ", text[: 4 * limit]).strip()
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[:limit]}…"


def _remove_hidden(text: str) -> str:
    shown = _HIDDEN.sub("", text)
    return _HIDDEN_ASTRAL.sub("", shown) if _ASTRAL.search(shown) else shown


MARK = "…"
MARGIN = 4096
"""Number of bytes next to a cut that are searched for secrets, but never shown. A secret that the cut divides ends
within these bytes."""


def cut(text: str, limit: int) -> str:
    """Return a string, or, if it is longer than `limit`, its first `limit` characters and `…`."""
    return text if len(text) <= limit else f"{text[:limit]}{MARK}"


def line_or_length(text: str, limit: int) -> str:
    """Return a text as one printable line, or only its length if it has more than `limit` characters.

    Use it for names in messages that are built before the secrets are known: a cut secret could not be redacted later.
    """
    return excerpt(text, limit) if len(text) <= limit else f"({len(text):,} characters)"


def cut_start(text: str, limit: int) -> str:
    """Return a string, or, if it is longer than `limit`, `…` and its last `limit` characters."""
    return text if len(text) <= limit else f"{MARK}{text[-limit:]}"


_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with U+FFFD."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def make_storable(value: Any) -> Any:
    """Return a JSON value with `replace_surrogates` applied to all its strings, keys included."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(key): make_storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [make_storable(item) for item in value]
    return value


def mark_hidden(text: str) -> str:
    """Return part of a line with one visible sign in place of each hidden character and tab, so that column numbers
    stay the same.

    Commands of GitHub's runner are broken up.
    """
    shown = text.replace("\t", "→")
    for hidden in (_HIDDEN, _HIDDEN_ASTRAL, _BREAKS):
        shown = hidden.sub(lambda match: "�" * len(match[0]), shown)
    return shown.replace("##[", "##⟦")
