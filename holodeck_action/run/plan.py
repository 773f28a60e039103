"""The plan: what a run would ask and what that may cost, reckoned before anything is sent.

Tokens are counted as `holodeck_action.llm.limits.budget` counts them. Every judge of a panel is asked and paid for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.limits.budget import COMPLETION_GUESS, IMAGE_TOKENS, dollars, text_tokens
from holodeck_action.llm.usage import cost_usd
from holodeck_action.llm.usage import list_price as model_price
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.run.loading import known_secrets
from holodeck_action.run.preflight import Prepared
from holodeck_action.run.settings import Flags
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.model.metric_base import JudgeCalls
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.model.targets import ModelTarget
from holodeck_action.suite.panels import panel_of
from holodeck_action.suite.values import Case, Suite, Turn
from holodeck_action.targets.factory import describe
from holodeck_action.targets.own_model.own import instructions_of
from holodeck_action.targets.own_model.toolbox import PlannedCalls
from holodeck_action.text.plain import one_line

_PER_UNIT = 1_000
"""Tokens at which the price of one is looked up: some models charge more for long prompts."""


class Span(Struct, frozen=True):
    """The least and the most of something, without calls of tools, which cannot be foretold."""

    low: int
    high: int

    def __str__(self) -> str:
        """Show both, or the one that they are."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


def fewest_trials(item: Prepared, case: Case) -> int:
    """Return how many trials a case takes at least."""
    if not item.settings.stop_when_decided:
        return case.repeat
    return min(case.passes_needed, case.repeat - case.passes_needed + 1)


def list_price(model: LLMProvider, prompt: int, completion: int) -> float | None:
    """Return the list price of tokens in US dollars; None when it is not known."""
    parts = [
        cost_usd(model.provider, model.name, prompt_tokens=sent, completion_tokens=_PER_UNIT - sent)
        for sent in (_PER_UNIT, 0)
    ]
    costs = [
        part * count / _PER_UNIT for part, count in zip(parts, (prompt, completion), strict=True) if part is not None
    ]
    return math.fsum(costs) if len(costs) == len(parts) else None


def noun(count: int, singular: str) -> str:
    """Return a noun in the number of a count."""
    return singular if count == 1 else f"{singular}s"


QUESTION_TOKENS = 300
"""Tokens of a question to a judge beside the texts of the case: those of DeepEval and ours have 190 to 450."""


class ModelEstimate(Struct, frozen=True):
    """What is asked of one model: the suite's own, or a judge.

    Attributes:
        label: its name, such as `openai/gpt-4o`.
        calls: the least where every case is decided as soon as it can be.
        prompt_tokens: the least with empty answers, the most with answers of the suite's `max_tokens`; retrieved texts
            are not known and not in it.
        max_tokens: tokens of one answer or verdict, at most.
        low_usd: list price of the least (answers or verdicts empty); None when the price is not known.
        high_usd: list price of the most (all of `max_tokens`); None when the price is not known.
    """

    label: str
    calls: Span
    prompt_tokens: Span
    max_tokens: int
    low_usd: float | None
    high_usd: float | None


class JudgingEstimate(Struct, frozen=True):
    """What is asked of all judges of a suite; `fallbacks`: whether other models may be asked in their place."""

    evaluations: Span
    judges: tuple[ModelEstimate, ...]
    fallbacks: bool

    def __str__(self) -> str:
        """Show it in one line."""
        asked = " and ".join(
            f"{judge.calls} {noun(judge.calls.high, 'call')} of {one_line(judge.label, 80)}" for judge in self.judges
        )
        words = (
            f"{self.evaluations} {noun(self.evaluations.high, 'evaluation')} by judges: about {asked}, {self._price()}"
        )
        return f"{words}; fallback models come on top where a judge gives no verdict" if self.fallbacks else words

    def _price(self) -> str:
        low = [judge.low_usd for judge in self.judges]
        high = [judge.high_usd for judge in self.judges]
        unknown = [one_line(judge.label, 80) for judge in self.judges if judge.low_usd is None]
        if len(unknown) == len(self.judges):
            return "price unknown"
        longest = sorted({judge.max_tokens for judge in self.judges})
        tokens = Span(longest[0], longest[-1])
        price = (
            f"from {dollars(math.fsum(amount or 0.0 for amount in low))} (verdicts empty) "
            f"to {dollars(math.fsum(amount or 0.0 for amount in high))} (verdicts of {tokens} tokens)"
        )
        return f"{price} and the unknown price of {', '.join(unknown)}" if unknown else price


