"""What a key looks like: the forms in which secrets are recognised without being declared.

Masking of traces, excerpts, messages, plans and names of folders, and the redactor for all that it shows, use these
forms (see `redaction.Redactor`). The search is linear: each pattern begins where no character before it could be part
of the match, and is bounded or consumes what it has read.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec import Struct

from holodeck_action.text.credentials import SHORTEST_TOKEN
from holodeck_action.text.key_prefixes import KEY_PREFIXES
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.named_values import SCHEMES, is_placeholder, named_spans
from holodeck_action.text.randomness import is_random

Spans = Iterator[tuple[int, int]]


class KeyForm(Struct, frozen=True):
    """A form of keys.

    Attributes:
        name: what such a key is, for docs/security.md.
        known_by: by what it is recognised.
        example: a text with an invented key of the form.
        key: the key in the example.
        find: yields the (start, end) of each key of the form in a text.
    """

    name: str
    known_by: str
    example: str
    key: str
    find: Callable[[str], Spans]


_SIGNS = tuple(dict.fromkeys(sign for each in KEY_PREFIXES for sign in each.signs))
_PREFIXED = lazy_pattern(f"(?<![A-Za-z0-9\\\\])(?:{'|'.join(f'{each.pattern}{each.rest}' for each in KEY_PREFIXES)})")
_GAP = r"(?:\s|\\[nr]|[\"'+,])*+"
_PEM = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"{_GAP}(?P<body>(?:[^-]|-(?!----))*+(?=-----END )|(?:[A-Za-z0-9+/=]{{16,}}+{_GAP})+)"
)
_JWT = lazy_pattern(r"(?<![\w\\-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+){1,3}")
_SCHEME = lazy_pattern(
    rf"(?<![A-Za-z0-9\\-])(?:{'|'.join(SCHEMES)})[ \t]{{1,4}}([A-Za-z0-9._~+/-]{{8,2000}}+={{0,2}})", re.IGNORECASE
)
_SCHEMES = tuple(scheme.lower() + " " for scheme in SCHEMES)
# A path has one slash of an address.
_USERINFO = lazy_pattern(r":/{1,2}+([^\s/?#\"'<>\\@]{1,2000}+(?:@[^\s/?#\"'<>\\@]{1,2000}+)?)(?=@)")
_RUN = lazy_pattern(r"(?<![A-Za-z0-9+/_=\\-])[A-Za-z0-9+/_-]{32,201}+={0,2}(?![A-Za-z0-9+/_=-])")
_LONGEST_RANDOM = 200
"""A longer run of letters and digits is data, such as a picture in base64."""
_LEAST_CHANGES, _LEAST_DIGITS = 0.4, 2
"""Minimum share of neighbours that are of different kinds (capitals, small letters, digits), and minimum digits."""
_WORD_FIRST = lazy_pattern(r"[a-z]{2,12}[-_]|sha[0-9]{1,3}-|.*/.*/.*/")
_DATA_ABOVE = lazy_pattern(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,300}$|-----$")
_LINE_OF_DATA = lazy_pattern(r"[^\S\n]*\n[^\S\n]*[A-Za-z0-9+/]{24,}")


def find_keys(text: str) -> Spans:
    """Yield the (start, end) of each key of a known form in a text, in any order; spans may overlap."""
    if len(text) >= _SHORTEST_TEXT:
        for form in KEY_FORMS:
            yield from form.find(text)


def _prefixed_spans(text: str) -> Spans:
    if any(sign in text for sign in _SIGNS):
        yield from (match.span() for match in _PREFIXED.finditer(text) if _looks_drawn(match[0]))


def _looks_drawn(key: str) -> bool:
    """Return whether a key with a provider's prefix is no identifier of words, such as `sk-learn-pipeline-step`."""
    return any(map(str.isdigit, key.partition("-" if "-" in key else "_")[2] or key)) and is_random(key)


def _pem_spans(text: str) -> Spans:
    if "-----BEGIN " in text:
        for match in _PEM.finditer(text):
            body = match["body"].rstrip().removesuffix("\\n")
            if len(body) >= _SHORTEST_TEXT:
                yield match.start("body"), match.start("body") + len(body)


def _token_spans(text: str) -> Spans:
    return (match.span() for match in _JWT.finditer(text)) if "eyJ" in text else iter(())


