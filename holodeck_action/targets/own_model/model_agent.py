"""The suite's own agent: it sends the conversation to the model, calls tools, and checks the format of answers."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.llm.calls import CallContext, Meter, Tokens, use_context
from holodeck_action.llm.chat import ChatAnswer, ChatModel
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import Deadline, stop_during_calls
from holodeck_action.llm.messages import Message, Request, ToolResult
from holodeck_action.llm.providers import ModelConfigError, ModelPlan
from holodeck_action.llm.usage import list_price
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.record.record import Step, Usage
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.own_model.case_files import CaseFiles, message_with_files
from holodeck_action.targets.own_model.runner_settings import RunnerSettings
from holodeck_action.targets.own_model.toolbox import ConversationTools, SuiteTools, ToolCalls
from holodeck_action.targets.protocol import Agent, PartialTurn, Reply, Session
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut

_MOST_PROBLEMS = 5
_MAX_ANSWER_SHOWN = 2000
"""Maximum characters of an invalid answer in the record."""

_FENCED = lazy_pattern(r"\s*```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)


class AnswerFormat:
    """The JSON schema that the model's answers must fit (`response_format`)."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile the schema.

        Raises:
            TargetError: `schema` is not a valid JSON schema.
        """
        try:
            self._schema = JsonSchema(schema)
        except ValueError as error:
            raise TargetError(f"response_format is not a JSON schema: {error}") from None
        self.schema = schema

    def read(self, answer: ChatAnswer, *, max_tokens: int | None, redact: Redact) -> str:
        """Check an answer, and return it as compact JSON, with keys in their original order.

        Args:
            answer: the model's answer. If the model got the schema only as text in its instructions, the answer may be
                in a code fence, which is removed.
            max_tokens: token limit of the answer, for the error message; None if the provider's default applies.
            redact: removes secrets from the quoted beginning of the answer.

        Raises:
            AgentError: `refused`, `cut_off` (at the token limit), or `bad_output` (not JSON, or does not fit the
                schema). The error's context has the beginning of the answer and, if it does not fit, the path in the
                schema.
        """
        said = Foreign.of_text(answer.text)
        context: dict[str, object] = {"answer": cut(said.without_secrets(redact), _MAX_ANSWER_SHOWN)}
        if answer.refused:
            raise AgentError(f"the model refused to answer: {said.short_line(redact)}", "refused", context)
        if answer.truncated:
            limit = "its limit" if max_tokens is None else f"max_tokens {max_tokens}"
            raise AgentError(
                f"the answer stops at {limit}, before its JSON is complete; raise model.max_tokens", "cut_off", context
            )
        text = answer.text
        if answer.prompted and (fenced := _FENCED.fullmatch(text)):
            text = fenced[1]
        try:
            value = parse_json(text)
        except ValueError as error:
            message = f"the answer is not JSON, which response_format requires ({error}): {said.short_line(redact)}"
            raise AgentError(message, "bad_output", context) from None
        violations = self._schema.violations(value, label="the answer", max_violations=_MOST_PROBLEMS)
        if violations:
            shown = "; ".join(violation.problem for violation in violations)
            context["schema_path"] = violations[0].schema_path
            message = f"the answer does not fit response_format: {shown} (at {violations[0].schema_path} of the schema)"
            raise AgentError(message, "bad_output", context)
        return json.dumps(value, ensure_ascii=False)


def read_answer_format(agent: AgentConfig, checkout: Checkout) -> AnswerFormat | None:
    """Return the format that `response_format` of a suite requires; None if it is not set.

    Raises:
        TargetError: the file with the schema cannot be read, or does not contain a JSON schema.
    """
    written = agent.response_format
    if written is None:
        return None
    if isinstance(written, Mapping):
        return AnswerFormat(written)
    try:
        schema = checkout.read(written).json()
    except OSError as error:
        raise TargetError(f"response_format: {written} cannot be read: {error.strerror}") from error
    except ForeignError as error:
        raise TargetError(f"response_format: {written} {error}") from None
    if not isinstance(schema, Mapping):
        raise TargetError(f"response_format: {written} must contain a JSON schema that is an object")
    return AnswerFormat(schema)


_TOOL_SHARE = 0.5
"""Maximum share of a turn's time limit for one tool call, so that the model can still answer after a tool hangs."""

