"""What a run took, as gates count it: tokens and dollars of every turn and judge, and the time of the answers.

Answers from a recording or a cache count with their original tokens, cost and time, so that a replay is judged as the
run that it repeats. What is not known is counted apart: it is never zero.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

from msgspec import Struct

from holodeck_action.decide.statistics import equal_quantile
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import LARGEST, Known, Measured, Unknown
from holodeck_action.record.record import CaseRecord, ModelUsage, TurnRecord, Usage

_JUDGED_KINDS = (
    *("geval", "rag", "generation", "query_transformation", "summarization", "lm_retrieval", "agent"),
    *("refusal", "trajectory_accuracy", "composite"),
    *("quality", "factual_accuracy", "toxicity", "relevance"),
)
_COMPUTED_KINDS = ("code", "length", "retrieval", "tool_correctness", "deepeval_tool_correctness", "trajectory")
_OF_AZURE = ("groundedness", "relevance", "coherence", "fluency", "similarity")
_UNKNOWN = Usage()


class Total(Struct, frozen=True):
    """A sum over what is known, and how many parts (turns, evaluations) are not."""

    known: float
    unknown: int


class Latencies(Struct, frozen=True):
    """Milliseconds of the answered turns, how many turns have no answer, and how many answers do not tell theirs."""

    answered: Sequence[float]
    missing: int
    untold: int = 0

    def quantile(self, share: float) -> float | None:
        """Return the time within which a share of the answers came; None where one does not tell its time."""
        return None if self.untold else equal_quantile(self.answered, share)


class Spend(Struct, frozen=True, omit_defaults=True):
    """What the models used, US dollars and tokens, over what is known; None where nothing is, which is not zero.

    `models` holds what each model took of which replies give the name, in order of name. `unpriced` counts the answers
    of agents and judges whose cost is not known, so that `cost_usd` is a lower bound.
    """

    prompt_tokens: int | None
    completion_tokens: int | None
    agent_cost_usd: float | None
    judge_cost_usd: float | None
    cost_usd: float | None
    models: tuple[ModelUsage, ...] = ()
    unpriced: int = 0


class Amounts:
    """A sum in the making: exact whatever the order, in eight bytes an amount; what is not known is counted apart."""

    def __init__(self) -> None:
        self._known = array("d")
        self.unknown = 0

    def add(self, amount: float | None) -> None:
        """Take note of an amount; None for one that is not known."""
        if amount is None:
            self.unknown += 1
        else:
            self._known.append(amount)

    @property
    def total(self) -> Total:
        """The sum of what is known, and how much is not."""
        return Total(math.fsum(self._known), self.unknown)

    @property
    def known(self) -> float | None:
        """The sum of what is known; None where nothing is."""
        return math.fsum(self._known) if self._known else None

    @property
    def whole(self) -> float | None:
        """The sum; None if an amount is not known, or there is none."""
        return None if self.unknown else self.known


class Consumption:
    """What turns and their judges took, quarantined cases included; added up case by case."""

    def __init__(self) -> None:
        self._tokens, self._cost, self._judging = Amounts(), Amounts(), Amounts()
        self._agents, self._evaluations = Amounts(), Amounts()
        self._prompt: int | None = None
        self._completion: int | None = None
        self._models: dict[str, _ModelTotal] = {}

    def add(self, turn: TurnRecord) -> None:
        """Add a turn."""
        if turn.skipped is None:
            # Of a turn that failed, too, nobody knows what it took.
            self._add(turn.usage or _UNKNOWN)
        usage = turn.usage
        if usage is not None:
            if usage.cost_usd is not None:
                self._agents.add(usage.cost_usd)
            if usage.prompt_tokens is not None:
                self._prompt = (self._prompt or 0) + usage.prompt_tokens
            if usage.completion_tokens is not None:
                self._completion = (self._completion or 0) + usage.completion_tokens
            for part in usage.models or (_of_one(turn.model, usage),):
                if part.model is not None:
                    self._models.setdefault(part.model, _ModelTotal(part.model)).add(part)
        for evaluation in turn.evaluations:
            if evaluation.cost_usd is not None:
                self._evaluations.add(evaluation.cost_usd)
            judge = _judge(evaluation)
            if judge is not None:
                self._add(judge)
                self._judging.add(judge.cost_usd)

    def _add(self, usage: Usage) -> None:
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        self._tokens.add(None if prompt is None or completion is None else prompt + completion)
        self._cost.add(usage.cost_usd)

    @property
    def tokens(self) -> Total:
        """Tokens of all prompts and answers."""
        return self._tokens.total

    @property
    def cost_usd(self) -> Total:
        """List price of all model calls, US dollars."""
        return self._cost.total

    @property
    def judging_cost_usd(self) -> Total:
        """List price of the judges' calls, US dollars."""
        return self._judging.total

    @property
    def spend(self) -> Spend:
        """What the models used, over what is known."""
        agent, judge = self._agents.known, self._evaluations.known
        both = [amount for amount in (agent, judge) if amount is not None]
        return Spend(
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
            agent_cost_usd=agent,
            judge_cost_usd=judge,
            cost_usd=math.fsum(both) if both else None,
            models=tuple(self._models[name].usage for name in sorted(self._models)),
            unpriced=self._cost.unknown,
        )


