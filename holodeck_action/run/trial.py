"""Runs one trial: a session with the agent, turn by turn; answers are scored concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.limits.pauses import TimeLimit, detach_limits, pause_all_clocks
from holodeck_action.llm.spans import Attributes, SpanScope, span
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.evaluation import OWN_MODEL_FACT, ErrorInfo, Evaluation
from holodeck_action.record.facts import Unknown, items_or_none, list_fact
from holodeck_action.record.record import (
    Timing,
    ToolAssertion,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.run.exchanges import Conversation, Exchange
from holodeck_action.run.turn_sources import (
    Scorer,
    SuiteTurns,
    TurnSource,
    UserError,
    Users,
    conversation_answer,
    conversation_turn,
    lift_evaluations,
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
        with ExitStack() as scope:
            return await self._run(case, index, slot, scope)

    async def _run(
        self, case: Case, index: int, slot: AbstractAsyncContextManager[Any], scope: ExitStack
    ) -> TrialRecord:
        exchanges: list[Exchange] = []
        error: ErrorInfo | None = None
        source: TurnSource = SuiteTurns(case.turns)
        if case.simulation is not None:
            assert self.users is not None
            source = self.users.converse(case, index, self.scorer)
        try:
            async with slot:
                trace_span = scope.enter_context(self._case_span(case, index))
                started, begun = self.clock.now(), self.clock.monotonic()
                error = await self._converse(case, index, source, exchanges)
                timing = Timing(started.isoformat(), 1000 * (self.clock.monotonic() - begun))
            if error is not None:
                trace_span.fail(error.code)
            turns = [await self._turn_record(exchange) for exchange in exchanges]
        except BaseException:
            for exchange in exchanges:
                if exchange.grading is not None:
                    exchange.grading.cancel()
            raise
        trial = TrialRecord(index, tuple(turns), error, timing, source.user_calls)
        return self.redactor.value(lift_evaluations(trial, exchanges[-1].turn))

    async def _converse(
        self, case: Case, index: int, source: TurnSource, exchanges: list[Exchange]
    ) -> ErrorInfo | None:
        """Run the conversation; return the error that ended it outside of a turn, if any."""
        session: Session | None = None
        failure: str | None = None
        trouble: ErrorInfo | None = None
        asked: Turn | None = None
        case_deadline = TimeLimit(self.deadlines.case_s)
        conversation = Conversation(index)
        try:
            async with case_deadline:
                session = await self.agent.open(case, index)
                while (turn := await _next_turn(source, conversation)) is not None:
                    asked = turn
                    unready = await self._prepare(session)
                    exchange = await self._exchange(session, case, turn, conversation, unready)
                    exchanges.append(exchange)
                    asked = None
                    if exchange.error is not None:
                        failure = f"not run: turn {turn.index} of the conversation failed"
                        break
        except UserError as error:
            trouble = self.redactor.value(error.info)
        except TimeoutError as error:
            trouble = error_info(error, self.redactor.text)
            if case_deadline.has_expired():
                message = f"the case took longer than {self.deadlines.case_s:g} s"
                trouble = self._timeout_error(message, "case_timeout")
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            trouble = error_info(error, self.redactor.text)
        finally:
            if session is not None:
                await _close(session)
        if trouble is not None:
            failure = f"not run: {trouble.message}"
        if asked is not None and session is not None and trouble is not None:
            # The case's deadline interrupted a turn.
            context = asked.retrieval_context
            exchanges.append(Exchange(asked, context=context, error=trouble, attempt=session.partial_turn()))
        exchanges += (Exchange(turn, skipped=failure) for turn in source.not_run(len(exchanges)))
        if case.simulation is not None:
            exchanges[-1] = self._with_grading(exchanges[-1], case.turns[0], conversation, trouble)
        return trouble

    def _with_grading(
        self, last_exchange: Exchange, case_turn: Turn, conversation: Conversation, error: ErrorInfo | None
    ) -> Exchange:
        """Return the last exchange with a simulated user, graded by the case's expectations and metrics for the whole
        conversation.

        If the user failed, nothing is graded.
        """
        turn = conversation_turn(case_turn, last_exchange.turn)
        if last_exchange.reply is None or error is not None:
            return replace(
                last_exchange,
                turn=turn,
                error=None if last_exchange.skipped is not None else last_exchange.error or error,
            )
        answer = conversation_answer(turn, conversation.answers)
        return replace(last_exchange, turn=turn, grading=asyncio.create_task(self._grade(answer)))

    def _timeout_error(self, message: str, code: str) -> ErrorInfo:
        if not self.own_model:
            return ErrorInfo("AgentTimeout", message, code)
        limit = f"limits.{'case' if code == 'case_timeout' else 'turn'}_timeout_s"
        message = f"{message}; raise {limit}, or choose a faster model"
        return ErrorInfo("AgentTimeout", message, code, {OWN_MODEL_FACT: True})

    def _case_span(self, case: Case, index: int) -> SpanScope:
        case_id = self.redactor.case_id(case.id, case.content_hash)
        attributes = {
            "holodeck_action.case.id": case_id,
            "holodeck_action.case.name": case.name,
            "holodeck_action.trial.index": index,
            "holodeck_action.base": self.base or None,
        }
        return span(f"case {case_id}", attributes, sampled=True)

    async def _prepare(self, session: Session) -> ErrorInfo | None:
        """Let the session prepare the next turn outside of all time limits; return the error, if any."""
        try:
            with pause_all_clocks():
                await session.prepare()
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            return error_info(error, self.redactor.text)
        return None

    async def _exchange(
        self, session: Session, case: Case, turn: Turn, conversation: Conversation, error: ErrorInfo | None
    ) -> Exchange:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.agent_name or None,
            "holodeck_action.turn.index": turn.index,
        }
        with span(f"invoke_agent {self.agent_name}".rstrip(), attributes) as trace_span:
            exchange = (
                Exchange(turn, context=turn.retrieval_context, error=error)
                if error is not None
                else await self._ask_agent(session, case, turn, conversation)
            )
            if exchange.error is not None:
                trace_span.fail(exchange.error.code)
            if not self.own_model:
                trace_span.set(_usage_attributes(exchange))
            if trace_span.content:
                trace_span.set_content("gen_ai.input.messages", [_message("user", turn.input)])
            if trace_span.content and exchange.reply is not None:
                said = {**_message("assistant", exchange.reply.response), "finish_reason": "stop"}
                trace_span.set_content("gen_ai.output.messages", [said])
            return exchange

    async def _ask_agent(self, session: Session, case: Case, turn: Turn, conversation: Conversation) -> Exchange:
        started, begun = self.clock.now(), self.clock.monotonic()
        reply: Reply | None = None
        texts: tuple[str, ...] | None = None
        trouble: ErrorInfo | None = None
        deadline = TimeLimit(self.deadlines.turn_s)
        try:
            async with deadline:
                texts = await self._read_texts(turn)
                reply = await session.send(turn)
        except TimeoutError as error:
            if deadline.has_expired():
                trouble = self._timeout_error(f"the agent did not answer within {self.deadlines.turn_s:g} s", "timeout")
            else:
                trouble = error_info(error, self.redactor.text)
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            trouble = error_info(error, self.redactor.text)
        took_ms = 1000 * (self.clock.monotonic() - begun)
        if reply is not None:
            with pause_all_clocks():
                reply = await session.complete_reply(reply)
        self.on_usage(None if reply is None else reply.usage)
        working, began = (None, None) if reply is None else (reply.model_ms, reply.first_token_ms)
        timing = Timing(started.isoformat(), took_ms if session.timed else None, working, began)
        if reply is None or reply.error is not None:
            attempt = session.partial_turn() if reply is None else PartialTurn(reply.tool_invocations, reply.usage)
            return Exchange(
                turn,
                context=turn.retrieval_context,
                error=trouble if reply is None or reply.error is None else _reply_error_info(reply.error),
                timing=timing,
                texts=texts,
                attempt=attempt,
            )
        conversation.add(reply)
        given = list_fact(turn.retrieval_context)
        texts_retrieved = conversation.texts if isinstance(given, Unknown) else given
        answer = Answer(
            trial=conversation.trial,
            turn=turn,
            case_name=case.name,
            multi_turn=case.multi_turn,
            response=reply.response,
            calls=list_fact(reply.tool_invocations),
            conversation_calls=conversation.calls,
            texts=texts_retrieved,
            chunks=conversation.chunks,
            context=texts,
            earlier=conversation.answers,
            metadata=reply.metadata,
            session=session.session_id,
        )
        conversation.answers += (replace(answer, earlier=()),)
        # A conversation with a simulated user is graded at its end.
        grading = None if case.simulation is not None else asyncio.create_task(self._grade(answer))
        return Exchange(
            turn,
            reply,
            items_or_none(texts_retrieved),
            items_or_none(conversation.chunks),
            timing=timing,
            grading=grading,
            texts=texts,
        )

    async def _read_texts(self, turn: Turn) -> tuple[str, ...] | None:
        """Return the texts of the turn's files; None if the turn has no files or nothing needs their texts."""
        if self.files is None or not turn.files or not (self.own_model or self.scorer.uses_context(turn)):
            return None
        return await self.files.texts(turn) or None

    async def _grade(self, answer: Answer) -> tuple[tuple[Evaluation, ...], tuple[ToolAssertion, ...]]:
        # Scoring does not count toward a turn's deadline, and holds no slot.
        detach_limits()
        evaluations = await self.scorer.score(answer)
        return evaluations, await self.scorer.check_tools(answer.turn, answer.calls)

    async def _turn_record(self, exchange: Exchange) -> TurnRecord:
        turn, error, done = exchange.turn, exchange.error, exchange.reply or exchange.attempt or PartialTurn()
        evaluations: tuple[Evaluation, ...] | None = None
        assertions: tuple[ToolAssertion, ...] = ()
        if exchange.grading is not None:
            try:
                evaluations, assertions = await exchange.grading
            except Exception as defect:  # noqa: BLE001 - a failure stays in its case
                said = self.redactor.text(f"{type(defect).__name__}: {defect}")
                message = cut(f"the answer could not be graded: {said}", 1000)
                error = ErrorInfo(type(defect).__name__, message, "internal")
        if evaluations is None:
            reason = exchange.skipped or f"not evaluated: {error.message if error else 'no answer'}"
            evaluations = self.scorer.pending_evaluations(turn, reason)
        return TurnRecord(
            index=turn.index,
            input=turn.input,
            source=turn.mark,
            ground_truth=turn.ground_truth,
            response=exchange.reply.response if exchange.reply else None,
            tool_invocations=done.tool_invocations,
            tool_assertions=assertions,
            retrieval_context=exchange.context,
            retrieved_chunks=exchange.chunks,
            context=exchange.texts,
            usage=done.usage,
            evaluations=evaluations,
            error=error,
            skipped=exchange.skipped,
            timing=exchange.timing,
            finish_reason=exchange.reply.finish_reason if exchange.reply else None,
            fallback_model=exchange.reply.fallback_model if exchange.reply else None,
            model=exchange.reply.model if exchange.reply else None,
            messages=exchange.reply.messages if exchange.reply else None,
            metadata=exchange.reply.metadata if exchange.reply else None,
            said_by=turn.said_by,
        )


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


def _usage_attributes(exchange: Exchange) -> Attributes:
    """Return the model and usage that an agent reports, as attributes of its span."""
    done = exchange.reply or exchange.attempt
    usage = (done and done.usage) or Usage()
    return {
        "gen_ai.response.model": exchange.reply.model if exchange.reply else None,
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
    work: Coroutine[Any, Any, None] = session.close()
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await work
    except Exception:  # noqa: BLE001, S110 - the answers are in; closing trouble changes no verdict
        pass
