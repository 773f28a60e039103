"""Detection of variables that hold secrets, by the words of their names and by their values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from urllib.parse import unquote

from holodeck_action.text.credentials import SHORTEST_PART, credentials_in, url_credentials
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.words import words_in

# Words of a name: capitals, a capital with small letters, or digits, whatever separates them.
_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET_WORDS = _word_set(
    "APIKEY APIKEYS AUTH AUTHORIZATION BEARER CONNSTR COOKIE COOKIES CRED CREDENTIAL CREDENTIALS CREDS DSN JWT KEY "
    "KEYS MNEMONIC PASS PASSCODE PASSPHRASE PASSWD PASSWORD PASSWORDS PAT PEM PRIVATEKEY SALT SAS SECRET SECRETS SIG "
    "SIGNATURE TOKEN TOKENS WEBHOOK WEBHOOKS"
)
_ENDINGS = ("APIKEY", "ACCESSKEY", "ACCOUNTKEY", "PASSWORD", "PASSWD", "PRIVATEKEY", "SECRET", "SECRETKEY", "TOKEN")
"""Ends of names without separators, such as PGPASSWORD."""
SECRET_SIGNS = (
    *("auth", "bearer", "conn", "cookie", "cred", "dsn", "jwt", "key", "mnemonic", "pass", "pat", "pem", "pwd", "salt"),
    *("sas", "secret", "sig", "token", "webhook"),
)
"""Texts of which each secret name contains one, in lower case."""
_PAIRS = frozenset((("CONNECTION", "STRING"), ("CONN", "STRING"), ("CONN", "STR"), ("CONNECTION", "STR")))
_STRONG_WORDS = _word_set("PASSCODE PASSPHRASE AUTHORIZATION COOKIE PASSCODE PASSPHRASE PASSWD PASSWORD PWD SECRET")
_STRONG_ENDINGS = ("APIKEY", "ACCESSKEY", "ACCOUNTKEY", "PASSWORD", "PASSWD", "PRIVATEKEY", "SECRET", "SECRETKEY")
_STRONG_PAIRS = frozenset((kind, "KEY") for kind in ("API", "ACCESS", "ACCOUNT", "PRIVATE", "SECRET"))
"""Words and pairs of words that hardly ever name anything but a secret, unlike KEY and TOKEN."""
_DESCRIBING_WORDS = _word_set(
    "AGE ALG ALGO ALGORITHM ALGORITHMS ALLOWED AUDIENCE BACKEND BITS BUDGET CHECK CLASS COLUMN COLUMNS COUNT DIR "
    "DIRECTORY DISABLED DOMAIN ENABLED ENCODING ENDPOINT EVENT EXPIRATION EXPIRE EXPIRES EXPIRY FIELD FILE FILENAME "
    "FOLDER FORMAT HEADER HEADERS HELPER HINT HOST HOSTNAME INDEX INTERVAL ISSUER KIND LAYOUT LEN LENGTH LIFETIME "
    "LIMIT LIMITS MANAGER MAP MAX METHOD METHODS MIN MODE NAME NAMES OPTIONAL PATH PATTERN PER PLUGIN POLICY PORT "
    "PREFIX PROVIDER RATE REALM REGEX REGION REPEAT REQUIRED ROLE ROTATION SCHEME SCOPE SCOPES SERVER SERVICE SIZE "
    "SOCK SOCKET STORE STRATEGY SUFFIX TABLE THRESHOLD TIMEOUT TTL TYPE URI URL USAGE USER USERNAME VERSION"
)
"""Words that, after a secret word, mark the value as a mere description of the secret."""
_NEUTRAL_WORDS = {
    "KEY": _word_set(
        "ANSWER CACHE COMPOSITE FOREIGN GROUP HOT IDEMPOTENCY INDEX PARTITION PRIMARY PUBLIC ROUTING ROW SHORTCUT SORT "
        "UNIQUE"
    ),
    "TOKEN": _word_set(
        "BOS CACHED CLS COMPLETION CONTEXT EOS INPUT MASK MAX MIN NUM OUTPUT PAD PROMPT REASONING SEP STOP THINKING "
        "TOTAL UNK"
    ),
    "PASS": _word_set("MAX MIN NUM"),
    "PWD": _word_set("OLD"),
}
"""Words before a secret word that give it another meaning."""

_NUMBER = lazy_pattern(r"[+-]?[0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TRUTH = frozenset(("true", "false", "yes", "no", "on", "off", "none", "null", "enabled", "disabled"))
_PORT = "(?::[0-9]{1,5})?"
_HOST = lazy_pattern(rf"(?:[a-z0-9-]{{1,63}}\.){{1,8}}[a-z]{{2,24}}\.?{_PORT}|localhost{_PORT}")
_ADDRESS = lazy_pattern(rf"[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}{_PORT}|\[?[0-9a-f:]*::[0-9a-f:.]*\]?{_PORT}")
_LETTERS = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+")
_WORD_SHARE = 0.6
"""A value counts as one word if its longest word contains at least this proportion of the value's letters."""


