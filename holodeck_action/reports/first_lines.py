"""The first lines of a report with a comparison: the number of compared cases, differing targets, changed terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from holodeck_action.decide.compare.comparison import Comparison, Why
from holodeck_action.reports.comparison import base_name
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.terms import RUN, terms_notice, terms_sentence
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line

_NAMED = 3
_NOTICE_LINES = 4
"""Number of lines at the start of a template's output in which a notice counts as shown."""
_OMITTED_KINDS: tuple[Why, ...] = ("changed", "added")


def first_sentences(comparison: Comparison | None) -> list[str]:
    """Return the first lines of a report as plain text: about the comparison, then about the terms."""
    return [line for line in (_compared_text(comparison, _plain_text), terms_sentence(comparison)) if line]


def comparison_notices(comparison: Comparison | None, subject: str = RUN) -> list[str]:
    """Return the lines of `first_sentences` as Markdown."""
    compared = _compared_text(comparison, lambda text: inline_code(text, 80))
    # No warning sign for new cases that pass.
    sign = "⚠️ " if comparison is not None and (comparison.targets or not comparison.complete) else ""
    return [line for line in (compared and f"{sign}{compared}", terms_notice(comparison, subject)) if line]


def first_notices(reports: Sequence[Report], subject: str = RUN, max_suites: int = _NAMED) -> list[str]:
    """Return the first lines of the first `max_suites` suites as Markdown, with each suite's name if there are
    several."""
    if len(reports) == 1:
        return comparison_notices(reports[0].comparison, subject)
    from holodeck_action.text.prose import prose

    found = [(report, comparison_notices(report.comparison, subject)) for report in reports]
    said = [(report, notices) for report, notices in found if notices]
    lines = [f"{notice} in {prose(report.suite, 80)}" for report, notices in said[:max_suites] for notice in notices]
    return lines + ([f"⚠️ and {len(said) - max_suites} more suites"] if len(said) > max_suites else [])


def prepend_notices(notices: Sequence[str], text: str) -> str:
    """Return the output of a user's template, preceded by the notices that are not in its first lines.

    A pull request can change the template, so the template must not decide whether notices are shown.
    """
    lines = text.split("\n")[:_NOTICE_LINES]
    visible = lines[: next((at for at, line in enumerate(lines) if "<" in line and line not in notices), len(lines))]
    return "".join(f"{notice}\n\n" for notice in notices if notice not in visible) + text


def _compared_text(comparison: Comparison | None, format_name: Callable[[str], str]) -> str:
    """Return a line with the number of compared cases, if not all were compared, and the targets, if they differ."""
    if comparison is None:
        return ""
    base = format_name(base_name(comparison.base))
    parts = []
    if comparison.left_out or not comparison.complete:
        counts = Counter(case.why for case in comparison.unpaired)
        unseen = comparison.failing_unseen
        fails = f" ({unseen:,} not compared {'fails' if unseen == 1 else 'fail'} now)" if unseen else ""
        removed = f"; {counts['removed']:,} removed" if counts["removed"] else ""
        left = ", ".join(_omission_texts(comparison, base))
        parts.append(f"Compared {comparison.part} with {base}: {left}{fails}{removed}")
    # If two targets run side by side, the base is called by its target's name.
    if comparison.targets is not None and comparison.targets[0] != comparison.base.name:
        asked, now = comparison.targets
        parts.append(f"{base} was evaluated through {format_name(asked)}, this run through {format_name(now)}")
    return " · ".join(parts)


def _omission_texts(comparison: Comparison, base: str) -> Iterator[str]:
    """Yield clauses with the number of cases that are not compared, and of cases that are only partly compared."""
    counts = Counter(case.why for case in comparison.left_out)
    on_base, now = comparison.unknown_base.cases, comparison.unknown_now.cases
    if on_base:
        yield f"{on_base:,} not fully evaluated on {base}"
    if now:
        yield f"{now:,} not fully evaluated in this run"
    if counts["not evaluated"] and not on_base and not now:
        yield f"{counts['not evaluated']:,} not evaluated on both sides"
    yield from (f"{counts[why]:,} {why}" for why in _OMITTED_KINDS if counts[why])


def _plain_text(text: str) -> str:
    return one_line(text, 80)
