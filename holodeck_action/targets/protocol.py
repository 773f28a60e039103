"""The protocol of agents: one session per case and trial, and the conversation in it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from holodeck_action.record.record import RetrievedChunk, ToolInvocation, Usage
from holodeck_action.suite.values import Case, Turn


class ReplyError(Struct, frozen=True):
    """An agent's own report that it has no answer: the reason in one sentence, and whether the agent or its
    infrastructure failed.
    """

    message: str
    kind: Literal["agent", "infrastructure"] = "agent"


class Reply(Struct, frozen=True):
    """The agent's answer to one turn.

    Attributes:
        response: text of the answer.
        tool_invocations: tool calls; empty if no tool was called, None if the calls are unknown, which is graded
            differently.
        retrieval_context: retrieved texts; empty if nothing was retrieved, None if unknown.
        retrieved_chunks: retrieved chunks; empty if nothing was retrieved, None if unknown.
        usage: tokens and cost; None if unknown.
        finish_reason: reason why the model stopped: `stop`, `length` (at its token limit) or `refusal`; None if
            unknown.
        fallback_model: name of the fallback model if it answered instead of the suite's model, otherwise None.
        model_ms: milliseconds that the agent worked, without waiting; None if unknown.
        first_token_ms: milliseconds until the answer began, without waiting; None if unknown.
        model: name of the model that answered; None if unknown.
        messages: messages that the turn adds to the conversation after its input; None if it adds only the answer.
        metadata: further data from the agent; None if it sent no further data.
        error: reason why there is no answer; None if there is an answer.
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


class Attempt(Struct, frozen=True):
    """The known tool calls and usage of a turn that ended without an answer.

    None means that a value is unknown; an empty list and zero are known values.
    """

    tool_invocations: tuple[ToolInvocation, ...] | None = None
    usage: Usage | None = None


class Session(Protocol):
    """One conversation, which holds all multi-turn state.

    `timed` is False if answers were recorded earlier, so that their response times are not measured.
    """

    timed: bool = True

    async def prepare(self) -> None:
        """Start the resources for the next turn; this time does not count against any deadline of the turn or case.

        Called before each turn. By default there is nothing to start. Operations that can hang need their own deadline.

        Raises:
            AgentError: a resource cannot be started.
        """
        return

    async def send(self, turn: Turn) -> Reply:
        """Answer one turn; turns arrive in order, one at a time.

        The caller cancels this at the turn's deadline; the session must then stop its work immediately and permanently.

        Raises:
            AgentError: the agent could not answer.
        """
        ...

    async def complete_reply(self, reply: Reply) -> Reply:
        """Return the reply with data that arrive after it; called while no clock runs. By default the reply is returned
        unchanged.
        """
        return reply

    def attempt(self) -> Attempt:
        """Return the known data of the turn whose `send` failed or was cancelled; called once. By default nothing is
        known.
        """
        return Attempt()

    async def close(self) -> None:
        """Release the conversation's resources; safe after a failed or cancelled `send`. By default there is nothing to
        release.
        """
        return


ReplyFact = Literal["tools", "tokens", "cost", "time", "first token"]
"""Parts of a reply that may be missing although gates or metrics depend on them."""


class Agent(Protocol):
    """The target of a suite, as a run calls it."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the target, one sentence each; complete once the agent is built."""
        return ()

    @property
    def unreported(self) -> Mapping[ReplyFact, str]:
        """The parts that every reply of the target lacks, each with the reason; known once the agent is built."""
        return {}

    async def open(self, case: Case, trial: int) -> Session:
        """Start a conversation for one trial of one case.

        Raises:
            AgentError: no conversation can be started for this case.
        """
        ...

    async def close(self) -> None:
        """Release the resources that conversations share. By default there is nothing to release."""
        return


class Conversation:
    """The conversation of one trial so far: the messages of all turns with an answer."""

    def __init__(self, case: Case, trial: int) -> None:
        self.case = case
        self.trial = trial
        # Random, because a service that remembers sessions must not mix two runs.
        self.session = str(uuid.uuid4())
        self._history: list[Mapping[str, Any]] = []

    def add(self, turn: Turn, reply: Reply) -> None:
        """Add the input and reply of one turn, unless it has no answer."""
        if reply.error is not None:
            return
        said = reply.messages if reply.messages is not None else ({"role": "assistant", "content": reply.response},)
        self._history += [_user_message(turn), *said]

    def history(self) -> list[Mapping[str, Any]]:
        """Return the messages before the current turn as `[{role, content}]`, including further messages that the agent
        reported.
        """
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
    """Return a random seed from 0 to 2^31 - 1, the same in every run, but different for each trial of a case."""
    digest = hashlib.sha256(f"{trial} {case_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _user_message(turn: Turn) -> dict[str, str]:
    return {"role": "user", "content": turn.input}
