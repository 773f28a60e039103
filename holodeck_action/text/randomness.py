"""Random values, of which a few letters and digits in a row are recognised wherever they stand.

How many is their width: 8 of a value that mixes letters and digits, 10 of a hexadecimal number, 12 of digits alone. By
chance a text has one given row of that many at one place in less than 1 of 10^12. That does not hold for what people or
formats write: words, prefixes that a provider gives to all its keys, the fixed letters of a key file. A value that
consists of words to a quarter or more is not random, and rows that are hardly more than such text are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holodeck_action.text.views import bare
from holodeck_action.text.words import words_in

MIXED, HEXADECIMAL, DIGITS = 8, 10, 12
"""Letters and digits in a row that make a random value known, by its alphabet."""
_OWN = 4
"""Letters and digits that a row must have beside those that others share."""
_VARIETY = 3
"""Different letters and digits in a row."""
_WORDS_SHARE = 0.25
_LONG, _CASE_SHARE = 16, 0.25
"""Letters of a value without digits, and the share of large or small ones, from which on it is random."""
_HEXADECIMAL = re.compile("[0-9a-f]+")
_RUN = re.compile("[A-Za-z]+")
_CASE = re.compile("[A-Za-z][a-z]*|[A-Z]*")
_PREFIX = re.compile(
    r"sk-ant-(?:api|admin)[0-9]{2}-|sk-(?:proj|svcacct|or-v1)-|github_pat_|glpat-|[sr]k_(?:live|test)_|whsec_|xox[a-z]-"
    r"|pypi-AgEIcHlwaS5vcmc"
)
"""How keys begin of Anthropic, OpenAI, OpenRouter, GitHub, GitLab, Stripe, Slack and PyPI."""
_FORMATS = (
    # DER in base64: RSA in PKCS 1 and PKCS 8, elliptic curves, Ed25519.
    "mii[a-z0-9]{1,3}ibaakca[qg][a-z0-9]a?",
    "mii[a-z0-9]{1,3}ibadanbgkqhkig9w0baqefaascb[a-z0-9]{1,3}wgg[a-z0-9]{1,2}ageaaoi[bc][a-z0-9]q?",
    *("m[hi][a-z0-9]caqeei?", "migh?agea?[mb][bw]mgbyqgsm49agegc[a-z0-9]{3,12}", "mc4caqaw?bqydk2vwbciei?"),
    *("oaogccqgsm49awehouqdqgae", "oahfbgcqgsm49aweh[a-z0-9]?"),
    # The head of OpenSSH's format, without a password, and its kinds of keys.
    "b3blbnnzac1rzxktdjea+bg5vbmua+ebm9uzqa+ba+[a-z0-9]{2}a+",
    *("dzc2gtcn", "tzc2gtzwqyntuxoqa+", "ezwnkc2etc2hhmi1uaxn0cd"),
    # Alphabets, which examples are made of.
    *("0123456789(?:abcdef[a-z]*)?", "abcdefgh[a-z]*[0-9]*"),
)
"""What all keys of a format have in common, as their letters and digits."""
_SHARED = re.compile("|".join(_FORMATS))


def is_random(value: str) -> bool:
    """Tell whether a few letters and digits in a row are enough to know a value."""
    return width_of(value) is not None


def width_of(value: str) -> int | None:
    """Return how many letters and digits in a row make a value known; None if it is not random."""
    letters = bare(value)
    if letters.isdecimal():
        width = DIGITS
    elif _HEXADECIMAL.fullmatch(letters) and not letters.isalpha():
        width = HEXADECIMAL
    elif not letters.isalpha() or _is_of_mixed_case(value):
        width = MIXED
    else:
        return None
    if len(letters) < width:
        return None
    in_words = {at for start, end in _words(value) for at in range(start, end)}
    return width if len(in_words) < _WORDS_SHARE * len(letters) else None


def _words(value: str) -> list[tuple[int, int]]:
    """Return where words are in the letters and digits of a value; people write them small, large or with a capital."""
    first = len(prefix_of(value))
    return [
        (before, before + end - start)
        for run in _RUN.finditer(value, first)
        for start, end in words_in(run[0].lower())
        if _CASE.fullmatch(run[0], start, end)
        for before in (len(bare(value[: run.start() + start])),)
    ]


def _is_of_mixed_case(value: str) -> bool:
    """Tell whether letters are large and small as no words are: a generator may happen to draw no digit."""
    own = value.removeprefix(prefix_of(value))
    large, small = sum(map(str.isupper, own)), sum(map(str.islower, own))
    return large + small >= _LONG and min(large, small) >= _CASE_SHARE * (large + small)


def prefix_of(value: str) -> str:
    """Return what a provider puts before all its keys; empty if a value does not begin so."""
    found = _PREFIX.match(value)
    return "" if found is None else found[0]


def rows(value: str, width: int) -> Iterator[int]:
    """Yield where the rows begin by which a random value is known, in its letters and digits."""
    letters = bare(value)
    words = _words(value)
    shared = [(0, len(bare(prefix_of(value)))), *(match.span() for match in _SHARED.finditer(letters))]
    for start in range(len(letters) - width + 1):
        end = start + width
        if len(set(letters[start:end])) < _VARIETY:
            continue
        if any(start <= first and last <= end for first, last in words):
            continue
        if any(min(end, last) - max(start, first) > width - _OWN for first, last in shared):
            continue
        yield start