def cost_of(turns: Iterable[TurnRecord]) -> Amounts:
    """Return the US dollars of the agent and the judges, an amount for each of their answers."""
    costs = Amounts()
    for turn in turns:
        add_costs(costs, turn)
    return costs


def add_costs(costs: Amounts, turn: TurnRecord) -> None:
    """Add the US dollars of a turn's agent and judges, an amount for each of their answers."""
    if turn.skipped is None:
        costs.add(None if turn.usage is None else turn.usage.cost_usd)
    for evaluation in turn.evaluations:
        if evaluation.cost_usd is not None or _judge(evaluation) is not None:
            costs.add(evaluation.cost_usd)


def reused_of(cases: Iterable[CaseRecord]) -> int:
    """Return how many verdicts of judges are those of an earlier run."""
    return sum(evaluation.cached for case in cases for turn in case.turns for evaluation in turn.evaluations)


class _ModelTotal:
    """What one model took of which replies give the name, over what is known."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._tokens: dict[str, int] = {}
        self._cost = Amounts()

    def add(self, part: ModelUsage) -> None:
        for name in _TOKENS:
            number = getattr(part, name)
            if number is not None:
                self._tokens[name] = self._tokens.get(name, 0) + number
        self._cost.add(part.cost_usd)

    @property
    def usage(self) -> ModelUsage:
        prompt, completion, cached, reasoning = map(self._tokens.get, _TOKENS)
        return ModelUsage(self._model, prompt, completion, cached, reasoning, self._cost.known)


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


def _of_one(model: str | None, usage: Usage) -> ModelUsage:
    tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens)
    return ModelUsage(model, *tokens, usage.cost_usd)


class Timings:
    """How long answers took, added up turn by turn.

    An answer's time is the working time of the models, waiting left out, where it is known (the suite's own model), and
    else the time from the question to the answer.
    """

    def __init__(self) -> None:
        self._answered, self._begun = array("d"), array("d")
        self._missing = self._untold = self._first_untold = 0

    def add(self, turn: TurnRecord) -> None:
        """Add a turn."""
        if turn.response is None:
            self._missing += 1
            return
        self._untold += _unknown(turn.took_ms, self._answered)
        self._first_untold += _unknown(turn.began_ms, self._begun)

    @property
    def answers(self) -> Latencies:
        """How long the agent worked on each turn."""
        return Latencies(self._answered, self._missing, self._untold)

    @property
    def first_tokens(self) -> Latencies:
        """How long it took until the answer of each turn began."""
        return Latencies(self._begun, self._missing, self._first_untold)


def _unknown(fact: Measured[float], known: array[float]) -> int:
    """Add a number to those that are known; return 1 where it is not, else 0."""
    match fact:
        case Known(value):
            known.append(value)
            return 0
        case Unknown():
            return 1


def _judge(evaluation: Evaluation) -> Usage | None:
    """Return what the judges of an evaluation took; None where nobody was asked."""
    if evaluation.status not in ("completed", "failed") or not _judged(evaluation):
        return None
    usage = evaluation.metadata.get("usage")
    if usage is None and evaluation.cost_usd is None and evaluation.status == "completed":
        # An empty answer needs no judge, nor do computed metrics of a composite.
        return None
    tokens = usage if isinstance(usage, dict) else {}
    return Usage(_count(tokens.get("prompt_tokens")), _count(tokens.get("completion_tokens")), evaluation.cost_usd)


def _judged(evaluation: Evaluation) -> bool:
    criteria = evaluation.criteria
    if criteria.kind == "standard":
        return criteria.metric in _OF_AZURE
    if criteria.kind in _COMPUTED_KINDS:
        return False
    # A metric of another package tells by what it took.
    return criteria.kind in _JUDGED_KINDS or evaluation.cost_usd is not None or "usage" in evaluation.metadata


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST else None
