"""Codec for OpenAI's Responses API, the only API in which OpenAI's current models take function tools.

The service stores nothing, and no request names an earlier answer: each request has the whole conversation, with the
model's encrypted thoughts, so that a recording is complete.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holodeck_action.llm.codecs.codec import (
    BrokenAnswerError,
    ProviderRequest,
    arguments_text,
    require_mapping,
    require_text,
)
from holodeck_action.llm.codecs.openai_chat import parse_tokens, sampled_settings
from holodeck_action.llm.codecs.schemas import convert_schema
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
from holodeck_action.llm.outcomes import RESPONSES_ENDS, error_object

LEAST_OUTPUT_TOKENS = 16
"""Smallest token limit of an answer that the API accepts."""
_ENCRYPTED = "reasoning.encrypted_content"
_NO_ENCRYPTION = "encrypted content is not supported"
"""Part of the message with which the service refuses `_ENCRYPTED` for a model that does not think."""
_UNSUPPORTED = ("seed",)
"""Fields of `extra_body` that exist only in chat completions."""
_FINISH: Mapping[str, Finish] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


class OpenAIResponses:
    """The codec of one model with the Responses API."""

    def __init__(self, name: str, known_model: KnownModel) -> None:
        """Create the codec.

        Args:
            name: the model's name in requests.
            known_model: features of the model.
        """
        self.known_model = known_model
        self._name = name
        self._encrypts = known_model.reasons

    def offer(self, tools: Sequence[ToolDefinition], answer: AnswerSchema | None) -> Mapping[str, Any]:
        """Return the request fields for tools and the answer's schema (see `Codec.offer`)."""
        fields: dict[str, Any] = {}
        if tools:
            fields["tools"] = [self._tool_fields(tool) for tool in tools]
            fields["tool_choice"] = "auto"
        if answer is not None:
            schema, strict = convert_schema(
                answer.schema, self.known_model.schemas, answer.strict, is_answer_schema=True
            )
            form: dict[str, Any] = {"type": "json_schema", "name": answer.name, "schema": schema}
            if self.known_model.strict:
                form["strict"] = strict
            fields["text"] = {"format": form}
        return fields

    def build_request(
        self, messages: Sequence[Message], settings: Mapping[str, Any], tool_fields: Mapping[str, Any]
    ) -> ProviderRequest:
        """Return the request (see `Codec.build_request`). The API has no penalties and no seed."""
        sent = sampled_settings(self.known_model, settings)
        body: dict[str, Any] = {"model": self._name, "input": list(_input_items(messages))}
        instructions = instructions_of(messages)
        if instructions is not None:
            body["instructions"] = instructions
        body |= tool_fields
        body |= {"stream": False, "store": False}
        included = [_ENCRYPTED] if self._encrypts else []
        if "max_tokens" in sent:
            body["max_output_tokens"] = max(LEAST_OUTPUT_TOKENS, sent["max_tokens"])
        if "effort" in sent:
            body["reasoning"] = {"effort": sent["effort"]}
        body |= {name: sent[name] for name in ("temperature", "top_p") if name in sent}
        if "top_logprobs" in sent:
            included.append("message.output_text.logprobs")
            body["top_logprobs"] = sent["top_logprobs"]
        if included:
            body["include"] = included
        body |= _extra_fields(sent.get("extra_body", {}))
        return ProviderRequest(body)

    def read(self, payload: Any) -> Reply:
        """Parse an answer (see `Codec.read`)."""
        answer = join_events(payload) if isinstance(payload, list) else require_mapping(payload, "a JSON object")
        listed = answer.get("output")
        if not isinstance(listed, list):
            raise BrokenAnswerError("output is missing or invalid")
        _check_status(answer)
        items = [require_mapping(item, f"output.{place}") for place, item in enumerate(listed)]
        model = require_text(answer, "model", "")
        details = answer.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        finish = _FINISH.get(str(reason or answer.get("status") or "completed"))
        contents = [content for item in items if item.get("type") == "message" for content in _contents(item)]
        tokens = parse_tokens([token for content in contents for token in _as_list(content.get("logprobs"))])
        refusals = [content["refusal"] for content in contents if isinstance(content.get("refusal"), str)]
        if refusals:
            return Reply((), model, "content_filter", refusals[-1], tokens)
        # The service finds items by their ids in what it stored, unless the thoughts before them are in the request.
        complete = all(_is_returnable(item) for item in items if item.get("type") == "reasoning")
        parts = tuple(
            part for place, item in enumerate(items) for part in _parse_item(item, f"output.{place}", with_ids=complete)
        )
        return Reply(parts, model, finish, None, tokens)

    def fallback_request(self, request: ProviderRequest, status: int, error: Any) -> ProviderRequest | None:
        """Return the request without the demand for encrypted thoughts if the service refused it; otherwise None. Later
        requests do not demand them.
        """
        if status != 400 or _NO_ENCRYPTION not in str(error_object(error).get("message")).lower():
            return None
        self._encrypts = False
        return next(self.variants(request), None)

    def variants(self, request: ProviderRequest) -> Iterator[ProviderRequest]:
        """Yield the request without the demand for encrypted thoughts (see `Codec.variants`)."""
        included = request.body.get("include", ())
        if _ENCRYPTED in included:
            rest = [name for name in included if name != _ENCRYPTED]
            body = {name: value for name, value in request.body.items() if name != "include"}
            yield ProviderRequest({**body, "include": rest} if rest else body, request.headers)

    def _tool_fields(self, tool: ToolDefinition) -> dict[str, Any]:
        schema, strict = convert_schema(tool.parameters, self.known_model.schemas, None, is_answer_schema=False)
        fields = {"type": "function", "name": tool.name, "description": tool.description or "", "parameters": schema}
        # The API takes a tool without this field for a strict one.
        return {**fields, "strict": bool(strict and self.known_model.strict)}


