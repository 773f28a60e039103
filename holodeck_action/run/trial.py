"""Runs one trial: a session with the agent, turn by turn; answers are scored concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.limits.pauses import TimeLimit, detach_limits, pause_all_clocks
from holodeck_action.llm.spans import Attributes, span
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.evaluation import OWN_MODEL_FACT, ErrorInfo
from holodeck_action.record.facts import Fact, Nothing, items_or_none, join_facts, list_fact
from holodeck_action.record.record import RetrievedChunk, Timing, TrialRecord, TurnRecord, Usage
from holodeck_action.run.conversations import (
    Conversation,
    Scorer,
    SuiteTurns,
    TurnSource,
    UserError,
    Users,
    case_span,
    conversation_turn,
    finish_trial,
    grade_turn,
    leave_ungraded,
)
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, PartialTurn, Reply, ReplyError, Session
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from holodeck_action.targets.own_model.case_files import CaseFiles

CLOSE_TIMEOUT_S = 10.0


class Clock(Struct, frozen=True):
    """Functions that return the time: `now` as an aware datetime in UTC, `monotonic` in seconds."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]


class Deadlines(Struct, frozen=True):
    """Time limits of an agent in seconds, for one turn and for one case (all its turns, without scoring)."""

    turn_s: float
    case_s: float


class AskedTurn(Struct, frozen=True):
    """A turn with its record, which has no evaluations yet; `grading` adds them, None if there is nothing to grade."""

    turn: Turn
    record: TurnRecord
    grading: asyncio.Task[TurnRecord] | None = None


class _Retrieved(Struct):
    """The texts and chunks that were retrieved in a conversation so far; unknown if a reply does not report them."""

    texts: Fact[tuple[str, ...]] = Nothing()
    chunks: Fact[tuple[RetrievedChunk, ...]] = Nothing()

    def add(self, reply: Reply) -> None:
        self.texts = join_facts(self.texts, list_fact(reply.retrieval_context))
        self.chunks = join_facts(self.chunks, list_fact(reply.retrieved_chunks))