class _Tally(Struct):
    """Calls and prompt tokens of one model, the least and the most; `longest` is the tokens of one answer at most."""

    model: LLMProvider
    longest: int
    calls: list[int] = field(default_factory=lambda: [0, 0])
    prompts: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, times: tuple[int, int], calls: int, prompts: tuple[int, int]) -> None:
        """Count so many calls with so many prompt tokens together, the least and the most times."""
        for end in (0, 1):
            self.calls[end] += times[end] * calls
            self.prompts[end] += times[end] * prompts[end]

    def estimate(self) -> ModelEstimate:
        return ModelEstimate(
            label=_label(self.model),
            calls=Span(*self.calls),
            prompt_tokens=Span(*self.prompts),
            max_tokens=self.longest,
            low_usd=list_price(self.model, self.prompts[0], 0),
            high_usd=list_price(self.model, self.prompts[1], self.calls[1] * self.longest),
        )


def estimate_judges(item: Prepared) -> JudgingEstimate | None:
    """Reckon what a suite asks of its judges; None where it needs none.

    Calls are those of answers that are not empty, without repetitions; see `Metric.judge_calls`. Each judge of a
    panel counts, also the same model several times.
    """
    suite = item.suite
    answer = suite.agent.model.max_tokens or COMPLETION_GUESS
    tallies: dict[tuple[str, int], _Tally] = {}
    writers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    evaluations, fallbacks = [0, 0], False
    for case in item.own_cases:
        times = fewest_trials(item, case), case.repeat
        for turn in case.turns:
            empty = QUESTION_TOKENS + text_tokens(turn.input) + text_tokens(turn.ground_truth or "")
            for spec in turn.metrics:
                if not spec.config.needs_judge or skip_reason(spec, turn) is not None:
                    continue
                evaluations = [count + more for count, more in zip(evaluations, times, strict=True)]
                for at, asked in enumerate(spec.config.judge_calls()):
                    models, others = _asked(item.grading.suite, asked)
                    fallbacks |= others
                    for model in models:
                        key = _label(model), _longest(model)
                        tally = tallies.setdefault(key, _Tally(model, _longest(model)))
                        tally.add(times, asked.calls, (asked.calls * empty, asked.calls * (empty + answer)))
                        if asked.writes_steps:
                            writers[key].add((spec.config.model_dump_json(), at))
    if not tallies:
        return None
    for key, written in writers.items():
        tallies[key].add((len(written), len(written)), 1, (QUESTION_TOKENS, QUESTION_TOKENS))
    return JudgingEstimate(Span(*evaluations), tuple(tallies[key].estimate() for key in sorted(tallies)), fallbacks)


def _asked(suite: Suite, asked: JudgeCalls) -> tuple[list[LLMProvider], bool]:
    """Return the models that are asked, one per judge, and whether others may stand in for them."""
    evaluations = suite.agent.evaluations
    default = (evaluations.model if evaluations is not None else None) or suite.agent.model
    panel = panel_of(suite.policy.judges, asked.config)
    if panel is None:
        return [asked.config.own_model or default], False
    return [model or default for model in panel.models], bool(panel.fallbacks)


def _label(model: LLMProvider) -> str:
    return f"{model.provider}/{model.name}"


def _longest(model: LLMProvider) -> int:
    """Return the tokens that a verdict may have; unlike an agent a judge has only the limit that is configured."""
    return (model.max_tokens if "max_tokens" in model.model_fields_set else None) or COMPLETION_GUESS


