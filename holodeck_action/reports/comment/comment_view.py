"""The variables of the comment's template in addition to the report: causes, example cases, and sentences on the
suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any

from holodeck_action.decide.compare.comparison import Comparison, Difference
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.verdict import GateState
from holodeck_action.reports.case_text import agent_text
from holodeck_action.reports.causes import MAX_UNGROUPED, Cause, causes_of
from holodeck_action.reports.comparison import answer_on_base, notable_usage, state_text, values_text
from holodeck_action.reports.first_lines import comparison_notices
from holodeck_action.reports.headline import LONGEST_CAUSE, MARKDOWN, headline
from holodeck_action.reports.phrases import call_text, run_command
from holodeck_action.reports.report_views import CaseView, Report, ToolCallView, TurnView
from holodeck_action.reports.terms import PULL_REQUEST
from holodeck_action.reports.untrusted import wrap
from holodeck_action.text.code_spans import fence, inline_code
from holodeck_action.text.prose import difference, prose

_MAX_ANSWER = 500
_CALLS_SHOWN = 3
_MAX_TASK = 4000
_GATE_STATES: dict[GateState, str] = {
    "failed": "violated",
    "undetermined": "undecided",
    "skipped": "not judged",
    "passed": "passed",
}


def comment_variables(report: Report) -> dict[str, Any]:
    """Return the variables of the comment's template except `report`; strings from the report are `Untrusted`."""
    causes = causes_of(report)
    chosen = _choose_examples(causes)
    open_cases = {case.position for _, case in chosen}
    failing = sum(len(cause.cases) for cause in causes)
    return {
        "causes": wrap(causes),
        "examples": [_example_variables(report, cause, case, alone=failing == 1) for cause, case in chosen],
        "same_errors": wrap([cause for cause in causes if cause.is_same_error]),
        "others": wrap(_folded_cases([cause for cause in causes if not cause.is_same_error], open_cases)),
        "failing": failing,
        "grouped": failing > MAX_UNGROUPED,
        "headline": headline(report, MARKDOWN, causes=causes),
        "said": _sentences(report),
        "differences": wrap(_differences(report)),
        "first": "<br>".join(comparison_notices(report.comparison, PULL_REQUEST)),
    }


def failing_examples(report: Report) -> Iterator[dict[str, Any]]:
    """Yield the template variables of each failing case in the order of the causes, without errors of several cases."""
    causes = causes_of(report)
    alone = sum(len(cause.cases) for cause in causes) == 1
    for cause in causes:
        if not cause.is_same_error:
            yield from (_example_variables(report, cause, case, alone=alone) for case in cause.cases)


def _choose_examples(causes: Sequence[Cause]) -> list[tuple[Cause, CaseView]]:
    """Return the cases to show unfolded, with their causes: all if there are few, else the first of each cause."""
    # Cases that did not run have nothing to show, and an error of several cases is told for all of them.
    causes = [cause for cause in causes if cause.outcome != "skipped" and not cause.is_same_error]
    if sum(len(cause.cases) for cause in causes) <= MAX_UNGROUPED:
        return [(cause, case) for cause in causes for case in cause.cases]
    # Leave out cases that already failed on the base if there are others.
    news = [cause for cause in causes if cause.standing != "before"] or causes
    return [(cause, cause.cases[0]) for cause in news[:MAX_UNGROUPED]]


def _folded_cases(causes: Sequence[Cause], open_cases: Container[int]) -> Sequence[CaseView]:
    """Return the cases to show folded, in the order of their causes."""
    return [case for cause in causes for case in cause.cases if case.position not in open_cases]


