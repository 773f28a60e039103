"""Texts as a search for secrets reads them, each character with its place in the original.

A secret is the same secret with invisible characters between its letters, in letters of another width, broken over
lines, or escaped for JSON, a URL or HTML. Whatever shows a text later may undo any of that; so a view has undone all of
it: one step of escapes after the other is taken away, letters are in compatibility form (NFKD) and small, accents,
invisible characters and, in the `compact` view, white space are omitted.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

STEPS = 3
"""How often one text may be escaped: JSON inside JSON, a URL that was quoted twice."""

# No alternative can match in two ways, and each is bounded: the time is that of reading the text once.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}"
    r"|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[\"'`\\/bfnrtv])"
    r"|%(?:[0-7][0-9a-fA-F]|[cCdD][0-9a-fA-F]%[89abAB][0-9a-fA-F]|[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}"
    r"|[fF][0-7](?:%[89abAB][0-9a-fA-F]){3})"
    r"|&(?:\#[0-9]{1,7};?|\#[xX][0-9a-fA-F]{1,6};?|[A-Za-z][A-Za-z0-9]{1,30};)"
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INVISIBLE = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn"))
# Letters and signs that show nothing; U+FFFD is where a lone surrogate was.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc\ufffd\u2800")
_SPACES = {code: " " for code in range(128) if chr(code).isspace()}
_UNSEEN = frozenset(chr(code) for code in range(128) if not (chr(code).isprintable() or chr(code).isspace()))
_UNSEEN_OR_SPACE = _UNSEEN | frozenset(map(chr, _SPACES))
_LEFT_OUT = "".join(sorted(_UNSEEN_OR_SPACE)).encode()
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f]+")


class _Letters(dict[int, str]):
    """What each character is in a view, found out when it is first met."""

    def __init__(self, space: str) -> None:
        super().__init__()
        self._space = space

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isspace():
            found = self._space
        elif character in _BLANK:
            found = ""
        else:
            plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
            kept = (each for each in plain if unicodedata.category(each) not in _INVISIBLE and each not in _BLANK)
            found = "".join(self._space if each.isspace() else each for each in kept)
        self[code] = found
        return found


_SPACED, _COMPACT = _Letters(" "), _Letters("")


def plain(text: str) -> str:
    """Return the view that keeps white space, each character of it a space."""
    if not text.isascii():
        return text.translate(_SPACED)
    small = text.lower()
    return small if small.isprintable() else _CONTROLS.sub("", small.translate(_SPACES))


def compact(text: str) -> str:
    """Return the view without white space."""
    if not text.isascii():
        return text.translate(_COMPACT)
    # Of all ways to leave characters out the one of bytes is the quickest.
    return text.lower().encode().translate(None, _LEFT_OUT).decode()


def unescaped(text: str) -> Iterator[str]:
    """Yield the text, then what it is with one step of escapes taken away after the other, `STEPS` at most."""
    yield text
    for _ in range(STEPS):
        if not ("\\" in text or "%" in text or "&" in text):
            return
        after = _ESCAPE.sub(_character, text)
        if after == text:
            return
        text = after
        yield text


class Places:
    """Where each character of a view came from in the original text."""

    def __init__(self, text: str, steps: int, *, spaces: bool) -> None:
        """Make the view of `text` with `steps` steps of escapes taken away; `spaces` keeps white space."""
        starts: Sequence[int] = range(len(text))
        ends: Sequence[int] = range(1, len(text) + 1)
        for _ in range(steps):
            text, starts, ends = _traced(_pieces(text), starts, ends)
        if text.isascii():
            self.view = plain(text) if spaces else compact(text)
            left_out = _UNSEEN if spaces else _UNSEEN_OR_SPACE
            kept = [at for at, each in enumerate(text) if each not in left_out]
            self._starts, self._ends = [starts[at] for at in kept], [ends[at] for at in kept]
        else:
            letters = _SPACED if spaces else _COMPACT
            pieces = ((at, at + 1, letters[ord(each)]) for at, each in enumerate(text))
            self.view, self._starts, self._ends = _traced(pieces, starts, ends)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the characters from `start` to before `end` of the view stand in the original."""
        return self._starts[start], self._ends[end - 1]


def _traced(
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


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    at = 0
    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        if at < start:
            yield at, start, text[at:start]
        yield start, end, _character(match)
        at = end
    if at < len(text):
        yield at, len(text), text[at:]


def _character(match: re.Match[str]) -> str:
    """Return what an escape stands for."""
    found = match[0]
    if found[0] == "%":
        return bytes.fromhex(found.replace("%", "")).decode("utf-8", "replace")
    if found[0] == "&":
        return html.unescape(found)
    kind = found[1]
    if kind == "u" and len(found) == 12:
        return bytes.fromhex(found[2:6] + found[8:12]).decode("utf-16-be", "replace")
    if kind in "uUx":
        code = int(found[2:].strip("{}"), 16)
        return chr(code) if code < 0x110000 else ""
    return _SHORT.get(kind, kind)
