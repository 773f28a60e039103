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
from holodeck_action.reports.comment.places import Place
from holodeck_action.reports.comment.size_limit import COMMENT, IN_THE_RECORD, Detail, SizeLimit, cut, fit
from holodeck_action.reports.custom import CustomTemplate, TemplateError, render_custom
from holodeck_action.reports.exam import PULL_REQUEST
from holodeck_action.reports.first_lines import first_notices, prepend_notices
from holodeck_action.reports.headline import MARKDOWN, headline
from holodeck_action.reports.phrases import SIGNS
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.templating import mark_of, place, shipped_template
from holodeck_action.reports.untrusted import Fields, text_of, wrap
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.prose import prose

_NOTHING: dict[int, str] = {
    ExitCode.CONFIGURATION: "the configuration is invalid, and nothing was evaluated",
    ExitCode.STOPPED: "the run was stopped",
}
_BLANK = re.compile(r"\n{3,}")
_PROBLEM = re.compile(r"([^\s:]+(?::[0-9]+){1,2}): (.+)", re.DOTALL)
_PROBLEMS_SHOWN = 50
_GREEN_SHOWN = 100
_NAMED = 5
_LEAST_SHARE = 1000
"""Minimum bytes for a useful section about a suite."""


def render_comment(
    reports: Sequence[Report],
    marker: str,
    at: Place,
    now: State,
    previous: State | None,
    template: CustomTemplate | None,
    note: Callable[[str], None],
) -> str:
    """Return the comment about suites that ran, within `size_limit.COMMENT`.

    `now` is the state to store in the comment, `previous` the state in the existing comment, None if there is none.
    Links lead to `now`'s commit.
    """
    now = now.compared_with(previous)
    text = _CommentText(_at_commit(at, now), now.exit_code, template, note)
    found = [compare(report, key, now.before) for report, key in zip(reports, suite_keys(reports), strict=True)]
    return _assemble(f"{marker}\n{now.encode()}\n", lambda room: text.of(reports, found, room), rest_text(at))


def render_problem(problems: Sequence[str], marker: str, at: Place, now: State, previous: State | None = None) -> str:
    """Return the comment for a run that evaluated nothing, with the reasons; it replaces a comment with an older
    verdict."""
    now = now.compared_with(previous)
    at = _at_commit(at, now)
    text = problem_text(problems, now.exit_code, at, _commit_suffix(at))
    return _assemble(f"{marker}\n{now.encode()}\n", lambda _: text, rest_text(at))


def problem_text(problems: Sequence[str], exit_code: int, at: Place, more: str = "") -> str:
    """Return Markdown that lists the problems with their positions; `more` is appended to the first line."""
    lines = [f"> [!{'CAUTION' if exit_code == ExitCode.CONFIGURATION else 'WARNING'}]"]
    subject = f"{prose(at.comment_id, 80)} · no" if at.comment_id else "No"
    lines += [f"> **{subject} verdict: {no_verdict_text(exit_code)}.**{more}", ""]
    lines += [f"- {_problem_markdown(problem)}" for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"- … and {len(problems) - _PROBLEMS_SHOWN:,} more")
    return "\n".join([*lines, *_footer_lines(at)]) + "\n"


def _commit_suffix(at: Place) -> str:
    """Return a link to the commit, to end a comment's first line; an empty string if the commit is unknown."""
    commit = at.commit(at.sha)
    return "" if commit is None else f" · commit {commit}"


def _footer_lines(at: Place) -> list[str]:
    """Return the lines of small print at the end of a comment; empty outside a workflow."""
    return ["", f"<sub>{at.more}</sub>"] if at.run_url else []


def _problem_markdown(problem: str) -> str:
    found = _PROBLEM.fullmatch(problem)
    if found is None:
        return prose(problem, 1000)
    return f"{inline_code(found[1], 200)} {prose(found[2], 1000)}"


def no_verdict_text(exit_code: int) -> str:
    """Return the reason why there is no verdict, by exit code."""
    return _NOTHING.get(exit_code, "the evaluation could not run")


def rest_text(at: Place) -> str:
    """Return a clause that tells where to find the rest of a cut text."""
    return f"for the rest see {at.run}" if at.run_url else IN_THE_RECORD


def _at_commit(at: Place, now: State) -> Place:
    return replace(at, sha=now.sha)


def _assemble(head: str, body: Callable[[int], str], rest: str) -> str:
    """Return the head followed by the body, cut to the size of a comment; the head is never cut. `body` gets its byte
    limit."""
    text = head + body(COMMENT.bytes - len(head.encode()))
    return text if COMMENT.holds(len(text), len(text.encode())) else cut(text, COMMENT, rest)


