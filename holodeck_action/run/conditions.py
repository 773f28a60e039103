"""Notices about circumstances that weaken a verdict, such as lenient gates or omitted cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from holodeck_action.decide.survey import is_expired
from holodeck_action.suite.applicability import reads_tool_calls
from holodeck_action.suite.model.policy import Gates, has_answer_gate
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.protocol import Agent

_SHOWN = 10


def run_notices(
    suite: Suite, cases: Sequence[Case], gates: Gates, filters: Mapping[str, Any], day: date
) -> Iterator[str]:
    """Yield notices about omitted or removed cases, expired quarantines, gates that ignore answers, and lenient trials.

    Args:
        suite: the suite.
        cases: the chosen cases, each with the number of trials that the command line requests.
        gates: the gates in force.
        filters: the case filters in force.
        day: the day of the run.
    """
    if filters:
        yield f"only {len(cases)} of {len(suite.cases)} cases were chosen: {' '.join(filter_options(filters))}"
    chosen = {case.id: case for case in cases}
    gone = sorted(set(filters.get("failed_from", ())) - {case.id for case in suite.cases})
    if gone:
        yield f"{len(gone)} case(s) of --failed-from are no longer in the suite: {', '.join(gone[:_SHOWN])}"
    for entry in suite.policy.quarantine:
        if entry.case in chosen and is_expired(entry, day):
            title = chosen[entry.case].name or entry.case
            yield (
                f"the quarantine of {title!r} ended on {entry.expires}, so the case counts again (owner {entry.owner})"
            )
    if not has_answer_gate(gates):
        yield "no gate depends on the answers, so failing cases do not fail this run"
    if gates.max_flaky is not None and suite.policy.trials.stop_when_decided and any(case.repeat > 1 for case in cases):
        yield "all trials of each case are run, because gates.max_flaky also counts trials after the deciding one"
    # The suite's own notices name the cases that its policy makes lenient.
    written = {case.id for case in suite.cases if case.lenient}
    lenient = [case for case in cases if case.lenient and case.id not in written]
    if lenient:
        first = f"{lenient[0].passes_needed} of {lenient[0].repeat}"
        yield (
            f"half of the trials or fewer are enough for {len(lenient)} case(s), such as {first}; raise --min-pass to "
            "ask for more"
        )


def unreported_tools_notices(agent: Agent, cases: Sequence[Case]) -> Iterator[str]:
    """Yield a notice if the target does not report tool calls and cases need them."""
    reason = agent.unreported.get("tools")
    if reason is None:
        return
    looking = sum(any(map(reads_tool_calls, case.turns)) for case in cases)
    if looking:
        yield (
            f"{reason}, but {looking} of {len(cases)} cases need them and will be in error; give "
            "tool_invocations in each reply, an empty list if no tool was called"
        )


def filter_options(filters: Mapping[str, Any]) -> list[str]:
    """Return case filters as command-line options; `--failed-from` shows the number of cases instead of their ids."""
    words = [f"--{name} {value!r}" for name in ("case", "tag") for value in filters.get(name, ())]
    if "failed_from" in filters:
        words.append(f"--failed-from ({len(filters['failed_from'])} cases)")
    return words + ([f"--limit {filters['limit']}"] if "limit" in filters else [])
