"""OpenAI's chat completions, which Azure OpenAI, Ollama and most other services speak, too."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holodeck_action.llm.codecs.codec import BrokenAnswerError, Outgoing, arguments_text, mapping, text_at
from holodeck_action.llm.codecs.schemas import written
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
from holodeck_action.llm.model_facts import KnownModel

_THINK, _THOUGHT = "<think>", "</think>"
_THOUGHT_FIELDS = ("reasoning", "reasoning_content")
"""Fields of an answer in which services tell what the model thought, beside the model's own."""
_SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "content_filter": "content_filter",
}


class OpenAIChat:
    """One model that is asked for chat completions."""

    def __init__(self, name: str, known: KnownModel, *, completion_tokens: bool) -> None:
        """Prepare.

        Args:
            name: the model, as it is sent.
            known: what is known about it.
            completion_tokens: whether the limit of the answer is called `max_completion_tokens`, else `max_tokens`.
        """
        self.known = known
        self._name = name
        self._limit = "max_completion_tokens" if completion_tokens else "max_tokens"

    def offer(self, tools: Sequence[ToolDefinition], answer: AnswerSchema | None) -> Mapping[str, Any]:
        """Return the fields for tools and the answer's schema (see `Codec.offer`)."""
        fields: dict[str, Any] = {}
        if tools:
            fields["tools"] = [{"type": "function", "function": self._tool(tool)} for tool in tools]
            fields["tool_choice"] = "auto"
        if answer is not None:
            schema, strict = written(answer.schema, self.known.schemas, answer.strict, of_answer=True)
            form: dict[str, Any] = {"name": answer.name, "schema": schema}
            if self.known.strict:
                form["strict"] = strict
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return fields

    def outgoing(
        self, messages: Sequence[Message], settings: Mapping[str, Any], offered: Mapping[str, Any]
    ) -> Outgoing:
        """Return the request (see `Codec.outgoing`)."""
        sent = {name: value for name, value in settings.items() if not (name in _SAMPLING and self._thinks(settings))}
        body: dict[str, Any] = {"model": self._name, "messages": self._messages(messages)}
        body |= {name: offered[name] for name in ("tools", "tool_choice") if name in offered}
        body["stream"] = False
        if "max_tokens" in sent:
            body[self._limit] = sent["max_tokens"]
        if "response_format" in offered:
            body["response_format"] = offered["response_format"]
        if "effort" in sent:
            body["reasoning_effort"] = sent["effort"]
        for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            if name in sent:
                body[name] = sent[name]
        if "top_logprobs" in sent:
            body |= {"logprobs": True, "top_logprobs": sent["top_logprobs"]}
        body |= sent.get("extra_body", {})
        return Outgoing(body)

    def read(self, payload: Any) -> Reply:
        """Return an answer (see `Codec.read`)."""
        answer = mapping(payload, "a JSON object")
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            raise BrokenAnswerError("missing or wrong: choices")
        choice = mapping(choices[0], "choices.0")
        message = mapping(choice.get("message"), "choices.0.message")
        reason = choice.get("finish_reason")
        if reason is not None and (not isinstance(reason, str) or not reason):
            raise BrokenAnswerError("missing or wrong: choices.0.finish_reason")
        model = text_at(answer, "model", "")
        # Some services do not say why they stop.
        finish = "stop" if reason is None else _FINISH.get(reason)
        tokens = _tokens(choice.get("logprobs"))
        if refusal := message.get("refusal"):
            return Reply((), model, "content_filter", str(refusal), tokens)
        parts = (*self._thoughts(message), *_texts(_content(message)), *_calls(message))
        declined = "" if reason == "refusal" else None
        return Reply(parts, model, finish, declined, tokens)

    def instead(self, sent: Outgoing, status: int, error: Any) -> Outgoing | None:
        """Return nothing: no request is repeated in another form."""
        return None

    def _thinks(self, settings: Mapping[str, Any]) -> bool:
        """Whether the model thinks before its answer and then takes no sampling settings."""
        known = self.known
        if not known.reasons:
            return False
        return not known.no_effort or "effort" in settings or known.reasons_unasked

    def _tool(self, tool: ToolDefinition) -> dict[str, Any]:
        schema, strict = written(tool.parameters, self.known.schemas, None, of_answer=False)
        written_tool = {"name": tool.name, "description": tool.description or "", "parameters": schema}
        return {**written_tool, "strict": True} if strict and self.known.strict else written_tool

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for message in messages:
            if isinstance(message, Request):
                found += map(_asked, message.parts)
            elif (answer := self._answered(message)) is not None:
                found.append(answer)
        self._complete_thoughts(found)
        instructions = instructions_of(messages)
        if instructions is not None:
            role = self.known.system_role
            # As a user's message they follow what the user said first, where recordings have them.
            place = next((place for place, message in enumerate(found) if message["role"] != role), len(found))
            found.insert(place, {"role": role, "content": instructions})
        return found

    def _answered(self, reply: Reply) -> dict[str, Any] | None:
        """Return the model's message, None for one without words and calls, which services refuse."""
        texts: list[str] = []
        thoughts: dict[str, list[str]] = {}
        calls: list[dict[str, Any]] = []
        for part in reply.parts:
            match part:
                case Text():
                    texts.append(part.content)
                case Thought() if part.field is not None and part.field == (self.known.thought_field or part.field):
                    thoughts.setdefault(part.field, []).append(part.content)
                case Thought():
                    texts.append(f"{_THINK}\n{part.content}\n{_THOUGHT}")
                case ToolCall():
                    calls.append(_called(part))
        if not texts and not calls:
            return None
        message: dict[str, Any] = {"role": "assistant"}
        message |= {name: "\n\n".join(told) for name, told in thoughts.items()}
        message["content"] = "\n\n".join(texts) if texts else None
        if calls:
            message["tool_calls"] = calls
        return message

    def _complete_thoughts(self, messages: Sequence[dict[str, Any]]) -> None:
        """Give the calls of the present turn an empty thought where others have one: some services insist on it."""
        names = {*_THOUGHT_FIELDS, *filter(None, [self.known.thought_field])}
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
        for name in dict.fromkeys((self.known.thought_field, *_THOUGHT_FIELDS)):
            told = message.get(name) if name else None
            if isinstance(told, str) and told:
                yield Thought(told, name)
                return


