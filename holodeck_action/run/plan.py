"""The plan: the model calls of a run and their cost, estimated before the first call.

Tokens are counted as in `holodeck_action.llm.limits.budget`. Every judge of a panel is called and paid for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from msgspec import Struct

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.llm.limits.budget import COMPLETION_GUESS, IMAGE_TOKENS, format_dollars, text_tokens
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.facts import Known
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import read_record
from holodeck_action.run.concurrency import concurrency_phrase
from holodeck_action.run.estimates import (
    JudgingEstimate,
    ModelEstimate,
    Range,
    Tally,
    estimate_judges,
    fewest_trials,
    model_estimate,
)
from holodeck_action.run.loading import redactor_of_loaded
from holodeck_action.run.options.flags import LAST_RESULTS
from holodeck_action.run.probe_estimates import estimate_probes
from holodeck_action.run.run import Run
from holodeck_action.seam import registry
from holodeck_action.suite.model.targets import AddedTarget, ModelTarget
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.factory import describe_target
from holodeck_action.targets.own_model.own_agent import instructions_of
from holodeck_action.targets.own_model.runner_settings import longest_answer
from holodeck_action.targets.own_model.toolbox import PlannedCalls
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line


class OwnEstimate(Struct, frozen=True):
    """Estimated calls of a suite's own model, and the number of trials."""

    trials: Range
    model: ModelEstimate