class _CommentText(Struct, frozen=True):
    """Renders the text of a comment; the fields apply to all suites."""

    at: Place
    exit_code: int
    template: CustomTemplate | None
    note: Callable[[str], None]

    def of(self, reports: Sequence[Report], found: Sequence[Change | None], room: int) -> str:
        """Return the text about suites in at most `room` bytes: failed suites in detail, then a line for each passed
        suite."""
        alone = len(reports) == 1 and reports[0].exit_code == self.exit_code
        if alone:
            return self._suite_text(reports[0], found[0], SizeLimit(room - 1, room - 1), alone=True) + "\n"
        whole = [(report, change) for report, change in zip(reports, found, strict=True) if self._is_detailed(report)]
        green = [report for report in reports if not self._is_detailed(report)]
        parts = [self._overview(reports)]
        last = self._passed_lines(green)
        room -= len(parts[0].encode()) + len(last.encode())
        for left, (report, change) in zip(range(len(whole), 0, -1), whole, strict=True):
            share = room // left - 1
            if share < _LEAST_SHARE:
                parts.append(f"\n_There is no room for {count_phrase(left, 'more suite')}: {rest_text(self.at)}._\n\n")
                break
            parts.append(self._suite_text(report, change, SizeLimit(share, share), alone=False) + "\n")
            room -= len(parts[-1].encode())
        return "".join([*parts, last])

    def _is_detailed(self, report: Report) -> bool:
        return report.outcome != "passed" or self.template is not None

    def _suite_text(self, report: Report, change: Change | None, limit: SizeLimit, *, alone: bool) -> str:
        if self.template is not None:
            commit = self.at.commit(self.at.sha) if alone else None
            head = "" if commit is None else f"Commit {commit}\n\n"
            notices = first_notices([report], PULL_REQUEST) if alone else []
            room = limit.without(head + "\n\n".join([*notices, ""]))
            try:
                return prepend_notices(
                    notices, head + render_custom(self.template, report, room, rest=rest_text(self.at))
                )
            except TemplateError as error:
                self.note(f"{error}; the built-in report is used instead")
        base = None if report.comparison is None else report.comparison.base.commit
        given = {
            "report": wrap(report),
            "alone": alone,
            "comment_id": self.at.comment_id,
            "change": change,
            "named": _commit_suffix(self.at) if alone else "",
            "run": self.at.more if alone and self.at.run_url else None,
            "linked": lambda source, shown=None: self._linked_place(report, source, shown),
            **comment_variables(report, self.at.commit(base)),
        }

        def render(detail: Detail) -> Iterator[str]:
            return shipped_template("comment.md.j2").generate(detail=detail, **given)

        return _BLANK.sub("\n\n", fit(render, limit, rest_text(self.at)))

    def _overview(self, reports: Sequence[Report]) -> str:
        """Return the overview of all suites' verdicts."""
        subject = f"{prose(self.at.comment_id, 80)} · " if self.at.comment_id else ""
        red = [report for report in reports if report.outcome != "passed"]
        outcome = OUTCOMES.get(self.exit_code)
        if outcome == "passed":
            lines = [
                f"✅ **{subject}{'all' if subject else 'All'} {len(reports)} suites passed**{_commit_suffix(self.at)}"
            ]
        else:
            lines = [f"> [!{'CAUTION' if outcome == 'failed' else 'WARNING'}]"]
            names = ", ".join(prose(report.suite, 60) for report in red[:_NAMED])
            more = f" and {len(red) - _NAMED} more" if len(red) > _NAMED else ""
            what = "failed" if outcome == "failed" else "have no verdict"
            lines += [f"> **{subject}{len(red)} of {len(reports)} suites {what}**{f': {names}{more}' if names else ''}"]
            if worst_exit_code(report.exit_code for report in reports) != self.exit_code:
                lines[-1] += f" · the run and its suites ended differently; see the log of {self.at.run}"
            lines[-1] += _commit_suffix(self.at)
        lines[-1] += "".join(f"<br>{notice}" for notice in first_notices(reports, PULL_REQUEST))
        return "\n".join(lines) + "\n\n"

    def _passed_lines(self, reports: Sequence[Report]) -> str:
        lines = [
            f"- {SIGNS['passed']} {prose(report.suite, 80)} · {headline(report, MARKDOWN).text}"
            for report in reports[:_GREEN_SHOWN]
        ]
        if len(reports) > _GREEN_SHOWN:
            lines.append(f"- … and {len(reports) - _GREEN_SHOWN} more that passed")
        return "\n".join([*lines, *_footer_lines(self.at)]) + "\n"

    def _linked_place(self, report: Report, source: Fields, shown: str | None) -> str:
        """Return a position as a link to its line, or as plain text if no link is possible."""
        return self.at.source(report.provenance.folder, mark_of(source), text_of(place(source, report.folder)), shown)
