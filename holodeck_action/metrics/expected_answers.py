"""Detection of expected answers that no metric compares with the agent's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.errors import Problem, mask_quotations, quoted
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.values import Case, Suite, Turn

_NAMED = 3
_REMEDY = 'add equality, f1_score, geval …, or write "ground_truth: unused" in the policy file'


def uncompared_problem(suite: Suite) -> Problem | None:
    """Return the problem that nothing grades what answers say, although they are expected; None if there is none."""
    found = _cases_without(suite, lambda metric: metric.grades_content or metric.reads_expected_answer)
    if not found:
        return None
    return Problem(
        found[0].mark, "ground_truth", f"the expected answer of {_names(found)} is compared by nothing: {_REMEDY}"
    )


def unread_notices(suite: Suite) -> tuple[str, ...]:
    """Return a sentence about cases whose answers are graded, but not by their expected answers; empty if there are
    none."""
    found = _cases_without(suite, lambda metric: metric.reads_expected_answer)
    if not found:
        return ()
    said = f"{found[0].mark}: no metric reads the expected answer of {_names(found)}: {_REMEDY}"
    return (mask_quotations(said, suite.secrets),)


def _cases_without(suite: Suite, compares: Callable[[Metric], bool]) -> Sequence[Case]:
    """Return the cases with an expected answer for which no metric fulfils a condition."""
    if suite.policy.ground_truth == "unused":
        return ()
    known: dict[int, bool] = {}

    def is_compared(case: Case, turn: Turn) -> bool:
        for metric in _metrics_of(case, turn):
            if id(metric) not in known:
                known[id(metric)] = compares(metric)
            if known[id(metric)]:
                return True
        return False

    return [
        case
        for case in suite.cases
        if any(turn.ground_truth is not None and not is_compared(case, turn) for turn in case.turns)
    ]


def _metrics_of(case: Case, turn: Turn) -> Iterable[Metric]:
    """Yield the metrics that are evaluated on a turn, and those of the whole conversation."""
    last = case.turns[-1]
    for spec in turn.metrics:
        if skip_reason(spec, turn) is None:
            yield spec.config
    for spec in last.metrics if last is not turn else ():
        if spec.config.concerns_conversation and skip_reason(spec, last) is None:
            yield spec.config


def _names(cases: Sequence[Case]) -> str:
    named = ", ".join(quoted(case.name or case.id) for case in cases[:_NAMED])
    more = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
    return f"{count_phrase(len(cases), 'case')} ({named}{more})"
