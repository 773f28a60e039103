"""What a run would ask and what that may cost, reckoned before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holodeck_action.agents.own import instructions_of
from holodeck_action.agents.registry import describe
from holodeck_action.llm.budget import COMPLETION_GUESS, IMAGE_TOKENS, dollars, text_tokens
from holodeck_action.llm.prices import cost_usd
from holodeck_action.preflight import Prepared
from holodeck_action.reports.plain import one_line
from holodeck_action.settings import Flags
from holodeck_action.suite.applicability import needs_judge, skip_reason
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.targets import ModelTarget
from holodeck_action.suite.values import Case, Turn

_PER_UNIT = 1_000
"""Tokens at which the price of one is looked up: some models charge more for long prompts."""


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the most of something, without calls of tools, which nobody can foretell."""

    low: int
    high: int

    def __str__(self) -> str:
        """Show both, or the one that they are."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a suite asks of its own model.

    Attributes:
        cases: how many there are.
        trials: conversations; the least where every case is decided as soon as it can be.
        calls: calls of the model: the turns of all trials.
        prompt_tokens: the least with empty answers, the most with answers of `max_tokens`.
        max_tokens: tokens of one answer, at most.
        low_usd: list price of the least (answers empty); None when the price is not known.
        high_usd: list price of the most (answers of `max_tokens`); None when the price is not known.
    """

    cases: int
    trials: Span
    calls: Span
    prompt_tokens: Span
    max_tokens: int
    low_usd: float | None
    high_usd: float | None


