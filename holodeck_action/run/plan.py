"""The plan: the model calls of a run and their cost, estimated before the first call.

Tokens are counted as in `holodeck_action.llm.limits.budget`. Every judge of a panel is called and paid for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.embeddings import embedding_reference
from holodeck_action.llm.limits.budget import COMPLETION_GUESS, IMAGE_TOKENS, format_dollars, text_tokens
from holodeck_action.llm.usage import cost_usd
from holodeck_action.llm.usage import list_price as model_price
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.run.loading import redactor_of_loaded
from holodeck_action.run.options.settings import Flags
from holodeck_action.run.preflight import PreparedSuite
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.model.metric_base import JudgeCalls
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.model.targets import ModelTarget
from holodeck_action.suite.panels import panel_of
from holodeck_action.suite.values import Case, Suite, Turn
from holodeck_action.targets.factory import describe_target
from holodeck_action.targets.own_model.own_agent import instructions_of
from holodeck_action.targets.own_model.toolbox import PlannedCalls
from holodeck_action.text.plain import one_line

_PER_UNIT = 1_000
"""Number of tokens for which prices are looked up: prices of some models are higher for long prompts."""


class Range(Struct, frozen=True):
    """The minimum and maximum of an estimated number; tool calls, which cannot be predicted, are not included."""

    low: int
    high: int

    def __str__(self) -> str:
        """Return both numbers as a string, or one number if they are equal."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


def fewest_trials(item: PreparedSuite, case: Case) -> int:
    """Return the smallest number of trials after which a case can be decided."""
    if not item.settings.stop_when_decided:
        return case.repeat
    return min(case.passes_needed, case.repeat - case.passes_needed + 1)


def list_price(model: LLMProvider, prompt: int, completion: int) -> float | None:
    """Return the list price of prompt and completion tokens in US dollars; None if it is not known."""
    parts = [
        cost_usd(model.provider, model.name, prompt_tokens=sent, completion_tokens=_PER_UNIT - sent)
        for sent in (_PER_UNIT, 0)
    ]
    costs = [
        part * count / _PER_UNIT for part, count in zip(parts, (prompt, completion), strict=True) if part is not None
    ]
    return math.fsum(costs) if len(costs) == len(parts) else None


def pluralize(count: int, singular: str) -> str:
    """Return the singular of a noun if `count` is 1, else the plural."""
    return singular if count == 1 else f"{singular}s"


QUESTION_TOKENS = 300
"""Estimated tokens of a judge's prompt without the texts of the case; prompts of DeepEval and ours have 190 to 450."""


class ModelEstimate(Struct, frozen=True):
    """Estimated calls of one model: the suite's own, or a judge.

    Attributes:
        label: name of the model, such as `openai/gpt-4o`.
        calls: number of calls; for the minimum, each case is decided as early as possible.
        prompt_tokens: number of prompt tokens; the minimum assumes empty answers, the maximum assumes answers of the
            suite's `max_tokens`. Retrieved texts are not included.
        max_tokens: maximum tokens of one answer or verdict; 0 for an embedding model.
        low_usd: list price of the minimum, with empty answers or verdicts; None if the price is not known.
        high_usd: list price of the maximum, with answers of `max_tokens`; None if the price is not known.
    """

    label: str
    calls: Range
    prompt_tokens: Range
    max_tokens: int
    low_usd: float | None
    high_usd: float | None


