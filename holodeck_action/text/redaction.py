"""The door through which text goes out: secrets are found in what a text reads as, and masked where they stand.

The order is: see through (invisible characters, compatibility forms, escapes), mask, and only then cut and render. The
search works on views of a text (see `views`), so that no later step can put a secret together which an earlier one did
not find; the text itself is changed in nothing but the secrets.

Where a text was cut before it came here, a piece of a secret may stand at the cut. Every cut leaves a mark, `…` or
`...`, and a piece of `PIECE` characters or more beside a mark is masked as the whole would be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from operator import is_
from typing import Any, TypeVar

from msgspec import Struct

from holodeck_action.text.fields import field_names, with_fields
from holodeck_action.text.secret_forms import encoded, escaped, forms, slug_of
from holodeck_action.text.secrets import SHORTEST, SHORTEST_PART, parts
from holodeck_action.text.views import Places, compact, plain, unescaped

T = TypeVar("T")

MASK = "***"
PIECE = 8
"""Characters of a secret in a row that are never shown, wherever a text was cut."""
_BROKEN = 12
"""Characters of a secret that is also found with white space inside; a shorter one is a word of sentences."""
# What a verdict rests on is no text of the agent's or the suite's: a secret that happens to read "failed" must not
# turn a failed evaluation into another one.
_KEPT_FIELDS = frozenset(("code", "kind", "polarity", "status", "timestamp", "started_at"))
_OWN_KEYS = frozenset(("context", "metadata", "settings"))
"""Fields that hold a mapping with keys of our own; the values in it may hold secrets."""
_WITHOUT_TEXT = frozenset((type(None), bool, int, float))
_KNOWN_LONGEST, _KNOWN_MOST = 40, 4_000
"""Characters and number of texts without secrets that are remembered: names of fields come again and again."""
_LARGE = 10**7
"""A number from here on may be a secret of digits."""
_LONGEST_ID = 60
"""Characters of a case id that may have been cut from a longer name."""
_FEW = 4
_RARITY = {sign: rank for rank, sign in enumerate("zqxj0123456789kvbypgfwm_-:/cu=ldrhsnioate.,'\"")}
"""Signs of English, the rarest first; those that are not listed are rarer."""
_CUT, _CUT_OR_HIDDEN = re.compile(r"\.\.\.+"), re.compile(r"\.\.\.+|\*\*\*\*+")
"""Marks of a cut in a view, where `…` is three dots, and the stars with which services hide the middle of a key."""
# Between a piece and a mark: quotes and brackets around the piece, and what a cut through an escape leaves.
_AFTER_PIECE = re.compile(
    r"(?:\\{1,8}(?:[ux][0-9a-f{]{0,7})?|(?:%(?:25)?[0-9a-f]{2}){0,3}(?:%(?:25)?[0-9a-f]?)?|&\#?[0-9a-z]{0,7})?"
    r"[\"'`)\]}> ]*"
)
_BEFORE_PIECE = re.compile(
    r"[\"'`(\[{< ]*(?:[ux\#{]?[0-9a-z]{0,8}[;}/]?|[0-9a-f]{0,2}(?:%(?:25)?[0-9a-f]{2}){0,3}|[\"'/\\])?[\"'`(\[{<]*"
)


class _Form(Struct, frozen=True):
    """One way in which a secret may be written, as a view shows it.

    `least` is how many of its characters a piece has at least that must not be shown: as many as `PIECE` characters of
    the secret come to.
    """

    text: str
    least: int


class _Way:
    """Forms that are looked for in one kind of view."""

    def __init__(self, view: Callable[[str], str], forms: tuple[_Form, ...], spaces: bool) -> None:
        self.view = view
        self.spaces = spaces
        self._texts = tuple(form.text for form in forms)
        self._with_pieces = tuple(form for form in forms if len(form.text) > form.least)
        self._all = "\0".join(form.text for form in self._with_pieces)
        self._longest = max(map(len, self._texts))
        self._least = min((form.least for form in self._with_pieces), default=PIECE)
        self._some = _any_of(self._texts)

    @cached_property
    def _grams(self) -> frozenset[str]:
        """All pieces of `_least` characters."""
        texts = (form.text for form in self._with_pieces)
        return frozenset(text[at : at + self._least] for text in texts for at in range(len(text) - self._least + 1))

    @cached_property
    def _begins(self) -> re.Pattern[str]:
        return _any_of(form.text[: form.least] for form in self._with_pieces)

    @cached_property
    def _ends(self) -> re.Pattern[str]:
        return _any_of(form.text[-form.least :] for form in self._with_pieces)

    def found(self, view: str, *, stars: bool) -> list[tuple[int, int]]:
        """Return where secrets stand in a view, and pieces of them beside the marks of a cut, `stars` among them."""
        found: list[tuple[int, int]] = []
        # Most texts hold none, which one look shows.
        if self._some.search(view) is not None:
            found += (span for form in self._texts if form in view for span in _occurrences(view, form))
        if (stars or "..." in view) and self._with_pieces:
            marks = [match.span() for match in (_CUT_OR_HIDDEN if stars else _CUT).finditer(view)]
            if self._begins.search(view) is not None:
                starts = [start for start, _ in marks]
                found += (span for form in self._with_pieces for span in _beginnings(view, form, starts))
            if self._ends.search(view) is not None:
                ends = [end for _, end in marks]
                found += (span for form in self._with_pieces for span in _endings(view, form, ends))
            found += self._middles(view, marks)
        return found

    def _middles(self, view: str, marks: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield where all that stands between two marks is a piece of a secret."""
        least, longest = self._least, self._longest + 2 * PIECE
        for (_, before), (after, _) in pairwise(marks):
            if least <= after - before <= longest:
                for start in range(before, min(before + 2 * PIECE, after - least + 1)):
                    if view[start : start + least] in self._grams:
                        end = _last(view, start, after, self._all)
                        if _BEFORE_PIECE.fullmatch(view, before, start) and any(
                            _AFTER_PIECE.fullmatch(view, at, after) for at in range(end, max(end - 3, start), -1)
                        ):
                            yield start, end
                            break


