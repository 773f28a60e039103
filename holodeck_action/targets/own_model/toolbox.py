"""The interface of tools for the suite's own model, and the tools of one conversation, which records their calls."""

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
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.values import Suite
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.json_values import kind_of, parse_json, unknown_key_clause
from holodeck_action.text.plain import MARK, excerpt, make_storable
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import PlainConverter
from holodeck_action.workers.permission import CodeAllowed


class ToolResult(Struct, frozen=True):
    """The result of a tool.

    Attributes:
        value: the result as a JSON value; if `cut` is set, only the beginning of its text or list.
        bytes: size of the complete result in bytes of UTF-8: of the string, or of the JSON of any other value.
        cut: whether `value` is incomplete.
        duration_ms: milliseconds that the tool worked, without waiting; None to use the duration of the call.
        for_model: text for the model; None to use the value (a string) or its JSON.
    """

    value: Any
    bytes: int
    cut: bool = False
    duration_ms: float | None = None
    for_model: str | None = None


class ToolError(Exception):
    """A tool call without a result. The model gets an error message, and the conversation continues.

    Attributes:
        message: one sentence for the record: what happened and where.
        code: stable snake_case code, such as `raised`, `timeout`, `bad_arguments`, `unknown_tool`.
        for_model: error message for the model, without file locations.
        duration_ms: milliseconds that the tool worked; None to use the duration of the call, or if the tool did not
            start.
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
    """A tool that the model can call. All conversations share an instance."""

    @property
    def definition(self) -> ToolDefinition:
        """The definition of the tool that the model receives."""
        ...

    @property
    def is_retrieval(self) -> bool:
        """Whether the tool's results are retrieved chunks."""
        ...

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call the tool.

        Args:
            args: JSON values that fit the definition's schema.
            session: name of the conversation; a tool's state is separate for each conversation.
            max_bytes: maximum bytes of the result's text; a longer result is cut.
            timeout_s: maximum seconds; None if there is no limit.

        Raises:
            ToolError: there is no result.
            ModelCallError: a model that the tool needs failed. The turn then fails, because an answer of the agent
                without this result must not be graded.
        """
        ...


class PlannedCalls(Struct, frozen=True):
    """An estimate, made before the first case, of the model calls that tools will make.

    Attributes:
        purpose: purpose of the calls, such as `contexts of chunks`.
        model: name of the model.
        calls: minimum and maximum number of calls.
        prompt_tokens: minimum and maximum prompt tokens of all calls together.
        answer_tokens: maximum answer tokens of all calls together; 0 for embeddings.
        per_search: whether the numbers are per search by the agent; the number of searches is unknown.
    """

    purpose: str
    model: ModelPlan
    calls: tuple[int, int]
    prompt_tokens: tuple[int, int] = (0, 0)
    answer_tokens: int = 0
    per_search: bool = False


class Toolkit(Protocol):
    """All tools of one kind in a suite, with their processes, connections and indexes.

    Attributes:
        notices: notices about the tools, one sentence each; complete once the toolkit is built.
        calls_models: whether the tools call models, so that the plan of a run must include their calls.
    """

    notices: tuple[str, ...] = ()
    calls_models: bool = False

    async def plan_calls(self) -> Sequence[PlannedCalls]:
        """Return an estimate of the model calls that starting and using the tools requires.

        Raises:
            AgentError: `tool_unavailable`: the calls cannot be estimated.
        """
        return ()

    async def open(self) -> Sequence[Tool]:
        """Start the tools, and return them. The run calls this once, before the first turn, in its event loop.

        Raises:
            AgentError: `tool_unavailable`: the tools cannot be used.
        """
        ...

    async def end(self, session: str) -> None:
        """Release the resources of the finished conversation `session`; by default there are none."""
        return

    async def close(self) -> None:
        """Release all resources, also after a failed or cancelled `open`."""
        ...


class ToolContext(Struct, frozen=True):
    """The objects from which an extension builds the tools of one kind.

    Attributes:
        suite: the suite with the tools.
        plan: the suite's own model.
        wire: makes model calls.
        environ: the job's environment.
        redactor: removes the suite's secrets from texts.
        code: the permission to run code of the checkout.
    """

    suite: Suite
    plan: ModelPlan
    wire: Wire
    environ: Mapping[str, str]
    redactor: Redactor
    code: CodeAllowed


_ID_LENGTH = 16
"""Number of hex digits in the id of a chunk without `id`, which is the start of its text's SHA-256."""


