"""The headline of a suite: the fact that decides its verdict and the first cause, in the same words in every report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from holodeck_action.decide.compare.comparison import Comparison, count_gating
from holodeck_action.decide.compare.regressions import MAX_REGRESSIONS, ON_REGRESSED
from holodeck_action.decide.decision import EVERY_GATE_HOLDS, OTHER_GATES_HOLD
from holodeck_action.decide.error_table import ACTIONS
from holodeck_action.decide.gates import MIN_PASS_RATE, gate_sentence
from holodeck_action.decide.loosened_gate import ON_LOOSENED
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.verdict import GateVerdict
from holodeck_action.reports.causes import Cause, causes_of
from holodeck_action.reports.comparison import base_name, cases_text, rate_text, significant_rate_text
from holodeck_action.reports.phrases import VERDICTS
from holodeck_action.reports.report_views import Report
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line

_GATES_NAMED = 3
"""Maximum number of violated gates in a headline."""
_NAMED = 5
LONGEST_CAUSE = 240
"""Maximum number of characters of a cause's reason in a headline."""
_BASE_GATES = (MAX_REGRESSIONS, ON_REGRESSED, ON_LOOSENED)
"""Gates for which the headline of a compared run has its own words."""


class Style(Struct, frozen=True):
    """The functions that make untrusted texts safe for a headline.

    Attributes:
        name: returns the name of a base in a safe form.
        text: returns a text in a safe form, cut to a maximum number of characters.
    """

    name: Callable[[str], str]
    text: Callable[[str, int], str]


def _prose(text: str, limit: int) -> str:
    # A console needs no Markdown.
    from holodeck_action.text.prose import prose

    return prose(text, limit)


MARKDOWN = Style(lambda name: inline_code(name, 80), _prose)
PLAIN = Style(lambda name: one_line(name, 80), one_line)


class Headline(Struct, frozen=True):
    """A suite's verdict in one to three lines.

    Attributes:
        decisive: the fact that decides the verdict, such as `3 of 40 cases got worse than main`.
        rest: further facts, to append to `decisive`; begins with a separator, or is empty.
        cause: the first cause of the cases that did not pass; empty if there is none.
        only_cause: whether all of these cases have this cause.
        further: clauses on other violated gates and on the other cases; empty if there are none.
    """

    decisive: str
    rest: str = ""
    cause: str = ""
    only_cause: bool = False
    further: str = ""

    @property
    def text(self) -> str:
        """The whole headline on one line."""
        return " · ".join(filter(None, [f"{self.decisive}{self.rest}", self.cause, self.further]))

    def markdown(self, subject: str = "", line_end: str = "<br>") -> str:
        """Return the headline with its decisive part in bold. The cause is on the first line if there is no other.

        Args:
            subject: trusted Markdown before the decisive part.
            line_end: the separator of lines.
        """
        first = f"**{' · '.join(filter(None, [subject, self.decisive]))}**{self.rest}"
        lines = [f"{first} · {self.cause}"] if self.only_cause else [first, self.cause]
        return line_end.join(filter(None, [*lines, self.further]))


def headline(report: Report, style: Style, *, causes: Sequence[Cause] | None = None) -> Headline:
    """Return the headline of a suite.

    Args:
        report: the suite's report.
        style: the functions for untrusted texts.
        causes: the causes of the report's failing cases; None to compute them.
    """
    if report.outcome == "passed":
        why = "" if _all_gates_hold(report) else f" · {style.text(report.reason, 300)}"
        return Headline(passed_text(report), f"{_base_clause(report, style)}{_end_clause(report, style)}{why}")
    if report.outcome == "stopped":
        return Headline(f"no verdict: {style.text(report.reason, 300)}", f" · {passed_text(report)}")
    causes = causes_of(report) if causes is None else causes
    if report.outcome == "failed":
        return _failed_headline(report, style, causes)
    return _incomplete_headline(report, style, causes)


def verdict_line(report: Report, causes: Sequence[Cause] | None = None) -> str:
    """Return the verdict, the suite's name and the headline as one line of plain text.

    Args:
        report: the suite's report.
        causes: the causes of the report's failing cases; None to compute them.
    """
    said = headline(report, PLAIN, causes=causes)
    return f"{VERDICTS[report.outcome]}: {one_line(report.suite, 100)} · {said.text}"


def passed_text(report: Report) -> str:
    """Return the number of passed cases, out of all cases that can pass or fail, such as `37 of 40 passed`."""
    total = _gating_cases(report)
    return f"{report.counts.passed:,} of {total:,} passed" if total else "no case could pass or fail"


def is_unchanged(comparison: Comparison) -> bool:
    """Return whether every case was compared, none got worse or better, and each has the outcome of the base's own
    report."""
    return (
        comparison.complete
        and comparison.same_outcomes
        and not (comparison.regressed or comparison.fixed or comparison.flaky or comparison.unpaired)
    )


def _gating_cases(report: Report) -> int:
    counts = report.counts
    return counts.passed + counts.failed + counts.error + (0 if report.end else counts.skipped)


def _end_clause(report: Report, style: Style) -> str:
    return f" · {style.text(report.end, 240)}" if report.end else ""


def _base_clause(report: Report, style: Style) -> str:
    comparison = report.comparison
    if comparison is None:
        missing = report.base_missing
        return "" if missing is None else f" · not compared with a base: {style.text(missing, 300)}"
    base = style.name(base_name(comparison.base))
    if is_unchanged(comparison):
        return f", as on {base}"
    if worse := count_gating(comparison.regressed):
        return f" · {worse} of {_compared_cases_text(comparison)} got worse than {base}"
    return f" · {_no_regression_text(comparison, style)}"