def estimate_own(suite: Run) -> OwnEstimate:
    """Estimate the calls of a suite's own model: one for each turn of all trials. A simulated user may end the
    conversation after the first turn.

    Raises:
        TargetError: the instructions cannot be read.
    """
    agent = suite.suite.agent
    tools = "".join(tool.model_dump_json(exclude_defaults=True) for tool in agent.tools or ())
    fixed = text_tokens(instructions_of(suite.suite)) + text_tokens(tools)
    tally = Tally(agent.model, longest_answer(agent) or COMPLETION_GUESS)
    fewest = most = 0
    for case in suite.own_cases:
        times = fewest_trials(suite, case), case.repeat
        fewest, most = fewest + times[0], most + times[1]
        if case.simulation is not None:
            # A user ends a conversation after any number of turns; what the user writes is unknown.
            turns = case.simulation.most_turns
            most_prompts = turns * fixed + 2 * tally.longest * (turns * (turns + 1) // 2)
            tally.add_range((times[0], times[1] * turns), (times[0] * fixed, times[1] * most_prompts))
            continue
        turns = len(case.turns)
        empty = _prompt_tokens(case, fixed)
        # In turn k, counted from 0, the prompt contains k answers.
        answers = tally.longest * (turns * (turns - 1) // 2)
        tally.add(times, turns, (empty, empty + answers))
    return OwnEstimate(Range(fewest, most), tally.estimate())


def plan_lines(groups: Sequence[Sequence[Run]], seen: Sequence[Mapping[str, JudgeProbe] | None] = ()) -> Iterator[str]:
    """Return the lines of the plan: the model calls and cost of each suite, then the budgets.

    Args:
        groups: suites that spend one budget, such as a suite and its base. Document searches of open suites are
            planned, too.
        seen: for each group, the probes of its first suite that hold already, by identity. No probes are planned if it
            is None or not given.

    Raises:
        TargetError: instructions cannot be read.
    """
    redactor = redactor_of_loaded(chain.from_iterable(groups))
    return map(redactor.text, _plan_lines(groups, seen or [None] * len(groups)))


def _plan_lines(groups: Sequence[Sequence[Run]], probed: Sequence[Mapping[str, JudgeProbe] | None]) -> Iterator[str]:
    needed: list[ModelEstimate] = []
    for group, seen in zip(groups, probed, strict=True):
        first = group[0]
        together: list[ModelEstimate] = []
        for item in group:
            yield from _suite_lines(item, None if item is not first else seen, together)
        if together:
            place, settings = one_line(first.place, 200), first.settings
            yield from _budget_lines(f"of {place}", settings.max_cost_usd, settings.max_tokens, together, first.shards)
        needed += together
    flags, shards = groups[0][0].flags, groups[0][0].shards
    yield from _budget_lines("of the run", flags.max_cost_usd, flags.max_tokens, needed, shards)


def _suite_lines(item: Run, seen: Mapping[str, JudgeProbe] | None, needed: list[ModelEstimate]) -> Iterator[str]:
    """Yield the lines of a suite, and add its models to `needed`."""
    place = f"plan: {one_line(item.place, 200)}:"
    online = item.settings.calls.mode != "replay"
    found = estimate_own(item) if online and isinstance(item.target, ModelTarget) else None
    judging = estimate_judges(item) if online else None
    playing = estimate_users(item) if online else ()
    yield f"{place} {_agent_and_judges_line(item, found, judging, has_other_calls=bool(playing))}"
    if found is not None:
        yield f"{place} conversations: {concurrency_phrase(item.settings)}"
    if item.confirms_regressions and item.stored is None:
        yield f"{place} {_confirmation_line(item)}"
    calls: Sequence[PlannedCalls] = ()
    own = None if item.opened is None else item.opened.own
    if found is not None and own is not None and own.calls_models:
        try:
            calls = asyncio.run(own.plan_calls())
        except AgentError as error:
            yield f"{place} {one_line(error.message, 500)}"
    searching = [_planned_estimate(each) for each in calls]
    if calls:
        yield f"{place} {_search_line(calls, searching)}"
    if playing:
        yield f"{place} simulated users: {_models_phrase(playing)}"
    probing = () if seen is None else estimate_probes(item, seen)
    if probing:
        yield f"{place} probes of judges, before the first case: {_models_phrase(probing)}"
    needed += [*searching, *playing, *probing]
    if found is not None:
        needed.append(found.model)
    if judging is not None:
        needed += judging.judges


def _planned_estimate(planned: PlannedCalls) -> ModelEstimate:
    calls, prompts = Range(*planned.calls), Range(*planned.prompt_tokens)
    return model_estimate(planned.model, calls, prompts, planned.answer_tokens)


def _search_line(planned: Sequence[PlannedCalls], estimates: Sequence[ModelEstimate]) -> str:
    """Return a phrase for the plan about the model calls for document search."""
    named = [f"{one_line(model.label, 80)} for {each.purpose}" for each, model in zip(planned, estimates, strict=True)]
    parts = [
        _calls_phrase(model, name, "tokens")
        for each, model, name in zip(planned, estimates, named, strict=True)
        if not each.per_search
    ]
    often = [name for each, name in zip(planned, named, strict=True) if each.per_search]
    words = f"documents, before the first case: {'; '.join(parts)}" if parts else "documents"
    return f"{words}; for each search 1 call of {' and 1 of '.join(dict.fromkeys(often))}" if often else words


def estimate_users(suite: Run) -> Sequence[ModelEstimate]:
    """Estimate the calls of each model that plays a user; return an empty sequence if no user is simulated."""
    found = registry.users()
    if found is None or suite.stored is not None or all(case.simulation is None for case in suite.own_cases):
        return ()
    estimates: Sequence[ModelEstimate] = registry.resolve(found.estimates)(suite)
    return estimates


def _models_phrase(estimates: Sequence[ModelEstimate]) -> str:
    """Return a phrase for the plan about the calls of models."""
    return "; ".join(_calls_phrase(model, one_line(model.label, 80), "prompt tokens") for model in estimates)


def _calls_phrase(model: ModelEstimate, name: str, tokens: str) -> str:
    return f"{model.calls.of('call')} of {name}, about {model.prompt_tokens} {tokens}, {model.price()}"


def _confirmation_line(suite: Run) -> str:
    """Return a phrase for the plan about the trials that confirm regressions."""
    confirm = suite.settings.baseline.confirm
    cases = min(confirm.cases, len(suite.own_cases))
    trials = cases * confirm.trials
    return (
        f"at most {count_phrase(trials, 'further trial')}, {confirm.trials} for each of at most "
        f"{count_phrase(cases, 'case')} that got worse (baseline.confirm)"
    )


def _agent_and_judges_line(
    suite: Run, estimate: OwnEstimate | None, judging: JudgingEstimate | None, *, has_other_calls: bool
) -> str:
    """Return the plan's phrase about the calls of the agent and the judges."""
    has_calls = estimate is not None or judging is not None or has_other_calls
    line = _model_words(suite, estimate, has_calls=has_calls) + ("" if judging is None else f"; {judging}")
    line += "; stop: certain may end the run earlier" if suite.settings.stop_when_certain else ""
    return f"{line}; cached calls cost nothing" if has_calls and suite.settings.calls.cache is not None else line


def _model_words(suite: Run, estimate: OwnEstimate | None, *, has_calls: bool) -> str:
    cases = count_phrase(len(suite.own_cases), "case")
    if estimate is None:
        if suite.records_answers and suite.settings.calls.mode == "replay":
            return (
                f"{cases}, no model calls: answers are replayed from {one_line(str(suite.settings.calls.folder), 200)}"
            )
        calls = "" if has_calls else "no model calls: "
        if isinstance(suite.target, AddedTarget):
            calls = f"calls unknown, {_earlier_price(suite)}: "
        return f"{cases}, {calls}{one_line(describe_target(suite.target), 200)} answers"
    model = estimate.model
    price = model.price(" (answers empty, no calls of tools)", f" (answers of {model.max_tokens:,} tokens)")
    return (
        f"{cases}, {estimate.trials.of('trial')}: at least {count_phrase(model.calls.low, 'call')} of "
        f"{one_line(model.label, 80)}, about {model.prompt_tokens} prompt tokens, {price}"
    )


def _earlier_price(suite: Run) -> str:
    """Return a phrase on the price of a suite's trials by the cost of its base's, or else of those in the results
    folder."""
    record = suite.base_record
    with suppress(RecordError):
        record = record or read_record(suite.flags.output_dir or GivenPath(LAST_RESULTS.parent, suite.context.cwd))
    wanted = suite.suite.name, describe_target(suite.target)
    if record is None or (record.suite.name, record.provenance.target) != wanted:
        return "price unknown"
    done = [trial for case in record.cases for trial in case.all_trials if trial.error is None]
    costs = [turn.cost_usd for trial in done for turn in trial.turns]
    known = [cost.value for cost in costs if isinstance(cost, Known)]
    if not known or len(known) < len(costs):
        return "price unknown"
    planned, each = sum(case.repeat for case in suite.own_cases), math.fsum(known) / len(done)
    trials = f"{count_phrase(planned, 'trial')}, {format_dollars(each)} each in an earlier run"
    return f"price about {format_dollars(planned * each)} ({trials})"


def _budget_lines(
    owner: str, usd: float | None, tokens: int | None, models: Sequence[ModelEstimate], shard_count: int
) -> Iterator[str]:
    shared = "" if shard_count == 1 else f", of which this shard has 1/{shard_count}"
    if usd is not None:
        enough = _too_low_warning(usd / shard_count, [model.low_usd or 0.0 for model in models])
        yield f"budget {owner}: {format_dollars(usd)}{shared}{enough}"
    if tokens is not None:
        enough = _too_low_warning(tokens // shard_count, [model.prompt_tokens.low for model in models])
        yield f"budget {owner}: {tokens:,} tokens{shared}{enough}"


def _too_low_warning(limit: float, min_uses: Sequence[float]) -> str:
    return ", less than the minimum of the plan: the run will stop early" if limit < math.fsum(min_uses) else ""


def _prompt_tokens(case: Case, fixed_tokens: int) -> int:
    """Return the prompt tokens of one trial with empty answers; each turn sends all earlier turns again."""
    total = said = 0
    for turn in case.turns:
        said += text_tokens(turn.input) + _file_tokens(turn)
        total += fixed_tokens + said
    return total


def _file_tokens(turn: Turn) -> int:
    """Return the tokens of a turn's images; other files are not counted, as they are not read yet."""
    return IMAGE_TOKENS * sum(file.type == "image" for file in turn.files)