def _asked(part: Question | ToolResult) -> dict[str, Any]:
    if isinstance(part, ToolResult):
        return {"role": "tool", "tool_call_id": part.id, "content": part.text}
    if not part.images:
        return {"role": "user", "content": part.text}
    return {"role": "user", "content": [{"text": part.text, "type": "text"}, *map(_image, part.images)]}


def _image(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {"image_url": {"url": f"data:{image.media_type};base64,{data}"}, "type": "image_url"}


def _called(call: ToolCall) -> dict[str, Any]:
    message = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}
    return message if call.extra is None else {**message, "extra_content": call.extra}


def _content(message: Mapping[str, Any]) -> str:
    """Return the text of a message; some services tell it in pieces.

    Raises:
        BrokenAnswerError: it is no text.
    """
    content = message.get("content")
    if isinstance(content, list):
        pieces = (piece.get("text") if _is_text(piece) else piece for piece in content)
        return "".join(piece for piece in pieces if isinstance(piece, str))
    if content is not None and not isinstance(content, str):
        raise BrokenAnswerError("missing or wrong: choices.0.message.content")
    return content or ""


def _is_text(piece: Any) -> bool:
    return isinstance(piece, Mapping) and piece.get("type") == "text"


def _texts(content: str) -> Iterator[Text | Thought]:
    """Yield a text, and the thoughts that stand in tags inside it."""
    while _THINK in content:
        before, _, content = content.partition(_THINK)
        if before:
            yield Text(before)
        thought, closed, rest = content.partition(_THOUGHT)
        # A thought without an end is taken for the answer.
        yield Thought(thought) if closed else Text(content)
        content = rest
    if content:
        yield Text(content)


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    """Yield the tools that a message asks for.

    Raises:
        BrokenAnswerError: one of them is not of the interface's shape.
    """
    listed = message.get("tool_calls")
    if listed is None:
        return
    if not isinstance(listed, list):
        raise BrokenAnswerError("missing or wrong: choices.0.message.tool_calls")
    for place, each in enumerate(listed):
        where = f"choices.0.message.tool_calls.{place}"
        call = mapping(each, where)
        function = mapping(call.get("function"), f"{where}.function")
        name, args = (text_at(function, key, f"{where}.function") for key in ("name", "arguments"))
        # Recordings number the ids that begin so.
        identity = text_at(call, "id", where) or f"pyd_ai_{uuid.uuid4().hex}"
        yield ToolCall(identity, name, args, call.get("extra_content") or None)


def _tokens(listed: Any) -> tuple[TokenProbability, ...] | None:
    """Return the tokens of an answer, None where they are not told.

    Raises:
        BrokenAnswerError: one of them is not of the interface's shape.
    """
    tokens = listed.get("content") if isinstance(listed, Mapping) else None
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
        raise BrokenAnswerError("missing or wrong: choices.0.logprobs.content") from None
