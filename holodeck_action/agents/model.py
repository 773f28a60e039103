"""The suite's own agent: its model, its instructions, its conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from holodeck_action.agents.base import AgentError, Reply, TargetError
from holodeck_action.agents.reply import reply_from_mapping
from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.chat import ChatModel
from holodeck_action.llm.clients import Clients
from holodeck_action.llm.errors import ModelCallError, ModelConfigError
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.suite.values import Case, Turn

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


class ModelAgent:
    """Asks the suite's model, one call per turn.

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
    ) -> None:
        """Build the model's client.

        Args:
            plan: the model, from `holodeck_action.llm.providers.resolve_model`.
            clients: the wire; it is closed by who made it.
            instructions: the whole text of the suite's instructions.
            max_bytes: most bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            turn_s: seconds a turn may take, after which the wire tries nothing again; None without a limit.
            monotonic: clock of the deadlines, in seconds.

        Raises:
            TargetError: the packages of the `agents` extra are not installed.
        """
        try:
            self._model = ChatModel(plan, clients)
        except ModelConfigError as error:
            raise TargetError(str(error)) from None
        self.notices: tuple[str, ...] = self._model.notices
        self._instructions = instructions
        self._max_bytes = max_bytes
        self._turn_s = turn_s
        self._monotonic = monotonic

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
        return ModelSession(self, trial)

    async def close(self) -> None:
        """Connections belong to the wire."""

    async def answer(self, history: list[ModelMessage], text: str, trial: int) -> Reply:
        """Ask one turn, and extend the history by both messages once it is answered.

        Raises:
            AgentError: no answer came (the codes of `ModelCallError`), or `too_large`.
        """
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        request = ModelRequest(parts=[UserPromptPart(text)], instructions=self._instructions)
        deadline = None if self._turn_s is None else self._monotonic() + self._turn_s
        token = CALL.set(CallContext(kind="agent", repeat=trial, deadline=deadline, meter=Meter()))
        try:
            answer = await self._model.ask([*history, request])
        except ModelCallError as error:
            raise AgentError(error.message, error.code, error.context) from error
        finally:
            CALL.reset(token)
        reply = reply_from_mapping(answer.text, max_bytes=self._max_bytes)
        history += (request, answer.message)
        return replace(reply, usage=answer.usage)


class ModelSession:
    """One conversation with the model."""

    def __init__(self, agent: ModelAgent, trial: int) -> None:
        self._agent = agent
        self._trial = trial
        self._history: list[ModelMessage] = []

    async def send(self, turn: Turn) -> Reply:
        """Ask one turn."""
        return await self._agent.answer(self._history, turn.input, self._trial)

    async def close(self) -> None:
        """Connections belong to the wire."""
