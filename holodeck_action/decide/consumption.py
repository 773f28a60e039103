"""The usage of a run, as gates count it: tokens and cost of every turn and judge, and latencies of the answers.

Answers from a recording or a cache count with their original tokens, cost and time, so that a replay is judged like the
run that it repeats. Unknown amounts are counted separately and never as zero.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

from msgspec import Struct

from holodeck_action.decide.statistics import equal_quantile
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import LARGEST, Known, Measured, Unknown
from holodeck_action.record.record import CaseRecord, ModelUsage, TrialRecord, TurnRecord, Usage

_JUDGED_KINDS = (
    *("geval", "rag", "generation", "query_transformation", "summarization", "lm_retrieval", "agent"),
    *("refusal", "trajectory_accuracy", "composite"),
    *("quality", "factual_accuracy", "toxicity", "relevance"),
)
_COMPUTED_KINDS = ("code", "length", "retrieval", "tool_correctness", "deepeval_tool_correctness", "trajectory")
_AZURE_JUDGED = ("groundedness", "relevance", "coherence", "fluency", "similarity")
_UNKNOWN_USAGE = Usage()


class KnownTotal(Struct, frozen=True):
    """The sum of the known amounts, and the number of unknown ones."""

    known: float
    unknown: int


class Latencies(Struct, frozen=True):
    """The latencies of answers in milliseconds.

    Attributes:
        answered: the known latencies.
        missing: number of turns without an answer.
        unreported: number of answers whose latency is unknown.
    """

    answered: Sequence[float]
    missing: int
    unreported: int = 0

    def quantile(self, probability: float) -> float | None:
        """Return a quantile of the latencies, such as 0.95 for p95; None if a latency is unknown."""
        return None if self.unreported else equal_quantile(self.answered, probability)


class Spend(Struct, frozen=True, omit_defaults=True):
    """The known usage of the models in US dollars and tokens. A field is None if no amount is known, 0 if all amounts
    are 0.

    `models` holds the usage of each model that is named in a reply, sorted by name. `unpriced` counts the answers of
    agents, judges and simulated users whose cost is unknown; if there are any, `cost_usd` is a lower bound.
    `user_cost_usd` is the cost of the models that play users.
    """

    prompt_tokens: int | None
    completion_tokens: int | None
    agent_cost_usd: float | None
    judge_cost_usd: float | None
    cost_usd: float | None
    models: tuple[ModelUsage, ...] = ()
    unpriced: int = 0
    user_cost_usd: float | None = None


class Amounts:
    """A sum of amounts that does not depend on their order; unknown amounts are counted separately.

    Each amount needs eight bytes.
    """

    def __init__(self) -> None:
        self._known = array("d")
        self.unknown = 0

    def add(self, amount: float | None) -> None:
        """Add an amount; None if it is unknown."""
        if amount is None:
            self.unknown += 1
        else:
            self._known.append(amount)

    @property
    def total(self) -> KnownTotal:
        """The sum of the known amounts, and the number of unknown ones."""
        return KnownTotal(math.fsum(self._known), self.unknown)

    @property
    def known_sum(self) -> float | None:
        """The sum of the known amounts; None if no amount is known."""
        return math.fsum(self._known) if self._known else None

    @property
    def complete_sum(self) -> float | None:
        """The sum of all amounts; None if an amount is unknown or there are no amounts."""
        return None if self.unknown else self.known_sum


class Consumption:
    """The usage of turns and their judges, quarantined cases included, added up turn by turn."""

    def __init__(self) -> None:
        self._tokens, self._cost, self._judging = Amounts(), Amounts(), Amounts()
        self._agents, self._evaluations, self._users = Amounts(), Amounts(), Amounts()
        self._prompt: int | None = None
        self._completion: int | None = None
        self._models: dict[str, _ModelTotal] = {}

    def add(self, turn: TurnRecord) -> None:
        """Add the usage of a turn and its judges."""
        if turn.skipped is None:
            # A failed turn has an unknown usage, too.
            self._add(turn.usage or _UNKNOWN_USAGE)
        usage = turn.usage
        if usage is not None:
            if usage.cost_usd is not None:
                self._agents.add(usage.cost_usd)
            if usage.prompt_tokens is not None:
                self._prompt = (self._prompt or 0) + usage.prompt_tokens
            if usage.completion_tokens is not None:
                self._completion = (self._completion or 0) + usage.completion_tokens
            for part in usage.models or (_model_usage(turn.model, usage),):
                if part.model is not None:
                    self._models.setdefault(part.model, _ModelTotal(part.model)).add(part)
        self._add_judges(turn.evaluations)

    def _add_judges(self, evaluations: Iterable[Evaluation]) -> None:
        for evaluation in evaluations:
            if evaluation.cost_usd is not None:
                self._evaluations.add(evaluation.cost_usd)
            judge = _judge_usage(evaluation)
            if judge is not None:
                self._add(judge)
                self._judging.add(judge.cost_usd)

    def add_trial(self, trial: TrialRecord) -> None:
        """Add the usage of a trial: of its turns, all judges and its simulated user."""
        for turn in trial.turns:
            self.add(turn)
        self._add_judges(trial.evaluations)
        if trial.user is not None and trial.user.calls:
            used = trial.user.usage or _UNKNOWN_USAGE
            self._add(used)
            self._users.add(used.cost_usd)

    def _add(self, usage: Usage) -> None:
        self._tokens.add(usage.tokens)
        self._cost.add(usage.cost_usd)

    @property
    def tokens(self) -> KnownTotal:
        """The tokens of all prompts and answers: the sum of known numbers, and the number of unknown ones."""
        return self._tokens.total

    @property
    def cost_usd(self) -> KnownTotal:
        """The list price of all model calls in US dollars: the sum of known prices, and the number of unknown ones."""
        return self._cost.total

    @property
    def judging_cost_usd(self) -> KnownTotal:
        """The list price of the judges' calls in US dollars: the sum of known prices, and the number of unknown
        ones."""
        return self._judging.total

    @property
    def spend(self) -> Spend:
        """The known usage of the models."""
        agent, judge, user = self._agents.known_sum, self._evaluations.known_sum, self._users.known_sum
        known = [amount for amount in (agent, judge, user) if amount is not None]
        return Spend(
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
            agent_cost_usd=agent,
            judge_cost_usd=judge,
            cost_usd=math.fsum(known) if known else None,
            models=tuple(self._models[name].usage for name in sorted(self._models)),
            unpriced=self._cost.unknown,
            user_cost_usd=user,
        )


def case_costs(case: CaseRecord) -> Amounts:
    """Return the costs of a case in US dollars: one amount per answer of the agent, judge's verdict, and conversation
    of a simulated user. Trials that confirm a regression are included.
    """
    costs = Amounts()
    add_case_costs(costs, case)
    return costs


def add_case_costs(costs: Amounts, case: CaseRecord) -> None:
    """Add the costs of a case (see `case_costs`)."""
    for trial in case.all_trials:
        for turn in trial.turns:
            if turn.skipped is None:
                costs.add(None if turn.usage is None else turn.usage.cost_usd)
        for _, evaluation in trial.graded:
            if evaluation.cost_usd is not None or _judge_usage(evaluation) is not None:
                costs.add(evaluation.cost_usd)
        if trial.user is not None and trial.user.calls:
            costs.add(None if trial.user.usage is None else trial.user.usage.cost_usd)


def count_reused_verdicts(cases: Iterable[CaseRecord]) -> int:
    """Return the number of judges' verdicts that were reused from an earlier run."""
    trials = (trial for case in cases for trial in case.all_trials)
    return sum(evaluation.cached for trial in trials for _, evaluation in trial.graded)