def _example_variables(report: Report, cause: Cause, case: CaseView, *, alone: bool) -> dict[str, Any]:
    """Return the template variables of an example case.

    If no other case failed, problems that the headline states already are omitted.
    """
    turn = case.shown_turn
    before = None if report.comparison is None else answer_on_base(report.comparison, case.id)
    lines = [] if turn is None else [*_answer_lines(turn, before), *_call_lines(turn)]
    problems = (() if turn is None else turn.problems) + case.conversation_problems or (case.reason,)
    problems = tuple(problem.removeprefix("error: ") for problem in problems)
    if alone and len(cause.reason) <= LONGEST_CAUSE and all(problem in cause.reason for problem in problems):
        problems = ()
    command = run_command(report, case.id)
    return {
        "case": wrap(case),
        "cause": wrap(cause),
        "problems": wrap(problems),
        "asked": None if turn is None else wrap(turn.input),
        "turn": f" (turn {turn.index} of {len(case.turns)}, counted from 0)" if turn and len(case.turns) > 1 else "",
        "named": wrap(turn.source) if turn and case.conversation_problems and turn is case.turn_at_fault else None,
        "said_by": wrap(case.user[0]) if case.user else None,
        "lines": lines,
        # A command that a code span would change could not be typed.
        "task": fence(agent_text(report, case), _MAX_TASK, wrapped=False),
        "command": None if command is None or "|" in command else inline_code(command, 2 * len(command)),
    }


def _answer_lines(turn: TurnView, base_answer: str | None) -> Iterator[str]:
    """Yield Markdown lines with a turn's expected answer (the base's answer if none is expected) and its answer."""
    wanted, name = (turn.ground_truth, "expected") if turn.ground_truth is not None else (base_answer, "before")
    got = turn.response
    if wanted is not None and got is not None:
        if wanted.strip() == got.strip():
            yield f"{name} and got: {prose(got, _MAX_ANSWER)}"
            return
        if (changed := difference(wanted, got, _MAX_ANSWER)) is not None:
            yield f"{name} → got: {changed}"
            return
    if wanted is not None:
        yield f"{name}: {prose(wanted, _MAX_ANSWER)}"
    if got is not None:
        yield f"got: {prose(got, _MAX_ANSWER)}"


def _call_lines(turn: TurnView) -> Iterator[str]:
    yield from map(_call_markdown, turn.tool_calls[:_CALLS_SHOWN])
    if len(turn.tool_calls) > _CALLS_SHOWN:
        yield f"… and {count_phrase(len(turn.tool_calls) - _CALLS_SHOWN, 'more tool call')}"


def _call_markdown(call: ToolCallView) -> str:
    shown = inline_code(call_text(call, 200), 240)
    if call.error is not None:
        return f"{shown} → error: {prose(call.error, 160)}"
    return shown if call.result is None else f"{shown} → {prose(call.result, 120)}"


def _sentences(report: Report) -> dict[str, Any]:
    """Return trusted phrases about the whole suite, by the names that the template uses."""
    comparison = report.comparison
    moved = [] if comparison is None else list(_change_clauses(comparison))
    steady = "" if comparison is None else f": {'; '.join(moved)}" if moved else ": none changed beyond chance"
    return {
        "checked": f"{_gates_text(report)} · metrics{steady}",
        "moved": bool(moved),
        "usage": "" if comparison is None else _usage_text(comparison),
    }


def _gates_text(report: Report) -> str:
    """Return the worst state of a gate, with the number of gates in this state."""
    states = Counter(gate.state for gate in report.gates)
    total = len(report.gates)
    for state, word in _GATE_STATES.items():
        if count := states[state]:
            return f"{count_phrase(count, 'gate') if count == total else f'{count} of {total} gates'} {word}"
    return "no gates"


def _usage_text(comparison: Comparison) -> str:
    return ", ".join(notable_usage(comparison.base_consumed, comparison.head_consumed))


def _change_clauses(comparison: Comparison) -> Iterator[str]:
    """Yield a clause for the pass rate and each metric that changed beyond chance, as Markdown."""
    for name, change in comparison.measures():
        if change.significant or change.state == "regressed":
            values = values_text(change, is_rate=change is comparison.pass_rate)
            yield f"{prose(name, 60)} {values}, {state_text(change, comparison)}"


def _differences(report: Report) -> list[Difference | None]:
    """Return the difference of each metric from the base, in the report's order; None if it is unknown."""
    compared = () if report.comparison is None else report.comparison.metrics
    found = {metric.name: metric.change for metric in compared}
    return [found.get(metric.name) for metric in report.metrics]
