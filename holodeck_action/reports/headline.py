"""The headline of a suite: the fact that decides its verdict, in the same words in every report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from holodeck_action.decide.compare.comparison import Comparison, count_gating
from holodeck_action.decide.compare.regressions import CASES, REGRESSED, permitted_text
from holodeck_action.decide.decision import EVERY_GATE_HOLDS, OTHER_GATES_HOLD
from holodeck_action.decide.exam_gate import LOOSENED
from holodeck_action.decide.gates import gate_sentence
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.verdict import GateVerdict
from holodeck_action.reports.causes import Cause, causes_of
from holodeck_action.reports.comparison import base_name, cases_text, rate_text
from holodeck_action.reports.phrases import VERDICTS
from holodeck_action.reports.report_views import Report
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose

_REASONS = 3
"""Maximum number of violated gates in a headline."""
_NAMED = 5
_BASE_GATES = (CASES, REGRESSED, LOOSENED)
"""Gates that the headline of a compared run words itself."""

ACTIONS = {
    "configuration": "You must act: change what the message names, in the suite or in the job's secrets.",
    "budget": "You must act: raise the budget, or run fewer cases.",
    "service": "The model's provider must act: run the job again later.",
    "judge": "The judge gave no usable verdict: run the job again, or choose another judge.",
    "agent": "The agent must be repaired: it gave no answer that could be graded.",
    "metric": "The metric must be repaired: its own code failed.",
}
"""For each actor of an error, the required action."""


class Style(Struct, frozen=True):
    """How a headline shows untrusted texts.

    Attributes:
        name: takes the name of a base; returns the text to show.
        text: takes a text and the maximum number of characters; returns the text to show.
    """

    name: Callable[[str], str]
    text: Callable[[str, int], str]


MARKDOWN = Style(lambda name: inline_code(name, 80), prose)
PLAIN = Style(lambda name: one_line(name, 80), one_line)


class Headline(Struct, frozen=True):
    """A suite's verdict in one line.

    Attributes:
        decisive: the fact that decides the verdict, such as `3 of 40 cases got worse than main`.
        rest: further facts, to append to `decisive`; begins with a separator, or is empty.
    """

    decisive: str
    rest: str

    @property
    def text(self) -> str:
        """The whole line."""
        return f"{self.decisive}{self.rest}"


def headline(
    report: Report, style: Style, *, causes: Sequence[Cause] | None = None, base_details: str = ""
) -> Headline:
    """Return the headline of a suite.

    Args:
        report: the suite's report.
        style: how to show untrusted texts.
        causes: the causes of the report's failing cases; None to compute them.
        base_details: follows the name of the base, such as its commit in brackets; trusted.
    """
    if report.outcome == "passed":
        why = "" if _holds_all(report) else f" · {style.text(report.reason, 300)}"
        return Headline(passed_text(report), f"{_after_passed(report, style, base_details)}{why}")
    if report.outcome == "failed":
        return _failed(report, style, base_details)
    if report.outcome == "stopped":
        return Headline(f"no verdict: {style.text(report.reason, 300)}", f" · {passed_text(report)}")
    return _incomplete(report, style, causes_of(report) if causes is None else causes)


def verdict_line(report: Report, causes: Sequence[Cause] | None = None) -> str:
    """Return the verdict, the suite's name and the headline as one line of plain text.

    Args:
        report: the suite's report.
        causes: the causes of the report's failing cases; None to compute them.
    """
    said = headline(report, PLAIN, causes=causes)
    return f"{VERDICTS[report.outcome]}: {one_line(report.suite, 100)} · {said.text}"


def passed_text(report: Report) -> str:
    """Return the number of cases that passed, of all that can pass or fail."""
    total = _total(report)
    return f"{report.counts.passed:,} of {total:,} passed" if total else "no case could pass or fail"


def is_unchanged(comparison: Comparison) -> bool:
    """Return whether every case was compared, and none got worse or better."""
    return comparison.complete and not (comparison.regressed or comparison.fixed or comparison.unpaired)


def _total(report: Report) -> int:
    counts = report.counts
    return counts.passed + counts.failed + counts.error + counts.skipped


def _after_passed(report: Report, style: Style, base_details: str) -> str:
    comparison = report.comparison
    if comparison is None:
        missing = report.base_missing
        return "" if missing is None else f" · not compared with a base: {style.text(missing, 300)}"
    base = f"{style.name(base_name(comparison.base))}{base_details}"
    if is_unchanged(comparison):
        return f", as on {base}"
    if worse := count_gating(comparison.regressed):
        return f" · {worse} of {_compared_cases(comparison)} got worse than {base}"
    return f" · {_steady_text(comparison, style, base_details)}"


def _holds_all(report: Report) -> bool:
    """Return whether every gate holds, apart from those that need the base that is missing."""
    if report.base_missing is None or not report.reason.startswith(OTHER_GATES_HOLD):
        return report.reason == EVERY_GATE_HOLDS
    return all(gate.name in _BASE_GATES for gate in report.gates if gate.state == "skipped")


def _failed(report: Report, style: Style, base_details: str) -> Headline:
    comparison = report.comparison
    failed = [gate for gate in report.gates if gate.state == "failed"]
    reasons = list(_reasons(failed, comparison, style))
    worse = 0 if comparison is None else count_gating(comparison.regressed)
    if comparison is not None and worse:
        decisive = f"{worse} of {_compared_cases(comparison)} got worse than {style.name(base_name(comparison.base))}"
        limits = [f"; {permitted_text(int(gate.required))}" for gate in failed if gate.name == CASES]
        better = count_gating(comparison.fixed)
        first = "".join([base_details, *limits, f" · {better} better" if better else ""])
        further = reasons[:_REASONS]
    else:
        decisive = reasons[0] if reasons else _failing_text(report)
        first = "" if comparison is None else f"; {_steady_text(comparison, style, base_details)}"
        further = reasons[1:_REASONS]
    more = [count_phrase(len(reasons) - _REASONS, "more gate")] if len(reasons) > _REASONS else []
    return Headline(decisive, first + "".join(f" · {reason}" for reason in [*further, *(f"and {n}" for n in more)]))


def _failing_text(report: Report) -> str:
    failed = report.counts.failed
    return f"{count_phrase(failed, 'case')} failed" if failed else "a gate is violated"


def _reasons(failed: list[GateVerdict], comparison: Comparison | None, style: Style) -> Iterator[str]:
    """Yield a clause for each violated gate, those about the base first in the words of a compared run."""
    names = {gate.name for gate in failed}
    if comparison is not None and REGRESSED in names:
        yield _regression_text(comparison, style)
    for gate in failed:
        if comparison is None or gate.name not in _BASE_GATES:
            yield style.text(gate_sentence(gate), 240)
    if comparison is not None and LOOSENED in names:
        yield "the terms are less strict than on the base, which is not allowed"


def _incomplete(report: Report, style: Style, causes: Sequence[Cause]) -> Headline:
    counts = report.counts
    total = cases_text(_total(report))
    unjudged = [(counts.error, "could not be evaluated"), (counts.skipped, "did not run")]
    broken = [f"{number:,} of {total} {what}" for number, what in unjudged if number]
    if not broken:
        return Headline(f"no verdict: {style.text(report.reason, 300)}", f" · {passed_text(report)}")
    decisive = f"no verdict: {' and '.join(broken)}"
    rest = ""
    if len(causes) == 1 and causes[0].actor is not None:
        # An error of the configuration says itself what to change.
        action = "" if causes[0].actor == "configuration" else f" · {ACTIONS[causes[0].actor]}"
        rest = f": {style.text(causes[0].reason, 160)}{action}"
    elif not causes:
        rest = f": {style.text(report.reason, 200)}"
    return Headline(decisive, f"{rest} · {passed_text(report)}")


def _compared_cases(comparison: Comparison) -> str:
    whole = comparison.complete and not comparison.unpaired
    return count_phrase(comparison.paired, "case" if whole else "compared case")


def _steady_text(comparison: Comparison, style: Style, base_details: str) -> str:
    """Return a clause that no case got worse than on the base."""
    base = style.name(base_name(comparison.base))
    if not comparison.paired:
        return f"no case can be compared with {base}{base_details}"
    which = "case" if comparison.complete and not comparison.unpaired else "compared case"
    better = count_gating(comparison.fixed)
    return f"no {which} got worse than {base}{f', {better} better' if better else ''}{base_details}"


def _regression_text(comparison: Comparison, style: Style) -> str:
    """Return a clause on what is worse beyond chance: the pass rate with its numbers, else the names of the metrics."""
    rate = comparison.pass_rate
    if rate is not None and rate.state == "regressed":
        return rate_text(comparison)
    names = [style.text(name, 60) for name, change in comparison.measures(gating=True) if change.state == "regressed"]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"worse beyond chance: {', '.join(names[:_NAMED])}{more}"
