"""The suite's own agent: its model, its instructions, its conversation, and the schema that its answers must fit."""

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

from holodeck_action.llm.calls import CALL, CallContext, Meter, Tokens
from holodeck_action.llm.chat import ChatAnswer, ChatModel
from holodeck_action.llm.clients import Clients
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import Deadline, stopped_by_calls
from holodeck_action.llm.messages import Message, Request, ToolResult
from holodeck_action.llm.providers import ModelConfigError, ModelPlan
from holodeck_action.llm.usage import list_price
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.record.record import Usage
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.own_model.case_files import CaseFiles, message_with_files
from holodeck_action.targets.own_model.runner_block import RunnerSettings
from holodeck_action.targets.own_model.schemas import JsonSchema
from holodeck_action.targets.own_model.toolbox import ToolBox, ToolSet
from holodeck_action.targets.protocol import Agent, Attempt, Reply, Session
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import cut

_MOST_PROBLEMS = 5
_RAW_SHOWN = 2000
"""Characters of an answer that does not fit which the record keeps."""

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)


class AnswerFormat:
    """The schema, compiled once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile the schema.

        Raises:
            TargetError: it is no JSON schema.
        """
        try:
            self._schema = JsonSchema(schema)
        except ValueError as error:
            raise TargetError(f"response_format is no JSON schema: {error}") from None
        self.schema = schema

    def read(self, answer: ChatAnswer, *, max_tokens: int | None, redact: Redact) -> str:
        """Return an answer's JSON value as metrics see it: its JSON text, keys in the given order.

        Args:
            answer: what the model answered. A code fence around it is taken off where the model could only be told
                the schema in words.
            max_tokens: the limit of the answer, for the message; None for the provider's own.
            redact: removes secrets from the beginning of the answer.

        Raises:
            AgentError: `refused`, `cut_off` at the limit, or `bad_output`: it is no JSON, or does not fit. The context
                holds the beginning of the answer, and of a misfit the path in the schema.
        """
        said = Foreign.of_text(answer.text)
        context: dict[str, object] = {"answer": cut(said.without_secrets(redact), _RAW_SHOWN)}
        if answer.refused:
            raise AgentError(f"the model refused to answer: {said.words(redact)}", "refused", context)
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
            message = f"the answer is not JSON, which response_format asks for ({error}): {said.words(redact)}"
            raise AgentError(message, "bad_output", context) from None
        misfits = self._schema.misfits(value, whole="the answer", most=_MOST_PROBLEMS)
        if misfits:
            shown = "; ".join(misfit.problem for misfit in misfits)
            context["schema_path"] = misfits[0].schema_path
            message = f"the answer does not fit response_format: {shown} (at {misfits[0].schema_path} of the schema)"
            raise AgentError(message, "bad_output", context)
        return json.dumps(value, ensure_ascii=False)


def answer_format(agent: AgentConfig, checkout: Checkout) -> AnswerFormat | None:
    """Return the format of a suite's answers, None when it asks for none.

    Raises:
        TargetError: the file cannot be read, is no JSON, or holds no JSON schema.
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
        raise TargetError(f"response_format: {written} must hold a JSON schema, an object")
    return AnswerFormat(schema)


_TOOL_SHARE = 0.5
"""Of the time of a turn, what one call of a tool may take: the model can still answer when a tool hangs."""

_STAND_IN = frozenset(("overloaded", "server_error", "rate_limited", "model_not_found"))
"""Codes of calls that another model may be able to answer."""


class Spending(Struct):
    """What a conversation has cost: `before` in the turns that are over, `meter` counts the present one's calls."""

    before: float = 0.0
    meter: Meter = field(default_factory=Meter)

    def known(self) -> float:
        """Return US dollars at list price, as far as prices are known."""
        costs = (record.cost_usd for record in self.meter.records)
        return math.fsum((self.before, *(cost for cost in costs if cost is not None)))

    def next_turn(self) -> Meter:
        """Begin to count anew; return the meter of the turn that is over."""
        over = self.meter
        self.before, self.meter = self.known(), Meter()
        return over