def chunks_of(value: Any) -> tuple[RetrievedChunk, ...]:
    """Return the chunks in a tool result, in their order.

    Args:
        value: a list of chunks, or a single chunk; None if there are no chunks. A chunk is a string, or an object with
            `text` and optionally `id` (string or integer) and `score`. The text of any other value is its JSON.

    Returns:
        The chunks. The id of a chunk without `id` is the start of its text's SHA-256, the same for equal texts.
    """
    if value is None:
        return ()
    return tuple(_make_chunk(item) for item in (value if isinstance(value, list) else [value]))


def _make_chunk(chunk: Any) -> RetrievedChunk:
    text, identity, score = chunk, None, None
    if isinstance(chunk, dict) and isinstance(chunk.get("text"), str):
        text, identity, score = chunk["text"], chunk.get("id"), chunk.get("score")
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
"""Maximum number of problems in one message."""


def check_arguments(schema: JsonSchema, args: Mapping[str, Any]) -> None:
    """Check arguments against a tool's schema.

    Raises:
        ToolError: `bad_arguments`, with up to five problems.
    """
    found = schema.violations(args, label="the arguments", max_violations=_MOST_PROBLEMS)
    if found:
        shown = "; ".join(misfit.problem for misfit in found)
        raise ToolError(f"the arguments do not fit the tool's schema: {shown}", "bad_arguments")


def parameters_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments.

    Args:
        parameters: `parameters` of the tool: either the schema of an object, which is returned, or a mapping from names
            of parameters to their schemas. In a mapping, all parameters are required.

    Raises:
        ValueError: the value of a parameter is not a schema.
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
    """Return the result of a tool that is a string; a string of more than `max_bytes` of UTF-8 is cut."""
    data = text.encode()
    is_cut = len(data) > max_bytes
    return ToolResult(data[:max_bytes].decode("utf-8", "ignore") if is_cut else text, len(data), is_cut)


def plain_result(value: Any, max_bytes: int) -> Any:
    """Return the result of a tool as plain JSON values that a record can store.

    Raises:
        CallError: the result is far larger than `max_bytes`, nested too deeply, or contains values that JSON cannot
            represent.
    """
    # `PlainConverter` counts a value at up to four times the size of its text (`0.5` counts as four bytes).
    return make_storable(PlainConverter(4 * max_bytes + 4).convert(value, "the result"))


def read_arguments(arguments: str | Mapping[str, Any], max_bytes: int, redact: Redact) -> dict[str, Any]:
    """Parse the arguments of a tool call.

    Args:
        arguments: JSON from the model (an empty string if there are no arguments), or the object that the provider
            parsed from it.
        max_bytes: maximum bytes of the arguments.
        redact: removes secrets from quoted arguments.

    Returns:
        Plain JSON values without lone surrogates.

    Raises:
        ToolError: `bad_arguments`: not a JSON object, too deep, or too large.
    """
    value: Any = arguments
    if isinstance(arguments, str):
        if len(arguments) > max_bytes:
            raise ToolError(f"the arguments hold more than {max_bytes} bytes", "bad_arguments")
        try:
            value = parse_json(arguments) if arguments.strip() else {}
        except ValueError as error:
            words = Foreign.of_text(arguments).short_line(redact)
            raise ToolError(f"the arguments are not JSON ({error}): {words}", "bad_arguments") from None
    if not isinstance(value, Mapping):
        raise ToolError(f"the arguments must be a JSON object, not {kind_of(value)}", "bad_arguments")
    try:
        plain: dict[str, Any] = make_storable(PlainConverter(max_bytes).convert(value, "the arguments"))
    except CallError as error:
        # The original message may be as long as the nesting is deep.
        not_json = "the arguments are nested too deeply, or hold a value that JSON cannot represent"
        problem = f"the arguments hold more than {max_bytes} bytes" if error.code == "too_large" else not_json
        raise ToolError(problem, "bad_arguments") from None
    return plain


_INTERRUPTED = "it was stopped because the turn had ended"


class ToolCalls(Struct, frozen=True):
    """The tool calls and retrieved chunks of a turn, as a `Reply` contains them.

    Attributes:
        invocations: the calls, in the order of the model's requests.
        retrieved_chunks: chunks in the results of retrieval tools, in the same order; None if the suite has no such
            tools.
    """

    invocations: tuple[ToolInvocation, ...]
    retrieved_chunks: tuple[RetrievedChunk, ...] | None

    @property
    def retrieval_context(self) -> tuple[str, ...] | None:
        """The texts of the retrieved chunks; None if the suite has no retrieval tools."""
        if self.retrieved_chunks is None:
            return None
        return tuple(chunk.text for chunk in self.retrieved_chunks if chunk.text is not None)


