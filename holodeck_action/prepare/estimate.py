"""What a run would ask and what that may cost, reckoned before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holodeck_action.llm.budget import COMPLETION_GUESS, IMAGE_TOKENS, dollars, text_tokens
from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.usage import list_price as model_price
from holodeck_action.prepare.judging_estimate import JudgingEstimate, estimate_judges
from holodeck_action.prepare.preflight import Prepared, known_secrets
from holodeck_action.prepare.reckoning import Span, fewest_trials, list_price, noun
from holodeck_action.prepare.settings import Flags
from holodeck_action.results.agent_errors import AgentError
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.targets import ModelTarget
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.factory import describe
from holodeck_action.targets.own import instructions_of
from holodeck_action.text.plain import one_line
from holodeck_action.tools.searching import PlannedCalls


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
        for end, (times, tokens) in enumerate(((fewest_trials(item, case), empty), (case.repeat, empty + answers))):
            trials[end] += times
            calls[end] += times * turns
            prompts[end] += times * tokens
    return Estimate(
        cases=len(item.cases),
        trials=Span(*trials),
        calls=Span(*calls),
        prompt_tokens=Span(*prompts),
        max_tokens=most,
        low_usd=list_price(agent.model, prompts[0], 0),
        high_usd=list_price(agent.model, prompts[1], calls[1] * most),
    )


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
    for at, item in enumerate(prepared):
        found = estimate_suite(item) if asks_model(item) else None
        judging = estimate_judges(item) if item.settings.calls.mode != "replay" else None
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
            least = _with_searching(_least(found, judging), calls)
            needed.append(least)
            settings = item.settings
            yield from _budget_lines(
                f"of {one_line(item.place, 200)}", settings.max_cost_usd, settings.max_tokens, [least]
            )
    yield from _budget_lines("of the run", flags.max_cost_usd, flags.max_tokens, needed)


def asks_model(item: Prepared) -> bool:
    """Tell whether a run of the suite asks its own model over the network."""
    return isinstance(item.target, ModelTarget) and item.settings.calls.mode != "replay"


def price_known(model: LLMProvider) -> bool:
    """Tell whether a model has a list price."""
    return list_price(model, 1, 1) is not None


@dataclass(frozen=True, slots=True)
class _Least:
    """The least that a suite's model and judges take; dollars as far as their prices are known."""

    usd: float
    tokens: int


def _least(found: Estimate | None, judging: JudgingEstimate | None) -> _Least:
    judges = () if judging is None else judging.judges
    usd = math.fsum(judge.low_usd or 0.0 for judge in judges)
    tokens = sum(judge.prompt_tokens.low for judge in judges)
    return (
        _Least(usd, tokens) if found is None else _Least(usd + (found.low_usd or 0.0), tokens + found.prompt_tokens.low)
    )


def _with_searching(least: _Least, calls: Sequence[PlannedCalls]) -> _Least:
    usd = math.fsum(_usd(each)[0] or 0.0 for each in calls)
    return _Least(least.usd + usd, least.tokens + sum(each.prompt_tokens[0] for each in calls))


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


def _suite_line(item: Prepared, found: Estimate | None, judging: JudgingEstimate | None) -> str:
    line = _model_words(item, found, judging) + ("" if judging is None else f"; {judging}")
    asked = found is not None or judging is not None
    return f"{line}; what is in the cache costs nothing" if asked and item.settings.calls.cache is not None else line


def _model_words(item: Prepared, found: Estimate | None, judging: JudgingEstimate | None) -> str:
    cases = f"{len(item.cases):,} {noun(len(item.cases), 'case')}"
    if found is None:
        if isinstance(item.target, ModelTarget):
            return (
                f"{cases}, no model calls: answers are replayed from {one_line(str(item.settings.calls.folder), 200)}"
            )
        calls = "no model calls: " if judging is None else ""
        return f"{cases}, {calls}{one_line(describe(item.target), 200)} answers"
    model = item.suite.agent.model
    line = (
        f"{cases}, {found.trials} {noun(found.trials.high, 'trial')}: at least {found.calls.low:,} "
        f"{noun(found.calls.low, 'call')} of {model.provider}/{one_line(model.name, 80)}, "
        f"about {found.prompt_tokens} prompt tokens, "
    )
    if found.low_usd is None or found.high_usd is None:
        line += "price unknown"
    else:
        line += (
            f"from {dollars(found.low_usd)} (answers empty, no calls of tools) "
            f"to {dollars(found.high_usd)} (answers of {found.max_tokens:,} tokens)"
        )
    return line


def _budget_lines(whose: str, usd: float | None, tokens: int | None, needed: Sequence[_Least]) -> Iterator[str]:
    if usd is not None:
        yield f"budget {whose}: {dollars(usd)}{_too_low(usd, [least.usd for least in needed])}"
    if tokens is not None:
        yield f"budget {whose}: {tokens:,} tokens{_too_low(tokens, [least.tokens for least in needed])}"


def _too_low(limit: float, needed: Sequence[float]) -> str:
    least = math.fsum(needed)
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
