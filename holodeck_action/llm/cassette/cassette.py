"""Recording, replaying and caching of model answers.

Errors are never stored, and neither are answers cut by a content filter. A recording stores a model's refusal to
answer, because the replay must repeat the run. A cache does not, so that the model is called again.

Two calls have the same key if everything that can change the answer is equal: provider, endpoint (host and path,
without port and scheme; every loopback address counts as `localhost`), method, query, body, the trial's index and, if a
panel calls one model several times, the number of the answer. The endpoint counts because two endpoints may serve
different models under one name. The key ignores headers (API keys, trace ids), the purpose of the call, and body fields
that only serve billing and tracing. Random ids that our client generates are numbered. Secrets are masked before the
key is built: a key reveals nothing about them, and a replay with another API key finds the same entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.cassette.recorded_calls import RecordedCalls, shorten_text
from holodeck_action.llm.outcomes import is_refusal, is_storable
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.redaction import Redactor

MOST_ENTRIES = 2_000
"""Maximum number of recorded requests that are compared with a request that is not recorded."""
MOST_EXPLAINED = 20
"""Maximum number of cassette misses that a run explains. With the cassette of another suite every call is a miss."""
_MOST_LINES = 5
_AROUND = 30
"""Characters shown before and after the first difference between two strings."""


class MissExplainer:
    """Explains why a cassette folder has no answer to a request. The folder is read when the first explanation is
    needed."""

    def __init__(self, entries: RecordedCalls) -> None:
        self._entries = entries
        self._known: list[tuple[str, dict[str, Any]]] | None = None
        self._explained = 0

    def explain(self, request: dict[str, Any]) -> str:
        """Return a sentence about how a request (see `key_parts`) differs from the most similar recorded request."""
        folder = self._entries.folder
        start = f"no recorded answer for this call in {folder}"
        way_out = "record again, or replay the recorded suite"
        if self._explained >= MOST_EXPLAINED:
            return f"{start}; {way_out}"
        self._explained += 1
        if self._known is None:
            self._known = [(place, _flatten(stored)) for place, stored in self._entries.requests(MOST_ENTRIES)]
        if not self._known:
            return f"{start}, which is empty; {way_out}"
        wanted = _flatten(request)
        place, closest = max(self._known, key=lambda item: _similarity(item[1], wanted))
        lines = differences(closest, wanted)
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        what = "; ".join(lines[:_MOST_LINES]) + more if lines else "it differs only in a part that is not stored"
        return f"{start}; the closest is {place}, recorded → asked now: {what}; {way_out}"


_NONE = object()


def _similarity(recorded: dict[str, Any], requested: dict[str, Any]) -> tuple[int, float]:
    """Return the number of equal values, and the similarity of the differing strings."""
    same, parts = 0, 0.0
    for path, value in requested.items():
        other = recorded.get(path, _NONE)
        if other == value:
            same += 1
        elif isinstance(other, str) and isinstance(value, str):
            ends = _first_difference(other, value) + _first_difference(other[::-1], value[::-1])
            parts += ends / max(len(other), len(value))
    return same, parts


def differences(recorded: dict[str, Any], requested: dict[str, Any]) -> list[str]:
    """Return a description of each value that differs between two flattened requests, in the order of `requested`."""
    lines = []
    for path in [*requested, *(path for path in recorded if path not in requested)]:
        before, after = recorded.get(path, _NONE), requested.get(path, _NONE)
        if before is _NONE or after is _NONE or before != after or type(before) is not type(after):
            lines.append(f"{path}: {_describe_change(before, after)}")
    return lines


def _describe_change(before: Any, after: Any) -> str:
    if not (isinstance(before, str) and isinstance(after, str)):
        return f"{_format_value(before)} → {_format_value(after)}"
    at = _first_difference(before, after)
    start, end = max(0, at - _AROUND), at + _AROUND
    where = f" (from character {at + 1} of {len(before)})" if max(len(before), len(after)) > 2 * _AROUND else ""
    return f"{_excerpt(before, start, end)} → {_excerpt(after, start, end)}{where}"


def _first_difference(first: str, second: str) -> int:
    shorter = min(len(first), len(second))
    return next((index for index in range(shorter) if first[index] != second[index]), shorter)


def _excerpt(text: str, start: int, end: int) -> str:
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"


def _format_value(value: Any) -> str:
    return "nothing" if value is _NONE else _excerpt(value if isinstance(value, str) else repr(value), 0, 2 * _AROUND)


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten a request to a mapping from paths such as `body.messages[1].content` to values."""
    if isinstance(value, dict) and value:
        parts = [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {path: shorten_text(value) if isinstance(value, str) else value}
    leaves: dict[str, Any] = {}
    for name, item in parts:
        leaves.update(_flatten(item, name))
    return leaves


_IGNORED_FIELDS = frozenset(
    {
        "user",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "store",
        "keep_alive",
    }
)
"""Fields of a request body that cannot change the answer; keys ignore them."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_GENERATED_ID = lazy_pattern(r"pyd_ai_[0-9a-zA-Z_-]+")
_NORMALIZED_URL = lazy_pattern(
    r"https?://(?!.*xn--)[\w.-]+(?::\d+)?(?:/(?!\.)[\w.~%-]*)+(?:\?[\w.~%=&-]*)?", re.ASCII | re.IGNORECASE
)
"""Matches URLs without characters that a URL parser would normalise."""


@lru_cache(maxsize=256)
def _split_url(url: str) -> tuple[str, str]:
    """Return host and path of a URL, which identify the service, and its query."""
    if _NORMALIZED_URL.fullmatch(url):
        parts = urlsplit(url)
        host, path, query = parts.hostname or "", unquote(parts.path), parts.query
    else:
        # Internationalised hosts and paths with dots are normalised as the library does it.
        import httpx2

        read = httpx2.URL(url)
        host, path, query = read.host, read.path, read.query.decode("ascii", "replace")
    return ("localhost" if is_loopback(host) else host) + path, query


def key_parts(call: Call, redactor: Redactor) -> dict[str, Any]:
    """Return the parts of a call's cache key as JSON values without secrets."""
    endpoint, query = _split_url(call.request.url)
    document = call.request.document
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in _IGNORED_FIELDS}
    elif document is None and call.request.content:
        document = f"sha256:{hashlib.sha256(call.request.content).hexdigest()}"
    parts = {
        "provider": call.account.provider,
        "endpoint": redactor.text(endpoint),
        "method": "POST",
        "query": redactor.text(query),
        "repeat": call.context.repeat,
        "body": redactor.value(document),
    }
    if call.context.sample:
        # Omitted for the first sample, so that a panel's first answer has the same key as a single judge's.
        parts["sample"] = call.context.sample
    return parts


