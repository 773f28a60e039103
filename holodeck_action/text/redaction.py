"""Redaction of secrets in every text that leaves the program.

The order is: decode (invisible characters, compatibility forms, escapes, colours, tags), mask, and only then cut and
render. The search reads several decoded layers of a text (see `views`), so that no later step can assemble a secret
that the search has missed. The rest of the text is not changed.

What looks like a key (see `key_forms`) is masked without a declaration, too. `Redactor.declared` leaves that out,
for what must be equal in every version: the keys of recordings, digests, and texts that a model gets.

A random secret is masked wherever a few of its consecutive letters and digits occur (see `randomness`), even with other
characters between them. Any other secret is found only as a whole, as written or encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import count
from operator import is_
from typing import Any, TypeVar

from msgspec import Struct

from holodeck_action.text.credentials import SHORTEST_PART
from holodeck_action.text.fields import field_names, replace_fields
from holodeck_action.text.key_forms import find_keys
from holodeck_action.text.named_values import is_named_key
from holodeck_action.text.secret_forms import encodings, escaped_forms, random_values, slug_of, unencoded_forms
from holodeck_action.text.secret_parts import SHORTEST, secret_parts
from holodeck_action.text.views import (
    ESCAPES,
    Decoder,
    OriginalPositions,
    Projection,
    bare,
    compact,
    layers,
    plain,
    unchanged,
)
from holodeck_action.text.windows import RandomValueSearch

T = TypeVar("T")

MASK = "***"
_LEAST_BROKEN = 12
"""Minimum number of characters of a secret that is also found with white space inside. A shorter secret could match
words of a sentence."""
# Fields that verdicts depend on hold no text of the agent or the suite: a secret that reads "failed" must not change an
# outcome. Digests and ids are compared later.
_KEPT_FIELDS = frozenset(
    (
        *("code", "kind", "polarity", "status", "state", "outcome", "judged", "timestamp", "started_at", "finished_at"),
        *("created_at", "run_id", "evaluation_id", "target_event_id", "commit", "wanted", "digest", "base_digest"),
        *("record_digest", "results_digest", "suite_digest", "content_hash", "measure", "split", "tool_version"),
    )
)
_OWN_KEYS = frozenset(("context", "metadata", "settings"))
"""Fields whose value is a mapping with keys of this program: only its values may hold secrets."""
_WITHOUT_TEXT = frozenset((type(None), bool, int, float))
_LONGEST_CACHED, _MOST_CACHED = 120, 4_000
"""Maximum length and number of texts without secrets that are cached, since names and versions recur."""
_DIGITS = 8
"""Minimum number of digits of a number that may be a secret."""
_LONGEST_ID = 60
"""A case id of at least this length may have been cut from a longer name."""
_PIECE = 8
"""Number of letters and digits at the cut end of a case id that are enough to identify a secret."""
_LEAST_PATTERN = 4
_UNESCAPED = frozenset((ESCAPES,))
"""Decoders of the layers in which undeclared keys are searched."""
_RARITY = {sign: rank for rank, sign in enumerate("zqxj0123456789kvbypgfwm_-:/cu=ldrhsnioate.,'\"")}
"""Ranks of the characters of English text, 0 for the rarest; all other characters are rarer."""


class _StringSearch:
    """A search for whole strings in one projection of a text (see `views`)."""

    def __init__(self, projection: Projection, texts: Iterable[str]) -> None:
        self.projection = projection
        self._texts = tuple(texts)
        self._some = _any_pattern(self._texts)

    def find(self, view: str) -> list[tuple[int, int]]:
        """Return the (start, end) of each occurrence of the strings in `view`, a text in this projection."""
        # Most texts hold none, which one look shows.
        if self._some.search(view) is None:
            return []
        return [span for text in self._texts if text in view for span in _occurrences(view, text)]


class Redactor:
    """Replaces secrets, and what looks like a key, with `***`, however they are written; `docs/security.md` has the
    rules."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Prepare the search for `secrets` and their parts; values shorter than `SHORTEST` are not replaced."""
        found = {part for secret in secrets for part in secret_parts(secret)}
        whole = sorted(found, key=lambda part: (-len(part), part))
        values = [value for part in whole for value in random_values(part)]
        covered = {value.letters for value in values if value.starts and value.is_covered}
        others = [part for part in whole if bare(part) not in covered]
        texts = dict.fromkeys(form for part in others for form in unencoded_forms(part))
        broken = dict.fromkeys(text for form in texts if len(text := compact(form)) >= _LEAST_BROKEN)
        broken |= dict.fromkeys(compact(form) for part in others for form in encodings(part))
        unbroken = dict.fromkeys(plain(form) for form in texts if SHORTEST <= len(compact(form)) < _LEAST_BROKEN)
        # A secret without visible characters is searched for as it is.
        self._exact = tuple(form for part in others if len(compact(part)) < SHORTEST for form in escaped_forms(part))
        found_in = ((compact, broken), (plain, unbroken))
        self._searches = tuple(_StringSearch(way, texts) for way, texts in found_in if texts)
        self._random_search = RandomValueSearch(values)
        self._edges = _edges(whole)
        slugs = (slug_of(part).replace("-", "") for part in whole)
        self._slugs = tuple(dict.fromkeys(slug for slug in slugs if len(slug) >= SHORTEST_PART))
        self._finds_declared = bool(self._searches or self._exact or self._random_search)
        self._finds_any = self._finds_forms = True
        self._numbers = any(bare(part).isdecimal() for part in whole)
        self._known: set[str] = set()

    @property
    def declared(self) -> Redactor:
        """The redactor of the declared secrets alone, without what only looks like a key."""
        other = copy(self)
        other._finds_any, other._finds_forms, other._known = self._finds_declared, False, set()
        return other

    def text(self, text: str) -> str:
        """Return a text with its secrets masked; a text without secrets is returned unchanged."""
        if not self._finds_any or text in self._known:
            return text
        declared, keys = self._secret_spans(text)
        if declared:
            text = "".join(_mask_spans(text, declared))
            # As in a recording, where the declared secrets are masked already: a replay shows the same.
            keys = self._secret_spans(text)[1]
        elif not keys and len(text) <= _LONGEST_CACHED and len(self._known) < _MOST_CACHED:
            self._known.add(text)
        return "".join(_mask_spans(text, keys)) if keys else text

    def value(self, value: T) -> T:
        """Return a value with the secrets masked in its strings, mappings (keys too), sequences and fields.

        A value without secrets is returned itself, not a copy.
        """
        if not self._finds_any:
            return value
        cleaned: T = self._clean(value)
        return cleaned

    def case_id(self, case_id: str, content_hash: str) -> str:
        """Return a case id, or `case-` and 12 digits of the content hash if the id contains a secret."""
        innocent = self.text(case_id) == case_id and not self._has_secret_slug(case_id)
        return case_id if innocent else f"case-{content_hash[:12]}"

    def _secret_spans(self, text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the (start, end) of each declared secret in a text, and of all else that looks like a key, both in any
        order."""
        keys: list[tuple[int, int]] = []
        found = [span for form in self._exact for span in _occurrences(text, form)]
        for steps, layer in layers(text):
            if self._finds_forms and set(steps) <= _UNESCAPED:
                spans = list(find_keys(layer))
                keys += _locate(text, steps, unchanged, spans) if steps else spans
            for way in self._searches:
                found += _locate(text, steps, way.projection, way.find(way.projection(layer)))
            if self._random_search:
                view = bare(layer)
                pieces = self._random_search.find(view)
                if pieces:
                    found += self._extend_to_edges(
                        text, _locate(text, steps, bare, pieces), (view[a:b] for a, b in pieces)
                    )
        return found, keys

    def _extend_to_edges(
        self, text: str, spans: Iterable[tuple[int, int]], pieces: Iterable[str]
    ) -> Iterator[tuple[int, int]]:
        """Yield the spans. A span that covers all letters and digits of a random secret is extended by the secret's
        other characters at both ends."""
        for (start, end), piece in zip(spans, pieces, strict=True):
            before, after = self._edges.get(piece, ("", ""))
            if before and text.endswith(before, 0, start):
                start -= len(before)
            if after and text.startswith(after, end):
                end += len(after)
            yield start, end

    def _has_secret_slug(self, case_id: str) -> bool:
        """Return whether the letters and digits of a case id contain a secret, or end with the start of a secret
        because the id was cut."""
        letters = "".join(filter(str.isalnum, case_id)).lower()
        for slug in self._slugs:
            if slug in letters:
                return True
            start = letters.find(slug[:_PIECE]) if len(case_id) >= _LONGEST_ID else -1
            while start >= 0:
                # A duplicate id ends with eight digits of the content hash.
                if slug.startswith((letters[start:], letters[start:-8])) and len(letters) - start >= _PIECE:
                    return True
                start = letters.find(slug[:_PIECE], start + 1)
        return False

    def _clean(self, value: Any) -> Any:
        # Most values can be told by their exact type.
        kind: Any = type(value)
        if kind is str or isinstance(value, str):
            return self.text(value)
        if kind in _WITHOUT_TEXT:
            return value
        if isinstance(value, Struct):
            return self._clean_fields(value)
        if kind is tuple or kind is list or isinstance(value, tuple | list):
            items = [self._clean_item(item) for item in value]
            if all(map(is_, value, items)):
                return value
            return tuple(items) if isinstance(value, tuple) else items
        if kind is dict or isinstance(value, Mapping):
            return self._clean_mapping(value)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            # Any other sequence, whose items may hold secrets, too.
            return tuple(map(self._clean_item, value))
        return self._clean_fields(value)

    def _clean_mapping(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        made: dict[Any, Any] = {}
        unchanged = True
        for old_key, old_item in value.items():
            key = old_key if old_key in self._known else self._clean(old_key)
            item = MASK if self._is_named_key(old_key, old_item) else self._clean_item(old_item)
            if key is not old_key:
                # Different secrets must stay different keys.
                names = (key if number == 1 else f"{key} ({number})" for number in count(1))
                key = next(name for name in names if name not in made and name not in value)
            unchanged = unchanged and key is old_key and item is old_item
            made[key] = item
        return value if unchanged else made

    def _clean_fields(self, value: Any) -> Any:
        kind: Any = type(value)
        changes = {}
        for name, keeps_keys in _fields_with_text(kind):
            old = getattr(value, name)
            if not old or type(old) in _WITHOUT_TEXT or (type(old) is str and old in self._known):
                continue
            new = self._clean_items(old) if keeps_keys and isinstance(old, Mapping) else self._clean(old)
            if new is not old:
                changes[name] = new
        return replace_fields(value, changes) if changes else value

    def _clean_items(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        items = {key: MASK if self._is_named_key(key, item) else self._clean_item(item) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items

    def _is_named_key(self, name: Any, value: Any) -> bool:
        return self._finds_forms and type(value) is str and type(name) is str and is_named_key(name, value)

    def _clean_item(self, value: Any) -> Any:
        """Clean an item of a mapping or list. Numbers are checked, too, since a secret may consist of digits."""
        kind = type(value)
        if kind is int or kind is float:
            return MASK if self._numbers and self._is_secret_number(value) else value
        return value if kind is str and value in self._known else self._clean(value)

    def _is_secret_number(self, number: int | float) -> bool:
        written = (f"{number:d}",) if isinstance(number, int) else (f"{number:.0f}", repr(number).replace(".", ""))
        return any(len(digits) >= _DIGITS and self.text(digits) != digits for digits in written)


@cache
def _fields_with_text(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return a pair for each field of a class that may contain secrets: its name, and whether the keys of its mapping
    are left unmasked."""
    return tuple((name, name in _OWN_KEYS) for name in field_names(kind) if name not in _KEPT_FIELDS)


def mask_keys(text: str) -> str:
    """Return a text with what looks like a key masked; for a text that is cut before a redactor sees it."""
    return _KEYS_ALONE.text(text)


def _mask_spans(text: str, spans: list[tuple[int, int]]) -> Iterator[str]:
    """Yield the pieces of a text with its spans masked; spans that overlap or touch get one mask."""
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


def _any_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches in every string that contains one of the texts.

    Of each text, it matches up to `_PIECE` characters, starting with the rarest one, because a rare first character
    rules out nearly every position at once.
    """
    found: dict[str, set[str]] = {}
    for text in texts:
        starts = range(max(1, len(text) - _LEAST_PATTERN + 1))
        start = min(starts, key=lambda at: _RARITY.get(text[at], -1))
        found.setdefault(text[start], set()).add(re.escape(text[start + 1 : start + _PIECE]))
    groups = (f"{re.escape(first)}(?:{'|'.join(sorted(rest))})" for first, rest in sorted(found.items()))
    return re.compile("|".join(groups) or r"(?!)")


def _occurrences(view: str, spelling: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each occurrence of `spelling`, a spelling of a secret, in `view`; occurrences that
    touch are joined."""
    start = view.find(spelling)
    while start >= 0:
        end, following = start + len(spelling), view.find(spelling, start + 1)
        while 0 <= following <= end:
            end, following = following + len(spelling), view.find(spelling, following + 1)
        yield start, end
        start = following


def _locate(
    text: str, steps: tuple[Decoder, ...], projection: Projection, spans: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the spans in a text that correspond to the spans `spans` in a projected layer of it."""
    if not spans:
        return []
    places = OriginalPositions(text, steps, projection)
    return [places.span(start, end) for start, end in spans]


def _edges(steps: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the characters before the first and after the last letter or digit of each secret that has such
    characters.

    The keys are the letters and digits of the secrets.
    """
    found = {}
    for part in steps:
        inner = [at for at, sign in enumerate(part) if sign.isalnum()]
        if inner and (inner[0] or inner[-1] < len(part) - 1):
            found[bare(part)] = (part[: inner[0]], part[inner[-1] + 1 :])
    return found


_KEYS_ALONE = Redactor(())