def _scheme_spans(text: str) -> Spans:
    lower = text.lower()
    if any(scheme in lower for scheme in _SCHEMES):
        for match in _SCHEME.finditer(text):
            if is_random(match[1]) or _decoded(match[1]).count(":") == 1:
                yield match.span(1)


def _userinfo_spans(text: str) -> Spans:
    if ":/" in text and "@" in text:
        for match in _USERINFO.finditer(text):
            user, colon, password = match[1].partition(":")
            is_pair = bool(colon and password) and password != user and not is_placeholder(password)
            if is_pair or (not colon and len(user) >= SHORTEST_TOKEN and not is_placeholder(user)):
                yield match.span(1)


def _random_spans(text: str) -> Spans:
    if len(text) < 32 or max(map(len, text.split()), default=0) < 32:
        return
    for match in _RUN.finditer(text):
        value = match[0]
        # Most are digests, or lines of data.
        if value.lower() != value and not _is_line_of_data(text, *match.span()) and _is_random_value(value):
            yield match.span()


def _is_random_value(value: str) -> bool:
    if len(value) > _LONGEST_RANDOM or _WORD_FIRST.match(value) or not is_random(value):
        return False
    kinds = [1 if sign.isupper() else 2 if sign.islower() else 3 if sign.isdigit() else 4 for sign in value.rstrip("=")]
    if not {1, 2, 3} <= set(kinds) or kinds.count(3) < _LEAST_DIGITS:
        return False
    changes = sum(left != right for left, right in pairwise(kinds))
    return changes >= _LEAST_CHANGES * len(kinds) and not _decoded(value)


def _is_line_of_data(text: str, start: int, end: int) -> bool:
    """Return whether a run of letters and digits is one of several lines of base64."""
    above = text[max(0, start - 300) : start].rstrip(" \t")
    is_below = above.endswith("\n") and _DATA_ABOVE.search(above.rstrip()) is not None
    return is_below or _LINE_OF_DATA.match(text, end) is not None


def _decoded(value: str) -> str:
    """Return the text that a value encodes in base64; empty if it encodes none."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return text if text.replace("\n", " ").isprintable() else ""


_SHORTEST_TEXT = 8
_VALUE = "vR3!nTz8kC_5wYb2Qe7"
_BLOCK = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCWd4Jx9Tb2Kq7Rv5"
_SIGNED = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0NzExIn0.Wd4Jx9Tb2Kq7Rv5Mf8Hc3Ly6Pg1Zn0"
KEY_FORMS = (
    KeyForm(
        "key with the prefix of its provider",
        "the prefix, and letters and digits that do not form words",
        f"it is {KEY_PREFIXES[0].example}.",
        KEY_PREFIXES[0].example,
        _prefixed_spans,
    ),
    KeyForm(
        "private key",
        "`BEGIN … PRIVATE KEY`, to its end",
        f"-----BEGIN PRIVATE KEY-----\n{_BLOCK}\n-----END PRIVATE KEY-----",
        _BLOCK,
        _pem_spans,
    ),
    KeyForm(
        "signed token (JWT)", "three parts in base64, the first beginning with `eyJ`", _SIGNED, _SIGNED, _token_spans
    ),
    KeyForm(
        "credentials of a header",
        "`Bearer`, `Basic`, `Token` and the like before a random value",
        "it sent Bearer Wd4Jx9Tb2Kq7Rv5Mf8Hc",
        "Wd4Jx9Tb2Kq7Rv5Mf8Hc",
        _scheme_spans,
    ),
    KeyForm(
        "user and password of an address",
        "`scheme://user:password@`; not `postgres:postgres`",
        f"postgresql://shop:{_VALUE}@db.example/shop",
        _VALUE,
        _userinfo_spans,
    ),
    KeyForm(
        "value with the name of a secret",
        "a word such as `password`, `secret`, `api_key` before `:` or `=`; after `key`, `token` and others only a "
        "random value that is not a digest",
        f"db_password: {_VALUE}",
        _VALUE,
        named_spans,
    ),
    KeyForm(
        "random value",
        "32 to 200 letters and digits, capitals and small ones mixed, that do not form words and are not a hexadecimal "
        "digest, an id with a word before it, or lines of data",
        "it is Wd4Jx9Tb2Kq7Rv5Mf8Hc3Ly6Pg1Zn0Su5Ea.",
        "Wd4Jx9Tb2Kq7Rv5Mf8Hc3Ly6Pg1Zn0Su5Ea",
        _random_spans,
    ),
)
"""The forms, in the order of the table in docs/security.md."""