class Redactor:
    """Replaces secrets by `***`, however they are written: see the module, and `docs/security.md` for the list."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Prepare the replacement of `secrets` and their parts; values below `SHORTEST` characters are left alone."""
        whole = sorted({part for secret in secrets for part in parts(secret)}, key=lambda part: (-len(part), part))
        lines = {line.strip() for part in whole for line in part.splitlines() if len(line.strip()) >= SHORTEST_PART}
        broken: dict[str, int] = {}
        unbroken: dict[str, int] = {}
        for form in (form for part in (*whole, *sorted(lines.difference(whole))) for form in forms(part)):
            text = compact(form)
            if len(text) >= _BROKEN:
                broken[text] = min(_least(form), broken.get(text, PIECE))
            elif len(text) >= SHORTEST:
                unbroken[plain(form)] = PIECE
        broken |= {compact(form): PIECE for part in whole for form in encoded(part)}
        # Of a secret that shows nothing in a view there is only the text itself.
        self._exact = tuple(form for part in whole if len(compact(part)) < SHORTEST for form in escaped(part))
        self._ways = tuple(
            _Way(view, tuple(_Form(text, least) for text, least in forms.items()), spaces)
            for view, forms, spaces in ((compact, broken, False), (plain, unbroken, True))
            if forms
        )
        self._slugs = tuple(
            dict.fromkeys(slug for part in whole if len(slug := slug_of(part).replace("-", "")) >= SHORTEST_PART)
        )
        self._finds_any = bool(self._ways or self._exact)
        self._known: set[str] = set()

    def text(self, text: str) -> str:
        """Return a text without secrets; one that holds none is returned as it is."""
        if not self._finds_any or text in self._known:
            return text
        spans = list(self._spans(text))
        if not spans:
            if len(text) <= _KNOWN_LONGEST and len(self._known) < _KNOWN_MOST:
                self._known.add(text)
            return text
        return "".join(_masked(text, spans))

    def value(self, value: T) -> T:
        """Return a value without secrets: texts in it, in mappings (keys too), sequences and fields of values.

        What holds no secret is returned itself, not a copy.
        """
        if not self._finds_any:
            return value
        cleaned: T = self._clean(value)
        return cleaned

    def case_id(self, case_id: str, content_hash: str) -> str:
        """Return a case id without secrets that is still the only one: made of the content hash where one is in it."""
        innocent = self.text(case_id) == case_id and not self._in_slug(case_id)
        return case_id if innocent else f"case-{content_hash[:12]}"

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where secrets stand in a text: start and end, in no order."""
        for form in self._exact:
            yield from _occurrences(text, form)
        for steps, layer in enumerate(unescaped(text)):
            for way in self._ways:
                view = way.view(layer)
                # Two masks on two lines are no mark of a service.
                found = way.found(view, stars="****" in layer)
                if found:
                    places = Places(text, steps, spaces=way.spaces)
                    yield from (places.span(*each) for each in found)

    def _in_slug(self, case_id: str) -> bool:
        """Tell whether letters and digits of a case id are those of a secret, or at its cut end the first of one."""
        letters = case_id.replace("-", "")
        for slug in self._slugs:
            if slug in letters:
                return True
            start = letters.find(slug[:PIECE]) if len(case_id) >= _LONGEST_ID else -1
            while start >= 0:
                # An id that another case has, too, ends with eight digits of the content hash.
                if slug.startswith((letters[start:], letters[start:-8])) and len(letters) - start >= PIECE:
                    return True
                start = letters.find(slug[:PIECE], start + 1)
        return False

    def _clean(self, value: Any) -> Any:
        # Of most values the type itself says what they are.
        kind: Any = type(value)
        if kind is str or isinstance(value, str):
            return self.text(value)
        if kind in _WITHOUT_TEXT:
            return value
        if isinstance(value, Struct):
            return self._clean_fields(value)
        if kind is dict or isinstance(value, Mapping):
            made = {}
            unchanged = True
            for old_key, old_item in value.items():
                key, item = self._clean(old_key), self._clean_item(old_item)
                unchanged = unchanged and key is old_key and item is old_item
                made[key] = item
            return value if unchanged else made
        if kind is tuple or isinstance(value, tuple | list):
            items = [self._clean_item(item) for item in value]
            if all(map(is_, value, items)):
                return value
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            # What makes its items anew would give them with their secrets again.
            return tuple(map(self._clean_item, value))
        return self._clean_fields(value)

    def _clean_fields(self, value: Any) -> Any:
        kind: Any = type(value)
        changes = {}
        for name, keeps_keys in _fields_with_text(kind):
            old = getattr(value, name)
            if type(old) in _WITHOUT_TEXT:
                continue
            new = self._clean_items(old) if keeps_keys and isinstance(old, Mapping) else self._clean(old)
            if new is not old:
                changes[name] = new
        return with_fields(value, changes) if changes else value

    def _clean_items(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        items = {key: self._clean_item(item) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items

    def _clean_item(self, value: Any) -> Any:
        """Clean what stands in a mapping or a list, where a number may be a secret of digits."""
        if type(value) is int and (value >= _LARGE or value <= -_LARGE):
            return MASK if self.text(f"{value:d}") != f"{value:d}" else value
        return self._clean(value)


@cache
def _fields_with_text(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a value that may hold secrets, and whether the keys of a mapping in them are ours."""
    return tuple((name, name in _OWN_KEYS) for name in field_names(kind) if name not in _KEPT_FIELDS)