class ModelAgent(Agent):
    """Asks the suite's model, and gives it the results of the tools it calls until it answers.

    Every turn sends the instructions, the conversation so far and the turn's input; a turn that failed leaves nothing
    in the conversation. An empty answer and a refusal are answers, and so is one cut off at `max_tokens`, unless an
    answer must fit a schema.
    """

    notices: tuple[str, ...] = ()

    def __init__(
        self,
        plan: ModelPlan,
        clients: Clients,
        instructions: str,
        *,
        max_bytes: int,
        turn_s: float | None,
        monotonic: Callable[[], float],
        tools: ToolSet | None = None,
        ended: Callable[[str], Awaitable[None]] | None = None,
        settings: RunnerSettings | None = None,
        answers: AnswerFormat | None = None,
        fallback: ModelPlan | None = None,
        files: CaseFiles | None = None,
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            max_bytes: most bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            turn_s: seconds a turn may take, after which the wire tries nothing again, and half of which one call of a
                tool may take; None without a limit.
            monotonic: clock of the deadlines, in seconds.
            ended: told the name of every conversation that is over, so that its tools end, too.
            files: reads the files of turns; None where no turn has any.

        Raises:
            TargetError: a tool cannot be offered to the model.
        """
        try:
            definitions = () if tools is None else tools.definitions
            schema = None if answers is None else answers.schema
            self._model = ChatModel(plan, clients, definitions, schema)
            self._fallback = None if fallback is None else ChatModel(fallback, clients, definitions, schema)
        except ModelConfigError as error:
            raise TargetError(str(error)) from None
        self._settings = settings or RunnerSettings()
        of_fallback = () if self._fallback is None else self._fallback.notices
        plans = (plan,) if fallback is None else (plan, fallback)
        self.notices = tuple(dict.fromkeys((*self._model.notices, *of_fallback, *_unlimited(self._settings, plans))))
        self._clients = clients
        self._answers = answers
        self._max_tokens: int | None = plan.settings.get("max_tokens")
        self._instructions = instructions
        self._max_bytes = max_bytes
        self._turn_s = turn_s
        self._monotonic = monotonic
        self._tools = tools
        self.ended = ended
        self._files = files
        self._opened = count(1)

    async def open(self, case: Case, trial: int) -> ModelSession:
        """Start a conversation; nothing is sent yet.

        Raises:
            AgentError: `unsupported`, a turn of the case has files, and nothing that reads them was given.
        """
        if self._files is None and any(turn.files for turn in case.turns):
            raise AgentError("nothing reads the files of this case", "unsupported")
        name = f"{case.id} {trial} {next(self._opened)}"
        box = None
        if self._tools is not None:
            tool_s = None if self._turn_s is None else _TOOL_SHARE * self._turn_s
            box = ToolBox(
                self._tools,
                max_bytes=self._max_bytes,
                timeout_s=tool_s,
                clock=self._monotonic,
                session=name,
                redact=self._clients.redact,
            )
        return ModelSession(self, trial, name, box)

    async def answer(
        self, history: list[Message], turn: Turn, trial: int, tools: ToolBox | None, spending: Spending
    ) -> Reply:
        """Ask one turn, and extend the history by its messages once it is answered.

        Raises:
            AgentError: `bad_file` before anything is asked, no answer came (the codes of `ModelCallError`),
                `too_large`, `too_many_calls` where the model goes on calling tools, `session_budget` where the
                conversation has cost what it may, or the codes of `AnswerFormat.read`.
        """
        files = () if self._files is None else await self._files.read(turn)
        request = Request((message_with_files(files, turn.input),), self._instructions)
        deadline = None if self._turn_s is None else Deadline(self._turn_s, self._monotonic)
        spare = self._fallback is not None
        context = CallContext(kind="agent", repeat=trial, deadline=deadline, meter=spending.meter, stand_in=spare)
        token = CALL.set(context)
        try:
            with stopped_by_calls(deadline):
                messages, answer, stand_in = await self._converse([*history, request], tools, spending)
        except ModelCallError as error:
            raise AgentError(error.message, error.code, error.context) from error
        finally:
            CALL.reset(token)
        reply = reply_from_mapping(answer.text, max_bytes=self._max_bytes)
        if self._answers is not None:
            text = self._answers.read(answer, max_tokens=self._max_tokens, redact=self._clients.redact)
            reply = reply_from_mapping(text, max_bytes=self._max_bytes)
        history[:] = messages
        called = tools.take() if tools is not None else None
        if called is None:
            # A model without tools calls none.
            reply = replace(reply, tool_invocations=())
        else:
            reply = replace(
                reply,
                tool_invocations=called.invocations,
                retrieval_context=called.retrieval_context,
                retrieved_chunks=called.retrieved_chunks,
            )
        meter = spending.next_turn()
        return replace(
            reply,
            usage=_estimated(meter.usage()),
            finish_reason="length" if answer.truncated else "refusal" if answer.refused else "stop",
            fallback_model=stand_in,
            model_ms=meter.working_ms(),
        )

    async def _converse(
        self, messages: list[Message], tools: ToolBox | None, spending: Spending
    ) -> tuple[list[Message], ChatAnswer, str | None]:
        """Ask until the model answers; return the conversation, the answer, and which model stood in for it, if any."""
        stand_in: str | None = None
        for _ in range(self._settings.max_calls):
            self._check_budget(spending)
            answer, model = await self._ask(messages)
            if model is not self._model:
                stand_in = model.plan.name
            messages = [*messages, answer.message]
            if not answer.calls or tools is None:
                return messages, answer, stand_in
            results = await asyncio.gather(*(tools.call(call.name, call.args) for call in answer.calls))
            parts = tuple(ToolResult(call.id, text) for call, text in zip(answer.calls, results, strict=True))
            messages = [*messages, Request(parts, self._instructions)]
        raise AgentError(
            f"the model asked for tools {self._settings.max_calls} times in one turn and gave no answer",
            "too_many_calls",
        )

    async def _ask(self, messages: list[Message]) -> tuple[ChatAnswer, ChatModel]:
        """Ask the model, and its stand-in where it cannot answer; return the answer and who gave it."""
        try:
            return await self._model.ask(messages), self._model
        except ModelCallError as error:
            # Errors are not recorded: in a replay the call that failed is missing, and its stand-in's answer is there.
            missed = error.code == "cassette_miss"
            if self._fallback is None or not (missed or error.code in _STAND_IN):
                raise
            try:
                return await self._fallback.ask(messages), self._fallback
            except ModelCallError as second:
                if missed and second.code == "cassette_miss":
                    raise error from None
                message = f"{error.message}; and the fallback: {second.message}"
                raise ModelCallError(message, second.code, second.context) from second

    def _check_budget(self, spending: Spending) -> None:
        limit, known = self._settings.budget_usd, spending.known()
        if limit is not None and known >= limit:
            raise AgentError(
                f"the conversation has cost ${known:.4f}, and may cost ${limit:g}; "
                f"raise {self._settings.block}.max_budget_usd, or ask less in one case",
                "session_budget",
            )


def _unlimited(settings: RunnerSettings, plans: Sequence[ModelPlan]) -> Iterator[str]:
    """Yield a sentence for every model that the budget of a conversation does not limit."""
    if settings.budget_usd is None:
        return
    for plan in plans:
        # Azure's answers say which model stands behind a deployment.
        if plan.provider != "azure_openai" and list_price(plan.account, plan.name, Tokens(1000, 1000)) is None:
            yield (
                f"{settings.block}.max_budget_usd does not limit {plan.title}, whose price is not known; "
                "budget.max_tokens would"
            )


class ModelSession(Session):
    """One conversation with the model."""

    def __init__(self, agent: ModelAgent, trial: int, name: str, tools: ToolBox | None) -> None:
        self._agent = agent
        self._trial = trial
        self._name = name
        self._tools = tools
        self._history: list[Message] = []
        self._spending = Spending()

    async def send(self, turn: Turn) -> Reply:
        """Ask one turn."""
        return await self._agent.answer(self._history, turn, self._trial, self._tools, self._spending)

    def attempt(self) -> Attempt:
        """Tell what the last turn did; calls still under way count as broken off, and nobody knows what those cost."""
        called = () if self._tools is None else self._tools.take().invocations
        meter = self._spending.meter
        usage = meter.usage()
        unknown = usage == Usage() or any(record.status is None for record in meter.records)
        return Attempt(called, None if unknown else _estimated(usage))

    async def close(self) -> None:
        """End the processes of the tools; connections belong to the wire."""
        if self._agent.ended is not None:
            await self._agent.ended(self._name)


def _estimated(usage: Usage | None) -> Usage | None:
    """Say that a cost is a list price, as all costs of calls are that the wire makes."""
    return usage if usage is None or usage.cost_usd is None else replace(usage, estimated=True)
