"""Simulated users: a model writes the messages of a user until the conversation ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.extensions.simulation.message_problems import message_problem
from holodeck_action.extensions.simulation.prompt import UserAnswer, instructions, question
from holodeck_action.extensions.simulation.settings import Simulate
from holodeck_action.llm.calls import CallContext, Meter, use_context
from holodeck_action.llm.chat import ChatModel
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import Deadline, detach_limits, pause_all_clocks, stop_during_calls
from holodeck_action.llm.messages import Question, Request
from holodeck_action.llm.providers import ModelConfigError, ModelPlan, resolve_model
from holodeck_action.llm.wire import Wire
from holodeck_action.metrics.judging.verdicts import VerdictError, read_verdict, schema_of
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import UserCalls
from holodeck_action.run.conversations import Scorer, TurnSource, UserError, said_turn
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.values import Case, StopCheck, Turn
from holodeck_action.targets.own_model.own_agent import check_price
from holodeck_action.targets.protocol import seed_of

_SEED_FIELDS = {"anthropic": "", "mistral": "random_seed"}
"""Name of the request field for the seed, by provider, if it is not `seed`; empty if the provider takes no seed."""
_ENDS = {"goal_met": "the user says that the goal is met", "given_up": "the user gives up"}


def model_problems(cases: Sequence[Case], environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each case with a simulated user whose model cannot be called."""
    for case in cases:
        try:
            _plan_of(case, environ)
        except ModelConfigError as error:
            yield Problem(case.mark, "simulate", str(error))


def open_users(
    cases: Sequence[Case], environ: Mapping[str, str], wire: Wire, agent: str, message_s: float
) -> ModelUsers:
    """Return the users of cases.

    Args:
        cases: the cases with simulated users.
        environ: the environment variables with keys and addresses of models.
        wire: makes the calls.
        agent: name of the agent.
        message_s: time limit for one message, in seconds.

    Raises:
        TargetError: the budget is in US dollars, but the price of a model is not known.
    """
    if wire.limits_cost:
        for case in cases:
            check_price(_plan_of(case, environ))
    return ModelUsers(environ, wire, agent, message_s)


def _simulate_settings(case: Case) -> Simulate:
    assert isinstance(case.simulation, Simulate)
    return case.simulation


def _plan_of(case: Case, environ: Mapping[str, str]) -> ModelPlan:
    return resolve_model(_simulate_settings(case).player, environ, path="simulate.model")


async def _score(scorer: Scorer, answer: Answer) -> tuple[Evaluation, ...]:
    detach_limits()
    return await scorer.score(answer)


class ModelUsers:
    """The simulated users of a suite."""

    def __init__(self, environ: Mapping[str, str], wire: Wire, agent: str, message_s: float) -> None:
        """See `open_users`."""
        self._environ, self._wire = environ, wire
        self._agent, self._message_s = agent, message_s

    def converse(self, case: Case, trial: int, scorer: Scorer) -> TurnSource:
        """Return the messages of the case's user; `scorer` evaluates the checks that end the conversation."""
        plan, seed = _plan_of(case, self._environ), seed_of(case.id, trial)
        name = _SEED_FIELDS.get(plan.provider, "seed")
        if name:
            body = {**plan.settings.get("extra_body", {}), name: seed}
            plan = replace(plan, settings={**plan.settings, "extra_body": body})
        model = ChatModel(plan, self._wire, schema=schema_of(UserAnswer))
        return UserTurns(case, trial, scorer, model, self._wire, self._agent, self._message_s, seed if name else None)


