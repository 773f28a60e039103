"""The comment on a pull request: changes and failures first, everything else folded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import OUTCOMES, ExitCode, worst_exit_code
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.reports.comment.changes import Change, State, compare, suite_keys
from holodeck_action.reports.comment.comment_view import comment_variables
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.size_limit import COMMENT, IN_THE_RECORD, Detail, SizeLimit, cut, fit
from holodeck_action.reports.custom import CustomTemplate, TemplateError, render_custom
from holodeck_action.reports.first_lines import first_notices, prepend_notices
from holodeck_action.reports.headline import MARKDOWN, headline
from holodeck_action.reports.phrases import SIGNS
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.templating import mark_of, place, shipped_template
from holodeck_action.reports.terms import PULL_REQUEST
from holodeck_action.reports.untrusted import Fields, text_of, wrap
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.prose import prose

_NO_VERDICT_REASONS: dict[int, str] = {
    ExitCode.CONFIGURATION: "the configuration is invalid, and nothing was evaluated",
    ExitCode.STOPPED: "the run was stopped",
}
_BLANK = lazy_pattern(r"\n{3,}")
_PROBLEM = lazy_pattern(r"([^\s:]+(?::[0-9]+){1,2}): (.+)", re.DOTALL)
_PROBLEMS_SHOWN = 50
_PASSED_SHOWN = 100
_NAMED = 5
_MIN_SECTION = 1000
"""Minimum bytes for a useful section about a suite."""


def render_comment(
    reports: Sequence[Report],
    marker: str,
    context: LinkContext,
    now: State,
    earlier_state: State | None,
    template: CustomTemplate | None,
    note: Callable[[str], None],
) -> str:
    """Return the comment about suites that ran, within `size_limit.COMMENT`.

    `now` is the state to store in the comment. `earlier_state` is the state in the existing comment; None if there is
    no such comment or state. Links lead to the commit of `now`.
    """
    now = now.compared_with(earlier_state)
    text = _CommentText(_at_commit(context, now), now.exit_code, template, note)
    found = [compare(report, key, now.before) for report, key in zip(reports, suite_keys(reports), strict=True)]
    return _assemble(f"{marker}\n{now.encode()}\n", lambda room: text.render(reports, found, room), rest_text(context))


def render_problem(
    problems: Sequence[str], marker: str, context: LinkContext, now: State, earlier_state: State | None = None
) -> str:
    """Return the comment for a run that evaluated nothing, with the reasons; it replaces a comment with an older
    verdict."""
    now = now.compared_with(earlier_state)
    context = _at_commit(context, now)
    text = problem_text(problems, now.exit_code, context, commit=True)
    return _assemble(f"{marker}\n{now.encode()}\n", lambda _: text, rest_text(context))


def render_markdown(text: str, marker: str, context: LinkContext, now: State) -> str:
    """Return the comment with a report that an extension has rendered, within `size_limit.COMMENT`."""
    context = _at_commit(context, now)
    subject = [f"**{prose(context.comment_id, 80)}**", ""] if context.comment_id else []
    lines = [*subject, text.rstrip("\n"), *_footer_lines(context, context.commit(context.sha))]
    whole = "\n".join(lines) + "\n"
    return _assemble(f"{marker}\n{now.encode()}\n", lambda _: whole, rest_text(context))


def problem_text(problems: Sequence[str], exit_code: int, context: LinkContext, *, commit: bool = False) -> str:
    """Return Markdown that lists the problems with their positions; with `commit`, the last line names the commit."""
    lines = [f"> [!{'CAUTION' if exit_code == ExitCode.CONFIGURATION else 'WARNING'}]"]
    subject = f"{prose(context.comment_id, 80)} · no" if context.comment_id else "No"
    count = f" {count_phrase(len(problems), 'mistake')}:" if exit_code == ExitCode.CONFIGURATION and problems else ""
    effect = "" if exit_code == ExitCode.CONFIGURATION else _effect_text(context, None)
    lines += [f"> **{subject} verdict: {no_verdict_text(exit_code)}.**{count}{effect}", ""]
    lines += [f"- {_problem_markdown(problem)}" for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"- … and {len(problems) - _PROBLEMS_SHOWN:,} more")
    return "\n".join([*lines, *_footer_lines(context, context.commit(context.sha) if commit else None)]) + "\n"


def _effect_text(context: LinkContext, outcome: str | None) -> str:
    """Return a clause whether a run without a verdict blocks the merge; an empty string if there is a verdict."""
    never = context.check_fails == "never"
    effect = "does not block the merge" if never else "blocks the merge if the check is required"
    return f" · {effect}" if context.check_fails and outcome not in ("passed", "failed") else ""


def _footer_lines(context: LinkContext, commit: str | None) -> list[str]:
    """Return the lines of small print at the end of a comment: the commit and the run; none if both are unknown."""
    parts = [*([f"commit {commit}"] if commit is not None else []), *([context.run_links] if context.run_url else [])]
    return ["", f"<sub>{' · '.join(parts)}</sub>"] if parts else []


def _problem_markdown(problem: str) -> str:
    found = _PROBLEM.fullmatch(problem)
    if found is None:
        return prose(problem, 1000)
    return f"{inline_code(found[1], 200)} {prose(found[2], 1000)}"


def no_verdict_text(exit_code: int) -> str:
    """Return the reason why a run with this exit code has no verdict."""
    return _NO_VERDICT_REASONS.get(exit_code, "the evaluation could not run")


def rest_text(context: LinkContext) -> str:
    """Return a clause for the end of a cut text that refers to the complete report."""
    return f"for the rest see {context.run}" if context.run_url else IN_THE_RECORD


def _at_commit(context: LinkContext, now: State) -> LinkContext:
    return replace(context, sha=now.sha)


def _assemble(head: str, body: Callable[[int], str], footer: str) -> str:
    """Return the head followed by the body, cut to the size of a comment; the head is never cut. `body` returns the
    body for a maximum size in bytes."""
    text = head + body(COMMENT.bytes - len(head.encode()))
    return text if COMMENT.holds(len(text), len(text.encode())) else cut(text, COMMENT, footer)


class _CommentText(Struct, frozen=True):
    """Renders the text of a comment; the fields apply to all suites."""

    context: LinkContext
    exit_code: int
    template: CustomTemplate | None
    note: Callable[[str], None]

    def render(self, reports: Sequence[Report], changes: Sequence[Change | None], max_bytes: int) -> str:
        """Return the text about suites, at most `max_bytes`: failed suites in detail, then a line per passed suite."""
        alone = len(reports) == 1 and reports[0].exit_code == self.exit_code
        if alone:
            return self._suite_text(reports[0], changes[0], SizeLimit(max_bytes - 1, max_bytes - 1), alone=True) + "\n"
        whole = [(report, change) for report, change in zip(reports, changes, strict=True) if self._is_detailed(report)]
        green = [report for report in reports if not self._is_detailed(report)]
        told = [report for report in reports if report.outcome != "passed"][:_NAMED]
        parts = [self._overview(reports, told)]
        last = self._passed_lines(green)
        max_bytes -= len(parts[0].encode()) + len(last.encode())
        for left, (report, change) in zip(range(len(whole), 0, -1), whole, strict=True):
            share = max_bytes // left - 1
            if share < _MIN_SECTION:
                parts.append(
                    f"\n_There is no room for {count_phrase(left, 'more suite')}: {rest_text(self.context)}._\n\n"
                )
                break
            parts.append(
                self._suite_text(report, change, SizeLimit(share, share), alone=False, in_overview=report in told)
                + "\n"
            )
            max_bytes -= len(parts[-1].encode())
        return "".join([*parts, last])

    def _is_detailed(self, report: Report) -> bool:
        return report.outcome != "passed" or self.template is not None

    def _suite_text(
        self, report: Report, change: Change | None, limit: SizeLimit, *, alone: bool, in_overview: bool = False
    ) -> str:
        """Return the section about a suite.

        Args:
            report: the suite's report.
            change: the changes since the previous comment.
            limit: maximum size.
            alone: whether no other suite is in the comment.
            in_overview: whether the overview has the suite's headline.
        """
        if self.template is not None:
            commit = self.context.commit(self.context.sha) if alone else None
            head = "" if commit is None else f"Commit {commit}\n\n"
            notices = first_notices([report], PULL_REQUEST) if alone else []
            room = limit.without(head + "\n\n".join([*notices, ""]))
            try:
                return prepend_notices(
                    notices, head + render_custom(self.template, report, room, footer=rest_text(self.context))
                )
            except TemplateError as error:
                self.note(f"{error}; the built-in report is used instead")
        names = (self.context.comment_id, report.suite)
        given = {
            "report": wrap(report),
            "alone": alone,
            "subject": " · ".join(dict.fromkeys(prose(name, 80) for name in names if name)),
            "change": change,
            "told": in_overview,
            "effect": _effect_text(self.context, report.outcome),
            "commit": self.context.commit(self.context.sha) if alone else None,
            "base_commit": report.comparison and self.context.commit(report.comparison.base.commit),
            "run": self.context.run_links if alone and self.context.run_url else None,
            "linked": lambda source, shown=None: self._linked_place(report, source, shown),
            **comment_variables(report),
        }

        def render(detail: Detail) -> Iterator[str]:
            return shipped_template("comment.md.j2").generate(detail=detail, **given)

        return _BLANK.sub("\n\n", fit(render, limit, rest_text(self.context)))

    def _overview(self, reports: Sequence[Report], with_headline: Sequence[Report]) -> str:
        """Return the overview of all suites' verdicts, with the headlines of some of them."""
        subject = f"{prose(self.context.comment_id, 80)} · " if self.context.comment_id else ""
        red = [report for report in reports if report.outcome != "passed"]
        outcome = OUTCOMES.get(self.exit_code)
        if outcome == "passed":
            lines = [f"✅ **{subject}{'all' if subject else 'All'} {len(reports)} suites passed**"]
        else:
            lines = [f"> [!{'CAUTION' if outcome == 'failed' else 'WARNING'}]"]
            what = "failed" if outcome == "failed" else "have no verdict"
            lines += [f"> **{subject}{len(red)} of {len(reports)} suites {what}**"]
            if worst_exit_code(report.exit_code for report in reports) != self.exit_code:
                lines[-1] += f" · the run and its suites ended differently; see the log of {self.context.run}"
            lines[-1] += "".join(
                f"<br>{headline(report, MARKDOWN).markdown(prose(report.suite, 80), ' · ')}" for report in with_headline
            )
            lines[-1] += f"<br>and {len(red) - len(with_headline)} more" if len(red) > len(with_headline) else ""
            lines[-1] += _effect_text(self.context, outcome)
        lines[-1] += "".join(f"<br>{notice}" for notice in first_notices(reports, PULL_REQUEST))
        return "\n".join(lines) + "\n\n"

    def _passed_lines(self, reports: Sequence[Report]) -> str:
        lines = [f"**{count_phrase(len(reports), 'suite')} passed**", ""] if reports else []
        lines += [
            f"- {SIGNS['passed']} {prose(report.suite, 80)} · {headline(report, MARKDOWN).text}"
            for report in reports[:_PASSED_SHOWN]
        ]
        if len(reports) > _PASSED_SHOWN:
            lines.append(f"- … and {len(reports) - _PASSED_SHOWN} more that passed")
        return "\n".join([*lines, *_footer_lines(self.context, self.context.commit(self.context.sha))]) + "\n"

    def _linked_place(self, report: Report, source: Fields, text: str | None) -> str:
        """Return a link to the line of a position, or plain text if no link is possible."""
        return self.context.source(
            report.provenance.folder, mark_of(source), text_of(place(source, report.folder)), text
        )