class TrialRunner(Struct, frozen=True):
    """Runs trials; shared by all cases of a run.

    `agent_name` is the agent's name in traces. `files` reads the files of turns (None if no turn has files); their
    texts are extracted if the agent or a metric uses them. `own_model` is whether the agent is the suite's own model,
    which receives these texts and whose calls have their own spans. `on_usage` is called after each call of the agent
    with the usage that the agent reports (None if none). `base` tells whether the run is the base of another run.
    `users` plays the users of cases; None if no case has a simulated user.
    """

    agent: Agent
    scorer: Scorer
    deadlines: Deadlines
    clock: Clock
    redactor: Redactor
    agent_name: str = ""
    files: CaseFiles | None = None
    own_model: bool = False
    on_usage: Callable[[Usage | None], None] = lambda usage: None
    base: bool = False
    users: Users | None = None

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial of a case.

        Args:
            case: the case.
            index: the trial's index, from 0.
            slot: held while the agent works, not while answers are scored.

        Returns:
            The trial, including any errors of the agent and metrics. Only cancellation is raised.
        """
        asked: list[AskedTurn] = []
        source: TurnSource = SuiteTurns(case.turns)
        if case.simulation is not None:
            assert self.users is not None
            source = self.users.converse(case, index, self.scorer)
        with ExitStack() as scope:
            scope.callback(_stop_grading, asked)
            async with slot:
                trace_span = scope.enter_context(case_span(case, index, self.redactor, base=self.base))
                started, begun = self.clock.now(), self.clock.monotonic()
                error = await self._converse(case, index, source, asked)
                timing = Timing(started.isoformat(), 1000 * (self.clock.monotonic() - begun))
            if error is not None:
                trace_span.fail(error.code)
            turns = [
                leave_ungraded(self.scorer, each.turn, each.record) if each.grading is None else await each.grading
                for each in asked
            ]
            trial = TrialRecord(index, tuple(turns), error, timing, source.user_calls)
            return finish_trial(trial, asked[-1].turn, self.redactor)

    async def _converse(self, case: Case, index: int, source: TurnSource, asked: list[AskedTurn]) -> ErrorInfo | None:
        """Run the conversation; return the error that ended it outside of a turn, if any."""
        session: Session | None = None
        failure: str | None = None
        trouble: ErrorInfo | None = None
        running: Turn | None = None
        case_deadline = TimeLimit(self.deadlines.case_s)
        conversation, retrieved = Conversation(case, index), _Retrieved()
        try:
            async with case_deadline:
                session = await self.agent.open(case, index)
                while (turn := await _next_turn(source, conversation)) is not None:
                    running = turn
                    asked.append(await self._ask(session, turn, conversation, retrieved))
                    running = None
                    if asked[-1].record.error is not None:
                        failure = f"not run: turn {turn.index} of the conversation failed"
                        break
        except UserError as error:
            trouble = self.redactor.value(error.info)
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            message = f"the case took longer than {self.deadlines.case_s:g} s"
            trouble = self._error_of(error, case_deadline, message, "case_timeout")
        finally:
            if session is not None:
                await _close(session)
        if trouble is not None:
            failure = f"not run: {trouble.message}"
        if running is not None and session is not None and trouble is not None:
            # The case's deadline interrupted a turn.
            record = replace(_blank(running), retrieval_context=running.retrieval_context, error=trouble)
            asked.append(AskedTurn(running, _with_attempt(record, session.partial_turn())))
        asked += (AskedTurn(turn, replace(_blank(turn), skipped=failure)) for turn in source.not_run(len(asked)))
        if case.simulation is not None:
            asked[-1] = self._with_grading(asked[-1], conversation, trouble)
        return trouble

    def _with_grading(self, last: AskedTurn, conversation: Conversation, error: ErrorInfo | None) -> AskedTurn:
        """Return the last turn with a simulated user, graded by the case's expectations and metrics for the whole
        conversation.

        If the user failed, nothing is graded.
        """
        turn = conversation_turn(conversation.case.turns[0], last.turn)
        record = replace(last.record, ground_truth=turn.ground_truth)
        if record.response is None or error is not None:
            error = None if record.skipped is not None else record.error or error
            return AskedTurn(turn, replace(record, error=error))
        return AskedTurn(turn, record, self._start_grading(conversation.whole(turn), record))

    def _error_of(self, error: Exception, deadline: TimeLimit, message: str, code: str) -> ErrorInfo:
        """Return the agent's error for the record; `message` and `code` apply if the deadline has expired."""
        if not isinstance(error, TimeoutError) or not deadline.has_expired():
            return error_info(error, self.redactor.text)
        if not self.own_model:
            return ErrorInfo("AgentTimeout", message, code)
        limit = f"limits.{'case' if code == 'case_timeout' else 'turn'}_timeout_s"
        message = f"{message}; raise {limit}, or choose a faster model"
        return ErrorInfo("AgentTimeout", message, code, {OWN_MODEL_FACT: True})

    async def _prepare(self, session: Session) -> ErrorInfo | None:
        """Let the session prepare the next turn outside of all time limits; return the error, if any."""
        try:
            with pause_all_clocks():
                await session.prepare()
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            return error_info(error, self.redactor.text)
        return None

    async def _ask(self, session: Session, turn: Turn, conversation: Conversation, retrieved: _Retrieved) -> AskedTurn:
        unready = await self._prepare(session)
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.agent_name or None,
            "holodeck_action.turn.index": turn.index,
        }
        with span(f"invoke_agent {self.agent_name}".rstrip(), attributes) as trace_span:
            record = replace(_blank(turn), retrieval_context=turn.retrieval_context, error=unready)
            if unready is None:
                record = await self._record_answer(session, turn, record, retrieved)
            if record.error is not None:
                trace_span.fail(record.error.code)
            if not self.own_model:
                trace_span.set(_usage_attributes(record))
            if trace_span.content:
                trace_span.set_content("gen_ai.input.messages", [_message("user", turn.input)])
            if trace_span.content and record.response is not None:
                said = {**_message("assistant", record.response), "finish_reason": "stop"}
                trace_span.set_content("gen_ai.output.messages", [said])
            if record.response is None:
                return AskedTurn(turn, record)
            answer = conversation.add(turn, record, session.session_id)
            # A conversation with a simulated user is graded at its end.
            is_graded = conversation.case.simulation is None
            return AskedTurn(turn, record, self._start_grading(answer, record) if is_graded else None)

    async def _record_answer(
        self, session: Session, turn: Turn, record: TurnRecord, retrieved: _Retrieved
    ) -> TurnRecord:
        """Return the record of a turn with the agent's answer, or with the error."""
        started, begun = self.clock.now(), self.clock.monotonic()
        reply: Reply | None = None
        texts: tuple[str, ...] | None = None
        trouble: ErrorInfo | None = None
        deadline = TimeLimit(self.deadlines.turn_s)
        try:
            async with deadline:
                texts = await self._read_texts(turn)
                reply = await session.send(turn)
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            message = f"the agent did not answer within {self.deadlines.turn_s:g} s"
            trouble = self._error_of(error, deadline, message, "timeout")
        took_ms = 1000 * (self.clock.monotonic() - begun)
        if reply is not None:
            with pause_all_clocks():
                reply = await session.complete_reply(reply)
        self.on_usage(None if reply is None else reply.usage)
        working, began = (None, None) if reply is None else (reply.model_ms, reply.first_token_ms)
        known = session.partial_turn() if reply is None else reply
        timing = Timing(started.isoformat(), took_ms if session.timed else None, working, began, known.steps)
        record = _with_attempt(replace(record, context=texts, timing=timing), known)
        if reply is None:
            return replace(record, error=trouble)
        if reply.error is not None:
            return replace(record, error=_reply_error_info(reply.error))
        retrieved.add(reply)
        given = turn.retrieval_context
        return replace(
            record,
            response=reply.response,
            retrieval_context=items_or_none(retrieved.texts) if given is None else given,
            retrieved_chunks=items_or_none(retrieved.chunks),
            finish_reason=reply.finish_reason,
            fallback_model=reply.fallback_model,
            model=reply.model,
            messages=reply.messages,
        )

    async def _read_texts(self, turn: Turn) -> tuple[str, ...] | None:
        """Return the texts of the turn's files; None if the turn has no files or nothing needs their texts."""
        if self.files is None or not turn.files or not (self.own_model or self.scorer.uses_context(turn)):
            return None
        return await self.files.texts(turn) or None

    def _start_grading(self, answer: Answer, record: TurnRecord) -> asyncio.Task[TurnRecord]:
        async def grade() -> TurnRecord:
            # Scoring does not count toward a turn's deadline, and holds no slot.
            detach_limits()
            return await grade_turn(self.scorer, answer, record, self.redactor.text)

        return asyncio.create_task(grade())


