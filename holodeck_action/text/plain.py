"""Untrusted text as plain text: nothing that a terminal or a workflow runner obeys; cuts that leave a mark."""

from __future__ import annotations

import re
from typing import Any

# Control, format (bidirectional, zero-width, tags), surrogate, private-use, default-ignorable and non-characters:
# invisible, or able to make text read as something else. Written out, so that all Python versions remove the same ones.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0d"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]+"
)
# The same above U+FFFF, apart: looking for both at once takes five times as long.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_HIDDEN_ASTRAL = re.compile(
    "[\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
    + "".join(f"{chr(0x10000 * plane + 0xFFFE)}{chr(0x10000 * plane + 0xFFFF)}" for plane in range(1, 14))
    + "]+"
)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
_BREAKS = re.compile("\r\n|[\r\n\x0b\x0c\x85\u2028\u2029]")
_LONG = re.compile(r"([^\n]{80,110}) (?=[^\n])")
_CHANGED = ("  ", "::", "##[")
"""What is changed in a line of printable ASCII."""
# Whatever is no letter may be skipped where the runner looks for the start of a line.
_COMMAND = re.compile(r"^([^\w\n:]*):(?=:)", re.MULTILINE)


def one_line(text: str, limit: int = 300) -> str:
    """Return text as one printable line of at most `limit` characters, cut with the number of characters omitted.

    Line breaks become `⏎`, hidden characters disappear, and what GitHub's runner would read as a command in a log is
    taken apart: `##[` anywhere, `::` at the start, as the line may come to stand at the start of one.
    """
    if len(text) <= limit and text.isascii() and text.isprintable() and not any(map(text.__contains__, _CHANGED)):
        return text.strip()
    shown = text[: 4 * limit]
    # Most text is: patterns are for the rest. Breaks and tabs are never printable.
    if not shown.isprintable():
        shown = _BREAKS.sub(" ⏎ ", shown).replace("\t", " ")
    if not (shown.isascii() and shown.isprintable()):
        shown = _visible(shown)
    shown = " ".join(shown.split())
    if "::" in shown:
        shown = _COMMAND.sub(r"\1: ", shown)
    shown = shown.replace("##[", "# #[")
    if len(shown) > limit or len(text) > 4 * limit:
        shown = f"{shown[:limit]} … ({len(text):,} characters)"
    return shown


def short_line(text: str, limit: int = 100) -> str:
    """Return text as one printable line of at most `limit` characters, cut after a word, with an ellipsis."""
    # Twice the room: what is cut is cut here, and not told by the number of characters.
    shown = one_line(text[: 8 * limit], 2 * limit)
    if len(shown) <= limit:
        return shown
    head = shown[: limit - 1]
    words, _, _ = head.rpartition(" ")
    return f"{(words if len(words) > limit // 2 else head).rstrip(' ,;:')}…"


def lines_of(text: str, limit: int = 2000, *, wrapped: bool = False) -> str:
    """Return text in lines, at most `limit` characters of it, cut with the number of characters omitted.

    Hidden characters disappear; tabs and spaces stay. What GitHub's runner would read as a command in a log (`##[`,
    and `::` at the start of a line) is taken apart. `wrapped` breaks lines of more than 110 characters at spaces, for
    places that do not wrap.
    """
    shown = text[:limit]
    if not shown.isprintable() or not shown.isascii():
        shown = _visible(_BREAKS.sub("\n", shown))
    if wrapped:
        shown = _LONG.sub(r"\1\n", shown)
    if "::" in shown:
        shown = _COMMAND.sub(r"\1: ", shown)
    shown = shown.replace("##[", "# #[")
    return f"{shown}\n… ({len(text):,} characters)" if len(text) > limit else shown


def excerpt(text: str, limit: int = 200) -> str:
    """Return the beginning of hostile text as one printable line of at most `limit` characters, `…` where cut."""
    line = _UNPRINTABLE.sub(" ", text[: 4 * limit]).strip()
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[:limit]}…"


def _visible(text: str) -> str:
    shown = _HIDDEN.sub("", text)
    return _HIDDEN_ASTRAL.sub("", shown) if _ASTRAL.search(shown) else shown


MARK = "…"
MARGIN = 4096
"""Bytes beside a cut that are searched for secrets and never shown: a secret that lies across the cut ends in them."""


def cut(text: str, limit: int) -> str:
    """Return a text, or its first `limit` characters and a mark."""
    return text if len(text) <= limit else f"{text[:limit]}{MARK}"


def whole(text: str, limit: int) -> str:
    """Return text as one printable line, or how long it is if it has more than `limit` characters.

    For names in messages that are made where no secret is known: a piece of a secret would not be found any more.
    """
    return excerpt(text, limit) if len(text) <= limit else f"({len(text):,} characters)"


def cut_before(text: str, limit: int) -> str:
    """Return a text, or a mark and its last `limit` characters."""
    return text if len(text) <= limit else f"{MARK}{text[-limit:]}"


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def storable_text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD; everything else stays."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def storable(value: Any) -> Any:
    """Return a JSON value with the same done to every text in it, keys included."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable_text(key): storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value


def visible(text: str) -> str:
    """Return a part of a line with a sign in the place of each hidden character and tab, so that columns stay.

    What GitHub's runner would read as a command anywhere in a line is taken apart.
    """
    shown = text.replace("\t", "→")
    for hidden in (_HIDDEN, _HIDDEN_ASTRAL, _BREAKS):
        shown = hidden.sub(lambda match: "�" * len(match[0]), shown)
    return shown.replace("##[", "##⟦")
