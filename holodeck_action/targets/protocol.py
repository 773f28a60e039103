"""The agent protocol: who answers, one session for each case and trial, and what was said in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from holodeck_action.results.record import RetrievedChunk, ToolInvocation, Usage
from holodeck_action.suite.values import Case, Turn


@dataclass(frozen=True, slots=True)
class Reply:
    """What the agent answered to one turn.

    `tool_invocations`, `retrieval_context` and `retrieved_chunks` are None when the agent says nothing about them,
    empty when it called no tool or retrieved nothing: the two are graded differently. `finish_reason` says why the
    model stopped (`stop`, `length` at its limit of tokens, `refusal`), `fallback_model` which model stood in for the
    suite's, `model_ms` how long models worked for it in milliseconds, waiting excluded; None where nothing is told.
    """

    response: str
    tool_invocations: tuple[ToolInvocation, ...] | None = None
    retrieval_context: tuple[str, ...] | None = None
    retrieved_chunks: tuple[RetrievedChunk, ...] | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    fallback_model: str | None = None
    model_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a turn that got no answer did until then; None where it is not known, which is neither none nor zero."""

    tool_invocations: tuple[ToolInvocation, ...] | None = None
    usage: Usage | None = None


class Session(Protocol):
    """One conversation; all multi-turn state lives here."""

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

    def attempt(self) -> Attempt:
        """Tell what the turn did whose `send` failed or was cancelled; asked once. Most agents do not tell."""
        return Attempt()

    async def close(self) -> None:
        """Release everything the conversation holds; safe after a failed or cancelled `send`. Most hold nothing."""
        return


class Agent(Protocol):
    """Something that can be asked."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know about the target itself, each one sentence; known once the agent is built."""
        return ()

    @property
    def silent_on_tools(self) -> str | None:
        """Why no reply of the target can say anything of tool calls; None where replies may. Known once it is built."""
        return None

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
        self._history: list[tuple[str, str]] = []

    def add(self, turn: Turn, response: str) -> None:
        """Remember one exchange."""
        self._history += [("user", turn.input), ("assistant", response)]

    def history(self) -> list[dict[str, str]]:
        """What was said before the turn at hand: `[{role: user|assistant, content: text}]`."""
        return [{"role": role, "content": content} for role, content in self._history]

    def request(self, turn: Turn) -> dict[str, Any]:
        """Return the request for one turn, JSON values only.

        `messages` is the history with this turn's input as last message, `files` are paths or URLs, `turn_config` is
        the turn's, passed on as it is.
        """
        return {
            "case": self.case.id,
            "name": self.case.name,
            "trial": self.trial,
            "turn": turn.index,
            "input": turn.input,
            "messages": [*self.history(), {"role": "user", "content": turn.input}],
            "files": [file.path or file.url for file in turn.files],
            "turn_config": dict(turn.turn_config),
        }
