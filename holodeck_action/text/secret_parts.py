"""The parts of a secret to mask separately: values in a URL, a connection string, JSON, a key file or a header.

A text that repeats only the password of a URL still reveals the secret. The names, schemes, hosts and header lines
around the password also occur in harmless texts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Any

from holodeck_action.text.credentials import SHORTEST_PART, credentials_in, url_credentials, user_credentials
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.key_prefixes import prefix_of
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.randomness import is_random
from holodeck_action.text.secrets import is_harmless, is_secret_name

SHORTEST = 4
"""Minimum characters of a masked value; shorter values occur too often in harmless texts."""
_DEPTH = 4
"""Maximum depth of splitting: a URL in a connection string in JSON needs three levels."""

_SCHEME = lazy_pattern(
    r"(?:Bearer|Basic|Token|ApiKey|Api-Key|Bot|Digest|Negotiate|SharedAccessSignature)\s+", re.IGNORECASE
)
_PEM = lazy_pattern(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)(?:-----END |\Z)", re.DOTALL)
_PUBLIC = ("PUBLIC KEY", "CERTIFICATE", "CERTIFICATE REQUEST", "X509 CRL", "DH PARAMETERS", "EC PARAMETERS")
_JWT = lazy_pattern(r"(eyJ[\w-]{8,})\.([\w-]{8,})\.([\w-]{8,})")
_HEADER = lazy_pattern(r"[A-Za-z][A-Za-z-]{1,40}:[ \t]+(\S.{7,})")
_PAIR = lazy_pattern(r"\s*(?:export\s+)?([A-Za-z_][\w .-]{0,40})=(.*)", re.DOTALL)
_SECRET_ENDING = lazy_pattern(r"(?i)^[a-z_ .-]{0,30}(?:key|token|secret|password|passwd|pwd|sig|signature|pass|auth)$")
"""Endings of names by which a single `name=value` pair is recognised. Without such an ending, the equals sign may be
part of a random text."""
_SEPARATORS = (";", "\n", "&", ",", None)


def secret_parts(secret: str) -> frozenset[str]:
    """Return the parts of a secret to mask separately, such as the password in a URL; the secret itself if it has no
    parts.

    Values shorter than `SHORTEST` are omitted.
    """
    whole = secret.strip()
    return frozenset(part for part in _split(whole, _DEPTH) if len(part) >= SHORTEST)


def _split(text: str, depth: int) -> Iterator[str]:
    """Yield the secret parts of a string; the string itself if it has none."""
    found = list(dict.fromkeys(_values(text, depth))) if depth and len(text) >= SHORTEST_PART else []
    yield from found or (text,)


def _values(text: str, depth: int) -> Iterator[str]:
    if prefix_of(text):
        return
    scheme = _SCHEME.match(text)
    if scheme is not None and len(text) - scheme.end() >= SHORTEST_PART:
        credential = text[scheme.end() :]
        yield from _split(credential, depth - 1)
        if scheme[0].strip().lower() == "basic":
            yield from user_credentials(_decode(credential))
    elif text[0] in "{[":
        yield from _setting_values(tuple(_leaves("", _parse_json_or_none(text))), depth)
    elif "-----BEGIN " in text:
        yield from _key_file_parts(text)
    elif (token := _JWT.fullmatch(text)) is not None:
        # The parts before the signature are common to many tokens, and useless without it.
        yield token[3]
    elif (of_url := url_credentials(text)) is not None:
        yield from of_url
    elif (header := _HEADER.fullmatch(text)) is not None:
        yield from _split(header[1], depth - 1)
    elif "=" in text:
        yield from _setting_values(_parse_settings(text), depth)
    elif "\n" in text:
        yield from (line.strip() for line in text.splitlines() if len(line.strip()) >= SHORTEST_PART)
        yield text
    else:
        yield from credentials_in(text)


def _setting_values(settings: Sequence[tuple[str, str]], depth: int) -> Iterator[str]:
    """Yield each value that is random or whose setting has a name such as `password`; if there are none, every value
    that may be secret.
    """
    told = [value for name, value in settings if _is_secret(name) and len(value) >= SHORTEST]
    told += [value for name, value in settings if not _is_secret(name) and is_random(value)]
    for value in told or [value for _, value in settings if len(value) >= SHORTEST_PART]:
        if not is_harmless(value):
            yield from _split(value, depth - 1)


def _parse_json_or_none(text: str) -> Any:
    try:
        return parse_json(text, constants=True)
    except ValueError:
        return None


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield (key, string) for each string in a JSON value."""
    if isinstance(value, str):
        yield name, value.strip()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(key, item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)


def _key_file_parts(text: str) -> Iterator[str]:
    for title, body in _PEM.findall(text.replace("\\n", "\n").replace("\\r", "")):
        lines = [line.strip() for line in body.splitlines()]
        letters = [line for line in lines if line and ":" not in line]
        if title not in _PUBLIC and letters:
            yield "".join(letters)
            yield from (line for line in letters if len(line) >= SHORTEST_PART)


def _parse_settings(text: str) -> list[tuple[str, str]]:
    """Return the `name=value` pairs of a string; empty if its equals signs have another meaning."""
    for separator in _SEPARATORS:
        pieces = text.split(separator) if separator else [text]
        pieces = [piece for piece in pieces if piece.strip() and not piece.lstrip().startswith("#")]
        pairs = [match for piece in pieces if (match := _PAIR.fullmatch(piece)) is not None]
        settings = [(pair[1], pair[2].strip().strip("\"'")) for pair in pairs]
        if any(is_random(name) for name, _ in settings):
            continue
        if len(pairs) > 1 and separator in (";", "\n") and len(pairs) >= len(pieces) - 2:
            return settings
        if len(pairs) == len(pieces) and any(_SECRET_ENDING.search(name) and _is_secret(name) for name, _ in settings):
            return settings
    return []


def _is_secret(name: str) -> bool:
    # Some words mark a secret only after another word; as the name of a setting they do, too.
    return is_secret_name(f"setting {name}")


def _decode(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