class SuiteTools:
    """The tools of a suite with their compiled schemas. All conversations share an instance."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Compile the schemas.

        Args:
            tools: the tools, with distinct names.

        Raises:
            ValueError: two tools have the same name, or a definition has an invalid schema.
        """
        self.tools = {tool.definition.name: tool for tool in tools}
        if len(self.tools) < len(tools):
            raise ValueError("two tools have the same name: tool names must be unique")
        self.schemas = {name: _compile_schema(tool.definition) for name, tool in self.tools.items()}
        self.definitions = tuple(tool.definition for tool in tools)
        self.retrieves = any(tool.is_retrieval for tool in tools)


class ConversationTools:
    """The tools of one conversation. It records their calls, in the order of the model's requests.

    Calls may run concurrently.
    """

    def __init__(
        self,
        tools: SuiteTools,
        *,
        max_bytes: int,
        timeout_s: float | None,
        clock: Callable[[], float],
        session: str,
        redact: Redact,
    ) -> None:
        """Create an instance without calls.

        Args:
            tools: the tools that the model may call.
            max_bytes: maximum bytes of a call's arguments, and of its result; longer results are cut.
            timeout_s: maximum seconds of one call; None if there is no limit.
            clock: returns monotonic seconds.
            session: name of the conversation, unique among those in progress.
            redact: removes secrets from the model's text that messages quote.
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
        """Call a tool, and return the text for the model.

        Args:
            name: name of the tool, as the model wrote it.
            args: arguments of the call (see `read_arguments`).

        Returns:
            The result if it is a string, any other result as JSON, or `Error: …`.

        Raises:
            ModelCallError: a model that the tool needs failed.
        """
        shown_name = excerpt(self._redact(name)) or "(no name)"
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": shown_name,
            "gen_ai.tool.type": "function",
        }
        with span(f"execute_tool {shown_name}", attributes) as trace_span:
            return await self._call(name, shown_name, args, trace_span)

    async def _call(self, name: str, visible_name: str, args: str | Mapping[str, Any], trace_span: Span) -> str:
        # The slot is reserved before the first await, so that concurrent calls keep their order.
        invocations, chunks, slot = self._invocations, self._chunks, len(self._invocations)
        invocations.append(ToolInvocation(visible_name, error=_INTERRUPTED))
        chunks.append(())
        started = self._clock()
        read: dict[str, Any] = {}
        try:
            read = read_arguments(args, self._max_bytes, self._redact)
            trace_span.set_content("gen_ai.tool.call.arguments", read)
            invocations[slot] = ToolInvocation(visible_name, read, error=_INTERRUPTED)
            tool = self._find_tool(name, read)
            result = await tool.call(read, self._session, max_bytes=self._max_bytes, timeout_s=self._timeout_s)
        except ToolError as error:
            invocations[slot] = ToolInvocation(
                visible_name, read, duration_ms=self._duration(error.duration_ms, started), error=error.message
            )
            trace_span.fail(error.code)
            return f"Error: {error.for_model}"
        # Because of the mark, redaction recognises a secret that was cut.
        value = f"{result.value}{MARK}" if result.cut else result.value
        trace_span.set_content("gen_ai.tool.call.result", value)
        invocations[slot] = ToolInvocation(
            visible_name, read, value, result.bytes, self._duration(result.duration_ms, started)
        )
        if tool.is_retrieval:
            chunks[slot] = chunks_of(result.value)
        return _model_text(result)

    def take_calls(self) -> ToolCalls:
        """Return and remove the calls recorded since the last `take_calls`; calls in progress get an error."""
        chunks = tuple(chunk for found in self._chunks for chunk in found)
        calls = ToolCalls(tuple(self._invocations), chunks if self._set.retrieves else None)
        # New lists, because calls in progress write into the old ones.
        self._invocations, self._chunks = [], []
        return calls

    def _find_tool(self, name: str, args: Mapping[str, Any]) -> Tool:
        tool = self._set.tools.get(name)
        if tool is None:
            known = unknown_key_clause(name, tuple(self._set.tools)).removeprefix("unknown key ")
            raise ToolError(f"there is no tool {known}", "unknown_tool")
        check_arguments(self._set.schemas[name], args)
        return tool

    def _duration(self, measured_ms: float | None, started: float) -> float:
        return (self._clock() - started) * 1000.0 if measured_ms is None else measured_ms


def _compile_schema(definition: ToolDefinition) -> JsonSchema:
    try:
        return JsonSchema(definition.parameters)
    except ValueError as error:
        raise ValueError(f"the parameters of the tool {definition.name} are not a JSON schema: {error}") from None


def _model_text(result: ToolResult) -> str:
    text = result.for_model
    if text is None:
        text = result.value if isinstance(result.value, str) else json.dumps(result.value, ensure_ascii=False)
    if not result.cut:
        return text
    above = len(text.encode())
    return f"{text}{MARK}\n[The result was cut here: it has {result.bytes} bytes, of which {above} are above.]"
