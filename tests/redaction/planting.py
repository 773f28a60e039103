"""Secrets as hostile texts write them, and where a piece of one is still to be read."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

from holodeck_action.text.key_forms import KEY_FORMS
from holodeck_action.text.key_prefixes import KEY_PREFIXES
from tests.redaction.writers import left, rows_of

INVISIBLE = (
    "\u200b",  # zero width space
    "\u200d",  # zero width joiner
    "\u00ad",  # soft hyphen
    "\u2060",  # word joiner
    "\ufeff",  # byte order mark
    "\u202e",  # right to left
    "\u2066",
    "\u034f",  # grapheme joiner
    "\ufe0f",  # variation selector
    "\U000e0100",
    "\U000e0041",  # tag letter
    "\ue000",  # private use
    "\U000f0000",
    "\u3164",  # Hangul filler
    "\x00",
    "\x1b",
    "\x7f",
    "\ud800",
    "\u0301",  # accent
)


def spread(separator: str, every: int = 1) -> Callable[[str], str]:
    """Return what puts a separator behind every few characters."""
    return lambda text: separator.join(text[at : at + every] for at in range(0, len(text), every))


def wrapped(columns: int, line_end: str) -> Callable[[str], str]:
    """Return what writes base64 in lines, as mail and key files do; what stands before it moves its letters."""

    def written(text: str) -> str:
        letters = base64.b64encode(b"user:" + text.encode() + b" and more").decode()
        return spread(line_end, columns)(letters)

    return written


def wide(text: str) -> str:
    """Letters, digits and signs of double width, which NFKC makes plain ones."""
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)


def numeric(text: str) -> str:
    return "".join(f"&#{ord(each)};" for each in text)


def percent(text: str) -> str:
    return "".join(f"%{each:02x}" for each in text.encode())


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "wide": wide,
    "json": lambda text: json.dumps(text)[1:-1],
    "json slash": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json twice": lambda text: json.dumps(json.dumps(text))[1:-1],
    "json \\u": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "json \\u, twice": lambda text: "".join(f"\\\\u{ord(each):04X}" for each in text),
    "python": lambda text: repr(text)[1:-1],
    "hex escapes": lambda text: "".join(ascii(each)[1:-1] if each > "~" else f"\\x{ord(each):02x}" for each in text),
    "html": html.escape,
    "html, numbers of quotes": lambda text: html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "html, names": lambda text: html.escape(text).replace("&#x27;", "&apos;"),
    "html, all numbers": numeric,
    "html, hexadecimal": lambda text: "".join(f"&#x{ord(each):X};" for each in text),
    "url": lambda text: quote(text, safe=""),
    "url, every letter": lambda text: percent(text).upper(),
    "url, small": lambda text: percent(text),
    "url, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "form": quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, inside": wrapped(10_000, ""),
    "base64, 76": wrapped(76, "\n"),
    "base64, 64, CRLF": wrapped(64, "\r\n"),
    "base64, 20 in JSON": lambda text: json.dumps(wrapped(20, "\n")(text))[1:-1],
    "base64url": lambda text: base64.urlsafe_b64encode(b"?>" + text.encode()).decode(),
    "base64 in a URL": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 of UTF-16, little-endian": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "base64 of UTF-16, big-endian, inside": lambda text: base64.b64encode(f"x {text} y".encode("utf-16-be")).decode(),
    "hex": lambda text: text.encode().hex(),
    "list of bytes": lambda text: str(list(text.encode())),
    "list of bytes, hexadecimal": lambda text: ", ".join(f"0x{each:02X}" for each in text.encode()),
    "bytes on lines": lambda text: "\n".join(map(str, text.encode())),
    "CSS": lambda text: "".join(f"\\{ord(each):06x}" for each in text),
    "CSS, short": lambda text: "".join(f"\\{ord(each):x} " for each in text),
    "html, zeros": lambda text: "".join(f"&#0000000{ord(each)};" for each in text),
    "html, hexadecimal zeros": lambda text: "".join(f"&#x000000000{ord(each):x};" for each in text),
    "lines": spread("\n", 11),
    "U+0085": spread("\x85", 11),
    **{f"U+{ord(each):04X}": spread(each) for each in INVISIBLE},
    "escaped U+200B": lambda text: json.dumps(spread("\u200b")(text))[1:-1],
    "entity U+200B": spread("&#8203;"),
    "wide with U+2060": lambda text: spread("\u2060", 3)(wide(text)),
}
"""Ways in which a text may write a secret, by name."""


def pieces_of(secret: str) -> set[str]:
    """Return the rows of a random secret, and its words in base64, in hex and percent-encoded."""
    data = secret.encode()
    pieces: set[str] = set()
    # Eight characters of the secret are 10 of base64 and at least 16 of the others.
    for before in range(3):
        letters = base64.b64encode(bytes(before) + data).decode().casefold()
        letters = letters[-(-before * 8 // 6) + (before > 0) : (before + len(data)) * 8 // 6]
        pieces |= {letters[at : at + 12] for at in range(len(letters) - 11)}
    for write in (bytes.hex, lambda some: "".join(f"%{each:02x}" for each in some)):
        pieces |= {write(data[at : at + 8]) for at in range(len(data) - 7)}
    return rows_of(secret, 8) | {"".join(filter(str.isalnum, piece)) for piece in pieces}


def leaked(text: str, pieces: Iterable[str]) -> list[str]:
    """Return the pieces that a text still shows."""
    return left(text, pieces)


KEYS = {
    **{form.name: (form.example, form.key) for form in KEY_FORMS},
    **{
        key.example: (f"https://hooks.slack.com/services/{key.example}", key.example)
        if "hooks" in key.pattern
        else (key.example, key.example)
        for key in KEY_PREFIXES
    },
}
"""A text with a key of each form that is recognised without a declaration, and the key, by the form."""
UNDECLARED = "\n".join(text for text, _ in KEYS.values())
ON_ONE_LINE = " and ".join(text.replace("\n", "\\n") for text, _ in KEYS.values())


def undeclared_pieces() -> set[str]:
    """Return the rows of 12 letters and digits of all these keys, without what many keys share."""
    shared = rows_of("eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiI0NzExIn0", 12) | rows_of("pypi-AgEIcHlwaS5vcmc", 12)
    return {row for _, key in KEYS.values() for row in rows_of(key, 12)} - shared