class JudgingEstimate(Struct, frozen=True):
    """Estimated calls of a suite's judges and of the embedding models of metrics.

    `fallbacks` tells whether fallback models may also be called.
    """

    evaluations: Range
    judges: tuple[ModelEstimate, ...]
    fallbacks: bool

    def __str__(self) -> str:
        """Return the estimate as one line of text."""
        parts = " and ".join(
            f"{judge.calls} {pluralize(judge.calls.high, 'call')} of {one_line(judge.label, 80)}"
            for judge in self.judges
        )
        evaluations = f"{self.evaluations} {pluralize(self.evaluations.high, 'evaluation')}"
        kinds = [kind for kind, any_of in (("judges", self._longest), ("embeddings", self._embeds)) if any_of]
        words = f"{evaluations} by {' and '.join(kinds)}: about {parts}, {self._price()}"
        return f"{words}; calls of fallback models are added if a judge gives no verdict" if self.fallbacks else words

    @property
    def _embeds(self) -> bool:
        return any(judge.max_tokens == 0 for judge in self.judges)

    @property
    def _longest(self) -> Range | None:
        """The maximum tokens of verdicts; None if only embedding models are called."""
        found = sorted({judge.max_tokens for judge in self.judges} - {0})
        return Range(found[0], found[-1]) if found else None

    def _price(self) -> str:
        low = [judge.low_usd for judge in self.judges]
        high = [judge.high_usd for judge in self.judges]
        unknown = [one_line(judge.label, 80) for judge in self.judges if judge.low_usd is None]
        if len(unknown) == len(self.judges):
            return "price unknown"
        longest = self._longest
        least, most = (f" (verdicts {end})" if longest else "" for end in ("empty", f"of {longest} tokens"))
        price = (
            f"from {format_dollars(math.fsum(amount or 0.0 for amount in low))}{least} "
            f"to {format_dollars(math.fsum(amount or 0.0 for amount in high))}{most}"
        )
        return f"{price} and the unknown price of {', '.join(unknown)}" if unknown else price


class Tally(Struct):
    """Minimum and maximum calls and prompt tokens of one model; `longest` is the maximum tokens of one answer."""

    model: LLMProvider
    longest: int
    calls: list[int] = field(default_factory=lambda: [0, 0])
    prompts: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, times: tuple[int, int], calls: int, prompts: tuple[int, int]) -> None:
        """Add `calls` calls with `prompts` prompt tokens in total, `times` times; pairs are minimum and maximum."""
        for end in (0, 1):
            self.calls[end] += times[end] * calls
            self.prompts[end] += times[end] * prompts[end]

    def add_range(self, calls: tuple[int, int], prompts: tuple[int, int]) -> None:
        """Add calls and their prompt tokens; pairs are minimum and maximum."""
        for end in (0, 1):
            self.calls[end] += calls[end]
            self.prompts[end] += prompts[end]

    def estimate(self) -> ModelEstimate:
        """Return the estimate for all calls added."""
        return ModelEstimate(
            label=label_of(self.model),
            calls=Range(*self.calls),
            prompt_tokens=Range(*self.prompts),
            max_tokens=self.longest,
            low_usd=list_price(self.model, self.prompts[0], 0),
            high_usd=list_price(self.model, self.prompts[1], self.calls[1] * self.longest),
        )


def estimate_judges(item: PreparedSuite) -> JudgingEstimate | None:
    """Estimate the calls of a suite's judges and of the embedding models of metrics; return None if there are none.

    The estimate assumes non-empty answers and no retries; see `Metric.judge_calls`. Each judge of a panel counts, even
    if the same model judges several times.
    """
    suite = item.suite
    answer = suite.agent.model.max_tokens or COMPLETION_GUESS
    tallies: dict[tuple[str, int], Tally] = {}
    writers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    evaluations, fallbacks = [0, 0], False
    for case in item.own_cases:
        times = fewest_trials(item, case), case.repeat
        for turn in case.turns:
            expected = text_tokens(turn.ground_truth or "")
            empty = QUESTION_TOKENS + text_tokens(turn.input) + expected
            for spec in turn.metrics:
                if not spec.config.needs_judge or skip_reason(spec, turn) is not None:
                    continue
                evaluations = [count + more for count, more in zip(evaluations, times, strict=True)]
                for at, planned in enumerate(spec.config.judge_calls()):
                    models, second, others = _judge_models(item.grading.suite, planned)
                    fallbacks |= others
                    embedded = planned.config.embedding
                    text = None if embedded is None else embedded.text
                    fixed = empty if embedded is None else expected if text is None else text_tokens(text)
                    # The second judge is called for any number of answers, from none to all.
                    called = [(model, times) for model in models] + [(model, (0, times[1])) for model in second]
                    for model, often in called:
                        longest = _verdict_tokens(model) if embedded is None else 0
                        key = label_of(model), longest
                        tally = tallies.setdefault(key, Tally(model, longest))
                        tally.add(often, planned.calls, (planned.calls * fixed, planned.calls * (fixed + answer)))
                        if planned.writes_steps:
                            writers[key].add((spec.config.model_dump_json(), at))
    if not tallies:
        return None
    for key, written in writers.items():
        tallies[key].add((len(written), len(written)), 1, (QUESTION_TOKENS, QUESTION_TOKENS))
    return JudgingEstimate(Range(*evaluations), tuple(tallies[key].estimate() for key in sorted(tallies)), fallbacks)


