"""Masks secrets and personal data that can be recognised by their format.

This is not anonymisation: a text can identify a person without data in these formats.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import replace_surrogates
from holodeck_action.text.redaction import MASK, Redactor
from holodeck_action.text.views import ESCAPES, OriginalPositions, layers, plain, unchanged

KINDS = {
    "secret": ("secret", "secrets"),
    "email": ("e-mail address", "e-mail addresses"),
    "iban": ("IBAN", "IBANs"),
    "card": ("card number", "card numbers"),
    "ip": ("IP address", "IP addresses"),
    "phone": ("phone number", "phone numbers"),
    "name": ("name", "names"),
}
"""Kinds of masked data, with singular and plural for messages, in the order in which they are masked."""

_SPACES = dict.fromkeys(map(ord, "\t\xa0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"), " ")
_ALIKE = _SPACES | dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-")
"""White space and hyphens of typography, and those that the patterns know."""

# Each begins where no character before it could be part of the match, and is bounded, so that the search is linear.
_EMAIL = lazy_pattern(r"(?<![\w.%+'-])[\w.%+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,63}")
_IBAN = lazy_pattern(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}"
    r"(?:[A-Za-z0-9]{11,30}|(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,3})?)(?![A-Za-z0-9])"
)
_CARD = lazy_pattern(r"(?<![0-9])(?:[0-9]{13,19}|[0-9]{3,6}(?:[ -][0-9]{3,6}){2,9})(?![0-9])")
_CARD_START = lazy_pattern(r"3[0-9]|[456]|2[2-7]")
"""First digits of payment cards (ISO/IEC 7812)."""
_IPV4 = lazy_pattern(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?!\.?\w)")
_IPV6 = lazy_pattern(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9A-Fa-f]{0,4})(?![\w:])"
)
_PHONE = lazy_pattern(
    r"(?<![\w+.,/-])(?:\+[0-9]|\(\+?[0-9]|0[0-9])[0-9 ()./-]{5,24}[0-9](?!\w)"
    r"|(?<![\w+.,/-])[0-9]{3}[ .-][0-9]{3}[ .-][0-9]{4}(?![\w-])"
)
_PHONE_DIGITS = range(8, 16)
"""Numbers of digits of a phone number; 15 is the maximum of ITU-T E.164."""
_WORD = lazy_pattern(r"\w+")
_GAP = 3
"""Maximum characters between the words of a name."""


class Masker:
    """Masks data in texts, and counts the masked occurrences by kind.

    Attributes:
        counts: number of masked occurrences by kind.
    """

    def __init__(self, redactor: Redactor, names: Iterable[str]) -> None:
        self._redactor = redactor
        self._names: dict[str, list[list[str]]] = {}
        for name in names:
            if words := _WORD.findall(plain(name)):
                # "Schmidt, Anna" is the name "Anna Schmidt", and the other way round.
                for turn in {0, 1, len(words) - 1} if len(words) > 1 else {0}:
                    turned = words[turn:] + words[:turn]
                    self._names.setdefault(turned[0], []).append(turned)
        for same in self._names.values():
            same.sort(key=len, reverse=True)
        self.counts: Counter[str] = Counter()

    def mask(self, text: str) -> str:
        """Return a text with secrets replaced by `***`, and other data by their kind, such as `[email]`."""
        text = replace_surrogates(text)
        known = self._redactor.text(text)
        self.counts["secret"] += max(0, known.count(MASK) - text.count(MASK))
        for kind, find in (*_FINDERS, ("name", self._name_spans)):
            known = self._replace(known, kind, _decoded_spans(known, find))
        return known

    def summary(self) -> str:
        """Return the counts as a phrase, such as `2 secrets, 1 IP address`."""
        counts = ((self.counts[kind], *nouns) for kind, nouns in KINDS.items() if self.counts[kind])
        return ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts) or "nothing"

    def _replace(self, text: str, kind: str, spans: Iterable[tuple[int, int]]) -> str:
        parts, at = [], 0
        for start, end in spans:
            parts += [text[at:start], f"[{kind}]"]
            at = end
            self.counts[kind] += 1
        return "".join([*parts, text[at:]]) if parts else text

    def _name_spans(self, text: str) -> Iterator[tuple[int, int]]:
        if not self._names:
            return
        view = plain(text)
        words = [*_WORD.finditer(view)]
        places = None
        at = 0
        while at < len(words):
            length = self._name_length(words, at)
            if length:
                places = places or OriginalPositions(text, (), plain)
                yield places.span(words[at].start(), words[at + length - 1].end())
            at += length or 1

    def _name_length(self, words: Sequence[re.Match[str]], at: int) -> int:
        """Return the number of words in the longest name that begins at word `at`; 0 if no name begins there."""
        for name in self._names.get(words[at][0], ()):
            found = words[at : at + len(name)]
            near = all(after.start() - before.end() <= _GAP for before, after in pairwise(found))
            if near and [word[0] for word in found] == name:
                return len(name)
        return 0


def _decoded_spans(text: str, find: Callable[[str], Iterator[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return the (start, end) of what is found in a text, and behind escapes such as `%40`; without overlaps."""
    found: list[tuple[int, int]] = []
    for steps, layer in layers(text):
        if not set(steps) <= {ESCAPES}:
            continue
        spans = [*find(layer.translate(_ALIKE))]
        if steps and spans:
            places = OriginalPositions(text, steps, unchanged)
            spans = [places.span(*span) for span in spans]
        found += spans
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _spans(pattern: re.Pattern[str], is_valid: Callable[[str], bool]) -> Callable[[str], Iterator[tuple[int, int]]]:
    def find(text: str) -> Iterator[tuple[int, int]]:
        return (match.span() for match in pattern.finditer(text) if is_valid(match[0]))

    return find


