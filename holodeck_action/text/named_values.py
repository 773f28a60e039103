"""Values that the word before a colon or an equals sign marks as a key, such as `api_key: …` and `--password=…`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.randomness import is_random
from holodeck_action.text.secrets import SECRET_SIGNS, is_harmless, is_secret_name, names_credential

_SHORTEST, _SHORTEST_NUMBER, _SHORTEST_RANDOM = 4, 6, 8
_LONGEST = 2_000
_LONGEST_RANDOM = 400
"""Maximum characters of a value that must be random to be a key."""
_SEPARATOR = lazy_pattern(r"(?:=>|:=|[:=])(?![=:/>])[ \t]{0,8}")
_BEFORE = 100
"""Number of characters before a separator in which its name is looked for."""
_NAME_BACKWARDS = lazy_pattern(r"""[ \t]{0,3}["'`*\\]{0,4}([\w.-]{1,61}(?:[ \t][A-Za-z]{2,20}(?![\w.-]))?)(\{\$)?""")
_OPTION = lazy_pattern(r"(?<![\w-])--(?P<name>[A-Za-z][\w-]{0,60})(?P<sign>=|[ \t]{1,3}(?=[^\s-]))")
SCHEMES = ("Bearer", "Basic", "Token", "ApiKey", "Api-Key", "Bot", "Digest", "Negotiate", "SharedAccessSignature")
"""Words before the credentials of a header."""
_SCHEME = lazy_pattern(rf"(?:{'|'.join(SCHEMES)})[ \t]{{1,4}}(?=\S)", re.IGNORECASE)
_QUOTED = lazy_pattern(
    rf'\\{{0,3}}(?:"(?P<double>(?:[^"\\\n]|\\[^"\n]){{1,{_LONGEST}}})|\'(?P<single>[^\'\n]{{1,{_LONGEST}}}))'
)
_PLAIN = lazy_pattern(r"[^\s\"'`\\;&<>|]++")
_TAIL, _LONGEST_TAIL = ".,:!?)]}*", 8
"""Characters after a plain value that end a sentence or close a bracket, and the most of them."""
_REFERENCE = lazy_pattern(
    r"[$%<{\[(*].*|.*[(\[{<…].*|.*\.\.\..*|[A-Z]*_[A-Z_]+|[A-Za-z_]+(?:[._:]{1,2}[A-Za-z_]+)+|(.)\1+|(?:your|my|some|not|no|dummy|example)\b.*",
    re.DOTALL,
)
"""Values that name, hide or describe a key: `${VAR}`, `<your key>`, `***`, `VARIABLE`, `config.api_key`, `xxxx`."""
_PATH = lazy_pattern(r"[~.\w]{0,20}/[\w./-]*")
_CONSTANTS = frozenset(("true", "false", "none", "null", "string", "required", "optional"))
_DIGEST = lazy_pattern(
    r"(?:sha[0-9]{1,3}[-:])?(?:[0-9A-Fa-f]{32,128}|[0-9a-f]{7,40})|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-.*"
)


def named_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each value that its name marks as a key."""
    at = plain_end = 0
    for name, begin, after, is_setting, least in _names(text):
        if begin < at:
            continue
        start, is_literal, quoted = _find_start(text, after)
        if quoted:
            end = quoted
        else:
            if start >= plain_end:
                plain = _PLAIN.match(text, start)
                plain_end = start if plain is None else plain.end()
            # A plain value inside of another one has the same end.
            tail = text[max(start, plain_end - _LONGEST_TAIL) : plain_end]
            end = plain_end - len(tail) + len(tail.rstrip(_TAIL))
        if _is_key(name, text[start : min(end, start + _LONGEST)], is_literal=is_literal or is_setting, least=least):
            yield start, end
            at = end


def _names(text: str) -> Iterator[tuple[str, int, int, bool, int]]:
    """Yield each name that marks its value as secret: the name, its start, the start of what follows the separator,
    whether the separator is an equals sign, and the minimum length of a value."""
    if ":" in text or "=" in text:
        lower = text.lower()
        if any(sign in lower for sign in SECRET_SIGNS):
            for match in _SEPARATOR.finditer(text):
                before = lower[max(0, match.start() - _BEFORE) : match.start()]
                if any(sign in before for sign in SECRET_SIGNS):
                    yield from _name_before(text, match)
    if "--" in text:
        for match in _OPTION.finditer(text):
            if _is_name(match["name"]):
                yield match["name"], match.start(), match.end(), "=" in match["sign"], 1


def _name_before(text: str, separator: re.Match[str]) -> Iterator[tuple[str, int, int, bool, int]]:
    at = separator.start()
    found = _NAME_BACKWARDS.match(text[max(0, at - _BEFORE) : at][::-1])
    if found is not None and not found[2] and _is_name(name := found[1][::-1]):
        yield name, at - found.end(), separator.end(), "=" in separator[0], _SHORTEST


def is_named_key(name: str, value: str) -> bool:
    """Return whether a text is a key because of the name of its field."""
    return _is_name(name) and _is_key(name, value, is_literal=True)


def _find_start(text: str, at: int) -> tuple[int, bool, int]:
    """Return the start of the value at a place, whether it is written as a literal, not as prose, and its end if it is
    quoted, else 0."""
    scheme = _SCHEME.match(text, at)
    start = at if scheme is None else scheme.end()
    quoted = _QUOTED.match(text, start)
    if quoted is None or not quoted.lastgroup:
        return start, scheme is not None, 0
    start, end = quoted.span(quoted.lastgroup)
    inner = _SCHEME.match(text, start, end)
    return (start if inner is None else inner.end()), True, end


@lru_cache(4096)
def _is_name(name: str) -> bool:
    return is_secret_name(name)


@lru_cache(4096)
def _is_strong(name: str) -> bool:
    return names_credential(name)


def _is_key(name: str, value: str, *, is_literal: bool, least: int = _SHORTEST) -> bool:
    """Return whether the value of a name is a key.

    The value of a name such as `password` is one unless it is a reference or harmless; as prose after a colon, a word
    is none. The value of any other name with a secret word, such as `key`, must be random and no digest.
    """
    is_strong = _is_strong(name)
    if len(value) < least or not (is_strong or _SHORTEST_RANDOM <= len(value) <= _LONGEST_RANDOM):
        return False
    if is_placeholder(value) or value.lower() == name.lower():
        return False
    if not is_strong:
        is_digest = _DIGEST.fullmatch(value) is not None and not name.lower().endswith("token")
        return not is_digest and is_random(value)
    if value.isdecimal():
        return len(value) >= _SHORTEST_NUMBER
    if value.isalpha():
        return value.lower() not in _CONSTANTS if is_literal else is_random(value)
    if "/" in value and "://" not in value:
        return _PATH.fullmatch(value) is None or is_random(value)
    return not is_harmless(value)


def is_placeholder(value: str) -> bool:
    """Return whether a value only names or describes a key: a reference to a variable, a mask, or a secret word."""
    return _REFERENCE.fullmatch(value) is not None or (value.replace("-", "").isalpha() and is_secret_name(value))
