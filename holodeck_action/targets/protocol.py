"""The interface of agents: a run opens one session per trial of a case, and sends it the turns of the case."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol

from msgspec import Struct

from holodeck_action.record.record import RetrievedChunk, Step, ToolInvocation, TrialRecord, Usage
from holodeck_action.suite.values import Case, Turn
from holodeck_action.text.given_paths import GivenPath


class ReplyError(Struct, frozen=True):
    """An agent's report that it cannot answer.

    Attributes:
        message: the reason, one sentence.
        kind: whether the agent or the infrastructure that it needs failed, or the answer was cut at a token limit.
    """

    message: str
    kind: Literal["agent", "infrastructure", "cut_off"] = "agent"

    @property
    def code(self) -> str:
        """The code of the error."""
        return self.kind if self.kind == "cut_off" else f"{self.kind}_error"


class Reply(Struct, frozen=True):
    """The agent's answer to one turn.

    Attributes:
        response: text of the answer.
        tool_invocations: tool calls; empty if no tool was called, None if the calls are unknown.
        retrieval_context: retrieved texts; empty if nothing was retrieved, None if unknown.
        retrieved_chunks: retrieved chunks; empty if nothing was retrieved, None if unknown.
        usage: tokens and cost; None if unknown.
        finish_reason: reason why the model stopped: `stop`, `length` (at its token limit) or `refusal` of the suite's
            own model, and the words of other targets; None if unknown.
        fallback_model: name of the fallback model if it answered instead of the suite's model, otherwise None.
        model_ms: milliseconds that the agent took for the answer, without pauses of the run; None if unknown.
        first_token_ms: milliseconds until the answer began, without pauses of the run; None if unknown.
        model: name of the model that answered; None if unknown.
        messages: messages that the turn adds to the conversation after the user's message; None if the turn adds only
            the answer.
        metadata: further data from the agent; None if there is no further data.
        error: reason why there is no answer; None if there is an answer.
        steps: the calls of models and tools in order of time; empty if the order is unknown.
    """

    response: str
    tool_invocations: tuple[ToolInvocation, ...] | None = None
    retrieval_context: tuple[str, ...] | None = None
    retrieved_chunks: tuple[RetrievedChunk, ...] | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    fallback_model: str | None = None
    model_ms: float | None = None
    first_token_ms: float | None = None
    model: str | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    metadata: Mapping[str, Any] | None = None
    error: ReplyError | None = None
    steps: tuple[Step, ...] = ()


class PartialTurn(Struct, frozen=True):
    """The known tool calls, usage and further data of a turn that ended without an answer.

    None means that a value is unknown; an empty list and zero are known values. `steps` are those of `Reply`.
    """

    tool_invocations: tuple[ToolInvocation, ...] | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] | None = None
    steps: tuple[Step, ...] = ()


class Session(Protocol):
    """A conversation with the agent, for one trial of a case.

    Attributes:
        timed: whether response times are measured; False for answers that were recorded earlier.
        session_id: id of the conversation that the agent receives; None if it receives none.
    """

    timed: bool = True
    session_id: str | None = None

    async def prepare(self) -> None:
        """Start what the next turn needs. By default there is nothing to start.

        The run calls this before each turn, outside the deadlines of turn and case. Operations that can hang need their
        own deadline.

        Raises:
            AgentError: a resource cannot be started.
        """
        return

    async def send(self, turn: Turn) -> Reply:
        """Return the agent's reply to one turn. The run sends turns in order, one at a time.

        The run cancels this at the turn's deadline. The session must then stop all work at once.

        Raises:
            AgentError: the agent could not answer.
        """
        ...

    async def complete_reply(self, reply: Reply) -> Reply:
        """Return the reply with data that arrive later, such as spans; by default the reply unchanged.

        The run calls this after `send`, outside the deadlines of turn and case.
        """
        return reply

    def partial_turn(self) -> PartialTurn:
        """Return the known data of a turn whose `send` failed or was cancelled; by default nothing is known.

        The run calls this at most once per turn.
        """
        return PartialTurn()

    async def close(self) -> None:
        """Release the conversation's resources, also after a failed or cancelled `send`; by default there are none."""
        return


ReplyFact = Literal["tools", "tokens", "cost", "time", "first token"]
"""Names of data that some targets do not report, although gates or metrics may depend on them."""


class Agent(Protocol):
    """The target of a suite, as a run calls it.

    Attributes:
        unreported: the data that no reply of the target contains, each with the reason; complete once the agent is
            built.
        unlimited: a notice for a run without a budget; empty if the target spends no money.
        surroundings: the versions, by name, of the programs that have answered so far.
    """

    unreported: Mapping[ReplyFact, str] = MappingProxyType({})
    unlimited: str = ""
    surroundings: Mapping[str, str] = MappingProxyType({})

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the target, one sentence each; complete once the agent is built."""
        return ()

    async def open(self, case: Case, trial: int) -> Session:
        """Return a new conversation for one trial of a case.

        Raises:
            AgentError: no conversation can be started for this case.
        """
        ...

    def keep_files(self, case_id: str, trial: TrialRecord, folder: GivenPath) -> None:
        """Write files of a finished and graded trial to the run's folder; by default there are none."""
        return

    async def close(self) -> None:
        """Release the resources that conversations share. By default there is nothing to release."""
        return


class Conversation:
    """The messages of one trial so far, from all turns that were answered."""

    def __init__(self, case: Case, trial: int) -> None:
        self.case = case
        self.trial = trial
        # Random, because a service that remembers sessions must not mix two runs.
        self.session = str(uuid.uuid4())
        self._history: list[Mapping[str, Any]] = []

    def add(self, turn: Turn, reply: Reply) -> None:
        """Add the input and the reply of a turn, unless the reply is an error."""
        if reply.error is not None:
            return
        said = reply.messages if reply.messages is not None else ({"role": "assistant", "content": reply.response},)
        self._history += [_user_message(turn), *said]

    def history(self) -> list[Mapping[str, Any]]:
        """Return the messages before the current turn as `[{role, content}]`, including any that the agent reported."""
        return list(self._history)

    def request(self, turn: Turn) -> dict[str, Any]:
        """Return the request of one turn as JSON values (see `holodeck_action.targets.request`)."""
        return {
            "session": self.session,
            "case": self.case.id,
            "name": self.case.name,
            "tags": list(self.case.tags),
            "trial": self.trial,
            "turn": turn.index,
            "seed": seed_of(self.case.id, self.trial),
            "input": turn.input,
            "messages": [*self.history(), _user_message(turn)],
            "files": [file.path or file.url for file in turn.files],
            "turn_config": dict(turn.turn_config),
        }


def seed_of(case_id: str, trial: int) -> int:
    """Return a seed from 0 to 2^31 - 1 that depends only on the case and the trial."""
    digest = hashlib.sha256(f"{trial} {case_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _user_message(turn: Turn) -> dict[str, str]:
    return {"role": "user", "content": turn.input}
