"""The text of the comment on a pull request and of the check run: shorter than the job summary, with links to lines.

Links lead only to the repository and the run that the caller names; the path in one is checked and percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from holodeck_action.reports.changes import Change, State, compare, keys
from holodeck_action.reports.custom import CustomTemplate, TemplateError, custom_markdown
from holodeck_action.reports.phrases import SIGNS, VERDICTS, WORDS, repository_path, tally
from holodeck_action.reports.size_limit import CHECK, COMMENT, IN_THE_RECORD, Detail, SizeLimit, cut, fit
from holodeck_action.reports.templating import actual, place, required, shipped_template
from holodeck_action.reports.untrusted import Fields, text_of, wrap
from holodeck_action.results.exit_codes import OUTCOMES, ExitCode, worst_exit_code
from holodeck_action.results.report_views import Report
from holodeck_action.results.verdict import (
    GateVerdict,
)
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.code_spans import cell, fence, inline_code
from holodeck_action.text.plain import one_line

TITLE_LIMIT = 255
"""Characters of a check run's title (GitHub's description of the Checks API)."""

_NOTHING: dict[int, tuple[str, str]] = {
    ExitCode.CONFIGURATION: ("❌", "the configuration cannot be used, nothing was evaluated"),
    ExitCode.STOPPED: ("⏹️", "the run was stopped"),
}
_NO_VERDICT = ("⚠️", "the evaluation could not run")

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_GATES_SHOWN = 3
_PROBLEMS_SHOWN = 14_000
"""Characters of problems, which take at most four bytes each."""
_OVERVIEW = 20_000
"""Bytes of the table of several suites."""
_LEAST_SHARE = 1000
"""Bytes below which a suite's own part says nothing that the table of the suites does not."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text is published: trusted facts that its links are made of.

    Attributes:
        server: such as `https://github.com`, without a slash at the end.
        repository: `owner/name`.
        sha: the commit it is about; None where it is not known, which leaves links to lines out.
        run_url: the workflow's run; None outside of one.
    """

    server: str
    repository: str
    sha: str | None
    run_url: str | None


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

    `now` is what the comment is to remember, `previous` what the one that stands there does. Links lead to its commit.
    """
    now = now.following(previous)
    text = _Text(Place(at.server, at.repository, now.sha, at.run_url), now.exit_code, template, note)
    found = [compare(report, key, now.before) for report, key in zip(reports, keys(reports), strict=True)]
    return _whole(f"{marker}\n{now.encode()}\n", lambda room: text.of(reports, found, room), COMMENT, text.rest)


def render_problem(problems: Sequence[str], marker: str, at: Place, now: State, previous: State | None = None) -> str:
    """Return the comment that replaces an older verdict when there is none: nothing was evaluated, and why."""
    now = now.following(previous)
    text = _Text(Place(at.server, at.repository, now.sha, at.run_url), now.exit_code, None, lambda _: None)
    return _whole(f"{marker}\n{now.encode()}\n", lambda _: text.problem(problems), COMMENT, text.rest)


def render_check(
    reports: Sequence[Report],
    problems: Sequence[str],
    at: Place,
    template: CustomTemplate | None,
    note: Callable[[str], None],
    hidden: int = 0,
    *,
    exit_code: int | None = None,
) -> tuple[str, str]:
    """Return title and summary of a check run: a line of at most `TITLE_LIMIT`, Markdown within `size_limit.CHECK`.

    `hidden` is the number of annotations that the check run does not show. Without an exit code the worst of the
    suites' counts.
    """
    nothing = bool(problems) or not reports
    if exit_code is None:
        exit_code = ExitCode.CONFIGURATION if nothing else worst_exit_code(report.exit_code for report in reports)
    text = _Text(at, exit_code, template, note)
    head = ""
    if hidden > 0:
        head = f"{hidden:,} more annotations are not shown: only the worst ones have room. See {text.run}.\n\n"
    if nothing:
        title = f"NO VERDICT: {_nothing(exit_code)[1]}"
        summary = _whole(head, lambda _: text.problem(problems), CHECK, text.rest)
    else:
        title = _title(reports, exit_code)
        summary = _whole(head, lambda room: text.of(reports, [None] * len(reports), room), CHECK, text.rest)
    return title[:TITLE_LIMIT], summary


def _whole(head: str, body: Callable[[int], str], limit: SizeLimit, rest: str) -> str:
    """Put a text together; the head always stays."""
    text = head + body(limit.bytes - len(head.encode()))
    return text if limit.holds(len(text), len(text.encode())) else cut(text, limit, rest)


