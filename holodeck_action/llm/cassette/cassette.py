"""Record, replay and cache: answers found by what was asked instead of asking again.

Errors are never stored, nor is what a content filter cut. A refusal of the model is an answer: a recording keeps it,
because the replay must show what the run saw; a cache does not, so that it is asked again.

Two calls are the same when everything is equal that can change an answer. In the key: provider, endpoint (host and
path, without port and scheme; every loopback address is `localhost`), method, query, body, the trial's index and, where
a panel asks one model for several answers, which of them it is. Two endpoints may serve different models under one
name, so the endpoint counts. Left out: headers (keys, trace ids), whom the call is made for, and the fields of the body
that only serve billing and tracing. Ids that our client library invents at random are numbered. Secrets are masked
before the key is built, so a key tells nothing about them, and a replay with another key (or a stand-in) finds the same
entry.
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

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.cassette.entries import Entries, shortened_text
from holodeck_action.llm.outcomes import kept, refused
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.redaction import Redactor

MOST_ENTRIES = 2_000
"""Recorded requests that are compared with a missing one."""
MOST_EXPLAINED = 20
"""Misses of a run that are explained; a cassette of another suite would miss with every call."""
_MOST_LINES = 5
_AROUND = 30
"""Characters shown before and after the first difference of two texts."""


class Misses:
    """Explains misses of one folder; it is read at the first one."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._known: list[tuple[str, dict[str, Any]]] | None = None
        self._explained = 0

    def explain(self, request: dict[str, Any]) -> str:
        """Return one sentence for a request (see `parts_of`) that no entry answers."""
        folder = self._entries.folder
        start = f"no recorded answer for this call in {folder}"
        way_out = "record again, or replay what was recorded"
        if self._explained >= MOST_EXPLAINED:
            return f"{start}; {way_out}"
        self._explained += 1
        if self._known is None:
            self._known = [(place, _leaves(stored)) for place, stored in self._entries.requests(MOST_ENTRIES)]
        if not self._known:
            return f"{start}, which holds none at all; {way_out}"
        wanted = _leaves(request)
        place, closest = max(self._known, key=lambda item: _likeness(item[1], wanted))
        lines = differences(closest, wanted)
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        what = "; ".join(lines[:_MOST_LINES]) + more if lines else "it differs only in a part that is not stored"
        return f"{start}; the closest is {place}, recorded → asked now: {what}; {way_out}"


_NONE = object()


def _likeness(recorded: dict[str, Any], asked: dict[str, Any]) -> tuple[int, float]:
    """Return how many places are equal, then how much of the differing texts is."""
    same, parts = 0, 0.0
    for path, value in asked.items():
        other = recorded.get(path, _NONE)
        if other == value:
            same += 1
        elif isinstance(other, str) and isinstance(value, str):
            ends = _first_difference(other, value) + _first_difference(other[::-1], value[::-1])
            parts += ends / max(len(other), len(value))
    return same, parts