def _spans_of_groups(
    pattern: re.Pattern[str], is_valid: Callable[[str], bool]
) -> Callable[[str], Iterator[tuple[int, int]]]:
    """Return a function that yields start and end of the longest valid runs of groups in a pattern's matches."""

    def find(text: str) -> Iterator[tuple[int, int]]:
        for match in pattern.finditer(text):
            groups = [group.span() for group in re.finditer(r"[^ -]+", match[0])]
            first = 0
            while first < len(groups):
                start, last = groups[first][0], len(groups)
                while last > first and not is_valid(re.sub("[ -]", "", match[0][start : groups[last - 1][1]])):
                    last -= 1
                if last > first:
                    yield match.start() + start, match.start() + groups[last - 1][1]
                first = max(last, first + 1)

    return find


def _is_iban(text: str) -> bool:
    """Return whether a text has the length and the check digits of an IBAN (ISO 13616, ISO/IEC 7064 MOD 97-10)."""
    if not 15 <= len(text) <= 34 or not text[:2].isalpha():
        return False
    return int("".join(str(int(sign, 36)) for sign in text[4:] + text[:4])) % 97 == 1


def _is_card(text: str) -> bool:
    """Return whether digits are those of a payment card: length, first digits, and check digit (Luhn)."""
    if not 13 <= len(text) <= 19 or _CARD_START.match(text) is None:
        return False
    doubled = (int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(text)))
    return sum(each // 10 + each % 10 for each in doubled) % 10 == 0


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(sign.isalnum() for sign in text)


def _is_phone(text: str) -> bool:
    # A number with a decimal point has one point.
    return sum(sign.isdigit() for sign in text) in _PHONE_DIGITS and re.fullmatch(r"[0-9]+\.[0-9]+", text) is None


_FINDERS = (
    ("email", _spans(_EMAIL, lambda text: True)),
    ("iban", _spans_of_groups(_IBAN, _is_iban)),
    ("card", _spans_of_groups(_CARD, _is_card)),
    ("ip", _spans(_IPV6, _is_address)),
    ("ip", _spans(_IPV4, _is_address)),
    ("phone", _spans(_PHONE, _is_phone)),
)
