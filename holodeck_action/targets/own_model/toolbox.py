"""What a tool is, what it is given and gives, and the tools of one conversation, called by name and recorded."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.spans import Span, span
from holodeck_action.llm.wire import Wire
from holodeck_action.record.record import RetrievedChunk, ToolInvocation
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.values import Suite
from holodeck_action.targets.own_model.schemas import JsonSchema
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.json_values import kind_of, parse_json, unknown_key
from holodeck_action.text.plain import MARK, excerpt, storable
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import Plain
from holodeck_action.workers.permission import CodeAllowed


class ToolResult(Struct, frozen=True):
    """What a tool gave.

    Attributes:
        value: a JSON value; the beginning of its text, or of a list, where `cut`.
        bytes: size of the whole text in UTF-8: the value itself when it is a text, else as JSON.
        cut: `value` is not all of it.
        duration_ms: how long the tool worked, without waiting for its turn; None when the call took exactly as long.
        for_model: what the model reads; None for the value, a text as it is and anything else as JSON.
    """

    value: Any
    bytes: int
    cut: bool = False
    duration_ms: float | None = None
    for_model: str | None = None


class ToolError(Exception):
    """A tool call that gave no result: the model's problem to see and ours to record, never the run's end.

    Attributes:
        message: one sentence for the record: what happened and where.
        code: stable snake_case code, such as `raised`, `timeout`, `bad_arguments`, `unknown_tool`.
        for_model: what the model reads: the same without places in files, which are nothing to it.
        duration_ms: how long the tool worked; None when it never began, or the call took exactly as long.
    """

    def __init__(
        self, message: str, code: str, *, for_model: str | None = None, duration_ms: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.for_model = message if for_model is None else for_model
        self.duration_ms = duration_ms


class Tool(Protocol):
    """Something the model can call; one object serves all conversations."""

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        ...

    @property
    def is_retrieval(self) -> bool:
        """Whether its results are retrieval context."""
        ...

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call it.

        Args:
            args: JSON values that fit the definition's schema.
            session: which conversation asks; what a tool remembers stays within one.
            max_bytes: most bytes of the result's text to hand over; the rest is only counted.
            timeout_s: seconds it may work; None for no limit.

        Raises:
            ToolError: it gave no result.
            ModelCallError: a model that it needs could not be asked: the turn's error, since an answer without the
                result would be scored as if the agent had given it.
        """
        ...


class PlannedCalls(Struct, frozen=True):
    """Calls of one model for one purpose, before the first case.

    Attributes:
        purpose: such as `contexts of chunks`.
        model: who is asked.
        calls: the least and the most.
        prompt_tokens: of all calls together, the least and the most.
        answer_tokens: of all answers together, at most; 0 for embeddings.
        per_search: whether they are made for each search of the agent instead, whose number nobody can foretell.
    """

    purpose: str
    model: ModelPlan
    calls: tuple[int, int]
    prompt_tokens: tuple[int, int] = (0, 0)
    answer_tokens: int = 0
    per_search: bool = False


class Toolkit(Protocol):
    """All tools of one kind that a suite has, with what they hold: processes, connections, indexes.

    Attributes:
        notices: what the reader should know about them, each one sentence; known once they are built.
        plans_calls: whether they call models, so that the plan of a run asks for them.
    """

    notices: tuple[str, ...] = ()
    plans_calls: bool = False

    async def planned(self) -> Sequence[PlannedCalls]:
        """Return the calls of models that they take, before they are opened.

        Raises:
            AgentError: `tool_unavailable`, that cannot be told.
        """
        return ()

    async def open(self) -> Sequence[Tool]:
        """Start what the tools need; called once, in the loop in which they are used, before the first turn.

        Raises:
            AgentError: `tool_unavailable`, they cannot be used.
        """
        ...

    async def end(self, session: str) -> None:
        """Release what a conversation held that is over; most tools hold nothing for one."""
        return

    async def close(self) -> None:
        """Release everything; safe after a failed or cancelled `open`."""
        ...


class ToolSurroundings(Struct, frozen=True):
    """What the tools of one kind are built with.

    Attributes:
        suite: which holds their entries.
        plan: the suite's own model.
        wire: over which models are asked.
        environ: the job's environment.
        redactor: takes the suite's secrets out of texts.
        code: the permission to start code of the checkout.
    """

    suite: Suite
    plan: ModelPlan
    wire: Wire
    environ: Mapping[str, str]
    redactor: Redactor
    code: CodeAllowed


_ID_LENGTH = 16
"""Hexadecimal digits of the digest that names a chunk without an id."""


def chunks_of(value: Any) -> tuple[RetrievedChunk, ...]:
    """Return the chunks of a result, in its order.

    Args:
        value: a list, of which each item is a chunk, or anything else, which is one; null is none. A chunk is a text,
            or an object with `text` and, if it has them, `id` (text or integer) and `score`; any other value counts
            with its JSON text.

    Returns:
        The chunks. One without an id gets the beginning of its text's SHA-256: the same text has the same id wherever
        it is found.
    """
    if value is None:
        return ()
    return tuple(_chunk(item) for item in (value if isinstance(value, list) else [value]))