def differences(recorded: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Return how two flattened requests differ, a piece for each place, in the order of the request."""
    lines = []
    for path in [*asked, *(path for path in recorded if path not in asked)]:
        before, after = recorded.get(path, _NONE), asked.get(path, _NONE)
        if before is _NONE or after is _NONE or before != after or type(before) is not type(after):
            lines.append(f"{path}: {_pair(before, after)}")
    return lines


def _pair(before: Any, after: Any) -> str:
    if not (isinstance(before, str) and isinstance(after, str)):
        return f"{_shown(before)} → {_shown(after)}"
    at = _first_difference(before, after)
    start, end = max(0, at - _AROUND), at + _AROUND
    where = f" (from character {at + 1} of {len(before)})" if max(len(before), len(after)) > 2 * _AROUND else ""
    return f"{_cut(before, start, end)} → {_cut(after, start, end)}{where}"


def _first_difference(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)


def _cut(text: str, start: int, end: int) -> str:
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"


def _shown(value: Any) -> str:
    return "nothing" if value is _NONE else _cut(value if isinstance(value, str) else repr(value), 0, 2 * _AROUND)


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten a request: `body.messages[1].content` and the like to the values there."""
    if isinstance(value, dict) and value:
        parts = [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        parts = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {path: shortened_text(value) if isinstance(value, str) else value}
    leaves: dict[str, Any] = {}
    for name, item in parts:
        leaves.update(_leaves(item, name))
    return leaves


_IDLE = frozenset(
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
"""Fields of a request's body that cannot change the answer."""
_INVENTED = re.compile(r"pyd_ai_[0-9a-zA-Z_-]+")
_PLAIN = re.compile(
    r"https?://(?!.*xn--)[\w.-]+(?::\d+)?(?:/(?!\.)[\w.~%-]*)+(?:\?[\w.~%=&-]*)?", re.ASCII | re.IGNORECASE
)
"""Addresses of which each part stands as it is written."""


@lru_cache(maxsize=256)
def _place(url: str) -> tuple[str, str]:
    """Return host and path of an address, which tell services apart, and its query."""
    if _PLAIN.fullmatch(url):
        parts = urlsplit(url)
        host, path, query = parts.hostname or "", unquote(parts.path), parts.query
    else:
        # Hosts of other scripts and paths with dots, as the library sends them.
        import httpx2

        read = httpx2.URL(url)
        host, path, query = read.host, read.path, read.query.decode("ascii", "replace")
    return ("localhost" if is_loopback(host) else host) + path, query


def parts_of(call: Call, redactor: Redactor) -> dict[str, Any]:
    """Return what a call's key is made of, as JSON values without secrets."""
    endpoint, query = _place(call.request.url)
    document = call.request.document
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in _IDLE}
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
        # Left out for the first, so that a panel's first answer is the one that a lone judge gave.
        parts["sample"] = call.context.sample
    return parts


def key_of(parts: dict[str, Any]) -> str:
    """Return the key: 40 hexadecimal digits of the parts' SHA-256."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if "pyd_ai_" in text:
        numbers: dict[str, int] = {}
        text = _INVENTED.sub(lambda match: f"pyd_ai_{numbers.setdefault(match[0], len(numbers))}", text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


Store = Callable[[Call, dict[str, Any]], Awaitable[Answer]]
"""Takes a call and what its key is made of."""


class Keys:
    """The link that gives every call its key; without it equal calls are not known to be equal."""

    def __init__(self, store: Store, redactor: Redactor, *, kept: bool) -> None:
        """Prepare.

        Args:
            store: what answers.
            redactor: masks secrets.
            kept: whether answers are found by it later; else it only tells that calls under way are the same.
        """
        self._store = store
        self._redactor = redactor
        self._kept = kept

    async def __call__(self, call: Call) -> Answer:
        """Set the key and hand on."""
        if not self._kept:
            call.key = _key_under_way(call)
            return await self._store(call, {})
        parts = parts_of(call, self._redactor)
        call.key = key_of(parts)
        return await self._store(call, parts)


def _key_under_way(call: Call) -> str:
    """Return what calls to one address have in common that say the same to the letter."""
    request, context = call.request, call.context
    said = f"{call.account.provider} {request.url} {context.repeat} {context.sample} ".encode()
    return hashlib.sha256(said + request.content).hexdigest()


class Live:
    """Without a recording; with a cache when a folder is given."""

    def __init__(
        self, next_link: Link, cache: Entries | None, ttl_s: float | None, now: Callable[[], datetime]
    ) -> None:
        self.next_link = next_link
        self._cache = cache
        self._ttl = None if ttl_s is None else timedelta(seconds=ttl_s)
        self._now = now
        self.trouble: str | None = None

    async def __call__(self, call: Call, parts: dict[str, Any]) -> Answer:
        """Answer from the cache, else ask and keep."""
        if self._cache is None:
            return await self.next_link(call)
        try:
            entry = self._cache.read(call.key)
        except WireError as error:
            # A cache is a saving, not a proof: what it cannot give is asked for.
            self.trouble, entry = error.message, None
        if entry is not None and (self._ttl is None or self._now() - entry.recorded_at < self._ttl):
            return entry.answer
        answer = await self.next_link(call)
        if kept(answer) and not refused(answer) and not answer.cached:
            try:
                self._cache.write(call.key, parts, answer, self._now())
            except WireError as error:
                self.trouble = error.message
        return answer


class Recorder:
    """Stores every answer; a call that was recorded in this run before gets the same answer again.

    Without that a second, different answer would replace the first, and the replay could not show what the run saw.
    """

    def __init__(self, source: Live, entries: Entries, now: Callable[[], datetime]) -> None:
        self._source = source
        self._entries = entries
        self._now = now
        self._recorded: set[str] = set()

    async def __call__(self, call: Call, parts: dict[str, Any]) -> Answer:
        """Ask and store.

        Raises:
            WireError: `cassette_unwritable`, `cassette_unreadable`; whatever asking raises.
        """
        if call.key in self._recorded:
            entry = self._entries.read(call.key)
            if entry is not None:
                return entry.answer
        answer = await self._source(call, parts)
        # Of calls that shared one answer the first to come back stores it.
        if kept(answer) and call.key not in self._recorded:
            self._entries.write(call.key, parts, answer, self._now())
            self._recorded.add(call.key)
        return answer


class Replay:
    """Answers from a recording only: nothing is sent."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._misses = Misses(entries)

    async def __call__(self, call: Call, parts: dict[str, Any]) -> Answer:
        """Answer with what was recorded.

        Raises:
            WireError: `cassette_miss`, `cassette_unreadable`.
        """
        entry = self._entries.read(call.key)
        if entry is None:
            raise WireError(self._misses.explain(parts), "cassette_miss")
        return entry.answer
