"""Estimated model calls and their cost: the values that plans show, and the estimate for judges."""

from __future__ import annotations

import math
from collections import defaultdict

from msgspec import Struct, field

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.embeddings import embedding_reference
from holodeck_action.llm.limits.budget import COMPLETION_GUESS, format_dollars, text_tokens
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.usage import cost_usd
from holodeck_action.llm.usage import list_price as model_price
from holodeck_action.run.run import Run
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.model.metric_base import JudgeCalls
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.panels import panel_of
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.own_model.runner_settings import longest_answer
from holodeck_action.text.plain import one_line

_PER_UNIT = 1_000
"""Length in tokens of the prompt for which prices are looked up. Some models have higher prices for long prompts."""


class Range(Struct, frozen=True):
    """The minimum and maximum of an estimated number; tool calls, which cannot be predicted, are not included."""

    low: int
    high: int

    def __str__(self) -> str:
        """Return the minimum and maximum as a string, or a single number if they are equal."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"

    def of(self, noun: str) -> str:
        """Return the numbers with a noun, such as `1 call` or `1 to 3 calls`; `noun` is the singular."""
        return f"{self} {noun}{'' if self.high == 1 else 's'}"


def fewest_trials(suite: Run, case: Case) -> int:
    """Return the smallest number of trials after which a case can be decided."""
    if not suite.settings.stop_when_decided:
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


QUESTION_TOKENS = 300
"""Estimated tokens of a judge's prompt without the texts of the case. The prompts of DeepEval and of this package have
190 to 450 tokens.
"""


class ModelEstimate(Struct, frozen=True):
    """Estimated calls of one model: the suite's own, or a judge.

    Attributes:
        label: name of the model, such as `openai/gpt-6.1-sol`.
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

    def price(self, least: str = "", most: str = "") -> str:
        """Return a phrase on the list price, with remarks on the minimum and the maximum if it is known."""
        if self.low_usd is None or self.high_usd is None:
            return "price unknown"
        return f"from {format_dollars(self.low_usd)}{least} to {format_dollars(self.high_usd)}{most}"


def model_estimate(plan: ModelPlan, calls: Range, prompts: Range, answers: int, longest: int = 0) -> ModelEstimate:
    """Return the estimate of a model's calls.

    Args:
        plan: the model.
        calls: number of calls.
        prompts: prompt tokens of all calls together.
        answers: maximum answer tokens of all calls together.
        longest: maximum tokens of one answer; 0 for an embedding model.
    """
    prices = [
        model_price(plan.account, plan.name, Tokens(prompt, answer))
        for prompt, answer in ((prompts.low, 0), (prompts.high, answers))
    ]
    return ModelEstimate(f"{plan.provider}/{plan.name}", calls, prompts, longest, *prices)


class JudgingEstimate(Struct, frozen=True):
    """Estimated calls of a suite's judges and of the embedding models of metrics.

    `fallbacks` is whether fallback models may also be called.
    """

    evaluations: Range
    judges: tuple[ModelEstimate, ...]
    fallbacks: bool

    def __str__(self) -> str:
        """Return the estimate as one line of text."""
        parts = " and ".join(f"{judge.calls.of('call')} of {one_line(judge.label, 80)}" for judge in self.judges)
        embeds = any(judge.max_tokens == 0 for judge in self.judges)
        kinds = [kind for kind, any_of in (("judges", self._longest), ("embeddings", embeds)) if any_of]
        words = f"{self.evaluations.of('evaluation')} by {' and '.join(kinds)}: about {parts}, {self._price()}"
        return f"{words}; calls of fallback models are added if a judge gives no verdict" if self.fallbacks else words

    @property
    def _longest(self) -> Range | None:
        """The range, over all judges, of the maximum tokens per verdict; None if only embedding models are called."""
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
        """Add a group of calls several times. `calls` is the number of calls in the group, `prompts` the (minimum,
        maximum) of their prompt tokens in total, and `times` the (minimum, maximum) number of times."""
        self.add_range((times[0] * calls, times[1] * calls), (times[0] * prompts[0], times[1] * prompts[1]))

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


def estimate_judges(prepared_suite: Run) -> JudgingEstimate | None:
    """Estimate the calls of a suite's judges and of the embedding models of metrics; return None if there are none.

    The estimate assumes non-empty answers and no retries; see `Metric.judge_calls`. Each judge of a panel counts, even
    if the same model judges several times.
    """
    answer = longest_answer(prepared_suite.suite.agent) or COMPLETION_GUESS
    tallies: dict[tuple[str, int], Tally] = {}
    writers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    evaluations, fallbacks = [0, 0], False
    for case in prepared_suite.own_cases:
        times = fewest_trials(prepared_suite, case), case.repeat
        for turn in case.turns:
            expected = text_tokens(turn.ground_truth or "")
            empty = QUESTION_TOKENS + text_tokens(turn.input) + expected
            for spec in turn.metrics:
                if not spec.config.needs_judge or skip_reason(spec, turn) is not None:
                    continue
                # The judge sees two answers, once for both runs.
                answers = 2 if spec.config.OF_PAIR else 1
                if spec.config.OF_PAIR and (
                    prepared_suite.graded_by is not None or not prepared_suite.settings.compared
                ):
                    continue
                evaluations = [count + more for count, more in zip(evaluations, times, strict=True)]
                for at, planned in enumerate(spec.config.judge_calls()):
                    models, second, others = _judge_models(prepared_suite.grading.suite, planned)
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
                        prompts = planned.calls * fixed, planned.calls * (fixed + answers * answer)
                        tally.add(often, planned.calls, prompts)
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
    """Return the name of a model, such as `openai/gpt-6.1-sol`."""
    return f"{model.provider}/{model.name}"


def _verdict_tokens(model: LLMProvider) -> int:
    """Return the maximum number of tokens of a judge's verdict."""
    return (model.max_tokens if "max_tokens" in model.model_fields_set else None) or COMPLETION_GUESS
