"""Secrets leave the record before anything is written or shown (DESIGN §7).

What is redacted: values of substituted variables, secret-named fields, the policy's `secrets`, and environment
variables whose names say that they are secret.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

T = TypeVar("T")

MASK = "***"
SHORTEST = 4
"""Characters; a shorter value stands in too much innocent text to be hidden."""
SHORTEST_LINE = 8
"""Characters of a line of a multi-line secret, such as a key file, that is hidden on its own."""
# What a verdict rests on is no text of the agent's or the suite's: a secret that happens to read "failed" must not
# turn a failed evaluation into another one.
_KEPT_FIELDS = frozenset(("code", "kind", "polarity", "status", "timestamp", "started_at"))
_OWN_KEYS = frozenset(("context", "metadata", "settings"))
"""Fields that hold a mapping with keys of our own; the values in it may hold secrets."""
_KNOWN_LONGEST, _KNOWN_MOST = 40, 4_000
"""Characters and number of texts without secrets that are remembered: names of fields come again and again."""
_URL_SAFE = str.maketrans("+/", "-_")
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)$", re.IGNORECASE)


class Redactor:
    """Replaces secrets by `***`, also escaped for JSON, Python, HTML or a URL, in base64, or as part of a case id."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Prepare the replacement of `secrets`; values below `SHORTEST` characters are left alone."""
        forms = {form for secret in secrets if len(secret.strip()) >= SHORTEST for form in _forms(secret.strip())}
        # The longest first: a secret that contains another one goes as a whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE) if ordered else None
        # Between ASCII texts, small letters are all that the pattern's way of comparing comes to.
        self._small = [form.lower() for form in ordered] if all(map(str.isascii, ordered)) else None
        self._known: set[str] = set()

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if self._pattern is None:
            return text
        if self._small is not None and text.isascii():
            # Most texts hold none, and looking for each is faster than matching any at every place.
            if text in self._known:
                return text
            small = text.lower()
            for form in self._small:
                if form in small:
                    break
            else:
                if len(text) <= _KNOWN_LONGEST and len(self._known) < _KNOWN_MOST:
                    self._known.add(text)
                return text
        return self._pattern.sub(MASK, text)

    def value(self, value: T) -> T:
        """Return a value without secrets: texts in it, in mappings (keys too), sequences and dataclasses.

        What holds no secret is returned itself, not a copy.
        """
        if self._pattern is None:
            return value
        cleaned: T = self._clean(value)
        return cleaned

    def case_id(self, case_id: str, content_hash: str) -> str:
        """Return a case id without secrets that is still the only one: made of the content hash where one is in it."""
        return case_id if self.text(case_id) == case_id else f"case-{content_hash[:12]}"

    def _clean_field(self, name: str, value: Any) -> Any:
        if name not in _OWN_KEYS or not isinstance(value, Mapping):
            return self._clean(value)
        items = {key: self._clean(item) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            pairs = [(self._clean(key), self._clean(item)) for key, item in value.items()]
            unchanged = all(
                key is old_key and item is old_item
                for (key, item), (old_key, old_item) in zip(pairs, value.items(), strict=True)
            )
            return value if unchanged else dict(pairs)
        if isinstance(value, tuple | list):
            items = [self._clean(item) for item in value]
            if all(old is new for old, new in zip(value, items, strict=True)):
                return value
            return tuple(items) if isinstance(value, tuple) else items
        if is_dataclass(value) and not isinstance(value, type):
            changes = {}
            for item in fields(value):
                old = getattr(value, item.name)
                new = old if item.name in _KEPT_FIELDS else self._clean_field(item.name, old)
                if new is not old:
                    changes[item.name] = new
            return replace(value, **changes) if changes else value
        return value


def environment_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables whose names say that they are secret, such as `OPENAI_API_KEY`."""
    return frozenset(
        value for name, value in environ.items() if len(value) >= SHORTEST_LINE and _SECRET_NAME.search(name)
    )


def _forms(secret: str) -> Iterable[str]:
    """Yield how a secret may be written: as it is, by line, escaped, and as part of a case id."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    yield from _base64_forms(secret.encode("utf-8", "surrogatepass"))
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= SHORTEST_LINE)
    slug = re.sub(r"[^0-9a-z]+", "-", secret.lower()).strip("-")
    if len(slug) >= SHORTEST_LINE:
        yield slug


def _base64_forms(secret: bytes) -> Iterable[str]:
    """Yield how a secret stands in base64, alone or inside of something longer.

    Three bytes become four characters, so there are three ways, by where the secret begins. Of each, those characters
    are taken that depend on nothing else.
    """
    if len(secret) < SHORTEST_LINE:
        return
    for before, start in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(bytes(before) + secret).decode()[start : (before + len(secret)) * 8 // 6]
        yield text
        yield text.translate(_URL_SAFE)
