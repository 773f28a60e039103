"""What a reader of a verdict must know about how it came about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from holodeck_action.decide.survey import expired
from holodeck_action.suite.applicability import reads_tool_calls
from holodeck_action.suite.model.policy import Gates, gates_answers
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.protocol import Agent

_SHOWN = 10


def conditions(
    suite: Suite, cases: Sequence[Case], gates: Gates, filters: Mapping[str, Any], day: date
) -> Iterator[str]:
    """Yield one sentence each: cases left out or gone, quarantines that ended, gates and trials that let much pass.

    Args:
        suite: the suite.
        cases: the chosen cases, with the trials that the command line asks for.
        gates: the gates in force.
        filters: the case filters in force.
        day: the day of the run.
    """
    if filters:
        yield f"only {len(cases)} of {len(suite.cases)} cases were chosen: {' '.join(filter_words(filters))}"
    chosen = {case.id: case for case in cases}
    gone = sorted(set(filters.get("failed_from", ())) - {case.id for case in suite.cases})
    if gone:
        yield f"{len(gone)} case(s) of --failed-from are not in the suite any more: {', '.join(gone[:_SHOWN])}"
    for entry in suite.policy.quarantine:
        if entry.case in chosen and expired(entry, day):
            title = chosen[entry.case].name or entry.case
            yield f"the quarantine of {title!r} ended on {entry.expires} and it gates again (owner {entry.owner})"
    if not gates_answers(gates):
        yield "no gate looks at the answers: cases that fail do not fail this run"
    if gates.max_flaky is not None and suite.policy.trials.stop_when_decided and any(case.repeat > 1 for case in cases):
        yield "every trial of a case is run: gates.max_flaky looks at those after the one that decides it, too"
    # The suite's own notices name those that its policy makes so.
    written = {case.id for case in suite.cases if case.lenient}
    lenient = [case for case in cases if case.lenient and case.id not in written]
    if lenient:
        first = f"{lenient[0].passes_needed} of {lenient[0].repeat}"
        yield (
            f"half of the trials or fewer are enough for {len(lenient)} case(s), such as {first}; raise --min-pass to "
            "ask for more"
        )


def silence_on_tools(agent: Agent, cases: Sequence[Case]) -> Iterator[str]:
    """Yield a sentence where the target cannot say anything of tool calls, and cases expect something of them."""
    reason = agent.untold.get("tools")
    if reason is None:
        return
    looking = sum(any(map(reads_tool_calls, case.turns)) for case in cases)
    if looking:
        yield (
            f"{reason}, at which {looking} of {len(cases)} cases look: they will be in error; give "
            "tool_invocations in each reply, an empty list where no tool was called"
        )


def filter_words(filters: Mapping[str, Any]) -> list[str]:
    """Write case filters as the command line has them, failed cases as their number."""
    words = [f"--{name} {value!r}" for name in ("case", "tag") for value in filters.get(name, ())]
    if "failed_from" in filters:
        words.append(f"--failed-from ({len(filters['failed_from'])} cases)")
    return words + ([f"--limit {filters['limit']}"] if "limit" in filters else [])
