"""Codec for Anthropic's Messages API."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holodeck_action.llm.codecs.anthropic_schemas import answer_schema, tool_schema
from holodeck_action.llm.codecs.codec import (
    BrokenAnswerError,
    ProviderRequest,
    parse_arguments,
    require_mapping,
    require_text,
)
from holodeck_action.llm.messages import (
    AnswerSchema,
    Finish,
    Image,
    Message,
    Question,
    Reply,
    Request,
    Text,
    Thought,
    ToolCall,
    ToolDefinition,
    ToolResult,
    instructions_of,
)
from holodeck_action.llm.model_facts import KnownModel
from holodeck_action.llm.outcomes import error_object

_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "compaction": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}
_MAX_UNSTREAMED = 21_333
"""Maximum tokens of an answer that is not streamed; a longer one may outlast the connection."""
_ANSWER_TOKENS = 4096
"""Maximum tokens of the answer if the suite limits only the tokens for thinking."""
_DROPPING_BETA = "thinking-binding-controls-2026-08-01"
_DROPPING_FIELDS = {"prefix_mismatch_behavior": "drop_block"}
_WRONG_CONVERSATION = "The block is bound to a different conversation"
"""Part of the error message with which the service refuses thoughts from another conversation, such as thoughts of a
fallback model.
"""
_HIDDEN = "redacted_thinking"


class AnthropicMessages:
    """The codec of one Anthropic model."""

    def __init__(self, name: str, known_model: KnownModel) -> None:
        """Create the codec.

        Args:
            name: the model's name in requests.
            known_model: features of the model.
        """
        self.known_model = known_model
        self._name = name

    def offer(self, tools: Sequence[ToolDefinition], answer: AnswerSchema | None) -> Mapping[str, Any]:
        """Return the request fields for tools and the answer's schema (see `Codec.offer`)."""
        fields: dict[str, Any] = {}
        if tools:
            fields["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description or "",
                    "input_schema": tool_schema(tool.parameters),
                }
                for tool in tools
            ]
            fields["tool_choice"] = {"type": "auto"}
        if answer is not None:
            fields["format"] = {"type": "json_schema", "schema": answer_schema(answer.schema)}
        return fields

    def build_request(
        self, messages: Sequence[Message], settings: Mapping[str, Any], tool_fields: Mapping[str, Any]
    ) -> ProviderRequest:
        """Return the request (see `Codec.build_request`)."""
        instructions = instructions_of(messages)
        limit, streams = self._token_limit(settings)
        body: dict[str, Any] = {"max_tokens": limit}
        if instructions is not None:
            body["system"] = [{"type": "text", "text": instructions}]
        body |= {"messages": list(_format_messages(messages)), "model": self._name}
        body |= {name: tool_fields[name] for name in ("tools", "tool_choice") if name in tool_fields}
        config = {"format": tool_fields.get("format"), "effort": settings.get("effort")}
        if any(config.values()):
            body["output_config"] = {name: value for name, value in config.items() if value}
        if "thinking" in settings:
            body["thinking"] = settings["thinking"]
        body["stream"] = streams
        for name in ("temperature", "top_p"):
            if self.known_model.sampling and settings.get(name) is not None:
                body[name] = settings[name]
        body |= settings.get("extra_body", {})
        betas = settings.get("betas", ())
        out = ProviderRequest(body, {"anthropic-beta": ",".join(sorted(betas))} if betas else {})
        forgetting = any(isinstance(message, Reply) and message.dropped_thoughts for message in messages)
        return (self._with_thought_dropping(out) if forgetting else None) or out

    def read(self, payload: Any) -> Reply:
        """Parse an answer (see `Codec.read`)."""
        answer = join_events(payload) if isinstance(payload, list) else require_mapping(payload, "a JSON object")
        blocks = answer.get("content")
        if not isinstance(blocks, list):
            raise BrokenAnswerError("content is missing or invalid")
        parts = tuple(_parse_block(block, f"content.{place}") for place, block in enumerate(blocks))
        reason = answer.get("stop_reason")
        if not reason:
            # Without this check an interrupted stream would be taken for a complete answer.
            raise BrokenAnswerError("it is incomplete")
        reply = Reply(
            parts,
            require_text(answer, "model", ""),
            _FINISH.get(str(reason)),
            None,
            None,
            _has_dropped_thoughts(answer),
        )
        details = answer.get("stop_details")
        words = details.get("explanation") if isinstance(details, Mapping) else None
        if reason == "refusal" or words:
            return replace(reply, refusal=words if isinstance(words, str) and words else reply.text)
        return reply

    def fallback_request(self, request: ProviderRequest, status: int, error: Any) -> ProviderRequest | None:
        """Return a request that lets the service drop thoughts of another conversation; None if such thoughts did not
        cause the refusal.
        """
        if status != 400 or _WRONG_CONVERSATION not in str(error_object(error).get("message")):
            return None
        return self._with_thought_dropping(request)

    def variants(self, request: ProviderRequest) -> Iterator[ProviderRequest]:
        """Yield the request that lets the service drop thoughts, if the model supports it (see `Codec.variants`)."""
        yield from filter(None, [self._with_thought_dropping(request)])

    def _with_thought_dropping(self, request: ProviderRequest) -> ProviderRequest | None:
        """Return a request that allows the service to drop thoughts from another conversation; None if the model does
        not support this.
        """
        thinking: Mapping[str, Any] = request.body.get("thinking", {})
        adaptive = "block_binding" not in thinking and thinking.get("type", "adaptive") == "adaptive"
        if not self.known_model.binds_thoughts or not adaptive:
            return None
        betas = {*filter(None, request.headers.get("anthropic-beta", "").split(",")), _DROPPING_BETA}
        body = {**request.body, "thinking": {"type": "adaptive", **thinking, "block_binding": _DROPPING_FIELDS}}
        return ProviderRequest(body, {**request.headers, "anthropic-beta": ",".join(sorted(betas))})

    def _token_limit(self, settings: Mapping[str, Any]) -> tuple[int, bool]:
        """Return the maximum tokens of the answer, and whether it must be streamed."""
        if (asked := settings.get("max_tokens")) is not None:
            return min(asked, self.known_model.most_tokens or asked), False
        budget = settings.get("thinking", {}).get("budget_tokens", 0)
        limit = max(self.known_model.default_tokens, budget + _ANSWER_TOKENS)
        return limit, limit > _MAX_UNSTREAMED


