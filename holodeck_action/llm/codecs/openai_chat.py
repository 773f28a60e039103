"""Codec for OpenAI's chat completions, which Azure OpenAI, Ollama and most other services implement."""

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
    TokenProbability,
    ToolCall,
    ToolDefinition,
    ToolResult,
    instructions_of,
)
from holodeck_action.llm.model_facts import KnownModel, accepts_sampling

_THINK, _THOUGHT = "<think>", "</think>"
_THOUGHT_FIELDS = ("reasoning", "reasoning_content")
"""Answer fields in which services may return the model's thoughts, in addition to the model's known field."""
_SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "content_filter": "content_filter",
}


def sampled_settings(known_model: KnownModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that a model does not support while it thinks."""
    samples = accepts_sampling(known_model, settings)
    return {name: value for name, value in settings.items() if samples or name not in _SAMPLING}


class OpenAIChat:
    """The codec of one model with the chat completions API."""

    def __init__(self, name: str, known_model: KnownModel, *, completion_tokens: bool) -> None:
        """Create the codec.

        Args:
            name: the model's name in requests.
            known_model: features of the model.
            completion_tokens: whether the token limit of the answer is sent as `max_completion_tokens`, otherwise as
                `max_tokens`.
        """
        self.known_model = known_model
        self._name = name
        self._limit = "max_completion_tokens" if completion_tokens else "max_tokens"

    def offer(self, tools: Sequence[ToolDefinition], answer: AnswerSchema | None) -> Mapping[str, Any]:
        """Return the request fields for tools and the answer's schema (see `Codec.offer`)."""
        fields: dict[str, Any] = {}
        if tools:
            fields["tools"] = [{"type": "function", "function": self._tool_fields(tool)} for tool in tools]
            fields["tool_choice"] = "auto"
        if answer is not None:
            schema, strict = convert_schema(
                answer.schema, self.known_model.schemas, answer.strict, is_answer_schema=True
            )
            form: dict[str, Any] = {"name": answer.name, "schema": schema}
            if self.known_model.strict:
                form["strict"] = strict
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return fields

    def build_request(
        self, messages: Sequence[Message], settings: Mapping[str, Any], tool_fields: Mapping[str, Any]
    ) -> ProviderRequest:
        """Return the request (see `Codec.build_request`)."""
        sent = sampled_settings(self.known_model, settings)
        body: dict[str, Any] = {"model": self._name, "messages": self._messages(messages)}
        body |= {name: tool_fields[name] for name in ("tools", "tool_choice") if name in tool_fields}
        body["stream"] = False
        if "max_tokens" in sent:
            body[self._limit] = sent["max_tokens"]
        if "response_format" in tool_fields:
            body["response_format"] = tool_fields["response_format"]
        if "effort" in sent:
            body["reasoning_effort"] = sent["effort"]
        for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            if name in sent:
                body[name] = sent[name]
        if "top_logprobs" in sent:
            body |= {"logprobs": True, "top_logprobs": sent["top_logprobs"]}
        body |= sent.get("extra_body", {})
        return ProviderRequest(body)

    def read(self, payload: Any) -> Reply:
        """Parse an answer (see `Codec.read`)."""
        answer = require_mapping(payload, "a JSON object")
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise BrokenAnswerError("choices is missing or invalid")
        choice = require_mapping(choices[0], "choices.0")
        message = require_mapping(choice.get("message"), "choices.0.message")
        reason = choice.get("finish_reason")
        if reason is not None and (not isinstance(reason, str) or not reason):
            raise BrokenAnswerError("choices.0.finish_reason is missing or invalid")
        model = require_text(answer, "model", "")
        # Some services do not report a finish reason.
        finish = "stop" if reason is None else _FINISH.get(reason)
        logprobs = choice.get("logprobs")
        tokens = parse_tokens(logprobs.get("content") if isinstance(logprobs, Mapping) else None)
        if refusal := message.get("refusal"):
            return Reply((), model, "content_filter", str(refusal), tokens)
        parts = (*self._thoughts(message), *_split_thoughts(_message_text(message)), *_parse_calls(message))
        declined = "" if reason == "refusal" else None
        return Reply(parts, model, finish, declined, tokens)

    def fallback_request(self, request: ProviderRequest, status: int, error: Any) -> ProviderRequest | None:
        """Return None: refused requests have no fallback."""
        return None

    def variants(self, request: ProviderRequest) -> Iterator[ProviderRequest]:
        """Yield nothing (see `Codec.variants`)."""
        return iter(())

    def _tool_fields(self, tool: ToolDefinition) -> dict[str, Any]:
        schema, strict = convert_schema(tool.parameters, self.known_model.schemas, None, is_answer_schema=False)
        written_tool = {"name": tool.name, "description": tool.description or "", "parameters": schema}
        return {**written_tool, "strict": True} if strict and self.known_model.strict else written_tool

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for message in messages:
            if isinstance(message, Request):
                found += map(_user_message, message.parts)
            elif (answer := self._assistant_message(message)) is not None:
                found.append(answer)
        self._add_empty_thoughts(found)
        instructions = instructions_of(messages)
        if instructions is not None:
            role = self.known_model.system_role
            # Instructions with the role `user` follow the user's first message, as in existing recordings.
            place = next((place for place, message in enumerate(found) if message["role"] != role), len(found))
            found.insert(place, {"role": role, "content": instructions})
        return found

    def _assistant_message(self, reply: Reply) -> dict[str, Any] | None:
        """Return the model's reply as a message; None if it has neither text nor calls, since services refuse empty
        messages.
        """
        texts: list[str] = []
        thoughts: dict[str, list[str]] = {}
        calls: list[dict[str, Any]] = []
        for part in reply.parts:
            match part:
                case Text():
                    texts.append(part.content)
                case Thought() if part.item is not None:
                    # Thoughts of the Responses API have no place in a chat.
                    continue
                case Thought() if part.field is not None and part.field == (
                    self.known_model.thought_field or part.field
                ):
                    thoughts.setdefault(part.field, []).append(part.content)
                case Thought():
                    texts.append(f"{_THINK}\n{part.content}\n{_THOUGHT}")
                case ToolCall():
                    calls.append(_call_fields(part))
        if not texts and not calls:
            return None
        message: dict[str, Any] = {"role": "assistant"}
        message |= {name: "\n\n".join(told) for name, told in thoughts.items()}
        message["content"] = "\n\n".join(texts) if texts else None
        if calls:
            message["tool_calls"] = calls
        return message

    def _add_empty_thoughts(self, messages: Sequence[dict[str, Any]]) -> None:
        """If some messages have thoughts, add an empty thought to each message of the current turn that calls tools
        and has no thought; some services require this.
        """
        names = {*_THOUGHT_FIELDS, *filter(None, [self.known_model.thought_field])}
        told = {name for message in messages if message["role"] == "assistant" for name in names & message.keys()}
        if len(told) != 1:
            return
        (name,) = told
        for message in reversed(messages):
            if message["role"] == "user":
                return
            if message["role"] == "assistant" and message.get("tool_calls"):
                message.setdefault(name, "")

    def _thoughts(self, message: Mapping[str, Any]) -> Iterator[Thought]:
        for name in dict.fromkeys((self.known_model.thought_field, *_THOUGHT_FIELDS)):
            told = message.get(name) if name else None
            if isinstance(told, str) and told:
                yield Thought(told, name)
                return


def _user_message(message_part: Question | ToolResult) -> dict[str, Any]:
    if isinstance(message_part, ToolResult):
        return {"role": "tool", "tool_call_id": message_part.id, "content": message_part.text}
    if not message_part.images:
        return {"role": "user", "content": message_part.text}
    return {
        "role": "user",
        "content": [{"text": message_part.text, "type": "text"}, *map(_image_part, message_part.images)],
    }


def _image_part(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {"image_url": {"url": f"data:{image.media_type};base64,{data}"}, "type": "image_url"}


def _call_fields(call: ToolCall) -> dict[str, Any]:
    message = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}
    return message if call.extra is None else {**message, "extra_content": call.extra}


def _message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message; some services split it into pieces.

    Raises:
        BrokenAnswerError: the content is not text.
    """
    content = message.get("content")
    if isinstance(content, list):
        pieces = (piece.get("text") if _is_text(piece) else piece for piece in content)
        return "".join(piece for piece in pieces if isinstance(piece, str))
    if content is not None and not isinstance(content, str):
        raise BrokenAnswerError("choices.0.message.content is missing or invalid")
    return content or ""


def _is_text(content: Any) -> bool:
    return isinstance(content, Mapping) and content.get("type") == "text"


def _split_thoughts(content: str) -> Iterator[Text | Thought]:
    """Yield the text of a message, and the thoughts between `<think>` tags in it."""
    while _THINK in content:
        before, _, content = content.partition(_THINK)
        if before:
            yield Text(before)
        thought, closed, rest = content.partition(_THOUGHT)
        # A thought without an end tag is treated as the answer.
        yield Thought(thought) if closed else Text(content)
        content = rest
    if content:
        yield Text(content)


def _parse_calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    """Yield the tool calls of a message.

    Raises:
        BrokenAnswerError: a call does not have the API's format.
    """
    listed = message.get("tool_calls")
    if listed is None:
        return
    if not isinstance(listed, list):
        raise BrokenAnswerError("choices.0.message.tool_calls is missing or invalid")
    for place, each in enumerate(listed):
        where = f"choices.0.message.tool_calls.{place}"
        call = require_mapping(each, where)
        function = require_mapping(call.get("function"), f"{where}.function")
        name, args = (require_text(function, key, f"{where}.function") for key in ("name", "arguments"))
        # Cache keys replace ids with this prefix by numbers.
        identity = require_text(call, "id", where) or f"pyd_ai_{uuid.uuid4().hex}"
        yield ToolCall(identity, name, args, call.get("extra_content") or None)


def parse_tokens(tokens: Any) -> tuple[TokenProbability, ...] | None:
    """Return the tokens of an answer with their log probabilities; None if the answer has no log probabilities.

    Raises:
        BrokenAnswerError: a token does not have the API's format.
    """
    if not tokens:
        return None
    try:
        return tuple(
            TokenProbability(
                str(token["token"]),
                float(token["logprob"]),
                tuple((str(other["token"]), float(other["logprob"])) for other in token.get("top_logprobs") or ()),
            )
            for token in tokens
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        raise BrokenAnswerError("logprobs is missing or invalid") from None