def join_events(events: Sequence[Any]) -> Mapping[str, Any]:
    """Return the complete answer in the events of a stream.

    Args:
        events: the JSON values of the stream's events.

    Raises:
        BrokenAnswerError: the stream has no last event with the answer.
    """
    known = [event for event in events if isinstance(event, Mapping)]
    last = next((event for event in reversed(known) if str(event.get("type")) in RESPONSES_ENDS), None)
    if last is None:
        raise BrokenAnswerError("it is incomplete")
    answer = require_mapping(last.get("response"), "response")
    if answer.get("output"):
        return answer
    # Some services leave the items out of the last event.
    done = [event for event in known if event.get("type") == "response.output_item.done"]
    return {**answer, "output": [event.get("item") for event in done]}


def _check_status(answer: Mapping[str, Any]) -> None:
    error = answer.get("error")
    if isinstance(error, Mapping):
        raise BrokenAnswerError(f"it failed: {error.get('message') or error.get('code') or 'no reason given'}")
    if answer.get("status") not in (None, "completed", "incomplete"):
        raise BrokenAnswerError(f"it has the status {str(answer['status'])[:40]}")


def _input_items(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(message, Request):
            yield from map(_user_item, message.parts)
            continue
        for part in message.parts:
            if part.item:
                yield part.item
            elif isinstance(part, Text):
                yield {"role": "assistant", "content": part.content}
            elif isinstance(part, ToolCall):
                yield _call_fields(part)


def _user_item(message_part: Question | ToolResult) -> dict[str, Any]:
    if isinstance(message_part, ToolResult):
        return {"type": "function_call_output", "call_id": message_part.id, "output": message_part.text}
    if not message_part.images:
        return {"role": "user", "content": message_part.text}
    text = {"text": message_part.text, "type": "input_text"}
    return {"role": "user", "content": [text, *map(_image_part, message_part.images)]}


def _image_part(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {"image_url": f"data:{image.media_type};base64,{data}", "type": "input_image", "detail": "auto"}


def _call_fields(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments_text(call)}


def _extra_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `extra_body`, with the answer's format where this API has it."""
    fields = {name: value for name, value in extra.items() if name not in (*_UNSUPPORTED, "response_format")}
    form = extra.get("response_format")
    if isinstance(form, Mapping):
        fields["text"] = {"format": {"type": form.get("type"), **form.get("json_schema", {})}}
    return fields


def _parse_item(item: Mapping[str, Any], path: str, *, with_ids: bool) -> Iterator[Text | Thought | ToolCall]:
    """Yield the part of an answer in an item; items of other types, such as searches of the service, have none.

    Raises:
        BrokenAnswerError: the item does not have the API's format.
    """
    ids = {"id": item["id"]} if with_ids and isinstance(item.get("id"), str) else {}
    match item.get("type"):
        case "reasoning":
            yield _parse_thought(item)
        case "message":
            texts = [content["text"] for content in _contents(item) if isinstance(content.get("text"), str)]
            if text := "".join(texts):
                yield Text(text, _message_fields(item, [each for each in texts if each], ids))
        case "function_call":
            identity = require_text(item, "call_id", path) or f"pyd_ai_{uuid.uuid4().hex}"
            call = ToolCall(identity, require_text(item, "name", path), require_text(item, "arguments", path))
            space = {"namespace": item["namespace"]} if item.get("namespace") else {}
            yield ToolCall(call.id, call.name, call.args, None, {**_call_fields(call), **ids, **space})


def _parse_thought(item: Mapping[str, Any]) -> Thought:
    """Return a thought: its summary, or the model's own words if the service reveals them."""
    summary, words = (_texts(item.get(name)) for name in ("summary", "content"))
    content = "\n\n".join(summary or words)
    if not _is_returnable(item):
        return Thought(content, item={})
    ids = {"id": item["id"]} if isinstance(item.get("id"), str) else {}
    fields: dict[str, Any] = {"type": "reasoning", **ids}
    fields["summary"] = [{"text": text, "type": "summary_text"} for text in summary]
    fields["encrypted_content"] = item.get("encrypted_content")
    if words:
        fields["content"] = [{"text": text, "type": "reasoning_text"} for text in words]
    return Thought(content, item=fields)


def _is_returnable(reasoning: Mapping[str, Any]) -> bool:
    """Return whether a thought can be sent back: encrypted, or in the model's own words."""
    return bool(reasoning.get("encrypted_content") or _texts(reasoning.get("content")))


def _message_fields(item: Mapping[str, Any], texts: Sequence[str], ids: Mapping[str, Any]) -> dict[str, Any]:
    # A model that marks comments before the answer must get the marks back.
    phase = {"phase": item["phase"]} if isinstance(item.get("phase"), str) else {}
    if not ids:
        return {"role": "assistant", "content": "".join(texts), **phase}
    content = [{"text": text, "type": "output_text", "annotations": []} for text in texts]
    return {"role": "assistant", **ids, "content": content, "type": "message", "status": "completed", **phase}


def _contents(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [content for content in _as_list(message.get("content")) if isinstance(content, Mapping)]


def _texts(value: Any) -> list[str]:
    texts = (piece.get("text") for piece in _as_list(value) if isinstance(piece, Mapping))
    return [text for text in texts if isinstance(text, str) and text]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