_FALLBACK_CODES = frozenset(("overloaded", "server_error", "rate_limited", "model_not_found"))
"""Codes of failed model calls after which the fallback model is called."""


class ConversationCost(Struct):
    """The cost of a conversation.

    Attributes:
        before: cost of finished turns in US dollars.
        meter: records the model calls of the current turn.
        began_s: start of the current turn in monotonic seconds.
        steps: the model calls of the current turn and the tool calls that they requested, in order.
    """

    before: float = 0.0
    meter: Meter = field(default_factory=Meter)
    began_s: float = 0.0
    steps: tuple[Step, ...] = ()

    def known_usd(self) -> float:
        """Return the cost of the conversation in US dollars at list prices, without calls whose price is unknown."""
        costs = (record.cost_usd for record in self.meter.records)
        return math.fsum((self.before, *(cost for cost in costs if cost is not None)))

    def next_turn(self) -> Meter:
        """Start a new turn, and return the meter of the finished turn."""
        finished = self.meter
        self.before, self.meter, self.steps = self.known_usd(), Meter(), ()
        return finished

    def add_steps(self, now_s: float, tools: int) -> None:
        """Add the last model call, which has ended, and the tool calls that it requested, which begin now.

        Args:
            now_s: monotonic seconds.
            tools: number of the tool calls.
        """
        last, now_ms = self.meter.records[-1], round(1000 * (now_s - self.began_s), 1)
        took_ms = round(1000 * last.latency_s, 1)
        # Behind an answer from a recording, times would be those of no run.
        is_timed = not last.cached and all(step.start_ms is not None for step in self.steps)
        start_ms, tools_ms = (max(0.0, round(now_ms - took_ms, 1)), now_ms) if is_timed else (None, None)
        called = sum(step.tool is not None for step in self.steps)
        requested = (Step(called + at, start_ms=tools_ms) for at in range(tools))
        self.steps = (*self.steps, Step(None, last.model, start_ms, took_ms), *requested)


