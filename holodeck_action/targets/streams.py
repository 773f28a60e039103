"""Streamed replies: parsing of server-sent events, and assembly of the parts to one reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.targets.shapes import refuse_type

DONE = "[DONE]"
"""Data of the event that ends a stream, as in OpenAI's API."""


class EventParser:
    """Parses server-sent events. Source: WHATWG HTML, "Interpreting an event stream"."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of each event that is complete after these bytes."""
        self._rest += chunk
        # A carriage return at the end may be followed by a line feed, which belongs to the same line end.
        whole = self._rest[:-1] if self._rest.endswith(b"\r") else self._rest
        lines = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + self._rest[len(whole) :]
        for line in lines:
            if line:
                self._parse_line(line.decode("utf-8", "replace"))
            elif self._data:
                data, self._data = "\n".join(self._data), []
                yield data

    def _parse_line(self, line: str) -> None:
        name, _, value = line.removeprefix("\ufeff").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


class StreamedReply:
    """Assembles a reply from parts `{delta: text}` and a final reply object.

    If the reply object has no `response`, the texts of the parts are joined to the response.
    """

    def __init__(self, max_bytes: int) -> None:
        """Create an empty reply.

        Args:
            max_bytes: maximum bytes of UTF-8 in the whole reply (`limits.max_response_bytes`).
        """
        self._max_bytes = max_bytes
        self._size = 0
        self._texts: list[str] = []
        self._first_ms: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a part has been added."""
        return bool(self._texts)

    def feed(self, value: object, after_ms: float) -> Reply | None:
        """Add one JSON value.

        Args:
            value: a part, or the final reply object.
            after_ms: milliseconds since the turn was sent.

        Returns:
            The reply once it is complete, otherwise None.

        Raises:
            AgentError: `bad_reply`, or `too_large`.
        """
        if not isinstance(value, Mapping) or tuple(value) != ("delta",):
            return self.finish(value)
        text = value["delta"]
        if not isinstance(text, str):
            refuse_type("delta", "text", text)
        self._size += len(text.encode("utf-8", "surrogatepass"))
        if self._size > self._max_bytes:
            message = (
                f"the parts hold more than {self._max_bytes} bytes, the most that limits.max_response_bytes allows"
            )
            raise AgentError(message, "too_large", {"field": "delta", "max_response_bytes": self._max_bytes})
        self._texts.append(text)
        if text and self._first_ms is None:
            self._first_ms = after_ms
        return None

    def finish(self, value: object) -> Reply:
        """Return the complete reply from its final reply object and the added parts.

        Raises:
            AgentError: `bad_reply`, or `too_large`.
        """
        if isinstance(value, Mapping) and self._texts and not {"response", "error"} & value.keys():
            value = {"response": "".join(self._texts), **value}
        reply = reply_from_mapping(value, max_bytes=self._max_bytes)
        return reply if reply.first_token_ms is not None else replace(reply, first_token_ms=self._first_ms)
