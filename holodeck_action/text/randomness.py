"""Detects random values, such as keys, and determines which of their n-grams identify them in any text.

The width of a value is the length of its n-grams: 8 letters and digits if the value mixes them, 10 if the value is a
hexadecimal number, 12 if it has only digits. The chance that a given n-gram occurs at a given position of a text is
below 1 in 10^12. This does not hold for words, for prefixes that a provider gives to all its keys, or for the fixed
letters of a key file. A value is not random if words make up a quarter of it or more. n-grams with too many characters
of words, prefixes or fixed letters are not used.
"""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.text.key_prefixes import prefix_of
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.views import bare
from holodeck_action.text.words import words_in

MIXED, HEXADECIMAL, DIGITS = 8, 10, 12
"""Widths of random values: with letters and digits mixed, hexadecimal, and with digits alone."""
_LEAST_OWN = 4
"""Minimum number of letters and digits in an n-gram that are not part of a shared prefix or format."""
_LEAST_DIFFERENT = 3
"""Minimum number of different letters and digits in an n-gram."""
_WORDS_SHARE = 0.25
_LONG, _CASE_SHARE = 16, 0.25
"""For random values without digits: minimum number of letters, and minimum proportion of both upper-case and lower-case
letters."""
_HEXADECIMAL = lazy_pattern("[0-9a-f]+")
_RUN = lazy_pattern("[A-Za-z]+")
_CASE = lazy_pattern("[A-Za-z][a-z]*|[A-Z]*")
_FORMATS = (
    # DER in base64: RSA in PKCS 1 and PKCS 8, elliptic curves, Ed25519.
    "mii[a-z0-9]{1,3}ibaakca[qg][a-z0-9]a?",
    "mii[a-z0-9]{1,3}ibadanbgkqhkig9w0baqefaascb[a-z0-9]{1,3}wgg[a-z0-9]{1,2}ageaaoi[bc][a-z0-9]q?",
    *("m[hi][a-z0-9]caqeei?", "migh?agea?[mb][bw]mgbyqgsm49agegc[a-z0-9]{3,12}", "mc4caqaw?bqydk2vwbciei?"),
    *("oaogccqgsm49awehouqdqgae", "oahfbgcqgsm49aweh[a-z0-9]?"),
    # The head of OpenSSH's format, without a password, and its kinds of keys.
    "b3blbnnzac1rzxktdjea+bg5vbmua+ebm9uzqa+ba+[a-z0-9]{2}a+",
    *("dzc2gtcn", "tzc2gtzwqyntuxoqa+", "ezwnkc2etc2hhmi1uaxn0cd"),
    # Alphabets, which occur in examples.
    *("0123456789(?:abcdef[a-z]*)?", "abcdefgh[a-z]*[0-9]*"),
)
"""The common part of all keys of a format, as its letters and digits."""
_SHARED = lazy_pattern("|".join(_FORMATS))


def is_random(value: str) -> bool:
    """Return whether a value is random. A few letters and digits of a random value identify it (see `width_of`)."""
    return width_of(value) is not None


def width_of(value: str) -> int | None:
    """Return how many consecutive letters and digits identify a value; None if it is not random."""
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
    in_words = {at for start, end in _word_spans(value) for at in range(start, end)}
    return width if len(in_words) < _WORDS_SHARE * len(letters) else None


def _word_spans(value: str) -> list[tuple[int, int]]:
    """Return the (start, end) of each word among the letters and digits of a value; a word is lower-case, upper-case or
    capitalised."""
    first = len(prefix_of(value))
    return [
        (before, before + end - start)
        for run in _RUN.finditer(value, first)
        for start, end in words_in(run[0].lower())
        if _CASE.fullmatch(run[0], start, end)
        for before in (len(bare(value[: run.start() + start])),)
    ]


def _is_of_mixed_case(value: str) -> bool:
    """Return whether a value mixes upper and lower case as no words do; it may then be random even without digits."""
    own = value.removeprefix(prefix_of(value))
    large, small = sum(map(str.isupper, own)), sum(map(str.islower, own))
    return large + small >= _LONG and min(large, small) >= _CASE_SHARE * (large + small)


def ngram_starts(value: str, width: int) -> Iterator[int]:
    """Yield the start of each n-gram of length `width` that identifies a random value, as an index into the value's
    letters and digits."""
    letters = bare(value)
    words = _word_spans(value)
    shared = [(0, len(bare(prefix_of(value)))), *(match.span() for match in _SHARED.finditer(letters))]
    for start in range(len(letters) - width + 1):
        end = start + width
        if len(set(letters[start:end])) < _LEAST_DIFFERENT:
            continue
        if any(start <= first and last <= end for first, last in words):
            continue
        if any(min(end, last) - max(start, first) > width - _LEAST_OWN for first, last in shared):
            continue
        yield start
