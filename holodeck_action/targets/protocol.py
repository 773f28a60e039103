"""The agent protocol: who answers, one session for each case and trial, and what was said in it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from holodeck_action.record.record import RetrievedChunk, ToolInvocation, Usage
from holodeck_action.suite.values import Case, Turn


class ReplyError(Struct, frozen=True):
    """Why an agent says that it has no answer: in one sentence, and whether the agent or what it needs failed."""

    message: str
    kind: Literal["agent", "infrastructure"] = "agent"


class Reply(Struct, frozen=True):
    """What the agent answered to one turn.

    `tool_invocations`, `retrieval_context` and `retrieved_chunks` are None when the agent says nothing about them,
    empty when it called no tool or retrieved nothing: the two are graded differently. `finish_reason` says why the
    model stopped (`stop`, `length` at its limit of tokens, `refusal`), `fallback_model` which model stood in for the
    suite's, `model` which one answered. `model_ms` is how long the agent worked for it, `first_token_ms` how long
    until the answer began, both in milliseconds, waiting excluded. `messages` are what the turn adds to the
    conversation after its input. None where nothing is told. With an `error` there is no answer.
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
    """What a turn that got no answer did until then; None where it is not known, which is neither none nor zero."""

    tool_invocations: tuple[ToolInvocation, ...] | None = None
    usage: Usage | None = None


class Session(Protocol):
    """One conversation; all multi-turn state lives here.

    `timed` is False where answers were written down before: the time until they come says nothing of the agent.
    """

    timed: bool = True

    async def prepare(self) -> None:
        """Start what the next turn needs, before its clock: no deadline of the turn or the case counts this time.

        Called before each turn. Most agents have nothing to start. What can hang has a deadline of its own.

        Raises:
            AgentError: it cannot be started.
        """
        return

    async def send(self, turn: Turn) -> Reply:
        """Answer one turn; turns arrive in order, one at a time.

        The caller cancels the call at the turn's deadline; the session must then stop its work at once and for good.

        Raises:
            AgentError: the agent could not answer.
        """
        ...

    async def completed(self, reply: Reply) -> Reply:
        """Return the turn's reply with what comes after it, while no clock runs. Most agents add nothing."""
        return reply

    def attempt(self) -> Attempt:
        """Tell what the turn did whose `send` failed or was cancelled; asked once. Most agents do not tell."""
        return Attempt()

    async def close(self) -> None:
        """Release everything the conversation holds; safe after a failed or cancelled `send`. Most hold nothing."""
        return


Told = Literal["tools", "tokens", "cost", "time", "first token"]
"""What a reply may leave unsaid, though something else depends on it."""


class Agent(Protocol):
    """Something that can be asked."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know about the target itself, each one sentence; known once the agent is built."""
        return ()

    @property
    def untold(self) -> Mapping[Told, str]:
        """What no reply of the target can say, each with the reason; known once the agent is built."""
        return {}

    async def open(self, case: Case, trial: int) -> Session:
        """Start a conversation for one trial of one case.

        Raises:
            AgentError: no conversation can be started for this case.
        """
        ...

    async def close(self) -> None:
        """Release what all conversations share. Most share nothing."""
        return


class Conversation:
    """The exchanges of one trial so far, turns that failed excluded."""

    def __init__(self, case: Case, trial: int) -> None:
        self.case = case
        self.trial = trial
        # Not derived from the case: a service that remembers sessions must not mix two runs.
        self.session = str(uuid.uuid4())
        self._history: list[Mapping[str, Any]] = []

    def add(self, turn: Turn, reply: Reply) -> None:
        """Remember one exchange; what got no answer leaves nothing behind."""
        if reply.error is not None:
            return
        said = reply.messages if reply.messages is not None else ({"role": "assistant", "content": reply.response},)
        self._history += [_asked(turn), *said]

    def history(self) -> list[Mapping[str, Any]]:
        """What was said before the turn at hand: `[{role, content}]`, as agents themselves tell it."""
        return list(self._history)

    def request(self, turn: Turn) -> dict[str, Any]:
        """Return the request for one turn, JSON values only (see `holodeck_action.targets.request`)."""
        return {
            "session": self.session,
            "case": self.case.id,
            "name": self.case.name,
            "tags": list(self.case.tags),
            "trial": self.trial,
            "turn": turn.index,
            "seed": seed_of(self.case.id, self.trial),
            "input": turn.input,
            "messages": [*self.history(), _asked(turn)],
            "files": [file.path or file.url for file in turn.files],
            "turn_config": dict(turn.turn_config),
        }


def seed_of(case_id: str, trial: int) -> int:
    """Return a number from 0 to 2^31 - 1: the same in every run, and another one for each trial of each case."""
    digest = hashlib.sha256(f"{trial} {case_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _asked(turn: Turn) -> dict[str, str]:
    return {"role": "user", "content": turn.input}