def _blank(turn: Turn) -> TurnRecord:
    """Return the record of a turn that was not asked yet."""
    return TurnRecord(turn.index, turn.input, turn.mark, turn.ground_truth, said_by=turn.said_by)


def _with_attempt(record: TurnRecord, attempt: PartialTurn | Reply) -> TurnRecord:
    known = {"tool_invocations": attempt.tool_invocations, "usage": attempt.usage, "metadata": attempt.metadata}
    return replace(record, **known)


def _stop_grading(asked: Sequence[AskedTurn]) -> None:
    for each in asked:
        if each.grading is not None:
            each.grading.cancel()


async def _next_turn(source: TurnSource, conversation: Conversation) -> Turn | None:
    try:
        return await source.next_turn(conversation.answers)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{type(error).__name__}: {error}", "internal") from error


def error_info(error: Exception, redact: Redact) -> ErrorInfo:
    """Return an agent's error for the record; `redact` masks secrets before the message is truncated."""
    if isinstance(error, AgentError):
        return ErrorInfo("AgentError", error.message, error.code, dict(error.context))
    said = redact(f"{type(error).__name__}: {error}")
    return ErrorInfo(type(error).__name__, cut(f"the agent failed: {said}", 1000), "internal")


_REPORTED = {
    "agent": "the agent reports an error",
    "infrastructure": "there is no answer, for a reason outside the agent",
    "cut_off": "the answer is cut off",
}
"""The beginning of the message of an error in a reply, by its kind."""


def _reply_error_info(error: ReplyError) -> ErrorInfo:
    """Return the error for an agent's reply that reports an error."""
    return ErrorInfo("AgentError", f"{_REPORTED[error.kind]}: {error.message}", error.code)


def _usage_attributes(record: TurnRecord) -> Attributes:
    """Return the model and usage that an agent reports, as attributes of its span."""
    usage = record.usage or Usage()
    return {
        "gen_ai.response.model": record.model,
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "holodeck_action.turn.cost_usd": usage.cost_usd,
    }


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


async def _close(session: Session) -> None:
    """Close a session; abandon it if it does not close in time."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await session.close()
    except Exception:  # noqa: BLE001, S110 - the answers are in; closing trouble changes no verdict
        pass
