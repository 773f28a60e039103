"""The conversation of a trial, whether it runs or is in a record: its turns, its answers and their grades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.spans import SpanScope, span
from holodeck_action.record.evaluation import USER_ERROR, ErrorInfo, Evaluation
from holodeck_action.record.facts import Fact, Nothing, join_facts
from holodeck_action.record.record import ToolAssertion, ToolInvocation, TrialRecord, TurnRecord, UserCalls
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.model.simulation import Speaker
from holodeck_action.suite.values import Case, Turn
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor


class Scorer(Protocol):
    """Grades an answer; implemented by `holodeck_action.scoring.scoring.TurnScorer`."""

    async def score(self, answer: Answer) -> tuple[Evaluation, ...]:
        """Evaluate every metric of the turn."""
        ...

    async def check_tools(self, turn: Turn, calls: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
        """Check the turn's `expected_tools` against its calls; return an empty tuple if the turn expects no tools."""
        ...

    def uses_context(self, turn: Turn) -> bool:
        """Return whether a metric of the turn uses the texts of its files."""
        ...

    def pending_evaluations(self, turn: Turn, reason: str) -> tuple[Evaluation, ...]:
        """Return an evaluation without a score, with the reason, for each metric of a turn that has no answer."""
        ...


class UserError(Exception):
    """A simulated user has no next message; the agent is not to blame.

    Attributes:
        message: one sentence with the reason.
        code: a stable code.
        context: JSON values about the failed call.
    """

    def __init__(self, message: str, code: str, context: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context = dict(context or {})

    @property
    def info(self) -> ErrorInfo:
        """The error for the record."""
        return ErrorInfo(USER_ERROR, f"the simulated user failed: {self.message}", self.code, self.context)


class TurnSource(Protocol):
    """The turns of one trial, in order."""

    async def next_turn(self, answers: Sequence[Answer]) -> Turn | None:
        """Return the next turn, or None at the end of the conversation.

        Args:
            answers: the answers to all turns so far.

        Raises:
            UserError: a simulated user has no next message.
        """
        ...

    def not_run(self, count: int) -> tuple[Turn, ...]:
        """Return the turns that are not run if the conversation ends after `count` turns."""
        ...

    @property
    def user_calls(self) -> UserCalls | None:
        """The calls and usage of the simulated user; None if the turns come from the suite."""
        ...


class Users(Protocol):
    """The simulated users of a suite."""

    def converse(self, case: Case, trial: int, scorer: Scorer) -> TurnSource:
        """Return the messages of the case's user; `scorer` evaluates the checks that end the conversation."""
        ...


class SuiteTurns(Struct, frozen=True):
    """The turns of a case of the suite."""

    turns: tuple[Turn, ...]

    async def next_turn(self, answers: Sequence[Answer]) -> Turn | None:
        """Return the next turn, or None after the last one."""
        return self.turns[len(answers)] if len(answers) < len(self.turns) else None

    def not_run(self, count: int) -> tuple[Turn, ...]:
        """Return the turns after the first `count` ones."""
        return self.turns[count:]

    @property
    def user_calls(self) -> None:
        """None, since no user is simulated."""
        return


def said_turn(case: Case, index: int, text: str, speaker: Speaker) -> Turn:
    """Return the turn with a message of the case's simulated user, without expectations and metrics."""
    asked = case.turns[0]
    return Turn(index, text, asked.mark, retrieval_context=asked.retrieval_context, said_by=speaker)


def conversation_turn(case_turn: Turn, last_turn: Turn) -> Turn:
    """Return the last turn with a simulated user, with the expectations and metrics of the conversation.

    Args:
        case_turn: the turn of the case, which has the expectations and metrics.
        last_turn: the last turn that ran, which has the input.
    """
    return replace(case_turn, index=last_turn.index, input=last_turn.input, said_by=last_turn.said_by)


class Conversation(Struct):
    """The answers of one trial so far, in order, and the tool calls of all of them.

    `calls` is unknown if the calls of an answer are unknown.
    """

    case: Case
    trial: int
    calls: Fact[tuple[ToolInvocation, ...]] = Nothing()
    answers: tuple[Answer, ...] = ()

    def add(self, turn: Turn, record: TurnRecord, session: str | None = None) -> Answer:
        """Add the answer to a turn, and return it with the answers before it.

        Args:
            turn: the turn.
            record: its record, which need not have evaluations.
            session: id of the conversation that the agent received; None if it is unknown.
        """
        self.calls = join_facts(self.calls, record.calls)
        answer = Answer(
            trial=self.trial,
            turn=turn,
            case_name=self.case.name,
            multi_turn=self.case.multi_turn,
            response=record.response or "",
            calls=record.calls,
            conversation_calls=self.calls,
            texts=record.texts,
            chunks=record.chunks,
            context=record.context,
            metadata=record.metadata,
            session=session,
        )
        earlier, self.answers = self.answers, (*self.answers, answer)
        return replace(answer, earlier=earlier)

    def whole(self, turn: Turn) -> Answer:
        """Return the last answer with the tool calls of all turns, for the metrics of a conversation with a simulated
        user; `turn` is the last turn (see `conversation_turn`)."""
        *earlier, last = self.answers
        return replace(last, turn=turn, calls=last.conversation_calls, calls_of_turn=last.calls, earlier=tuple(earlier))


async def grade_turn(scorer: Scorer, answer: Answer, record: TurnRecord, redact: Redact) -> TurnRecord:
    """Return the record of an answered turn with its evaluations and tool assertions; a defect in grading becomes its
    error."""
    try:
        evaluations = await scorer.score(answer)
        assertions = await scorer.check_tools(answer.turn, answer.calls)
    except Exception as defect:  # noqa: BLE001 - a failure stays in its case
        said = redact(f"{type(defect).__name__}: {defect}")
        message = cut(f"the answer could not be graded: {said}", 1000)
        error = ErrorInfo(type(defect).__name__, message, "internal")
        return leave_ungraded(scorer, answer.turn, replace(record, error=error))
    return replace(record, evaluations=evaluations, tool_assertions=assertions)


def leave_ungraded(scorer: Scorer, turn: Turn, record: TurnRecord) -> TurnRecord:
    """Return the record of a turn without a usable answer, with an evaluation without score for each metric."""
    reason = record.skipped or f"not evaluated: {record.error.message if record.error else 'no answer'}"
    return replace(record, evaluations=scorer.pending_evaluations(turn, reason), tool_assertions=())


def finish_trial(trial: TrialRecord, last_turn: Turn, redactor: Redactor) -> TrialRecord:
    """Return a graded trial without secrets, to which the last turn's evaluations of the whole conversation have been
    moved.

    Args:
        trial: a trial with at least one turn.
        last_turn: the last turn, with its metrics.
        redactor: masks secrets.
    """
    names = {spec.label for spec in last_turn.metrics if spec.config.evaluates_trial}
    if names:
        trial = trial.with_conversation(lambda evaluation: evaluation.evaluator_name in names)
    return redactor.value(trial)


def case_span(case: Case, index: int, redactor: Redactor, *, base: bool = False) -> SpanScope:
    """Return the span of one trial of a case; `base` is whether the run is the base of another run."""
    case_id = redactor.case_id(case.id, case.content_hash)
    attributes = {
        "holodeck_action.case.id": case_id,
        "holodeck_action.case.name": case.name,
        "holodeck_action.trial.index": index,
        "holodeck_action.base": base or None,
    }
    return span(f"case {case_id}", attributes, sampled=True)
