"""Which texts are secrets: by the name of their variable, and the secret parts of longer ones.

A password is written in many places where no name tells of it: in the address of a database, behind the scheme of a
header, in a connection string. Whoever repeats that part alone repeats the secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

SHORTEST = 4
"""Characters; a shorter value stands in too much innocent text to be hidden."""
SHORTEST_PART = 8
"""Characters of a part of a secret, such as a line of a key file, that is hidden on its own."""
SHORTEST_USER = 20
"""Characters of the user in a URL without a password that is taken for a token."""

# `_PAT` and the like only behind something: PATH, COMPASS and the shell's own PWD and OLDPWD are none.
_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIALS?|AUTH|CONN(?:ECTION)?[_-]?STR(?:ING)?|WEBHOOK"
    r"|WEBHOOK[_-]URL|(?<![A-Z])(?:DSN|JWT|PASS|PAT|SAS)|[_-](?:PWD|COOKIE|PEM))(?:[_-]?[0-9]{1,3})?$",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"[a-z][a-z0-9+.-]{1,30}://([^\s/?#\"'<>]{1,2000})@", re.IGNORECASE)
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|ApiKey|Api-Key|Bot|Digest|Negotiate|SharedAccessSignature)\s+", re.IGNORECASE
)
_SETTING = re.compile(
    r"(?:password|passwd|pwd|accountkey|sharedaccesskey|secret|token|signature|sig)=([^;&\s\"']+)", re.I
)


def environment_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables whose names say that they are secret, and the secret parts of all others.

    Names such as `OPENAI_API_KEY`, `DEPLOY_KEY_2`, `GH_PAT`, `DB_PWD` and `SENTRY_DSN` say so; a secret part is the
    password in an address, whatever its variable is called.
    """
    found: set[str] = set()
    for name, value in environ.items():
        if len(value) >= SHORTEST_PART and _SECRET_NAME.search(name):
            found.add(value)
        else:
            found.update(credentials_in(value))
    return frozenset(found)


def parts(secret: str) -> Iterator[str]:
    """Yield a secret and what of it is one alone: what follows a header's scheme, passwords of addresses."""
    whole = secret.strip()
    if len(whole) < SHORTEST:
        return
    yield whole
    scheme = _SCHEME.match(whole)
    if scheme is not None:
        credential = whole[scheme.end() :]
        if len(credential) >= SHORTEST_PART:
            yield credential
        if scheme[0].strip().lower() == "basic":
            yield from _pair(_decoded(credential))
    yield from credentials_in(whole)


def credentials_in(text: str) -> Iterator[str]:
    """Yield what a longer text holds of credentials: of URLs, and of settings such as `AccountKey=…`."""
    if "://" in text and "@" in text:
        for userinfo in _USERINFO.findall(text):
            if ":" in userinfo:
                yield from _pair(userinfo)
            elif len(userinfo) >= SHORTEST_USER:
                yield userinfo
    if "=" in text:
        yield from (value for value in _SETTING.findall(text) if len(value) >= SHORTEST_PART)


def _pair(userinfo: str) -> Iterator[str]:
    user, colon, password = userinfo.partition(":")
    # Defaults of local services, `postgres:postgres`, are words of innocent texts.
    if not colon or not password or password == user:
        return
    for text in dict.fromkeys((userinfo, unquote(userinfo), password, unquote(password))):
        if len(text) >= SHORTEST_PART:
            yield text


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