class _ModelTotal:
    """The known usage of one model, identified by its name in replies."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._tokens: dict[str, int] = {}
        self._cost = Amounts()

    def add(self, usage: ModelUsage) -> None:
        for name in _TOKENS:
            number = getattr(usage, name)
            if number is not None:
                self._tokens[name] = self._tokens.get(name, 0) + number
        self._cost.add(usage.cost_usd)

    @property
    def usage(self) -> ModelUsage:
        prompt, completion, cached, reasoning = map(self._tokens.get, _TOKENS)
        return ModelUsage(self._model, prompt, completion, cached, reasoning, self._cost.known_sum)


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


def _model_usage(model: str | None, usage: Usage) -> ModelUsage:
    tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens)
    return ModelUsage(model, *tokens, usage.cost_usd)


class Timings:
    """The latencies of answers, gathered turn by turn.

    The latency of an answer is the working time of the models, without waits, if this time is known. Otherwise it is
    the time from the question to the answer.
    """

    def __init__(self) -> None:
        self._answered, self._begun = array("d"), array("d")
        self._missing = self._unreported = self._first_unreported = 0

    def add(self, turn: TurnRecord) -> None:
        """Add the latencies of a turn."""
        if turn.response is None:
            self._missing += 1
            return
        self._unreported += _add_if_known(turn.took_ms, self._answered)
        self._first_unreported += _add_if_known(turn.began_ms, self._begun)

    @property
    def answers(self) -> Latencies:
        """The latencies of the answers."""
        return Latencies(self._answered, self._missing, self._unreported)

    @property
    def first_tokens(self) -> Latencies:
        """The times to the first token of the answers."""
        return Latencies(self._begun, self._missing, self._first_unreported)


def _add_if_known(fact: Measured[float], known_amounts: array[float]) -> int:
    """Append a fact to `known_amounts` if it is known. Return the number of unknown facts: 0 or 1."""
    match fact:
        case Known(value):
            known_amounts.append(value)
            return 0
        case Unknown():
            return 1


def _judge_usage(evaluation: Evaluation) -> Usage | None:
    """Return the usage of an evaluation's judges; None if no judge was called."""
    if evaluation.status not in ("completed", "failed") or not _has_judge(evaluation):
        return None
    usage = evaluation.metadata.get("usage")
    if usage is None and evaluation.cost_usd is None and evaluation.status == "completed":
        # Empty answers and computed metrics of a composite need no judge.
        return None
    tokens = usage if isinstance(usage, dict) else {}
    return Usage(
        _valid_count(tokens.get("prompt_tokens")), _valid_count(tokens.get("completion_tokens")), evaluation.cost_usd
    )


def _has_judge(evaluation: Evaluation) -> bool:
    criteria = evaluation.criteria
    if criteria.kind == "standard":
        return criteria.metric in _AZURE_JUDGED
    if criteria.kind in _COMPUTED_KINDS:
        return False
    # A metric of another package has a judge if it has usage.
    return criteria.kind in _JUDGED_KINDS or evaluation.cost_usd is not None or "usage" in evaluation.metadata


def _valid_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST else None
