"""Finds credentials in URLs and in `name=value` settings, also inside longer strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.randomness import is_random

SHORTEST_PART = 8
"""Minimum number of characters of a part of a secret, such as a line of a key file, that is masked on its own."""
SHORTEST_TOKEN = 20
"""Minimum number of characters of a part of a URL that counts as a token."""

_USERINFO = lazy_pattern(r"[a-z][a-z0-9+.-]{1,30}://([^\s/?#\"'<>]{1,2000})@", re.IGNORECASE)
_URL = lazy_pattern(r"[a-z][a-z0-9+.-]{1,30}://[^\s\"'<>]+", re.IGNORECASE)
_SETTING = lazy_pattern(
    r"(?:password|passwd|pwd|accountkey|sharedaccesskey|secret|token|signature|sig)=([^;&\s\"']+)", re.I
)


def credentials_in(text: str) -> Iterator[str]:
    """Yield the credentials in a string: user and password of URLs, and values of settings such as `AccountKey=…`."""
    if "://" in text and "@" in text:
        for userinfo in _USERINFO.findall(text):
            if ":" in userinfo:
                yield from user_credentials(userinfo)
            elif len(userinfo) >= SHORTEST_TOKEN:
                yield userinfo
    if "=" in text:
        yield from (value for value in _SETTING.findall(text) if len(value) >= SHORTEST_PART)


def url_credentials(text: str) -> tuple[str, ...] | None:
    """Return the credentials in a URL: user and password, secret settings, and random values in query, path and
    fragment.

    Return None if the string is not a URL.
    """
    if _URL.fullmatch(text) is None:
        return None
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    found = list(credentials_in(text))
    values = (pair.partition("=")[2] for pair in url.query.split("&"))
    found += filter(_is_token, (*values, *url.path.split("/"), url.fragment))
    return tuple(dict.fromkeys(each for part in found for each in (part, unquote(part))))


def _is_token(text: str) -> bool:
    return len(text) >= SHORTEST_TOKEN and is_random(unquote(text))


def user_credentials(userinfo: str) -> Iterator[str]:
    """Yield `user:password` and the password, each as written and percent-decoded; nothing if user and password are
    equal."""
    user, colon, password = userinfo.partition(":")
    # Defaults of local services, `postgres:postgres`, are words of innocent texts.
    if not colon or not password or password == user:
        return
    for text in dict.fromkeys((userinfo, unquote(userinfo), password, unquote(password))):
        if len(text) >= SHORTEST_PART:
            yield text