def make_key(key_parts: dict[str, Any]) -> str:
    """Return the cache key: 40 hexadecimal digits of the SHA-256 of the parts."""
    text = _ENCODER.encode(key_parts)
    if "pyd_ai_" in text:
        numbers: dict[str, int] = {}
        text = _GENERATED_ID.sub(lambda match: f"pyd_ai_{numbers.setdefault(match[0], len(numbers))}", text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


Store = Callable[[Call, dict[str, Any]], Awaitable[Answer]]
"""A link that also receives the parts of the call's cache key (see `key_parts`)."""


class CacheKeys:
    """The link of the wire that sets each call's cache key. Two calls are equal if their keys are equal."""

    def __init__(self, store: Store, redactor: Redactor, *, persistent: bool) -> None:
        """Create the link.

        Args:
            store: the next link.
            redactor: masks secrets.
            persistent: whether answers are stored under the key; if not, the key only identifies equal calls in
                progress.
        """
        self._store = store
        self._redactor = redactor
        self._kept = persistent

    async def __call__(self, call: Call) -> Answer:
        """Set the key and pass the call on."""
        if not self._kept:
            call.key = _pending_key(call)
            return await self._store(call, {})
        parts = key_parts(call, self._redactor)
        call.key = make_key(parts)
        return await self._store(call, parts)


def _pending_key(call: Call) -> str:
    """Return a key that equal requests to the same URL share; it is only used for calls in progress."""
    request, context = call.request, call.context
    said = f"{call.account.provider} {request.url} {context.repeat} {context.sample} ".encode()
    return hashlib.sha256(said + request.content).hexdigest()


class LiveCalls:
    """Answers calls from the cache if the cache has the answer; otherwise calls the model."""

    def __init__(
        self, next_link: Link, cache: RecordedCalls | None, ttl_s: float | None, now: Callable[[], datetime]
    ) -> None:
        self.next_link = next_link
        self._cache = cache
        self._ttl = None if ttl_s is None else timedelta(seconds=ttl_s)
        self._now = now
        self.trouble: str | None = None

    async def __call__(self, call: Call, key_parts: dict[str, Any]) -> Answer:
        """Answer from the cache; otherwise call the model and store the answer."""
        if self._cache is None or call.context.fresh:
            return await self.next_link(call)
        try:
            entry = self._cache.read(call.key)
        except WireError as error:
            # An unreadable cache entry must not fail the run: the model is called instead.
            self.trouble, entry = error.message, None
        if entry is not None and (self._ttl is None or self._now() - entry.recorded_at < self._ttl):
            return entry.answer
        answer = await self.next_link(call)
        if is_storable(answer) and not is_refusal(answer) and not answer.cached:
            try:
                self._cache.write(call.key, key_parts, answer, self._now())
            except WireError as error:
                self.trouble = error.message
        return answer


class Recorder:
    """Stores every answer. If an equal call follows in the same run, it gets the recorded answer.

    If the model were called again, its answer could differ and replace the first answer, and the replay could not
    repeat the run.
    """

    def __init__(self, source: LiveCalls, entries: RecordedCalls, now: Callable[[], datetime]) -> None:
        self._source = source
        self._entries = entries
        self._now = now
        self._recorded: set[str] = set()

    async def __call__(self, call: Call, key_parts: dict[str, Any]) -> Answer:
        """Call the model and store the answer.

        Raises:
            WireError: `cassette_unwritable`, `cassette_unreadable`, or an error of the call.
        """
        if call.key in self._recorded:
            entry = self._entries.read(call.key)
            if entry is not None:
                return entry.answer
        answer = await self._source(call, key_parts)
        # If several calls shared one answer, the first one stores it.
        if is_storable(answer) and call.key not in self._recorded:
            self._entries.write(call.key, key_parts, answer, self._now())
            self._recorded.add(call.key)
        return answer


class Replay:
    """Answers calls from a recording; no request is sent."""

    def __init__(self, entries: RecordedCalls, redactor: Redactor) -> None:
        self._entries = entries
        self._redactor = redactor
        self._misses = MissExplainer(entries)

    async def __call__(self, call: Call, key_parts: dict[str, Any]) -> Answer:
        """Return the recorded answer.

        Raises:
            WireError: `cassette_miss`, `cassette_unreadable`.
        """
        entry = self._entries.read(call.key)
        if entry is not None:
            return entry.answer
        if (answer := self._alternative(call)) is not None:
            return answer
        raise WireError(self._misses.explain(key_parts), "cassette_miss")

    def _alternative(self, call: Call) -> Answer | None:
        """Return the recorded answer to one of the alternatives of the call's request, which it replaces; None if none
        is recorded.
        """
        for request in () if call.request.alternatives is None else call.request.alternatives():
            key = make_key(key_parts(Call(call.account, request, call.context), self._redactor))
            if (entry := self._entries.read(key)) is not None:
                call.request, call.key = request, key
                return replace(entry.answer, alternative=request)
        return None