def _format_messages(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if isinstance(message, Request):
            if content := [block for part in message.parts for block in _user_blocks(part)]:
                yield {"role": "user", "content": content}
            continue
        # A thought without a signature is sent as user text: in its own turn the model would learn to write this way.
        lost = [
            {"text": f"<assistant_thinking>\n{part.content}\n</assistant_thinking>", "type": "text"}
            for part in message.parts
            if isinstance(part, Thought) and not part.signature and part.content
        ]
        if lost:
            yield {"role": "user", "content": lost}
        if content := [block for part in message.parts for block in _assistant_blocks(part)]:
            yield {"role": "assistant", "content": content}


def _user_blocks(message_part: Question | ToolResult) -> Iterator[dict[str, Any]]:
    if isinstance(message_part, ToolResult):
        content = [{"text": message_part.text, "type": "text"}]
        yield {"tool_use_id": message_part.id, "type": "tool_result", "content": content, "is_error": False}
        return
    if message_part.text:
        yield {"text": message_part.text, "type": "text"}
    yield from map(_image_block, message_part.images)


def _image_block(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {"source": {"data": data, "media_type": image.media_type, "type": "base64"}, "type": "image"}


def _assistant_blocks(message_part: Text | Thought | ToolCall) -> Iterator[dict[str, Any]]:
    match message_part:
        case Text():
            if message_part.content:
                yield {"text": message_part.content, "type": "text"}
        case ToolCall():
            yield {
                "id": message_part.id,
                "type": "tool_use",
                "name": message_part.name,
                "input": parse_arguments(message_part),
            }
        case Thought() if message_part.signature and message_part.field == _HIDDEN:
            yield {"data": message_part.signature, "type": _HIDDEN}
        case Thought() if message_part.signature:
            yield {"thinking": message_part.content, "signature": message_part.signature, "type": "thinking"}


def _parse_block(value: Any, path: str) -> Text | Thought | ToolCall:
    block = require_mapping(value, path)
    match block.get("type"):
        case "text":
            return Text(require_text(block, "text", path))
        case "thinking":
            signature = block.get("signature")
            return Thought(require_text(block, "thinking", path), signature=signature if signature else None)
        case "redacted_thinking":
            return Thought("", _HIDDEN, require_text(block, "data", path))
        case "tool_use":
            args = block.get("input")
            if not isinstance(args, dict | str):
                raise BrokenAnswerError(f"{path}.input is missing or invalid")
            return ToolCall(require_text(block, "id", path), require_text(block, "name", path), args)
    raise BrokenAnswerError(f"{path}.type is missing or invalid")


def _has_dropped_thoughts(answer: Mapping[str, Any]) -> bool:
    changes = answer.get("input_transformations")
    return isinstance(changes, list) and any(
        isinstance(change, Mapping)
        and change.get("type") == "thinking_dropped"
        and change.get("reason") == "prefix_binding_mismatch"
        for change in changes
    )


_DELTA_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def join_events(events: Sequence[Any]) -> Mapping[str, Any]:
    """Join the events of a stream to one message.

    Args:
        events: the JSON values of the stream's events.

    Raises:
        BrokenAnswerError: the stream does not begin with a message, or an event changes a block that has not started.
    """
    start = next((event for event in events if isinstance(event, Mapping) and event.get("type") == "message_start"), {})
    message = dict(require_mapping(start.get("message"), "message"))
    blocks: dict[Any, dict[str, Any]] = {}
    for event in events:
        if not isinstance(event, Mapping):
            continue
        place, delta = event.get("index"), event.get("delta")
        if isinstance(place, list | dict):
            raise BrokenAnswerError("an event has no valid index")
        match event.get("type"):
            case "content_block_start":
                blocks[place] = dict(require_mapping(event.get("content_block"), f"content.{place}"))
            case "content_block_delta":
                if place not in blocks:
                    raise BrokenAnswerError(f"content.{place} is missing or invalid")
                _append_delta(blocks[place], require_mapping(delta, f"content.{place}"))
            case "message_delta":
                message |= {name: value for name, value in require_mapping(delta, "delta").items() if value is not None}
    return {**message, "content": list(blocks.values())}


def _append_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    kind = delta.get("type")
    if kind == "input_json_delta":
        # A block starts with an empty object; the JSON text follows in deltas.
        begun = block["input"] if isinstance(block.get("input"), str) else ""
        if piece := delta.get("partial_json"):
            block["input"] = begun + str(piece)
    elif (field := _DELTA_FIELDS.get(str(kind))) is not None:
        block[field] = f"{block.get(field) or ''}{delta.get(field, '')}"
