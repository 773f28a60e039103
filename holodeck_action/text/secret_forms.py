"""How a secret may be written: escaped, encoded, as a part of an address or of an id."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from holodeck_action.text.credentials import SHORTEST_PART
from holodeck_action.text.randomness import prefix_of, rows, width_of
from holodeck_action.text.views import bare, plain
from holodeck_action.text.windows import Value

_URL_SAFE = str.maketrans("+/", "-_")


def forms(secret: str) -> Iterator[str]:
    """Yield how a secret may be written: as it is, as a slug, and escaped, where it holds escapes itself."""
    yield from escaped(secret)
    if any(map(str.isspace, secret)):
        # As the fields of a form that a browser sends.
        yield from (secret.replace(" ", "+"), re.sub(r"\s", "+", secret))
    if any(sign in secret for sign in "\\%&+"):
        yield from (html.escape(secret), quote(secret, safe="", errors="surrogatepass"))
        yield from (quote(secret, errors="surrogatepass"), quote_plus(secret, errors="surrogatepass"))
    slug = slug_of(secret)
    if len(slug) >= SHORTEST_PART:
        yield slug


def encodings(secret: str) -> Iterator[str]:
    """Yield a secret in base64 and in hex."""
    data = secret.encode("utf-8", "surrogatepass")
    if len(data) >= SHORTEST_PART:
        yield from _base64_forms(data)
        yield data.hex()


def values_of(secret: str) -> Iterator[Value]:
    """Yield a random secret with its encodings, of which so much makes it known as of the secret itself; else nothing.

    Eight characters of a secret need at least eleven of base64; of these, the first and the last may depend on what
    stands beside the secret.
    """
    width = width_of(secret)
    if width is None:
        return
    yield Value(bare(secret), width, tuple(rows(secret, width)))
    data = secret.removeprefix(prefix_of(secret)).encode("utf-8", "surrogatepass")
    written = [(form, width * 4 // 3 - 1) for form in dict.fromkeys(map(bare, _base64_forms(data)))]
    for form, wide in (*written, (data.hex(), 2 * width)):
        yield Value(form, wide, tuple(range(len(form) - wide + 1)))


def escaped(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as it stands in JSON and in Python."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]


def slug_of(secret: str) -> str:
    """Return a secret as an id holds it."""
    return re.sub(r"[^0-9a-z]+", "-", plain(secret)).strip("-")


def _base64_forms(secret: bytes) -> Iterator[str]:
    """Yield how a secret stands in base64, alone or inside of something longer.

    Three bytes become four characters, so there are three ways, by where the secret begins. Of each, those characters
    are taken that depend on nothing else.
    """
    for before, start in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(bytes(before) + secret).decode()[start : (before + len(secret)) * 8 // 6]
        yield text
        yield text.translate(_URL_SAFE)