def _all_gates_hold(report: Report) -> bool:
    """Return whether every gate holds, except gates that need a missing base."""
    if report.base_missing is None or not report.reason.startswith(OTHER_GATES_HOLD):
        return report.reason == EVERY_GATE_HOLDS
    return all(gate.name in _BASE_GATES for gate in report.gates if gate.state == "skipped")


def _failed_headline(report: Report, style: Style, causes: Sequence[Cause]) -> Headline:
    comparison = report.comparison
    failed = [gate for gate in report.gates if gate.state == "failed"]
    worse = 0 if comparison is None else count_gating(comparison.regressed)
    if comparison is not None and worse:
        decisive = (
            f"{worse} of {_compared_cases_text(comparison)} got worse than {style.name(base_name(comparison.base))}"
        )
        limits = [int(gate.required) for gate in failed if gate.name == MAX_REGRESSIONS]
        rest = "".join(f" ({limit} allowed)" for limit in limits if limit)
        better = count_gating(comparison.fixed)
        others = f"{cases_text(better)} got better" if better else ""
        # If no other case failed, the pass rate says the same again.
        said = MIN_PASS_RATE if limits and worse == report.counts.failed else None
        reasons = list(_violation_clauses([gate for gate in failed if gate.name != said], comparison, style))
    else:
        decisive, *reasons = list(_violation_clauses(failed, comparison, style)) or [_failing_text(report)]
        rest, others = "", "" if comparison is None else _no_regression_text(comparison, style)
    more = [f"and {count_phrase(len(reasons) - _GATES_NAMED, 'more gate')}"] if len(reasons) > _GATES_NAMED else []
    clauses = [others, *reasons[:_GATES_NAMED], *more, style.text(report.end, 240) if report.end else ""]
    return Headline(decisive, rest, _cause_text(causes, style), len(causes) == 1, " · ".join(filter(None, clauses)))


def _cause_text(causes: Sequence[Cause], style: Style) -> str:
    """Return the first cause with its case or number of cases."""
    if not causes:
        return ""
    cause = causes[0]
    count = len(cause.cases)
    subjects = [f"{count:,} cases"] if count > 1 and len(causes) > 1 else []
    if count == 1 or cause.example:
        named = style.text(cause.cases[0].title, 80)
        subjects.append(named if count == len(causes) == 1 else f"for example {named}")
    why = style.text(cause.example or cause.shared or cause.reason, LONGEST_CAUSE)
    return f"{', '.join(subjects)}{': ' if subjects else ''}{why}{_action_text(cause)}"


def _action_text(cause: Cause) -> str:
    """Return the required action on an error; empty for a configuration error, whose message names the action."""
    return "" if cause.actor in (None, "configuration") else f" · {ACTIONS[cause.actor]}"


def _failing_text(report: Report) -> str:
    failed = report.counts.failed
    return f"{count_phrase(failed, 'case')} failed" if failed else "a gate is violated"


def _violation_clauses(failed: list[GateVerdict], comparison: Comparison | None, style: Style) -> Iterator[str]:
    """Yield a clause for each violated gate; gates on the comparison get wording that only headlines use."""
    names = {gate.name for gate in failed}
    if comparison is not None and ON_REGRESSED in names:
        yield _regression_text(comparison, style)
    for gate in failed:
        if comparison is None or gate.name not in _BASE_GATES:
            yield style.text(gate_sentence(gate), 240)
    if comparison is not None and ON_LOOSENED in names:
        terms = comparison.terms
        only_code = terms is not None and all(change.without_direction for change in terms.failing_changes)
        what = (
            "code that grades or recordings differ from the base"
            if only_code
            else "the terms are less strict than on the base"
        )
        yield f"{what}, which is not allowed"


def _incomplete_headline(report: Report, style: Style, causes: Sequence[Cause]) -> Headline:
    counts = report.counts
    total = cases_text(_gating_cases(report))
    unjudged = [(counts.error, "could not be evaluated"), (counts.skipped, "did not run")]
    broken = [f"{number:,} of {total} {what}" for number, what in unjudged if number]
    if report.end or not broken:
        rest = f" · {passed_text(report)}{_end_clause(report, style)}"
        return Headline(f"no verdict: {style.text(report.reason, 300)}", rest)
    rest = "" if causes else f": {style.text(report.reason, 200)}"
    cause = _cause_text(causes, style)
    return Headline(f"no verdict: {' and '.join(broken)}", rest, cause, len(causes) == 1, passed_text(report))


def _compared_cases_text(comparison: Comparison) -> str:
    whole = comparison.complete and not comparison.unpaired
    return count_phrase(comparison.paired, "case" if whole else "compared case")


def _no_regression_text(comparison: Comparison, style: Style) -> str:
    """Return a clause that no case got worse than on the base, or that no case can be compared."""
    base = style.name(base_name(comparison.base))
    if not comparison.paired:
        return f"no case can be compared with {base}"
    which = "case" if comparison.complete and not comparison.unpaired else "compared case"
    counts = (
        (count_gating(comparison.fixed), "better"),
        (count_gating(comparison.flaky), "flaky"),
        (count_gating(comparison.undecided), "undecided"),
    )
    others = "".join(f", {count} {what}" for count, what in counts if count)
    return f"no {which} got worse than {base}{others}"


def _regression_text(comparison: Comparison, style: Style) -> str:
    """Return a clause about a loss beyond chance: the pass rates, else the names of the metrics that are worse."""
    rate = comparison.pass_rate
    if rate is not None and rate.state == "regressed":
        return significant_rate_text(rate) if rate.significant else rate_text(comparison)
    names = [style.text(name, 60) for name, change in comparison.measures(gating=True) if change.state == "regressed"]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"worse beyond chance: {', '.join(names[:_NAMED])}{more}"