def _masked(text: str, spans: list[tuple[int, int]]) -> Iterator[str]:
    """Yield a text in pieces, one mask for all spans that touch each other."""
    spans.sort()
    at, (start, end) = 0, spans[0]
    for next_start, next_end in spans[1:]:
        if next_start <= end:
            end = max(end, next_end)
            continue
        yield text[at:start]
        yield MASK
        at, start, end = end, next_start, next_end
    yield text[at:start]
    yield MASK
    yield text[end:]


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds of each text `_FEW` to `PIECE` characters, those that begin with its rarest one.

    What begins with a rare character is ruled out at nearly every place of a text without looking further.
    """
    found: dict[str, set[str]] = {}
    for text in texts:
        starts = range(max(1, len(text) - _FEW + 1))
        start = min(starts, key=lambda at: _RARITY.get(text[at], -1))
        found.setdefault(text[start], set()).add(re.escape(text[start + 1 : start + PIECE]))
    groups = (f"{re.escape(first)}(?:{'|'.join(sorted(rest))})" for first, rest in sorted(found.items()))
    return re.compile("|".join(groups) or r"(?!)")


def _occurrences(view: str, form: str) -> Iterator[tuple[int, int]]:
    """Yield where a form stands; places that overlap, as those of a form that repeats itself may, as one."""
    start = view.find(form)
    while start >= 0:
        end, following = start + len(form), view.find(form, start + 1)
        while 0 <= following <= end:
            end, following = following + len(form), view.find(form, following + 1)
        yield start, end
        start = following


def _beginnings(view: str, form: _Form, marks: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where the beginning of a secret stands before one of the marks."""
    head = form.text[: form.least]
    start, mark = view.find(head), 0
    while start >= 0:
        while mark < len(marks) and marks[mark] < start + form.least:
            mark += 1
        if mark == len(marks):
            return
        if marks[mark] - start <= len(form.text) + 2 * PIECE:
            rest = view[start : marks[mark]]
            length = _common(rest, form.text)
            # The sign that begins a cut escape may be the secret's own next one.
            if any(_AFTER_PIECE.fullmatch(rest, at) for at in range(length, max(length - 3, 0), -1)):
                yield start, start + length
        start = view.find(head, start + 1)


def _endings(view: str, form: _Form, marks: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where the end of a secret stands behind one of the marks."""
    tail = form.text[-form.least :]
    start, mark = view.find(tail, marks[0]), 0
    while start >= 0:
        end = start + form.least
        while mark + 1 < len(marks) and marks[mark + 1] <= start:
            mark += 1
        if end - marks[mark] <= len(form.text) + 2 * PIECE:
            rest = view[marks[mark] : end]
            length = _common(rest[::-1], form.text[::-1])
            if _BEFORE_PIECE.fullmatch(rest, 0, len(rest) - length):
                yield end - length, end
        start = view.find(tail, start + 1)


def _last(view: str, start: int, end: int, texts: str) -> int:
    """Return up to where, from `start` on and before `end`, a view is a part of `texts`."""
    sound = start
    while sound < end:
        middle = (sound + end + 1) // 2
        if view[start:middle] in texts:
            sound = middle
        else:
            end = middle - 1
    return sound


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    for length, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return length
    return min(len(one), len(other))


def _least(form: str) -> int:
    """Return the length in a view of the shortest piece of a secret, which may hold white space."""
    if len(compact(form)) == len(form):
        return PIECE
    pieces = (form[start : start + PIECE] for start in range(max(1, len(form) - PIECE + 1)))
    return max(SHORTEST, min(len(compact(piece)) for piece in pieces))