def _judge_models(suite: Suite, planned: JudgeCalls) -> tuple[list[LLMProvider], list[LLMProvider], bool]:
    """Return the model of each judge, the model of the second judge (at most one), and whether fallback models may be
    called."""
    if planned.config.embedding is not None:
        return [embedding_reference(suite.agent, planned.config.embedding.model)], [], False
    evaluations = suite.agent.evaluations
    default = (evaluations.model if evaluations is not None else None) or suite.agent.model
    panel = panel_of(suite.policy.judges, planned.config)
    if panel is None:
        return [planned.config.own_model or default], [], False
    second = [] if panel.second is None else [panel.second]
    return [model or default for model in panel.models], second, bool(panel.fallbacks)


def label_of(model: LLMProvider) -> str:
    """Return the name of a model, such as `openai/gpt-4o`."""
    return f"{model.provider}/{model.name}"


def _verdict_tokens(model: LLMProvider) -> int:
    """Return the maximum number of tokens of a judge's verdict."""
    return (model.max_tokens if "max_tokens" in model.model_fields_set else None) or COMPLETION_GUESS


class OwnEstimate(Struct, frozen=True):
    """Estimated calls of a suite's own model, and the number of trials."""

    trials: Range
    model: ModelEstimate


def estimate_own(item: PreparedSuite) -> OwnEstimate:
    """Estimate the calls of a suite's own model: one for each turn of all trials. A simulated user may end the
    conversation after the first turn.

    Raises:
        TargetError: the instructions cannot be read.
    """
    agent = item.suite.agent
    tools = "".join(tool.model_dump_json(exclude_defaults=True) for tool in agent.tools or ())
    fixed = text_tokens(instructions_of(item.suite)) + text_tokens(tools)
    tally = Tally(agent.model, agent.model.max_tokens or COMPLETION_GUESS)
    fewest = most = 0
    for case in item.own_cases:
        if case.simulation is not None:
            # A user ends a conversation after any number of turns; what the user writes is unknown.
            turns = case.simulation.most_turns
            most_prompts = turns * fixed + 2 * tally.longest * (turns * (turns + 1) // 2)
            times = fewest_trials(item, case), case.repeat
            tally.add_range((times[0], times[1] * turns), (times[0] * fixed, times[1] * most_prompts))
            fewest, most = fewest + times[0], most + times[1]
            continue
        turns = len(case.turns)
        empty = _prompt_tokens(case, fixed)
        # In turn k, counted from 0, the prompt contains k answers.
        answers = tally.longest * (turns * (turns - 1) // 2)
        times = fewest_trials(item, case), case.repeat
        tally.add(times, turns, (empty, empty + answers))
        fewest, most = fewest + times[0], most + times[1]
    return OwnEstimate(Range(fewest, most), tally.estimate())


PlanSearches = Callable[[int], Sequence[PlannedCalls]]
"""Function that takes a suite's index, and returns the planned calls for document search; it may raise AgentError."""


def plan_lines(
    prepared: Sequence[PreparedSuite], flags: Flags, searches: PlanSearches = lambda at: ()
) -> Iterator[str]:
    """Return the lines of the plan: the model calls and cost of each suite, then the budgets.

    Raises:
        TargetError: instructions cannot be read.
    """
    return map(redactor_of_loaded(prepared).text, _plan_lines(prepared, flags, searches))


def _plan_lines(prepared: Sequence[PreparedSuite], flags: Flags, searches: PlanSearches) -> Iterator[str]:
    needed: list[_MinUse] = []
    together: list[_MinUse] = []
    for at, item in enumerate(prepared):
        if item.graded_by is None:
            head, together = item, []
        online = item.settings.calls.mode != "replay"
        found = estimate_own(item) if online and isinstance(item.target, ModelTarget) else None
        judging = estimate_judges(item) if online else None
        playing = estimate_users(item) if online else ()
        yield f"plan: {one_line(item.place, 200)}: {_suite_line(item, found, judging, calls=bool(playing))}"
        if item.confirms_regressions and item.stored is None:
            yield f"plan: {one_line(item.place, 200)}: {_confirmation_line(item)}"
        calls: Sequence[PlannedCalls] = ()
        if found is not None:
            try:
                calls = searches(at)
            except AgentError as error:
                yield f"plan: {one_line(item.place, 200)}: {one_line(error.message, 500)}"
        if calls:
            yield f"plan: {one_line(item.place, 200)}: {_search_line(calls)}"
        if playing:
            yield f"plan: {one_line(item.place, 200)}: {_users_line(playing)}"
        if found is not None or judging is not None or playing:
            least = _min_use(found, judging, calls, playing)
            needed.append(least)
            together.append(least)
        # A base follows its suite and spends the same budget.
        if together and (at + 1 == len(prepared) or prepared[at + 1].graded_by is None):
            settings = head.settings
            yield from _budget_lines(
                *(f"of {one_line(head.place, 200)}", settings.max_cost_usd, settings.max_tokens),
                *(together, head.shards),
            )
    yield from _budget_lines("of the run", flags.max_cost_usd, flags.max_tokens, needed, prepared[0].shards)


class _MinUse(Struct, frozen=True):
    """The minimum cost and tokens of a suite's model calls; `usd` covers only models with a known price."""

    usd: float
    tokens: int


def _min_use(
    found: OwnEstimate | None,
    judging: JudgingEstimate | None,
    calls: Sequence[PlannedCalls],
    playing: Sequence[ModelEstimate],
) -> _MinUse:
    models = (*(() if found is None else (found.model,)), *(() if judging is None else judging.judges), *playing)
    return _MinUse(
        math.fsum([*(model.low_usd or 0.0 for model in models), *(_price_range(each)[0] or 0.0 for each in calls)]),
        sum(model.prompt_tokens.low for model in models) + sum(each.prompt_tokens[0] for each in calls),
    )


def _price_range(calls: PlannedCalls) -> tuple[float | None, float | None]:
    """Return the minimum and maximum list price in US dollars; each is None if it is not known."""
    account, name = calls.model.account, calls.model.name
    low, high = calls.prompt_tokens
    return (
        model_price(account, name, Tokens(low, 0)),
        model_price(account, name, Tokens(high, calls.answer_tokens)),
    )


def _search_line(planned: Sequence[PlannedCalls]) -> str:
    """Return a phrase for the plan about the model calls for document search."""
    parts = []
    for each in planned:
        if each.per_search:
            continue
        calls, tokens = Range(*each.calls), Range(*each.prompt_tokens)
        low, high = _price_range(each)
        price = (
            "price unknown" if low is None or high is None else f"from {format_dollars(low)} to {format_dollars(high)}"
        )
        counted = f"{calls} {pluralize(calls.high, 'call')}"
        parts.append(f"{counted} of {_model_label(each)} for {each.purpose}, about {tokens} tokens, {price}")
    often = [f"{_model_label(each)} for {each.purpose}" for each in planned if each.per_search]
    words = f"documents, before the first case: {'; '.join(parts)}" if parts else "documents"
    return f"{words}; for each search 1 call of {' and 1 of '.join(dict.fromkeys(often))}" if often else words


def estimate_users(item: PreparedSuite) -> Sequence[ModelEstimate]:
    """Estimate the calls of each model that plays a user; return an empty sequence if no user is simulated."""
    found = registry.users()
    if found is None or item.stored is not None or all(case.simulation is None for case in item.own_cases):
        return ()
    estimates: Sequence[ModelEstimate] = registry.resolve(found.estimates)(item)
    return estimates


def _users_line(playing: Sequence[ModelEstimate]) -> str:
    """Return a phrase for the plan about the models that play users."""
    parts = []
    for model in playing:
        price = (
            "price unknown"
            if model.low_usd is None or model.high_usd is None
            else f"from {format_dollars(model.low_usd)} to {format_dollars(model.high_usd)}"
        )
        counted = f"{model.calls} {pluralize(model.calls.high, 'call')} of {one_line(model.label, 80)}"
        parts.append(f"{counted}, about {model.prompt_tokens} prompt tokens, {price}")
    return f"simulated users: {'; '.join(parts)}"


def _model_label(calls: PlannedCalls) -> str:
    return f"{calls.model.provider}/{one_line(calls.model.name, 80)}"


def _confirmation_line(item: PreparedSuite) -> str:
    """Return a phrase for the plan about the trials that confirm regressions."""
    confirm = item.settings.baseline.confirm
    cases = min(confirm.cases, len(item.own_cases))
    trials = cases * confirm.trials
    return (
        f"at most {trials:,} further {pluralize(trials, 'trial')}, {confirm.trials} for each of at most {cases:,} "
        f"{pluralize(cases, 'case')} that got worse (baseline.confirm)"
    )


def _suite_line(item: PreparedSuite, found: OwnEstimate | None, judging: JudgingEstimate | None, *, calls: bool) -> str:
    """Return the phrase for agent and judges; `calls` tells whether there are other model calls."""
    has_calls = found is not None or judging is not None or calls
    line = _model_words(item, found, has_calls=has_calls) + ("" if judging is None else f"; {judging}")
    return f"{line}; cached calls cost nothing" if has_calls and item.settings.calls.cache is not None else line


def _model_words(item: PreparedSuite, found: OwnEstimate | None, *, has_calls: bool) -> str:
    cases = f"{len(item.own_cases):,} {pluralize(len(item.own_cases), 'case')}"
    if found is None:
        if isinstance(item.target, ModelTarget):
            return (
                f"{cases}, no model calls: answers are replayed from {one_line(str(item.settings.calls.folder), 200)}"
            )
        calls = "" if has_calls else "no model calls: "
        return f"{cases}, {calls}{one_line(describe_target(item.target), 200)} answers"
    model = found.model
    provider, _, name = model.label.partition("/")
    line = (
        f"{cases}, {found.trials} {pluralize(found.trials.high, 'trial')}: at least {model.calls.low:,} "
        f"{pluralize(model.calls.low, 'call')} of {provider}/{one_line(name, 80)}, "
        f"about {model.prompt_tokens} prompt tokens, "
    )
    if model.low_usd is None or model.high_usd is None:
        return f"{line}price unknown"
    return (
        f"{line}from {format_dollars(model.low_usd)} (answers empty, no calls of tools) "
        f"to {format_dollars(model.high_usd)} (answers of {model.max_tokens:,} tokens)"
    )


def _budget_lines(
    whose: str, usd: float | None, tokens: int | None, needed: Sequence[_MinUse], shards: int
) -> Iterator[str]:
    shared = "" if shards == 1 else f", of which this shard has 1/{shards}"
    if usd is not None:
        enough = _too_low_warning(usd / shards, [least.usd for least in needed])
        yield f"budget {whose}: {format_dollars(usd)}{shared}{enough}"
    if tokens is not None:
        enough = _too_low_warning(tokens // shards, [least.tokens for least in needed])
        yield f"budget {whose}: {tokens:,} tokens{shared}{enough}"


def _too_low_warning(limit: float, needed: Sequence[float]) -> str:
    least = math.fsum(needed)
    return ", less than the minimum of the plan: the run will stop early" if limit < least else ""


def _prompt_tokens(case: Case, fixed: int) -> int:
    """Return the prompt tokens of one trial with empty answers; each turn sends all earlier turns again."""
    total = said = 0
    for turn in case.turns:
        said += text_tokens(turn.input) + _file_tokens(turn)
        total += fixed + said
    return total


def _file_tokens(turn: Turn) -> int:
    """Return the tokens of a turn's images; other files are not counted, as they are not read yet."""
    return IMAGE_TOKENS * sum(file.type == "image" for file in turn.files)
