"""Normalised forms of a text, in which secrets are searched. Each character keeps its position in the original text.

A program that later shows the text may remove characters that hide a secret: invisible characters, letters of another
width, escapes of JSON, URLs or HTML, colours of a terminal, HTML tags. The search therefore reads several layers of a
text, each the result of one more decoding step. Each layer is then projected: letters are in compatibility form (NFKD)
and lower case, and accents and invisible characters are omitted. The projection `compact` also omits white space, the
projection `bare` everything but letters and digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_ESCAPES = 3
"""Maximum number of nested escapings that are decoded, such as JSON inside JSON, or a URL that was quoted twice."""

# Each alternative matches in only one way and is bounded, so that matching takes linear time.
_ESCAPE = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{(?=[0-9a-fA-F])0*+[0-9a-fA-F]{0,6}\}"
    r"|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|[abefnrtv]|[!-/:-@\[-`{-~])"
    r"|%(?:[0-7][0-9a-fA-F]|[cCdD][0-9a-fA-F]%[89abAB][0-9a-fA-F]|[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}"
    r"|[fF][0-7](?:%[89abAB][0-9a-fA-F]){3})"
    r"|&(?:\#(?=[0-9])0*+[0-9]{0,7};?|\#[xX](?=[0-9a-fA-F])0*+[0-9a-fA-F]{0,6};?|[A-Za-z][A-Za-z0-9]{1,30};)"
)
_SHORT = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# ECMA-48: control sequences, operating system commands, other escapes; ^[ and U+241B are printable forms of the escape
# character.
_TERMINAL = lazy_pattern(
    r"(?:(?:\x1b|\u241b|\^\[)\[|\x9b)[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b\x9c]{0,1000}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-Z\\^-~]"
)
_COLOUR = lazy_pattern(r"\[[0-9][0-9;:]{0,36}m")
_TAG = lazy_pattern(r"</?[A-Za-z][A-Za-z0-9]{0,20}(?:\s[^<>]{0,500})?/?>|<!--[^<>]{0,500}-->")
_INVISIBLE = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn"))
# Letters and signs that are blank; U+FFFD replaces a lone surrogate.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc\ufffd\u2800")
_QUOTES = str.maketrans("\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033", "'''''\"\"\"\"\"")
"""Typographic quotes that word processors insert for plain ones."""


class Decoder(Struct, frozen=True):
    """One way to reveal hidden text: `read` returns the plain text for a match of `pattern`."""

    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]

    def decode(self, text: str) -> str:
        """Return the text with all matches decoded."""
        return self.pattern.sub(self.read, text)

    def pieces(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the pieces that `decode` joins: the start and end of each in the text, and its decoded value."""
        at = 0
        for match in self.pattern.finditer(text):
            start, end = match.span()
            if at < start:
                yield at, start, text[at:start]
            yield start, end, self.read(match)
            at = end
        if at < len(text):
            yield at, len(text), text[at:]


_NUMBER_START = lazy_pattern(r"(&\#[xX]?)0+")
# CSS Syntax 3: up to six hexadecimal digits, and one white space that ends them; one digit is no letter.
_CSS = lazy_pattern(r"\\([0-9a-fA-F]{2,6})[ \t\n\f]?")


def _unescape(match: re.Match[str]) -> str:
    kind = match[0][0]
    return _decode_percent(match) if kind == "%" else _decode_entity(match) if kind == "&" else _decode_backslash(match)