class ModelAgent(Agent):
    """Calls the suite's model and the tools that it requests, until the model answers.

    Each turn sends the instructions, the conversation so far and the turn's input. The messages of a failed turn are
    not part of the conversation. Empty answers, refusals, and answers cut off at `max_tokens` are valid replies. If the
    suite has a `response_format`, refusals and cut-off answers are errors.
    """

    notices: tuple[str, ...] = ()

    def __init__(
        self,
        plan: ModelPlan,
        sender: RequestSender,
        instructions: str,
        *,
        max_bytes: int,
        turn_s: float | None,
        monotonic: Callable[[], float],
        tools: SuiteTools | None = None,
        on_session_end: Callable[[str], Awaitable[None]] | None = None,
        settings: RunnerSettings | None = None,
        answer_format: AnswerFormat | None = None,
        fallback: ModelPlan | None = None,
        case_files: CaseFiles | None = None,
    ) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            plan: the suite's model.
            instructions: the suite's instructions for the model.
            max_bytes: maximum bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            turn_s: time limit of a turn in seconds, after which model calls are not retried. One tool call may take
                half of it. None if there is no limit.
            monotonic: returns monotonic seconds.
            tools: the tools that the model may call; None if there are none.
            on_session_end: called with the name of each finished conversation, to release its tools.
            settings: further settings of the model; None for the defaults.
            answer_format: the required format of answers; None if there is none.
            fallback: the model that is called if the suite's model fails; None if there is none.
            case_files: reads the files of turns; None if no turn has files.

        Raises:
            TargetError: the model does not support the schema of a tool.
        """
        try:
            definitions = () if tools is None else tools.definitions
            schema = None if answer_format is None else answer_format.schema
            self._model = ChatModel(plan, sender, definitions, schema)
            self._fallback = None if fallback is None else ChatModel(fallback, sender, definitions, schema)
        except ModelConfigError as error:
            raise TargetError(str(error)) from None
        self._settings = settings or RunnerSettings()
        of_fallback = () if self._fallback is None else self._fallback.notices
        plans = (plan,) if fallback is None else (plan, fallback)
        self.notices = tuple(
            dict.fromkeys((*self._model.notices, *of_fallback, *_unlimited_notices(self._settings, plans)))
        )
        self._clients = sender
        self._answer_format = answer_format
        self._max_tokens: int | None = self._model.settings.get("max_tokens")
        self._instructions = instructions
        self._max_bytes = max_bytes
        self._turn_s = turn_s
        self._monotonic = monotonic
        self._tools = tools
        self.on_session_end = on_session_end
        self._files = case_files
        self._opened = count(1)

    async def open(self, case: Case, trial: int) -> ModelSession:
        """Return a new conversation; nothing is sent yet.

        Raises:
            AgentError: `unsupported`: a turn of the case has files, but this agent cannot read files.
        """
        if self._files is None and any(turn.files for turn in case.turns):
            raise AgentError("this target does not read the files of a case", "unsupported")
        name = f"{case.id} {trial} {next(self._opened)}"
        box = None
        if self._tools is not None:
            tool_s = None if self._turn_s is None else _TOOL_SHARE * self._turn_s
            box = ConversationTools(
                self._tools,
                max_bytes=self._max_bytes,
                timeout_s=tool_s,
                clock=self._monotonic,
                session=name,
                redact=self._clients.redact,
            )
        return ModelSession(self, trial, name, box)

    async def answer(
        self, history: list[Message], turn: Turn, trial: int, tools: ConversationTools | None, cost: ConversationCost
    ) -> Reply:
        """Return the model's reply to one turn, and add the messages of the turn to `history`.

        Raises:
            AgentError: `bad_file` before any call, a code of `ModelCallError`, `too_large`, `too_many_calls` if the
                model keeps calling tools, `session_budget` if the conversation has reached its cost limit, or a code of
                `AnswerFormat.read`.
        """
        cost.began_s = self._monotonic()
        files = () if self._files is None else await self._files.read(turn)
        request = Request((message_with_files(files, turn.input),), self._instructions)
        deadline = None if self._turn_s is None else Deadline(self._turn_s, self._monotonic)
        spare = self._fallback is not None
        context = CallContext("agent", trial, deadline, cost.meter, has_fallback=spare, required=not spare)
        try:
            with use_context(context), stop_during_calls(deadline):
                messages, answer, fallback = await self._converse([*history, request], tools, cost)
        except ModelCallError as error:
            raise AgentError(error.message, error.code, error.context) from error
        reply = reply_from_mapping(answer.text, max_bytes=self._max_bytes)
        if self._answer_format is not None:
            text = self._answer_format.read(answer, max_tokens=self._max_tokens, redact=self._clients.redact)
            reply = reply_from_mapping(text, max_bytes=self._max_bytes)
        history[:] = messages
        # Without tools, it is known that there are no tool calls.
        called = ToolCalls((), None) if tools is None else tools.take_calls()
        steps, meter = cost.steps, cost.next_turn()
        return replace(
            reply,
            tool_invocations=called.invocations,
            retrieval_context=called.retrieval_context,
            retrieved_chunks=called.retrieved_chunks,
            steps=steps,
            usage=_mark_estimated(meter.usage()),
            finish_reason="length" if answer.truncated else "refusal" if answer.refused else "stop",
            fallback_model=fallback,
            model_ms=meter.working_ms(),
        )

    async def _converse(
        self, messages: list[Message], tools: ConversationTools | None, cost: ConversationCost
    ) -> tuple[list[Message], ChatAnswer, str | None]:
        """Call the model and its tools until the model answers.

        Returns:
            All messages of the conversation, the answer, and the name of the fallback model if it was called.
        """
        fallback: str | None = None
        for _ in range(self._settings.max_calls):
            self._check_budget(cost)
            answer, model = await self._call_model(messages)
            if model is not self._model:
                fallback = model.plan.name
            cost.add_steps(self._monotonic(), 0 if tools is None else len(answer.calls))
            messages = [*messages, answer.message]
            if not answer.calls or tools is None:
                return messages, answer, fallback
            results = await asyncio.gather(*(tools.call(call.name, call.args) for call in answer.calls))
            parts = tuple(ToolResult(call.id, text) for call, text in zip(answer.calls, results, strict=True))
            messages = [*messages, Request(parts, self._instructions)]
        raise AgentError(
            f"the model called tools {self._settings.max_calls} times in one turn without giving an answer",
            "too_many_calls",
        )

    async def _call_model(self, messages: list[Message]) -> tuple[ChatAnswer, ChatModel]:
        """Call the model, and the fallback model if that fails; return the answer and the model that gave it."""
        try:
            return await self._model.ask(messages), self._model
        except ModelCallError as error:
            # Errors are not recorded, so a replay has only the answer of the fallback model.
            missed = error.code == "cassette_miss"
            if self._fallback is None or not (missed or error.code in _FALLBACK_CODES):
                raise
            try:
                return await self._fallback.ask(messages), self._fallback
            except ModelCallError as second:
                if missed and second.code == "cassette_miss":
                    raise error from None
                message = f"{error.message}; and the fallback: {second.message}"
                raise ModelCallError(message, second.code, second.context) from second

    def _check_budget(self, cost: ConversationCost) -> None:
        limit, known = self._settings.budget_usd, cost.known_usd()
        if limit is not None and known >= limit:
            raise AgentError(
                f"the conversation has cost ${known:.4f} of at most ${limit:g}; raise "
                f"{self._settings.block}.max_budget_usd, or shorten the case",
                "session_budget",
            )


def _unlimited_notices(settings: RunnerSettings, plans: Sequence[ModelPlan]) -> Iterator[str]:
    """Yield a notice for each model without a known price, to which the budget of a conversation does not apply."""
    if settings.budget_usd is None:
        return
    for plan in plans:
        # The model of an Azure deployment is only known from its answers.
        if plan.provider != "azure_openai" and list_price(plan.account, plan.name, Tokens(1000, 1000)) is None:
            yield (
                f"{settings.block}.max_budget_usd does not limit {plan.title}, whose price is unknown; use "
                "budget.max_tokens"
            )


class ModelSession(Session):
    """A conversation with the model."""

    def __init__(self, agent: ModelAgent, trial: int, name: str, tools: ConversationTools | None) -> None:
        self._agent = agent
        self._trial = trial
        self._name = name
        self._tools = tools
        self._history: list[Message] = []
        self._cost = ConversationCost()

    async def send(self, turn: Turn) -> Reply:
        """Return the model's reply to one turn."""
        return await self._agent.answer(self._history, turn, self._trial, self._tools, self._cost)

    def partial_turn(self) -> PartialTurn:
        """Return the tool calls and the usage of the failed turn; usage is unknown if a model call did not finish."""
        called = () if self._tools is None else self._tools.take_calls().invocations
        meter = self._cost.meter
        usage = meter.usage()
        unknown = usage == Usage() or any(record.status is None for record in meter.records)
        return PartialTurn(called, None if unknown else _mark_estimated(usage), steps=self._cost.steps)

    async def close(self) -> None:
        """Release the tools of the conversation; connections to the model stay open."""
        if self._agent.on_session_end is not None:
            await self._agent.on_session_end(self._name)


def _mark_estimated(usage: Usage | None) -> Usage | None:
    """Return the usage, marked as estimated if it has a cost, because the cost is computed from list prices."""
    return usage if usage is None or usage.cost_usd is None else replace(usage, estimated=True)