class UserTurns:
    """The turns of one conversation with a simulated user."""

    def __init__(
        self,
        case: Case,
        trial: int,
        scorer: Scorer,
        model: ChatModel,
        wire: Wire,
        agent: str,
        message_s: float,
        seed: int | None,
    ) -> None:
        """Start the conversation; no model is called yet.

        Args:
            case: the case.
            trial: index of the trial.
            scorer: evaluates the checks that end the conversation.
            model: plays the user.
            wire: removes secrets from the model's messages.
            agent: name of the agent.
            message_s: time limit for one message, in seconds.
            seed: the seed of the model's requests; None to send no seed.
        """
        self._case, self._trial, self._scorer = case, trial, scorer
        self._settings = _simulate_settings(case)
        self._model, self._wire = model, wire
        self._agent, self._message_s, self._seed = agent, message_s, seed
        self._instructions = instructions(case.simulation.facts() if case.simulation is not None else {})
        self._meter = Meter()
        self._asked_again = 0
        self._ended = ""

    @property
    def user_calls(self) -> UserCalls:
        """Calls and usage of the model that plays the user."""
        calls = len(self._meter.records)
        return UserCalls(self._seed, calls, self._asked_again, self._ended, self._meter.usage())

    def not_run(self, count: int) -> tuple[Turn, ...]:
        """Return the case's own turn if `count`, the number of turns that ran, is 0; else nothing."""
        return () if count else self._case.turns

    async def next_turn(self, answers: Sequence[Answer]) -> Turn | None:
        """Return the user's next message, or None at the end of the conversation.

        Raises:
            UserError: the model gave no valid message, or a check could not be evaluated.
        """
        # The user's time is not the agent's.
        with pause_all_clocks():
            return await self._find_turn(answers)

    async def _find_turn(self, answers: Sequence[Answer]) -> Turn | None:
        place, lines = len(answers), self._settings.lines
        if answers:
            self._ended = await self._stop_reason(answers[-1])
        if not self._ended and place == self._settings.max_turns:
            self._ended = f"max_turns is reached ({place})"
        if self._ended:
            return None
        if place < len(lines):
            return said_turn(self._case, place, lines[place], "script")
        answer = await self._next_message(answers)
        if answer.state != "goes_on":
            self._ended = _ENDS[answer.state]
            return None
        return said_turn(self._case, place, answer.message, "model")

    async def _stop_reason(self, answer: Answer) -> str:
        """Return a clause that names the check which ends the conversation after an answer; empty if the conversation
        goes on."""
        for check in self._case.stop:
            holds, problem = await self._check(check, answer)
            if problem:
                raise UserError(f"the check {check.label} of stop cannot be evaluated: {problem}", "stop_check")
            if holds:
                return f"the check {check.label} of stop holds"
        return ""

    async def _check(self, check: StopCheck, answer: Answer) -> tuple[bool, str]:
        """Return whether a check passes, and a clause with the reason if it could not be evaluated (else empty)."""
        if check.metric is None:
            turn = replace(answer.turn, expected_tools=check.tools)
            calls = await self._scorer.check_tools(turn, answer.calls)
            unknown = next((each.problem for each in calls if each.matched is None), "")
            return all(each.matched for each in calls), unknown
        turn = replace(answer.turn, metrics=(check.metric,))
        # In another task, because its limits are not those of the conversation.
        [evaluation] = await asyncio.create_task(_score(self._scorer, replace(answer, turn=turn)))
        verdict = judge_evaluation(evaluation)
        return verdict.outcome == "passed", verdict.reason if verdict.outcome == "error" else ""

    async def _next_message(self, answers: Sequence[Answer]) -> UserAnswer:
        said = [(each.turn.input, each.response) for each in answers]
        problem = ""
        for _ in range(2):
            self._asked_again += bool(problem)
            answer = await self._ask(question(said, problem))
            problem = answer if isinstance(answer, str) else self._problem_of(answer, said)
            if not problem and isinstance(answer, UserAnswer):
                return answer
        title = self._model.plan.title
        raise UserError(f"{title} gave no usable message twice: {self._wire.redact(problem)}", "bad_user_message")

    async def _ask(self, prompt: str) -> UserAnswer | str:
        """Return the model's answer, or a clause with the reason why the answer is invalid."""
        deadline = Deadline(self._message_s)
        context = CallContext("user", self._trial, deadline, self._meter)
        try:
            with use_context(context), stop_during_calls(deadline):
                reply = await self._model.ask([Request((Question(prompt),), self._instructions)])
        except ModelCallError as error:
            raise UserError(error.message, error.code, error.context) from error
        if reply.refused:
            return "the model refuses to play the user"
        if reply.truncated:
            return "it stops at the token limit"
        try:
            answer = read_verdict(reply.text, UserAnswer)
        except VerdictError as error:
            return str(error)
        return answer.model_copy(update={"message": self._wire.redact_declared(answer.message)})

    def _problem_of(self, answer: UserAnswer, exchanges: Sequence[tuple[str, str]]) -> str:
        ended = answer.state != "goes_on"
        if ended and not exchanges:
            return "it ends the conversation before the first message"
        if ended and not answer.message.strip():
            return ""
        return message_problem(
            answer.message,
            instructions=(self._settings.goal_text, self._settings.character),
            messages=[user for user, _ in exchanges],
            answers=[agent for _, agent in exchanges],
            agent=self._agent,
        )
