"""One trial: a session with the agent, turn by turn, scored beside the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from holodeck_action.llm.limits.pauses import TimeLimit, apart, uncharged
from holodeck_action.llm.spans import Attributes, Scope, span
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import Fact, Nothing, Unknown, joined, listed, stored
from holodeck_action.record.record import (
    RetrievedChunk,
    Timing,
    ToolAssertion,
    ToolInvocation,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, Attempt, Reply, ReplyError, Session
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from holodeck_action.targets.own_model.case_files import CaseFiles

CLOSE_TIMEOUT_S = 10.0


class Scorer(Protocol):
    """What grades an answer; `holodeck_action.scoring.scoring.TurnScorer` in production."""

    async def score(self, answer: Answer) -> tuple[Evaluation, ...]:
        """Evaluate every metric of the turn."""
        ...

    async def check_tools(self, turn: Turn, calls: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
        """Check the turn's `expected_tools` against its calls; empty when it has none."""
        ...

    def uses_context(self, turn: Turn) -> bool:
        """Tell whether a metric of the turn looks at the texts of its files."""
        ...

    def pending(self, turn: Turn, reason: str) -> tuple[Evaluation, ...]:
        """Return the turn's evaluations as not done."""
        ...


class Clock(Struct, frozen=True):
    """The time: `now` is aware and in UTC, `monotonic` in seconds."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]


class Deadlines(Struct, frozen=True):
    """Seconds an agent may take for one turn and for one case (all its turns, scoring excluded)."""

    turn_s: float
    case_s: float


class _Conversation(Struct):
    """What has accumulated over the turns of a session; `trial` is the trial's index.

    Each is unknown as soon as one turn said nothing of it.
    """

    trial: int
    calls: Fact[tuple[ToolInvocation, ...]] = Nothing()
    texts: Fact[tuple[str, ...]] = Nothing()
    chunks: Fact[tuple[RetrievedChunk, ...]] = Nothing()

    def add(self, reply: Reply) -> None:
        self.calls = joined(self.calls, listed(reply.tool_invocations))
        self.texts = joined(self.texts, listed(reply.retrieval_context))
        self.chunks = joined(self.chunks, listed(reply.retrieved_chunks))


class _Exchange(Struct, frozen=True):
    """One turn as it happened; `graded` is the scoring under way, None without an answer.

    `attempt` is what was done for an answer that did not come.
    """

    turn: Turn
    reply: Reply | None = None
    context: tuple[str, ...] | None = None
    chunks: tuple[RetrievedChunk, ...] | None = None
    error: ErrorInfo | None = None
    skipped: str | None = None
    timing: Timing | None = None
    graded: asyncio.Task[tuple[tuple[Evaluation, ...], tuple[ToolAssertion, ...]]] | None = None
    texts: tuple[str, ...] | None = None
    attempt: Attempt | None = None


class TrialRunner(Struct, frozen=True):
    """Runs trials; shared by all cases of a run.

    `agent_name` is what traces call the agent. `files` reads the files of turns (None: no turn has any), whose texts
    are read where the agent is given them or a metric looks at them. `own_model` says that the agent is the suite's own
    model, which is given them, and whose calls are traced one by one. `on_turn` is told of every turn
    just before the agent is, `on_spent` afterwards what it says that it took (None: nothing). `base` says that the run
    is the base of another one, beside it.
    """

    agent: Agent
    scorer: Scorer
    deadlines: Deadlines
    clock: Clock
    redactor: Redactor
    agent_name: str = ""
    files: CaseFiles | None = None
    own_model: bool = False
    on_turn: Callable[[], None] = lambda: None
    on_spent: Callable[[Usage | None], None] = lambda usage: None
    base: bool = False

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial of a case.

        Args:
            case: the case.
            index: the trial's index, from 0.
            slot: held while the agent works, not while answers are scored.

        Returns:
            The trial; whatever goes wrong with agent or metrics is in it. Only cancellation is raised.
        """
        with ExitStack() as scope:
            return await self._run(case, index, slot, scope)

    async def _run(
        self, case: Case, index: int, slot: AbstractAsyncContextManager[Any], scope: ExitStack
    ) -> TrialRecord:
        exchanges: list[_Exchange] = []
        error: ErrorInfo | None = None
        try:
            async with slot:
                traced = scope.enter_context(self._case_span(case, index))
                started, begun = self.clock.now(), self.clock.monotonic()
                error = await self._converse(case, index, exchanges)
                timing = Timing(started.isoformat(), 1000 * (self.clock.monotonic() - begun))
            if error is not None:
                traced.fail(error.code)
            turns = [await self._finish(exchange) for exchange in exchanges]
        except BaseException:
            for exchange in exchanges:
                if exchange.graded is not None:
                    exchange.graded.cancel()
            raise
        return self.redactor.value(TrialRecord(index, tuple(turns), error, timing))

    async def _converse(self, case: Case, index: int, exchanges: list[_Exchange]) -> ErrorInfo | None:
        """Hold the conversation; return why it could not even start, if so."""
        session: Session | None = None
        failure: str | None = None
        trouble: ErrorInfo | None = None
        case_deadline = TimeLimit(self.deadlines.case_s)
        conversation = _Conversation(index)
        try:
            async with case_deadline:
                session = await self.agent.open(case, index)
                for turn in case.turns:
                    unready = await self._prepare(session)
                    exchange = await self._exchange(session, case, turn, conversation, unready)
                    exchanges.append(exchange)
                    if exchange.error is not None:
                        failure = f"not run: turn {turn.index} of the conversation failed"
                        break
        except TimeoutError as error:
            trouble = error_info(error, self.redactor.text)
            if case_deadline.expired():
                message = f"the case took longer than {self.deadlines.case_s:g} s"
                trouble = ErrorInfo("AgentTimeout", message, "case_timeout")
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            trouble = error_info(error, self.redactor.text)
        finally:
            if session is not None:
                await _close(session)
        if trouble is not None:
            failure = f"not run: {trouble.message}"
        rest = [*case.turns[len(exchanges) :]]
        if rest and session is not None and trouble is not None:
            # The case's deadline ended a turn from without.
            turn = rest.pop(0)
            exchanges.append(_Exchange(turn, context=turn.retrieval_context, error=trouble, attempt=session.attempt()))
        exchanges += (_Exchange(turn, skipped=failure) for turn in rest)
        return trouble

    def _case_span(self, case: Case, index: int) -> Scope:
        case_id = self.redactor.case_id(case.id, case.content_hash)
        attributes = {
            "holodeck_action.case.id": case_id,
            "holodeck_action.case.name": case.name,
            "holodeck_action.trial.index": index,
            "holodeck_action.base": self.base or None,
        }
        return span(f"case {case_id}", attributes, sampled=True)

    async def _prepare(self, session: Session) -> ErrorInfo | None:
        """Have the session start what the next turn needs while no clock runs; return why it cannot, if so."""
        try:
            with uncharged():
                await session.prepare()
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            return error_info(error, self.redactor.text)
        return None

    async def _exchange(
        self, session: Session, case: Case, turn: Turn, conversation: _Conversation, unready: ErrorInfo | None
    ) -> _Exchange:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.agent_name or None,
            "holodeck_action.turn.index": turn.index,
        }
        with span(f"invoke_agent {self.agent_name}".rstrip(), attributes) as traced:
            exchange = (
                _Exchange(turn, context=turn.retrieval_context, error=unready)
                if unready is not None
                else await self._ask(session, case, turn, conversation)
            )
            if exchange.error is not None:
                traced.fail(exchange.error.code)
            if not self.own_model:
                traced.set(_taken(exchange))
            if traced.content:
                traced.set_content("gen_ai.input.messages", [_message("user", turn.input)])
            if traced.content and exchange.reply is not None:
                said = {**_message("assistant", exchange.reply.response), "finish_reason": "stop"}
                traced.set_content("gen_ai.output.messages", [said])
            return exchange

    async def _ask(self, session: Session, case: Case, turn: Turn, conversation: _Conversation) -> _Exchange:
        started, begun = self.clock.now(), self.clock.monotonic()
        reply: Reply | None = None
        texts: tuple[str, ...] | None = None
        trouble: ErrorInfo | None = None
        deadline = TimeLimit(self.deadlines.turn_s)
        try:
            async with deadline:
                texts = await self._texts(turn)
                self.on_turn()
                reply = await session.send(turn)
        except TimeoutError as error:
            if deadline.expired():
                message = f"the agent did not answer within {self.deadlines.turn_s:g} s"
                trouble = ErrorInfo("AgentTimeout", message, "timeout")
            else:
                trouble = error_info(error, self.redactor.text)
        except Exception as error:  # noqa: BLE001 - a failure stays in its case
            trouble = error_info(error, self.redactor.text)
        took_ms = 1000 * (self.clock.monotonic() - begun)
        if reply is not None:
            with uncharged():
                reply = await session.completed(reply)
        self.on_spent(None if reply is None else reply.usage)
        working, began = (None, None) if reply is None else (reply.model_ms, reply.first_token_ms)
        timing = Timing(started.isoformat(), took_ms if session.timed else None, working, began)
        if reply is None or reply.error is not None:
            attempt = session.attempt() if reply is None else Attempt(reply.tool_invocations, reply.usage)
            return _Exchange(
                turn,
                context=turn.retrieval_context,
                error=trouble if reply is None or reply.error is None else _told(reply.error),
                timing=timing,
                texts=texts,
                attempt=attempt,
            )
        conversation.add(reply)
        given = listed(turn.retrieval_context)
        texts_retrieved = conversation.texts if isinstance(given, Unknown) else given
        answer = Answer(
            trial=conversation.trial,
            turn=turn,
            case_name=case.name,
            multi_turn=case.multi_turn,
            response=reply.response,
            calls=listed(reply.tool_invocations),
            conversation_calls=conversation.calls,
            texts=texts_retrieved,
            chunks=conversation.chunks,
            context=texts,
        )
        graded = asyncio.create_task(self._grade(answer))
        return _Exchange(
            turn, reply, stored(texts_retrieved), stored(conversation.chunks), timing=timing, graded=graded, texts=texts
        )

    async def _texts(self, turn: Turn) -> tuple[str, ...] | None:
        """Return the texts of the turn's files, where somebody looks at them; None without any."""
        if self.files is None or not turn.files or not (self.own_model or self.scorer.uses_context(turn)):
            return None
        return await self.files.texts(turn) or None

    async def _grade(self, answer: Answer) -> tuple[tuple[Evaluation, ...], tuple[ToolAssertion, ...]]:
        # Scoring is charged to nobody's turn, and holds no place among the sessions.
        apart()
        evaluations = await self.scorer.score(answer)
        return evaluations, await self.scorer.check_tools(answer.turn, answer.calls)

    async def _finish(self, exchange: _Exchange) -> TurnRecord:
        turn, error, done = exchange.turn, exchange.error, exchange.reply or exchange.attempt or Attempt()
        evaluations: tuple[Evaluation, ...] | None = None
        assertions: tuple[ToolAssertion, ...] = ()
        if exchange.graded is not None:
            try:
                evaluations, assertions = await exchange.graded
            except Exception as defect:  # noqa: BLE001 - a failure stays in its case
                said = self.redactor.text(f"{type(defect).__name__}: {defect}")
                message = cut(f"the answer could not be graded: {said}", 1000)
                error = ErrorInfo(type(defect).__name__, message, "internal")
        if evaluations is None:
            reason = exchange.skipped or f"not evaluated: {error.message if error else 'no answer'}"
            evaluations = self.scorer.pending(turn, reason)
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
        )


def error_info(error: Exception, redact: Redact) -> ErrorInfo:
    """Describe an agent's failure as data; `redact` removes secrets from what is cut."""
    if isinstance(error, AgentError):
        return ErrorInfo("AgentError", error.message, error.code, dict(error.context))
    said = redact(f"{type(error).__name__}: {error}")
    return ErrorInfo(type(error).__name__, cut(f"the agent failed: {said}", 1000), "internal")


def _told(error: ReplyError) -> ErrorInfo:
    """Describe what an agent says in the place of an answer."""
    whose = "the agent reports an error" if error.kind == "agent" else "the agent reports trouble of what it needs"
    return ErrorInfo("AgentError", f"{whose}: {error.message}", f"{error.kind}_error")


def _taken(exchange: _Exchange) -> Attributes:
    """Return what an agent that calls models itself says of it, for its span."""
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
    """Close a session; a session that cannot be closed in time is abandoned."""
    work: Coroutine[Any, Any, None] = session.close()
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await work
    except Exception:  # noqa: BLE001, S110 - the answers are in; closing trouble changes no verdict
        pass
