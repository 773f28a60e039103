"""What a run would ask of judges, and what that may cost: every judge of a panel is asked and paid for."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from holodeck_action.llm.budget import COMPLETION_GUESS, dollars, text_tokens
from holodeck_action.prepare.preflight import Prepared
from holodeck_action.prepare.reckoning import Span, fewest_trials, list_price, noun
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.metric_base import JudgeCalls
from holodeck_action.suite.panels import panel_of
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.values import Suite
from holodeck_action.text.plain import one_line

QUESTION_TOKENS = 300
"""Tokens of a question to a judge beside the texts of the case: those of DeepEval and ours have 190 to 450."""


@dataclass(frozen=True, slots=True)
class JudgeEstimate:
    """What is asked of one judge.

    Attributes:
        label: its name, such as `openai/gpt-4o`.
        calls: the least where every case is decided as soon as it can be.
        prompt_tokens: the least with empty answers, the most with answers of the suite's `max_tokens`; retrieved texts
            are not known and not in it.
        max_tokens: tokens of one verdict, at most.
        low_usd: list price of the least (verdicts empty); None when the price is not known.
        high_usd: list price of the most (verdicts of `max_tokens`); None when the price is not known.
    """

    label: str
    calls: Span
    prompt_tokens: Span
    max_tokens: int
    low_usd: float | None
    high_usd: float | None


@dataclass(frozen=True, slots=True)
class JudgingEstimate:
    """What is asked of all judges of a suite; `fallbacks`: whether other models may be asked in their place."""

    evaluations: Span
    judges: tuple[JudgeEstimate, ...]
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


@dataclass(slots=True)
class _Tally:
    """Calls and prompt tokens of one judge, the least and the most."""

    model: LLMProvider
    calls: list[int] = field(default_factory=lambda: [0, 0])
    prompts: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, calls: tuple[int, int], prompts: tuple[int, int]) -> None:
        for end in (0, 1):
            self.calls[end] += calls[end]
            self.prompts[end] += calls[end] * prompts[end]

    def estimate(self) -> JudgeEstimate:
        longest = _longest(self.model)
        return JudgeEstimate(
            label=_label(self.model),
            calls=Span(*self.calls),
            prompt_tokens=Span(*self.prompts),
            max_tokens=longest,
            low_usd=list_price(self.model, self.prompts[0], 0),
            high_usd=list_price(self.model, self.prompts[1], self.calls[1] * longest),
        )


def estimate_judges(item: Prepared) -> JudgingEstimate | None:
    """Reckon what a suite asks of its judges; None where it needs none.

    Calls are those of answers that are not empty, without repetitions; see `Metric.judge_calls`. Each judge of a
    panel counts, also the same model several times. Tokens are counted as `holodeck_action.llm.budget` counts them.
    """
    suite = item.suite
    answer = suite.agent.model.max_tokens or COMPLETION_GUESS
    tallies: dict[tuple[str, int], _Tally] = {}
    writers: dict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
    evaluations, fallbacks = [0, 0], False
    for case in item.cases:
        times = fewest_trials(item, case), case.repeat
        for turn in case.turns:
            empty = QUESTION_TOKENS + text_tokens(turn.input) + text_tokens(turn.ground_truth or "")
            for spec in turn.metrics:
                if not spec.config.needs_judge or skip_reason(spec, turn) is not None:
                    continue
                evaluations = [count + more for count, more in zip(evaluations, times, strict=True)]
                for at, asked in enumerate(spec.config.judge_calls()):
                    models, others = _asked(suite, asked)
                    fallbacks |= others
                    for model in models:
                        key = _label(model), _longest(model)
                        tally = tallies.setdefault(key, _Tally(model))
                        tally.add((times[0] * asked.calls, times[1] * asked.calls), (empty, empty + answer))
                        if asked.writes_steps:
                            writers[key].add((spec.config.model_dump_json(), at))
    if not tallies:
        return None
    for key, written in writers.items():
        tallies[key].add((len(written), len(written)), (QUESTION_TOKENS, QUESTION_TOKENS))
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
    """Return the tokens that a verdict may have; unlike an agent a judge has no limit that nobody wrote."""
    return (model.max_tokens if "max_tokens" in model.model_fields_set else None) or COMPLETION_GUESS