def environment_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables with secret names, and the secret parts of all other values.

    A number, true or false, an existing path, a host, a URL without credentials or one word is not a secret, whatever
    the variable's name. A secret part is a password in a URL, or a header in an OpenTelemetry variable.
    """
    found: set[str] = set()
    for name, value in environ.items():
        if len(value) >= SHORTEST_PART and is_secret_name(name):
            if not is_harmless(value):
                found.add(value)
        else:
            found.update(credentials_in(value))
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("_HEADERS"):
            found |= header_secrets(pair.partition("=")[2].strip() for pair in value.split(","))
    return frozenset(found)


def header_secrets(values: Iterable[str]) -> frozenset[str]:
    """Return the secrets in header values: each value as written and percent-decoded, and each of its words of at least
    8 characters, such as the token after `Bearer`."""
    found = {form for value in values for form in (value, unquote(value)) if value}
    return frozenset(found | {word for value in found for word in value.split() if len(word) >= 8})


def is_secret_name(name: str) -> bool:
    """Return whether a name marks its value as secret.

    True for `OPENAI_API_KEY_EU`, `SECRET_PROD`, `PGPASSWORD` and `accessToken`; False for `MAX_TOKENS`, `AUTH_URL` and
    `PRIMARY_KEY_COLUMN`.
    """
    words = [word.upper() for word in _WORD.findall(name)]
    ends = [at + 1 for at, word in enumerate(words) if _names_secret(words[:at], word)]
    ends += [at + 2 for at, pair in enumerate(pairwise(words)) if pair in _PAIRS]
    if not ends:
        return False
    last = max(ends)
    allowed = {"URL"} if words[last - 1].startswith("WEBHOOK") else set()
    return _DESCRIBING_WORDS.isdisjoint(word for word in words[last:] if word not in allowed)


def names_credential(name: str) -> bool:
    """Return whether a secret name hardly ever names anything else: `db_password` and `apiKey`, but not `key`."""
    words = [word.upper() for word in _WORD.findall(name)]
    return any(word in _STRONG_WORDS or word.endswith(_STRONG_ENDINGS) for word in words) or any(
        pair in _STRONG_PAIRS for pair in pairwise(words)
    )


def _names_secret(words_before: Iterable[str], word: str) -> bool:
    stem = word.removesuffix("S") if word in ("KEYS", "TOKENS") else word
    if not _NEUTRAL_WORDS.get(stem, frozenset()).isdisjoint(words_before):
        return False
    if word == "PWD":
        return any(words_before)
    return word in _SECRET_WORDS or word.endswith(_ENDINGS)


def is_harmless(value: str) -> bool:
    """Return whether a value cannot be secret: a number, true or false, an existing path, a host, a plain URL, or one
    word."""
    text = value.strip()
    if text.lower() in _TRUTH or _NUMBER.fullmatch(text) or _is_host(text):
        return True
    if "://" in text:
        return "@" not in text and url_credentials(text) == ()
    if os.sep in text and all(map(_path_exists, text.split(os.pathsep))):
        return True
    return _is_one_word(text)


def _is_host(text: str) -> bool:
    if _ADDRESS.fullmatch(text):
        return True
    # A long label of letters and digits is a key in the form of a host.
    return _HOST.fullmatch(text) is not None and max(map(len, text.split("."))) < 40


def _path_exists(path: str) -> bool:
    try:
        return os.path.exists(os.path.expanduser(path))
    except ValueError:
        return False


def _is_one_word(text: str) -> bool:
    if _LETTERS.fullmatch(text) is None:
        return False
    longest = max((end - start for start, end in words_in(text.lower())), default=0)
    return longest >= _WORD_SHARE * len(text)
