"""The spellings of a secret: escaped, encoded, as a part of a URL or of an id."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from holodeck_action.text.credentials import SHORTEST_PART
from holodeck_action.text.key_prefixes import prefix_of
from holodeck_action.text.randomness import ngram_starts, width_of
from holodeck_action.text.views import bare, plain
from holodeck_action.text.windows import Value

_URL_SAFE = str.maketrans("+/", "-_")


def unencoded_forms(secret: str) -> Iterator[str]:
    """Yield the spellings of a secret that are not encoded: unchanged, as a slug, and escaped."""
    yield from escaped_forms(secret)
    if any(map(str.isspace, secret)):
        # As in form data of a browser.
        yield from (secret.replace(" ", "+"), re.sub(r"\s", "+", secret))
    if any(sign in secret for sign in "\\%&+"):
        import html

        yield from (html.escape(secret), quote(secret, safe="", errors="surrogatepass"))
        yield from (quote(secret, errors="surrogatepass"), quote_plus(secret, errors="surrogatepass"))
    slug = slug_of(secret)
    if len(slug) >= SHORTEST_PART:
        yield slug


def encodings(secret: str) -> Iterator[str]:
    """Yield the encodings of a secret in base64, also of UTF-16, in hexadecimal, and as a list of bytes."""
    data = secret.encode("utf-8", "surrogatepass")
    if len(data) >= SHORTEST_PART:
        yield from _base64_forms(data)
        yield from _base64_forms(_wide_characters(secret))
        yield data.hex()
        for separator in (",", ""):
            yield separator.join(map(str, data))
            yield separator.join(f"0x{byte:02x}" for byte in data)


def random_values(secret: str) -> Iterator[Value]:
    """Yield a random secret and its encodings as values to search for; nothing if it is not random.

    Parts of nine base64 characters are searched for: eight characters of a secret become at least eleven base64
    characters, of which the first and the last may depend on the text next to the secret.
    """
    width = width_of(secret)
    if width is None:
        return
    yield Value(bare(secret), width, tuple(ngram_starts(secret, width)))
    data = secret.removeprefix(prefix_of(secret)).encode("utf-8", "surrogatepass")
    written = [(form, width * 4 // 3 - 1) for form in dict.fromkeys(map(bare, _base64_forms(data)))]
    wide_data = _wide_characters(secret.removeprefix(prefix_of(secret)))
    written += [(form, width * 8 // 3 - 1) for form in dict.fromkeys(map(bare, _base64_forms(wide_data)))]
    # Of a list of bytes, each number has two or three digits.
    written += [("".join(map(str, data)), 2 * width), ("".join(f"0x{byte:02x}" for byte in data), 4 * width)]
    for form, wide in (*written, (data.hex(), 2 * width)):
        yield Value(form, wide, tuple(range(len(form) - wide + 1)))


def escaped_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and escaped as in JSON and in Python."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]


def slug_of(secret: str) -> str:
    """Return a secret as it appears in a case id: as a slug."""
    return re.sub(r"[^0-9a-z]+", "-", plain(secret)).strip("-")


def _wide_characters(secret: str) -> bytes:
    """Return a secret in UTF-16 without its last byte, as it is in both orders of bytes."""
    return secret.encode("utf-16-le", "surrogatepass")[:-1]


def _base64_forms(secret: bytes) -> Iterator[str]:
    """Yield the base64 forms of a secret, alone or inside a longer text.

    Base64 encodes three bytes as four characters. A secret therefore has three forms, depending on its position in the
    encoded text. Characters that also depend on the text next to the secret are omitted.
    """
    for before, start in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(bytes(before) + secret).decode()[start : (before + len(secret)) * 8 // 6]
        yield text
        yield text.translate(_URL_SAFE)