@dataclass(frozen=True, slots=True)
class _Text:
    """What all texts of one publication share."""

    at: Place
    exit_code: int
    template: CustomTemplate | None
    note: Callable[[str], None]

    @property
    def run(self) -> str:
        return f"[the run]({self.at.run_url})" if self.at.run_url else "the run"

    @property
    def rest(self) -> str:
        return f"for the rest see {self.run}" if self.at.run_url else IN_THE_RECORD

    @property
    def commit(self) -> str | None:
        return self._commit_link(self.at.sha)

    def _base_commit(self, report: Report) -> str | None:
        """Return the base's commit as a link; None where it is not known."""
        sha = None if report.comparison is None else report.comparison.base.commit
        return self._commit_link(sha)

    def _commit_link(self, sha: str | None) -> str | None:
        if sha is None or not _COMMIT.fullmatch(sha):
            return None
        return f"[`{sha[:7]}`]({self.at.server}/{self.at.repository}/commit/{sha})"

    def problem(self, problems: Sequence[str]) -> str:
        sign, what = _nothing(self.exit_code)
        shown = fence("\n".join(problems) or "see the log", _PROBLEMS_SHOWN)
        return f"### {sign} NO VERDICT: {what}{shown}{self._facts()}\n"

    def of(self, reports: Sequence[Report], found: Sequence[Change | None], room: int) -> str:
        """Return the text about suites in at most `room` bytes, each at the detail that its share of them allows."""
        alone = len(reports) == 1 and reports[0].exit_code == self.exit_code
        parts = [] if alone else [self._overview(reports)]
        room -= sum(len(part.encode()) for part in parts)
        for left, report, change in zip(range(len(reports), 0, -1), reports, found, strict=True):
            share = room // left - 1
            if share < _LEAST_SHARE:
                parts.append(f"\n_There is no room for {left} more suite(s): {self.rest}._\n")
                break
            parts.append(self._suite(report, change, SizeLimit(share, share), alone=alone) + "\n")
            room -= len(parts[-1].encode())
        return "".join(parts)

    def _suite(self, report: Report, change: Change | None, limit: SizeLimit, *, alone: bool) -> str:
        if self.template is not None:
            try:
                return custom_markdown(self.template, report, limit, rest=self.rest)
            except TemplateError as error:
                self.note(f"{error}; the built-in report is used instead")
        given = {
            "report": wrap(report),
            "verdict": VERDICTS[report.outcome],
            "tally": tally(report.outcome, report.counts),
            "alone": alone,
            "change": change,
            "commit": self.commit if alone else None,
            "base_commit": self._base_commit(report),
            "run": self.run if alone and self.at.run_url else None,
            "linked": lambda source, in_cell=False: self._linked(report, source, in_cell),
        }

        def render(detail: Detail) -> Iterator[str]:
            return shipped_template("comment.md.j2").generate(detail=detail, **given)

        return fit(render, limit, self.rest)

    def _overview(self, reports: Sequence[Report]) -> str:
        outcome = OUTCOMES.get(self.exit_code)
        sign, verdict = (SIGNS[outcome], VERDICTS[outcome]) if outcome in VERDICTS else _NO_OUTCOME
        passed = sum(report.outcome == "passed" for report in reports)
        lines = [f"### {sign} {verdict}: {passed} of {len(reports)} suites passed", "", self._facts(), ""]
        if worst_exit_code(report.exit_code for report in reports) != self.exit_code:
            lines += [f"**{_BEYOND}** See the log of {self.run}.", ""]
        lines += ["| | Suite | Cases | Why |", "| :-: | --- | --- | --- |"]
        room = _OVERVIEW
        for index, report in enumerate(reports):
            cases = tally(report.outcome, report.counts)
            row = f"| {SIGNS[report.outcome]} | {cell(report.suite, 80)} | {cases} | {cell(report.reason, 200)} |"
            room -= len(row.encode())
            if room < 0:
                lines += ["", f"… and {len(reports) - index} more suites."]
                break
            lines.append(row)
        return "\n".join(lines) + "\n\n"

    def _facts(self) -> str:
        facts = [f"commit {self.commit}"] if self.commit else []
        if self.at.run_url:
            facts.append(self.run)
        return " · ".join(facts)

    def _linked(self, report: Report, source: Fields, in_cell: bool) -> str:
        """Return where something stands, as a link to the line where there can be one."""
        show = cell if in_cell else inline_code
        mark = SourceMark(text_of(source["file"]), source["line"], source["column"])
        path = repository_path(report.provenance.folder, mark)
        if path is None:
            return show(text_of(place(source, report.folder)), 100)
        shown = show(f"{path}:{mark.line}", 100)
        sha = self.at.sha
        if sha is None or not _COMMIT.fullmatch(sha):
            return shown
        return f"[{shown}]({self.at.server}/{self.at.repository}/blob/{sha}/{quote(path, safe='/')}#L{mark.line})"


_NO_OUTCOME = ("⚠️", "NO VERDICT")
_BEYOND = "The run did not end as its suites did: not all of them ran, or their results could not be written."


def _nothing(exit_code: int) -> tuple[str, str]:
    return _NOTHING.get(exit_code, _NO_VERDICT)


def _title(reports: Sequence[Report], exit_code: int) -> str:
    outcome = OUTCOMES.get(exit_code)
    verdict = VERDICTS[outcome] if outcome in VERDICTS else _NO_OUTCOME[1]
    if len(reports) > 1:
        passed = sum(report.outcome == "passed" for report in reports)
        return f"{verdict}: {passed} of {len(reports)} suites passed"
    report = reports[0]
    violated = [gate for gate in report.gates if gate.state == "failed"]
    broken = violated or [gate for gate in report.gates if gate.state == "undetermined"]
    parts = [f"{verdict}: {tally(report.outcome, report.counts)}", *map(_gate, broken[:_GATES_SHOWN])]
    if report.exit_code != exit_code:
        parts.append("not all suites ran, or results could not be written")
    return one_line("; ".join(parts), TITLE_LIMIT - 30)


def _gate(gate: GateVerdict) -> str:
    name = one_line(gate.name, 60)
    if gate.state == "undetermined":
        return f"{name} {WORDS[gate.state]}: {one_line(gate.reason, 150)}"
    shown = wrap(gate)
    return f"{name} is {actual(shown)}, {required(shown)} required"
