"""The suite's own agent: its model, its instructions, its conversation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from holodeck_action.agents.base import AgentError, Reply, TargetError
from holodeck_action.agents.reply import reply_from_mapping
from holodeck_action.agents.tools.box import ToolBox, ToolSet
from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.chat import ChatAnswer, ChatModel
from holodeck_action.llm.clients import Clients
from holodeck_action.llm.errors import ModelCallError, ModelConfigError
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.results.record import Usage
from holodeck_action.suite.values import Case, Turn

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

MOST_CALLS = 25
"""Calls of the model in one turn: a model that goes round in circles with its tools is ended."""


class ModelAgent:
    """Asks the suite's model, and gives it the results of the tools it calls until it answers.

    Every turn sends the instructions, the conversation so far and the turn's input; a turn that failed leaves nothing
    in the conversation. An empty answer and a refusal are answers, and so is one cut off at `max_tokens`.
    """

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
    ) -> None:
        """Build the model's client.

        Args:
            plan: the model, from `holodeck_action.llm.providers.resolve_model`.
            clients: the wire; it is closed by who made it.
            instructions: the whole text of the suite's instructions.
            max_bytes: most bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            turn_s: seconds a turn may take, after which the wire tries nothing again; None without a limit.
            monotonic: clock of the deadlines, in seconds.
            tools: what the model may call; None for nothing.
            ended: told the name of every conversation that is over, so that its tools end, too.

        Raises:
            TargetError: the packages of the `agents` extra are not installed.
        """
        try:
            self._model = ChatModel(plan, clients, () if tools is None else tools.definitions)
        except ModelConfigError as error:
            raise TargetError(str(error)) from None
        self.notices: tuple[str, ...] = self._model.notices
        self._instructions = instructions
        self._max_bytes = max_bytes
        self._turn_s = turn_s
        self._monotonic = monotonic
        self._tools = tools
        self._ended = ended
        self._opened = count(1)

    async def open(self, case: Case, trial: int) -> ModelSession:
        """Start a conversation; nothing is sent yet.

        Raises:
            AgentError: `unsupported`, a turn of the case has files.
        """
        for turn in case.turns:
            if turn.files:
                raise AgentError(
                    f"turn {turn.index} has files, which the suite's model is not given yet; "
                    "remove `files`, or answer with a target of your own (`target:` in holodeck-action.yaml)",
                    "unsupported",
                )
        name = f"{case.id} {trial} {next(self._opened)}"
        box = None
        if self._tools is not None:
            box = ToolBox(
                self._tools, max_bytes=self._max_bytes, timeout_s=self._turn_s, clock=self._monotonic, session=name
            )
        return ModelSession(self, trial, name, box)

    async def close(self) -> None:
        """Connections belong to the wire."""

    async def end(self, session: str) -> None:
        """End what a conversation held."""
        if self._ended is not None:
            await self._ended(session)

    async def answer(self, history: list[ModelMessage], text: str, trial: int, tools: ToolBox | None) -> Reply:
        """Ask one turn, and extend the history by its messages once it is answered.

        Raises:
            AgentError: no answer came (the codes of `ModelCallError`), `too_large`, or `too_many_calls` where the model
                goes on calling tools.
        """
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        request = ModelRequest(parts=[UserPromptPart(text)], instructions=self._instructions)
        deadline = None if self._turn_s is None else self._monotonic() + self._turn_s
        token = CALL.set(CallContext(kind="agent", repeat=trial, deadline=deadline, meter=Meter()))
        try:
            messages, answer, usage = await self._converse([*history, request], tools)
        except ModelCallError as error:
            raise AgentError(error.message, error.code, error.context) from error
        finally:
            CALL.reset(token)
        reply = reply_from_mapping(answer.text, max_bytes=self._max_bytes)
        history[:] = messages
        called = tools.take() if tools is not None else None
        if called is not None:
            reply = replace(
                reply,
                tool_invocations=called.invocations,
                retrieval_context=called.retrieval_context,
                retrieved_chunks=called.retrieved_chunks,
            )
        return replace(reply, usage=usage)

    async def _converse(
        self, messages: list[ModelMessage], tools: ToolBox | None
    ) -> tuple[list[ModelMessage], ChatAnswer, Usage]:
        from pydantic_ai.messages import ModelRequest, ToolReturnPart

        usages: list[Usage] = []
        for _ in range(MOST_CALLS):
            answer = await self._model.ask(messages)
            usages.append(answer.usage)
            messages = [*messages, answer.message]
            if not answer.calls or tools is None:
                return messages, answer, _sum(usages)
            results = await asyncio.gather(*(tools.call(call.name, call.args) for call in answer.calls))
            parts = [
                ToolReturnPart(tool_name=call.name, content=result, tool_call_id=call.id)
                for call, result in zip(answer.calls, results, strict=True)
            ]
            messages = [*messages, ModelRequest(parts=parts, instructions=self._instructions)]
        raise AgentError(
            f"the model asked for tools {MOST_CALLS} times in one turn and gave no answer", "too_many_calls"
        )


class ModelSession:
    """One conversation with the model."""

    def __init__(self, agent: ModelAgent, trial: int, name: str, tools: ToolBox | None) -> None:
        self._agent = agent
        self._trial = trial
        self._name = name
        self._tools = tools
        self._history: list[ModelMessage] = []

    async def send(self, turn: Turn) -> Reply:
        """Ask one turn."""
        return await self._agent.answer(self._history, turn.input, self._trial, self._tools)

    async def close(self) -> None:
        """End the processes of the tools; connections belong to the wire."""
        await self._agent.end(self._name)


def _sum(usages: Sequence[Usage]) -> Usage:
    """Add up; a part that one call does not tell is unknown."""
    prompts = [usage.prompt_tokens for usage in usages]
    completions = [usage.completion_tokens for usage in usages]
    costs = [usage.cost_usd for usage in usages]
    return Usage(
        None if None in prompts else sum(tokens or 0 for tokens in prompts),
        None if None in completions else sum(tokens or 0 for tokens in completions),
        None if None in costs else math.fsum(cost or 0.0 for cost in costs),
    )