def _chunk(item: Any) -> RetrievedChunk:
    text, identity, score = item, None, None
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        text, identity, score = item["text"], item.get("id"), item.get("score")
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False)
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        identity = hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
    if isinstance(score, bool) or not isinstance(score, int | float) or not _is_finite(score):
        score = None
    return RetrievedChunk(str(identity), text, None if score is None else float(score))


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


_MOST_PROBLEMS = 5
"""Problems named in one message: a model repairs all of them at once, but need not read a thousand."""


def check_arguments(schema: JsonSchema, args: Mapping[str, Any]) -> None:
    """Hold arguments to the schema of a tool.

    Raises:
        ToolError: `bad_arguments`, naming up to five problems.
    """
    found = schema.misfits(args, whole="the arguments", most=_MOST_PROBLEMS)
    if found:
        shown = "; ".join(misfit.problem for misfit in found)
        raise ToolError(f"the arguments do not fit: {shown}", "bad_arguments")


def parameters_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Read `parameters` of a tool: a schema per parameter, all of them required, or one schema of all as an object.

    Raises:
        ValueError: a parameter has no schema.
    """
    if parameters.get("type") == "object" and isinstance(parameters.get("properties"), Mapping):
        return dict(parameters)
    for name, schema in parameters.items():
        if not isinstance(schema, Mapping):
            raise ValueError(f"{quoted(name)} must be a JSON schema, such as {{type: string}}")
    return {
        "type": "object",
        "properties": dict(parameters),
        "required": list(parameters),
        "additionalProperties": False,
    }


def text_result(text: str, max_bytes: int) -> ToolResult:
    """Return a text as a result, cut where it holds more than `max_bytes` of UTF-8."""
    data = text.encode()
    is_cut = len(data) > max_bytes
    return ToolResult(data[:max_bytes].decode("utf-8", "ignore") if is_cut else text, len(data), is_cut)


def plain_result(value: Any, max_bytes: int) -> Any:
    """Return what a tool gave as plain JSON values that a record can hold.

    Raises:
        CallError: it is far larger than `max_bytes`, nested too deeply, or holds what JSON cannot.
    """
    # A value's content counts at most four times the size of its text (`0.5` counts as four bytes).
    return storable(Plain(4 * max_bytes + 4).convert(value, "the result"))


def read_arguments(given: str | Mapping[str, Any], max_bytes: int, redact: Redact) -> dict[str, Any]:
    """Read the arguments of a call.

    Args:
        given: JSON text as the model wrote it (no text at all is no arguments), or what was read from it.
        max_bytes: most bytes they may hold.
        redact: removes secrets from what the message repeats of them.

    Returns:
        Plain JSON values without lone surrogates.

    Raises:
        ToolError: `bad_arguments`: no JSON object, too deep, too large.
    """
    value: Any = given
    if isinstance(given, str):
        if len(given) > max_bytes:
            raise ToolError(f"the arguments hold more than {max_bytes} bytes", "bad_arguments")
        try:
            value = parse_json(given) if given.strip() else {}
        except ValueError as error:
            words = Foreign.of_text(given).words(redact)
            raise ToolError(f"the arguments are not JSON ({error}): {words}", "bad_arguments") from None
    if not isinstance(value, Mapping):
        raise ToolError(f"the arguments must be a JSON object, not {kind_of(value)}", "bad_arguments")
    try:
        plain: dict[str, Any] = storable(Plain(max_bytes).convert(value, "the arguments"))
    except CallError as error:
        # The path to the place can be as long as the nesting is deep.
        deep = "the arguments are nested too deeply, or hold what JSON cannot"
        problem = f"the arguments hold more than {max_bytes} bytes" if error.code == "too_large" else deep
        raise ToolError(problem, "bad_arguments") from None
    return plain


_BROKEN_OFF = "it was broken off, because the turn had ended"


class ToolCalls(Struct, frozen=True):
    """The calls of a turn, as `Reply` wants them.

    Attributes:
        invocations: in the order the model asked for them.
        retrieved_chunks: what retrieval tools returned, in the same order; None when there are no such tools.
    """

    invocations: tuple[ToolInvocation, ...]
    retrieved_chunks: tuple[RetrievedChunk, ...] | None

    @property
    def retrieval_context(self) -> tuple[str, ...] | None:
        """Texts of the chunks."""
        if self.retrieved_chunks is None:
            return None
        return tuple(chunk.text for chunk in self.retrieved_chunks if chunk.text is not None)


class ToolSet:
    """The tools of a suite with their schemas compiled, shared by all conversations."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Compile the schemas.

        Args:
            tools: with different names.

        Raises:
            ValueError: two have one name, or a definition's parameters are no JSON schema.
        """
        self.tools = {tool.definition.name: tool for tool in tools}
        if len(self.tools) < len(tools):
            raise ValueError("two tools have one name: tool names must differ")
        self.schemas = {name: _compiled(tool.definition) for name, tool in self.tools.items()}
        self.definitions = tuple(tool.definition for tool in tools)
        self.retrieves = any(tool.is_retrieval for tool in tools)


class ToolBox:
    """The tools of one conversation.

    Calls may run at the same time; they are recorded in the order in which they were asked for.
    """

    def __init__(
        self,
        tools: ToolSet,
        *,
        max_bytes: int,
        timeout_s: float | None,
        clock: Callable[[], float],
        session: str,
        redact: Redact,
    ) -> None:
        """Prepare the box.

        Args:
            max_bytes: most bytes of arguments, and of a result, that one call may hold; longer results are cut.
            timeout_s: seconds one call may work; None for no limit.
            session: which conversation this is; unique among those under way.
            redact: removes secrets from what messages repeat of the model's words.
        """
        self._set = tools
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._clock = clock
        self._session = session
        self._redact = redact
        self._invocations: list[ToolInvocation] = []
        self._chunks: list[tuple[RetrievedChunk, ...]] = []

    async def call(self, name: str, args: str | Mapping[str, Any]) -> str:
        """Call a tool; fails by cancellation, or where a model that the tool needs cannot be asked (`ModelCallError`).

        Args:
            name: as the model wrote it.
            args: JSON text as the model wrote it, or what was read from it.

        Returns:
            What the model reads: a text as it is, any other result as JSON, trouble as `Error: …`.
        """
        shown_name = excerpt(self._redact(name)) or "(no name)"
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": shown_name,
            "gen_ai.tool.type": "function",
        }
        with span(f"execute_tool {shown_name}", attributes) as traced:
            return await self._call(name, shown_name, args, traced)

    async def _call(self, name: str, shown_name: str, args: str | Mapping[str, Any], traced: Span) -> str:
        # Taken before anything can run in between: parallel calls keep their order.
        invocations, chunks, slot = self._invocations, self._chunks, len(self._invocations)
        invocations.append(ToolInvocation(shown_name, error=_BROKEN_OFF))
        chunks.append(())
        started = self._clock()
        read: dict[str, Any] = {}
        try:
            read = read_arguments(args, self._max_bytes, self._redact)
            traced.set_content("gen_ai.tool.call.arguments", read)
            invocations[slot] = ToolInvocation(shown_name, read, error=_BROKEN_OFF)
            tool = self._checked(name, read)
            result = await tool.call(read, self._session, max_bytes=self._max_bytes, timeout_s=self._timeout_s)
        except ToolError as error:
            invocations[slot] = ToolInvocation(
                shown_name, read, duration_ms=self._duration(error.duration_ms, started), error=error.message
            )
            traced.fail(error.code)
            return f"Error: {error.for_model}"
        # Without a mark, a piece of a secret at the cut would pass for something else.
        value = f"{result.value}{MARK}" if result.cut else result.value
        traced.set_content("gen_ai.tool.call.result", value)
        invocations[slot] = ToolInvocation(
            shown_name, read, value, result.bytes, self._duration(result.duration_ms, started)
        )
        if tool.is_retrieval:
            chunks[slot] = chunks_of(result.value)
        return _text_of(result)

    def take(self) -> ToolCalls:
        """Return the calls since the last time, and forget them; calls still under way count as broken off."""
        chunks = tuple(chunk for found in self._chunks for chunk in found)
        calls = ToolCalls(tuple(self._invocations), chunks if self._set.retrieves else None)
        # New lists: a call that is still under way writes into the old ones.
        self._invocations, self._chunks = [], []
        return calls

    def _checked(self, name: str, args: Mapping[str, Any]) -> Tool:
        tool = self._set.tools.get(name)
        if tool is None:
            known = unknown_key(name, tuple(self._set.tools)).removeprefix("unknown key ")
            raise ToolError(f"there is no tool {known}", "unknown_tool")
        check_arguments(self._set.schemas[name], args)
        return tool

    def _duration(self, measured_ms: float | None, started: float) -> float:
        return (self._clock() - started) * 1000.0 if measured_ms is None else measured_ms


def _compiled(definition: ToolDefinition) -> JsonSchema:
    try:
        return JsonSchema(definition.parameters)
    except ValueError as error:
        raise ValueError(f"the parameters of the tool {definition.name} are no JSON schema: {error}") from None


def _text_of(result: ToolResult) -> str:
    text = result.for_model
    if text is None:
        text = result.value if isinstance(result.value, str) else json.dumps(result.value, ensure_ascii=False)
    if not result.cut:
        return text
    above = len(text.encode())
    return f"{text}{MARK}\n[The result was cut here: it holds {result.bytes} bytes, of which {above} are above.]"