def estimate_suite(item: Prepared) -> Estimate:
    """Reckon what a suite asks of its own model.

    Tokens are counted as `holodeck_action.llm.budget` counts them.

    Raises:
        TargetError: the instructions cannot be read.
    """
    agent = item.suite.agent
    tools = "".join(tool.model_dump_json(exclude_defaults=True) for tool in agent.tools or ())
    fixed = text_tokens(instructions_of(item.suite)) + text_tokens(tools)
    most = agent.model.max_tokens or COMPLETION_GUESS
    trials, calls, prompts = [0, 0], [0, 0], [0, 0]
    for case in item.cases:
        turns = len(case.turns)
        empty = _prompt_tokens(case, fixed, item.suite.folder)
        # Before the k-th turn of a conversation k answers are in it.
        answers = most * (turns * (turns - 1) // 2)
        for end, (times, tokens) in enumerate(((_fewest(item, case), empty), (case.repeat, empty + answers))):
            trials[end] += times
            calls[end] += times * turns
            prompts[end] += times * tokens
    return Estimate(
        cases=len(item.cases),
        trials=Span(*trials),
        calls=Span(*calls),
        prompt_tokens=Span(*prompts),
        max_tokens=most,
        low_usd=_cost(agent.model, prompts[0], 0),
        high_usd=_cost(agent.model, prompts[1], calls[1] * most),
    )


def judged_evaluations(item: Prepared) -> Span:
    """Return how many evaluations of a suite need a judge."""
    low = high = 0
    for case in item.cases:
        count = sum(
            needs_judge(spec.config) and skip_reason(spec, turn) is None for turn in case.turns for spec in turn.metrics
        )
        low += _fewest(item, case) * count
        high += case.repeat * count
    return Span(low, high)


def plan_lines(prepared: Sequence[Prepared], flags: Flags) -> Iterator[str]:
    """Yield what a run would ask, one line for each suite, and what it may spend.

    Raises:
        TargetError: instructions cannot be read.
    """
    estimates: list[Estimate] = []
    for item in prepared:
        found = estimate_suite(item) if asks_model(item) else None
        yield f"plan: {one_line(item.place, 200)}: {_suite_line(item, found)}{_judges_words(item)}"
        if found is not None:
            estimates.append(found)
            settings = item.settings
            yield from _budget_lines(
                f"of {one_line(item.place, 200)}", settings.max_cost_usd, settings.max_tokens, [found]
            )
    yield from _budget_lines("of the run", flags.max_cost_usd, flags.max_tokens, estimates)


def asks_model(item: Prepared) -> bool:
    """Tell whether a run of the suite asks its own model over the network."""
    return isinstance(item.target, ModelTarget) and item.settings.calls.mode != "replay"


def price_known(model: LLMProvider) -> bool:
    """Tell whether a model has a list price."""
    return _cost(model, _PER_UNIT, _PER_UNIT) is not None


def _judges_words(item: Prepared) -> str:
    judged = judged_evaluations(item)
    if not judged.high or item.settings.calls.mode == "replay":
        return ""
    return f"; {judged} {_noun(judged.high, 'evaluation')} by judges, whose calls are not reckoned"


def _suite_line(item: Prepared, found: Estimate | None) -> str:
    cases = f"{len(item.cases):,} {_noun(len(item.cases), 'case')}"
    if found is None:
        if isinstance(item.target, ModelTarget):
            return (
                f"{cases}, no model calls: answers are replayed from {one_line(str(item.settings.calls.folder), 200)}"
            )
        calls = "" if judged_evaluations(item).high else "no model calls: "
        return f"{cases}, {calls}{one_line(describe(item.target), 200)} answers"
    model = item.suite.agent.model
    line = (
        f"{cases}, {found.trials} {_noun(found.trials.high, 'trial')}: at least {found.calls.low:,} "
        f"{_noun(found.calls.low, 'call')} of {model.provider}/{one_line(model.name, 80)}, "
        f"about {found.prompt_tokens} prompt tokens, "
    )
    if found.low_usd is None or found.high_usd is None:
        line += "price unknown"
    else:
        line += (
            f"from {dollars(found.low_usd)} (answers empty, no calls of tools) "
            f"to {dollars(found.high_usd)} (answers of {found.max_tokens:,} tokens)"
        )
    return line if item.settings.calls.cache is None else f"{line}; what is in the cache costs nothing"


def _budget_lines(whose: str, usd: float | None, tokens: int | None, found: Sequence[Estimate]) -> Iterator[str]:
    if usd is not None:
        yield f"budget {whose}: {dollars(usd)}{_too_low(usd, [item.low_usd for item in found])}"
    if tokens is not None:
        yield f"budget {whose}: {tokens:,} tokens{_too_low(tokens, [item.prompt_tokens.low for item in found])}"


def _too_low(limit: float, needed: Sequence[float | None]) -> str:
    least = math.fsum(amount or 0.0 for amount in needed)
    return ", less than the least of the plan: the run will stop early" if limit < least else ""


def _prompt_tokens(case: Case, fixed: int, folder: Path) -> int:
    """Return the prompt tokens of one trial whose answers are empty: every turn sends what was said before it."""
    total = said = 0
    for turn in case.turns:
        said += text_tokens(turn.input) + _file_tokens(turn)
        total += fixed + said
    return total


def _file_tokens(turn: Turn) -> int:
    """Return the tokens of a turn's images; the texts of other files are not read yet."""
    return IMAGE_TOKENS * sum(file.type == "image" for file in turn.files)


def _fewest(item: Prepared, case: Case) -> int:
    """Return how many trials the case takes at least."""
    if not item.settings.stop_when_decided:
        return case.repeat
    return min(case.min_pass, case.repeat - case.min_pass + 1)


def _cost(model: LLMProvider, prompt: int, completion: int) -> float | None:
    parts = [
        cost_usd(model.provider, model.name, prompt_tokens=sent, completion_tokens=_PER_UNIT - sent)
        for sent in (_PER_UNIT, 0)
    ]
    costs = [
        part * count / _PER_UNIT for part, count in zip(parts, (prompt, completion), strict=True) if part is not None
    ]
    return math.fsum(costs) if len(costs) == len(parts) else None


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