class OwnEstimate(Struct, frozen=True):
    """What a suite asks of its own model, in so many conversations."""

    trials: Span
    model: ModelEstimate


def estimate_own(item: Prepared) -> OwnEstimate:
    """Reckon what a suite asks of its own model: a call for each turn of all trials.

    Raises:
        TargetError: the instructions cannot be read.
    """
    agent = item.suite.agent
    tools = "".join(tool.model_dump_json(exclude_defaults=True) for tool in agent.tools or ())
    fixed = text_tokens(instructions_of(item.suite)) + text_tokens(tools)
    tally = _Tally(agent.model, agent.model.max_tokens or COMPLETION_GUESS)
    fewest = most = 0
    for case in item.own_cases:
        turns = len(case.turns)
        empty = _prompt_tokens(case, fixed)
        # Before the k-th turn of a conversation k answers are in it.
        answers = tally.longest * (turns * (turns - 1) // 2)
        times = fewest_trials(item, case), case.repeat
        tally.add(times, turns, (empty, empty + answers))
        fewest, most = fewest + times[0], most + times[1]
    return OwnEstimate(Span(fewest, most), tally.estimate())


Searching = Callable[[int], Sequence[PlannedCalls]]
"""Gives the calls that searching documents takes in the suite of an index; it may raise AgentError."""


def plan_lines(prepared: Sequence[Prepared], flags: Flags, searching: Searching = lambda at: ()) -> Iterator[str]:
    """Return what a run would ask, one line for each suite, and what it may spend.

    Raises:
        TargetError: instructions cannot be read.
    """
    return map(known_secrets(prepared).text, _plan_lines(prepared, flags, searching))


def _plan_lines(prepared: Sequence[Prepared], flags: Flags, searching: Searching) -> Iterator[str]:
    needed: list[_Least] = []
    together: list[_Least] = []
    for at, item in enumerate(prepared):
        if item.graded_by is None:
            head, together = item, []
        online = item.settings.calls.mode != "replay"
        found = estimate_own(item) if online and isinstance(item.target, ModelTarget) else None
        judging = estimate_judges(item) if online else None
        yield f"plan: {one_line(item.place, 200)}: {_suite_line(item, found, judging)}"
        calls: Sequence[PlannedCalls] = ()
        if found is not None:
            try:
                calls = searching(at)
            except AgentError as error:
                yield f"plan: {one_line(item.place, 200)}: {one_line(error.message, 500)}"
        if calls:
            yield f"plan: {one_line(item.place, 200)}: {_searching_line(calls)}"
        if found is not None or judging is not None:
            least = _least(found, judging, calls)
            needed.append(least)
            together.append(least)
        # What runs beside a suite spends the same budget, and comes after it.
        if together and (at + 1 == len(prepared) or prepared[at + 1].graded_by is None):
            settings = head.settings
            yield from _budget_lines(
                *(f"of {one_line(head.place, 200)}", settings.max_cost_usd, settings.max_tokens),
                *(together, head.shards),
            )
    yield from _budget_lines("of the run", flags.max_cost_usd, flags.max_tokens, needed, prepared[0].shards)


class _Least(Struct, frozen=True):
    """The least that a suite's model and judges take; dollars as far as their prices are known."""

    usd: float
    tokens: int


def _least(found: OwnEstimate | None, judging: JudgingEstimate | None, calls: Sequence[PlannedCalls]) -> _Least:
    models = (*(() if found is None else (found.model,)), *(() if judging is None else judging.judges))
    return _Least(
        math.fsum([*(model.low_usd or 0.0 for model in models), *(_usd(each)[0] or 0.0 for each in calls)]),
        sum(model.prompt_tokens.low for model in models) + sum(each.prompt_tokens[0] for each in calls),
    )


def _usd(calls: PlannedCalls) -> tuple[float | None, float | None]:
    """Return the list price of the least and of the most; None where it is not known."""
    account, name = calls.model.account, calls.model.name
    low, high = calls.prompt_tokens
    return (
        model_price(account, name, Tokens(low, 0)),
        model_price(account, name, Tokens(high, calls.answer_tokens)),
    )


def _searching_line(planned: Sequence[PlannedCalls]) -> str:
    """Say what searching documents takes."""
    parts = []
    for each in planned:
        if each.per_search:
            continue
        calls, tokens = Span(*each.calls), Span(*each.prompt_tokens)
        low, high = _usd(each)
        price = "price unknown" if low is None or high is None else f"from {dollars(low)} to {dollars(high)}"
        parts.append(
            f"{calls} {noun(calls.high, 'call')} of {_shown(each)} for {each.purpose}, about {tokens} tokens, {price}"
        )
    often = [f"{_shown(each)} for {each.purpose}" for each in planned if each.per_search]
    words = f"documents, before the first case: {'; '.join(parts)}" if parts else "documents"
    return f"{words}; for each search 1 call of {' and 1 of '.join(dict.fromkeys(often))}" if often else words


def _shown(calls: PlannedCalls) -> str:
    return f"{calls.model.provider}/{one_line(calls.model.name, 80)}"


def _suite_line(item: Prepared, found: OwnEstimate | None, judging: JudgingEstimate | None) -> str:
    line = _model_words(item, found, judging) + ("" if judging is None else f"; {judging}")
    asked = found is not None or judging is not None
    return f"{line}; what is in the cache costs nothing" if asked and item.settings.calls.cache is not None else line


def _model_words(item: Prepared, found: OwnEstimate | None, judging: JudgingEstimate | None) -> str:
    cases = f"{len(item.own_cases):,} {noun(len(item.own_cases), 'case')}"
    if found is None:
        if isinstance(item.target, ModelTarget):
            return (
                f"{cases}, no model calls: answers are replayed from {one_line(str(item.settings.calls.folder), 200)}"
            )
        calls = "no model calls: " if judging is None else ""
        return f"{cases}, {calls}{one_line(describe(item.target), 200)} answers"
    asked = found.model
    provider, _, name = asked.label.partition("/")
    line = (
        f"{cases}, {found.trials} {noun(found.trials.high, 'trial')}: at least {asked.calls.low:,} "
        f"{noun(asked.calls.low, 'call')} of {provider}/{one_line(name, 80)}, "
        f"about {asked.prompt_tokens} prompt tokens, "
    )
    if asked.low_usd is None or asked.high_usd is None:
        return f"{line}price unknown"
    return (
        f"{line}from {dollars(asked.low_usd)} (answers empty, no calls of tools) "
        f"to {dollars(asked.high_usd)} (answers of {asked.max_tokens:,} tokens)"
    )


def _budget_lines(
    whose: str, usd: float | None, tokens: int | None, needed: Sequence[_Least], shards: int
) -> Iterator[str]:
    shared = "" if shards == 1 else f", of which this shard has 1/{shards}"
    if usd is not None:
        yield f"budget {whose}: {dollars(usd)}{shared}{_too_low(usd / shards, [least.usd for least in needed])}"
    if tokens is not None:
        enough = _too_low(tokens // shards, [least.tokens for least in needed])
        yield f"budget {whose}: {tokens:,} tokens{shared}{enough}"


def _too_low(limit: float, needed: Sequence[float]) -> str:
    least = math.fsum(needed)
    return ", less than the least of the plan: the run will stop early" if limit < least else ""


def _prompt_tokens(case: Case, fixed: int) -> int:
    """Return the prompt tokens of one trial whose answers are empty: every turn sends what was said before it."""
    total = said = 0
    for turn in case.turns:
        said += text_tokens(turn.input) + _file_tokens(turn)
        total += fixed + said
    return total


def _file_tokens(turn: Turn) -> int:
    """Return the tokens of a turn's images; the texts of other files are not read yet."""
    return IMAGE_TOKENS * sum(file.type == "image" for file in turn.files)