def _decode_percent(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")


def _decode_entity(match: re.Match[str]) -> str:
    # The table of all entities is large.
    import html

    sign, number = _NUMBER_START.match(match[0]), match[0]
    # Any number of zeros may stand before the digits.
    return html.unescape(number if sign is None else f"{sign[1]}0{number[sign.end() :]}")


def _decode_backslash(match: re.Match[str]) -> str:
    found = match[0]
    kind = found[1]
    if kind == "u" and len(found) == 12:
        return bytes.fromhex(found[2:6] + found[8:12]).decode("utf-16-be", "replace")
    if kind in "uUx":
        code = int(found[2:].strip("{}"), 16)
        return chr(code) if code < 0x110000 else ""
    if kind.isdigit():
        return chr(int(found[1:], 8))
    return _SHORT.get(kind, kind)


def _decode_css(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code < 0x110000 else ""


def _remove(match: re.Match[str]) -> str:
    return ""


ESCAPES = Decoder(_ESCAPE, _unescape)
"""Backslash escapes of JSON, Python, shells and Markdown; percent encoding (RFC 3986); character references of HTML."""
TERMINAL = Decoder(_TERMINAL, _remove)
"""Control sequences of terminals."""
COLOURS = Decoder(_COLOUR, _remove)
"""Colours of terminals without their escape character."""
TAGS = Decoder(_TAG, _remove)
"""Tags and comments of HTML."""
CSS = Decoder(_CSS, _decode_css)
"""Escapes of CSS, such as `\\000067`."""

_SEPARATING = ((TERMINAL, ("\x1b", "^[", "\x9b", "\u241b")), (COLOURS, ("[",)), (TAGS, ("<",)))
"""Decoders that remove sequences from between the letters of a secret. Each comes with characters, one of which every
such sequence contains."""
_ESCAPE_SIGNS = ("\\", "%", "&")
_SIGNS = (*_ESCAPE_SIGNS, "[", "<", "\x1b")
_ALL_SIGNS = (*_SIGNS, "\x9b", "\u241b")


def layers(text: str) -> Iterable[tuple[tuple[Decoder, ...], str]]:
    """Return (decoders, layer) pairs: the text itself, then the results of applying more and more decoders.

    Escapes are decoded up to `MOST_ESCAPES` times. After each decoding, terminal sequences and then tags are removed in
    further layers. The layers without this step are searched, too, since a supposed tag may be part of the secret
    itself.
    """
    signs = _SIGNS if text.isascii() else _ALL_SIGNS
    return _layers(text) if any(map(text.__contains__, signs)) else (((), text),)


def _layers(text: str) -> Iterator[tuple[tuple[Decoder, ...], str]]:
    steps: tuple[Decoder, ...] = ()
    for left in range(MOST_ESCAPES, -1, -1):
        yield steps, text
        made, bare = steps, text
        for decoder, signs in _SEPARATING:
            if any(map(bare.__contains__, signs)) and (after := decoder.decode(bare)) != bare:
                made, bare = (*made, decoder), after
                yield made, bare
        # The same backslash begins another escape elsewhere.
        if "\\" in text and (after := CSS.decode(text)) != text:
            yield (*steps, CSS), after
        if not left or not any(map(text.__contains__, _ESCAPE_SIGNS)):
            return
        after = ESCAPES.decode(text)
        if after == text:
            return
        steps, text = (*steps, ESCAPES), after


class _CharacterForms(dict[int, str]):
    """The projected form of each character by its code point, computed on first use."""

    def __init__(self, space: str, *, only_letters: bool = False) -> None:
        super().__init__()
        self._space = space
        self._only_letters = only_letters

    def __missing__(self, code: int) -> str:
        found = self[code] = self._normalize(chr(code))
        return found

    def _normalize(self, character: str) -> str:
        if character.isspace():
            return self._space
        if character in _BLANK:
            return ""
        read = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold()).translate(_QUOTES)
        kept = (each for each in read if unicodedata.category(each) not in _INVISIBLE and each not in _BLANK)
        if self._only_letters:
            return "".join(filter(str.isalnum, kept))
        return "".join(
            self._space if each.isspace() else "-" if unicodedata.category(each) == "Pd" else each for each in kept
        )


class Projection:
    """Maps the text of a layer to the characters that the search compares."""

    def __init__(self, letters: _CharacterForms, drops: Callable[[str], bool], space: str = "") -> None:
        """Set the projected form of each character. For ASCII characters, `drops` decides which are omitted, and
        `space` replaces white space."""
        self._letters = letters
        found = [chr(code) for code in range(128)]
        self._dropped = frozenset(each for each in found if drops(each))
        self._left_out = "".join(sorted(self._dropped)).encode()
        spaces = [each for each in found if each.isspace() and each not in self._dropped]
        self._table = bytes.maketrans("".join(spaces).encode(), space.encode() * len(spaces)) if space else None

    def __call__(self, text: str) -> str:
        """Return the projection of a text."""
        if not text.isascii():
            return text.translate(self._letters)
        # `bytes.translate` is the fastest way to drop characters.
        return text.lower().encode().translate(self._table, self._left_out).decode()

    def pieces(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start, end and projected form of each character."""
        if text.isascii():
            kept = (at for at, each in enumerate(text) if each not in self._dropped)
            return ((at, at + 1, self(text[at])) for at in kept)
        return ((at, at + 1, self._letters[ord(each)]) for at, each in enumerate(text))


def _is_invisible(character: str) -> bool:
    return not (character.isprintable() or character.isspace())


plain = Projection(_CharacterForms(" "), _is_invisible, space=" ")
"""Projection that replaces each white-space character by a space."""
compact = Projection(_CharacterForms(""), lambda each: _is_invisible(each) or each.isspace())
"""Projection without white space."""
bare = Projection(_CharacterForms("", only_letters=True), lambda each: not each.isalnum())
"""Projection to letters and digits."""


class _Unchanged(Projection):
    """Projection to the characters as they are."""

    def __init__(self) -> None:
        super().__init__(_CharacterForms(""), lambda each: False)

    def __call__(self, text: str) -> str:
        """Return the text."""
        return text

    def pieces(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start, end and value of each character."""
        return ((at, at + 1, each) for at, each in enumerate(text))


unchanged = _Unchanged()
"""Projection that keeps each character as it is."""


class OriginalPositions:
    """The original position of each character in a projected layer of a text."""

    def __init__(self, text: str, steps: Iterable[Decoder], projection: Projection) -> None:
        starts: Sequence[int] = range(len(text))
        ends: Sequence[int] = range(1, len(text) + 1)
        for step in steps:
            text, starts, ends = _trace(step.pieces(text), starts, ends)
        self.view, self._starts, self._ends = _trace(projection.pieces(text), starts, ends)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the (start, end) in the original text of the characters from `start` to `end` (exclusive) of the
        projection."""
        return self._starts[start], self._ends[end - 1]


def _trace(
    pieces: Iterable[tuple[int, int, str]], starts: Sequence[int], ends: Sequence[int]
) -> tuple[str, list[int], list[int]]:
    texts: list[str] = []
    new_starts: list[int] = []
    new_ends: list[int] = []
    for start, end, text in pieces:
        texts.append(text)
        if len(text) == end - start:
            new_starts += starts[start:end]
            new_ends += ends[start:end]
        else:
            new_starts += [starts[start]] * len(text)
            new_ends += [ends[end - 1]] * len(text)
    return "".join(texts), new_starts, new_ends
