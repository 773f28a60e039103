"""Recorded calls as JSON documents without secrets."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.llm.calls import Answer, WireError
from holodeck_action.llm.cassette.documents import DamagedLineError, Documents, parse_document
from holodeck_action.llm.outcomes import header, parse
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.redaction import Redactor

_STREAMED_FIELDS = frozenset(
    {"text", "thinking", "partial_json", "content", "arguments", "refusal", "reasoning", "reasoning_content", "delta"}
)
"""Fields whose values are pieces of one string, spread over the events of a stream."""

_PLACES = ("index", "type", "output_index", "content_index")
"""Fields of an event that identify the string to which its piece belongs."""


def redact_events(body: str, redactor: Redactor) -> str:
    """Return the body of an event stream (SSE, or one JSON value per line) without secrets.

    If a secret is spread over several events, the first of these events receives the whole redacted text, and the text
    of the other ones becomes empty. Events without a part of a secret stay unchanged.
    """
    lines = body.split("\n")
    events = {number: event for number, line in enumerate(lines) if (event := _parse_event(line)) is not None}
    texts: defaultdict[tuple[Any, ...], list[tuple[int, dict[str, Any], str]]] = defaultdict(list)
    for number, event in events.items():
        try:
            pieces = list(_text_pieces(event, tuple(event.get(name) for name in _PLACES)))
        except RecursionError:
            # The nesting is too deep for any provider's events; secrets within one event are still redacted below.
            continue
        for path, holder, name in pieces:
            texts[path].append((number, holder, name))
    changed: set[int] = set()
    for parts in texts.values():
        text = "".join(holder[name] for _, holder, name in parts)
        clean = redactor.text(text)
        if clean == text:
            continue
        for position, (number, holder, name) in enumerate(parts):
            holder[name] = "" if position else clean
            changed.add(number)
    for number in changed:
        start = "data: " if lines[number].startswith("data:") else ""
        lines[number] = start + json.dumps(events[number], ensure_ascii=False)
    return redactor.text("\n".join(lines))


def _parse_event(line: str) -> dict[str, Any] | None:
    try:
        event = parse_json(line.removeprefix("data:"))
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _text_pieces(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """Yield (path, mapping, key) for each piece of text in an event: `mapping[key]` is the piece, and all pieces of one
    string have the same path.
    """
    if isinstance(value, list):
        for position, item in enumerate(value):
            # Choices and calls are identified by `index`; their order within an event may vary.
            index = item.get("index", position) if isinstance(item, Mapping) else position
            yield from _text_pieces(item, (*path, index))
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str):
                if name in _STREAMED_FIELDS:
                    yield (*path, name), value, name
            else:
                yield from _text_pieces(item, (*path, name))


FORMAT = 1
_MAX_TEXT = 20_000
"""Maximum characters of one string in a stored request. Longer strings, such as images, are replaced by their beginning
and digest, because requests are only read and compared.
"""
_FOREIGN = "it is not a recorded call of this version"
_KEPT_HEADERS = ("content-type", "retry-after")


class RecordedCall(Struct, frozen=True):
    """A recorded call: its request (see `cassette.key_parts`), the answer, and the time of recording."""

    request: dict[str, Any]
    answer: Answer
    recorded_at: datetime


class RecordedCalls:
    """Recorded calls by cache key."""

    def __init__(self, documents: Documents, redactor: Redactor) -> None:
        """Create the instance; no file is read or created yet."""
        self.documents = documents
        self._redactor = redactor

    @property
    def folder(self) -> Path:
        """The folder of the recorded calls."""
        return self.documents.folder

    def read(self, key: str) -> RecordedCall | None:
        """Return the entry of a key; None if the key has no entry.

        Raises:
            WireError: `cassette_unreadable`.
        """
        try:
            data = self.documents.read(key)
        except OSError as error:
            raise _unreadable_error(
                self.documents.describe_location(key), error.strerror or type(error).__name__
            ) from None
        except DamagedLineError as error:
            raise _unreadable_error(error.place, _FOREIGN) from None
        if data is None:
            return None
        try:
            return data.parse(_parse_entry)
        except ForeignError:
            raise _unreadable_error(self.documents.describe_location(key), _FOREIGN) from None

    def digest(self, key: str) -> str | None:
        """Return the SHA-256 (hex) of a key's stored entry; None if it is missing or unreadable."""
        try:
            data = self.documents.read(key)
        except (OSError, DamagedLineError):
            return None
        # Git may have changed the line ending.
        return None if data is None else data.parse(lambda line: hashlib.sha256(line.rstrip(b"\r\n")).hexdigest())

    def write(self, key: str, request: dict[str, Any], answer: Answer, now: datetime) -> None:
        """Store an answer.

        Raises:
            WireError: `cassette_unwritable`.
        """
        if isinstance(answer.payload, list) or answer.payload is None:
            body: dict[str, Any] = {"text": redact_events(answer.body.decode("utf-8", "replace"), self._redactor)}
        else:
            body = {"json": self._redactor.value(answer.payload)}
        if answer.changes:
            body["changes"] = self._redactor.value([*answer.changes])
        headers = {name: self._redactor.text(value) for name in _KEPT_HEADERS if (value := header(answer, name))}
        document = {
            "format": FORMAT,
            "recorded_at": now.isoformat(timespec="seconds"),
            "request": _shorten(request),
            "response": {"status": answer.status, "latency_s": round(answer.latency_s, 4), "headers": headers, **body},
        }
        try:
            self.documents.write(key, json.dumps(document, ensure_ascii=False, separators=(",", ":")))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            message = f"the answer cannot be recorded in {self.folder}: {reason}"
            raise WireError(message, "cassette_unwritable") from None

    def requests(self, limit: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the location and request of up to `limit` entries, in the order of their keys; invalid entries are
        skipped.
        """
        for key in islice(self.documents.keys(), limit):
            try:
                data = self.documents.read(key)
                request = None if data is None else data.parse(parse_document).get("request")
            except (OSError, ForeignError):
                continue
            if isinstance(request, dict):
                yield self.documents.describe_location(key), request

    def close(self) -> None:
        """Finish writing; see `Documents.close`."""
        self.documents.close()


class Recording(Struct, frozen=True):
    """A folder of recorded answers of a target that is no model.

    Attributes:
        entries: the recorded answers.
        redactor: masks the declared secrets in a request, so that it is equal on every machine.
        replays: whether the target must answer from the folder; otherwise its answers are stored there.
    """

    entries: RecordedCalls
    redactor: Redactor
    replays: bool


def shorten_text(text: str) -> str:
    """Return a string unchanged, or its beginning and digest if it is too long to store."""
    if len(text) <= _MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:200]}… ({len(text)} characters, sha256:{digest})"


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shorten(item) for item in value]
    return value


def _parse_entry(data: bytes) -> RecordedCall:
    document = parse_document(data)
    if document["format"] != FORMAT:
        raise ValueError
    request, response = document["request"], document["response"]
    headers = tuple((str(name), str(value)) for name, value in response["headers"].items())
    status, latency = response["status"], float(response["latency_s"])
    if not isinstance(status, int) or not 200 <= status < 300 or not math.isfinite(latency):
        raise ValueError
    if "text" in response:
        body = response["text"].encode("utf-8", "surrogatepass")
        payload = parse(next((value for name, value in headers if name == "content-type"), ""), body)
    else:
        body, payload = b"", response["json"]
    at = datetime.fromisoformat(document["recorded_at"])
    if at.tzinfo is None:
        raise ValueError
    changes = response.get("changes", [])
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        raise ValueError
    answer = Answer(status, headers, body, payload, latency, cached=True, changes=tuple(changes))
    return RecordedCall(dict(request), answer, at)


def _unreadable_error(place: str, reason: str) -> WireError:
    return WireError(
        f"the recorded answer {place} cannot be read ({reason}); delete it there and record it again",
        "cassette_unreadable",
    )
