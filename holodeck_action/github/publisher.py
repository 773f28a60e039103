"""Publishes the findings of a run; a failing channel affects neither the others nor the verdict."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github import check_run
from holodeck_action.github.annotations import MOST_ANNOTATIONS, Annotation, as_check_annotation
from holodeck_action.github.case_annotations import annotate
from holodeck_action.github.channel_options import ChannelOptions
from holodeck_action.github.channels import Access, Channel, Failed, Outcome, Published, Skipped
from holodeck_action.github.check_run import token_can_check
from holodeck_action.github.event import Destination
from holodeck_action.github.lookup import FoundPulls, check_evaluated, evaluation_permission, find_pulls, read_pull
from holodeck_action.github.own_checkout import find_doubt
from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError, Pull
from holodeck_action.github.review import publish_review
from holodeck_action.github.stale_comments import stale_notice
from holodeck_action.github.sticky_comment import CommentRequest, EarlierComment, marker, publish_comment
from holodeck_action.github.terms_annotations import annotate_terms
from holodeck_action.reports.comment.changes import State, is_same_result, is_same_run, is_worse, state_of
from holodeck_action.reports.comment.check_summary import AnnotatedLine, render_check
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import render_comment, render_markdown, render_problem
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.report_views import Report
from holodeck_action.workers.permission import CodeAllowed

if TYPE_CHECKING:
    from github.CheckRun import CheckRun

T = TypeVar("T")
P = ParamSpec("P")


class Findings(Struct, frozen=True):
    """The content to publish: the suites' reports, or the problems because of which no suite ran.

    Attributes:
        exit_code: exit code of the run.
        reports: reports of the suites.
        problems: the problems, one sentence each.
        template: the user's template; None to use the built-in one.
        note: called with each message about the template.
        annotations: annotations of the problems.
        unannotated: reasons why lines of some suites cannot be annotated, one sentence each.
        pages: whether the viewer's page was written next to the results.
        markdown: the report of an extension's command, without secrets, instead of `reports`; empty if there is none.
        reason: the result of that command in one sentence; two runs with the same sentence have the same result.
    """

    exit_code: int
    reports: tuple[Report, ...]
    problems: tuple[str, ...]
    template: CustomTemplate | None
    note: Callable[[str], None]
    annotations: tuple[Annotation, ...] = ()
    unannotated: tuple[str, ...] = ()
    pages: bool = False
    markdown: str = ""
    reason: str = ""


CHECK_RUN_VARIABLE = "HOLODECK_ACTION_CHECK"
"""Environment variable that passes on `Publisher.external_id` if the program restarts itself within a step."""


class Publication(Struct, frozen=True):
    """The result of publishing: the channels, and the annotations that the step must write to its own log.

    These are annotations that no check run shows, and annotations of problems. `stale_notice` is Markdown for the start
    of the job summary: notices of outdated comments.
    """

    channels: tuple[Channel, ...]
    annotations: tuple[Annotation, ...]
    stale_notice: str = ""


class Connection(Struct, frozen=True):
    """The connection to GitHub.

    Attributes:
        access: access to GitHub; None if nothing can be published.
        unavailable: why there is no `access`, in one sentence.
    """

    access: Access | None
    unavailable: str = ""


class Publisher:
    """Publishes the results of one run: `begin` is called before the run, `finish` after it, also after errors."""

    def __init__(
        self,
        destination: Destination,
        connection: Connection,
        channel_options: ChannelOptions,
        place: LinkContext,
        run: str,
        environ: Mapping[str, str],
    ) -> None:
        """Store the arguments, without calling GitHub.

        `run` is `ID/ATTEMPT` of the workflow run; empty outside of a workflow. `environ` are the variables of the step.
        """
        self._destination = destination
        self._connection = connection
        self._options = channel_options
        self._place = place
        self._run = run
        self._found: FoundPulls | None = None
        self._commits: tuple[str | None, ...] = ()
        # The commit and the external id instead, while the check run is being created.
        self._check: CheckRun | Outcome | tuple[str, str] = (
            Skipped("the run ended before the check run was begun", requested=True)
            if channel_options.is_requested("check")
            else _skipped_by_input("check")
        )
        self._environ = environ
        self.external_id = environ.get(CHECK_RUN_VARIABLE, "")
        """External id of the check run, also of one that the program began before it restarted itself; empty if there
        is none."""

    def permission(self, folders: tuple[Path, ...]) -> CodeAllowed:
        """Return the permission to run code of the checkouts with these folders.

        Raises:
            CodeRefusedError: the code must not run here.
        """
        return evaluation_permission(
            self._destination,
            self._find_pulls,
            lambda is_known: find_doubt(folders, is_known, lambda _: self._api, self._environ),
            accepted=self._options.allow_unsafe_forks,
        )

    @property
    def _api(self) -> Api:
        if self._connection.access is None:
            raise ApiError(self._connection.unavailable, "invalid", None)
        return self._connection.access.api

    def begin(self, commits: Sequence[str | None] | None) -> None:
        """Show on GitHub that a run is in progress.

        Args:
            commits: each suite's checked-out commit (None if it is unknown); None instead of a sequence to publish
                another job's record.
        """
        if commits is not None and not self._destination.checks_out_head:
            self._commits = tuple(commits)
        if self._options.is_requested("check"):
            self._check = self._call_guarded(self._start_check)

    def finish(self, findings: Findings) -> Publication:
        """Publish the findings, and close the connection: the check run, comments, reviews.

        The check run is concluded before the comments are written, so that it never stays in progress. If a comment of
        an earlier run is outdated and could not be replaced, the check run's summary is replaced once more.
        """
        try:
            wrong = findings.annotations + annotate(findings.reports)
            marks = (*annotate_terms(findings.reports), *wrong)
            begun = self._started_check()
            check = self._conclude(begun, findings, marks)
            earlier: dict[int, EarlierComment | None] = {}
            comments = self._each_pull("comment", partial(self._write_comment, findings, earlier))
            notice = stale_notice(self._destination, self._place_with_commit(), comments, earlier)
            if notice:
                check = self._conclude(begun, findings, marks, notice, first_outcome=check)
            written = tuple(Channel("comment", outcome) for _, outcome in comments)
            if self._options.kind != "report":
                # A command of an extension has no other channel.
                return Publication(written, findings.annotations, notice)
            reviews = self._each_pull("review", partial(self._write_review, findings, wrong))
            channels = (
                Channel("check", check),
                *written,
                *(Channel("review", outcome) for _, outcome in reviews),
                *(Channel("annotations", Skipped(text, requested=False)) for text in _unannotated_reasons(findings)),
            )
            return Publication(channels, findings.annotations if isinstance(check, Published) else marks, notice)
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection without publishing."""
        if self._connection.access is not None:
            self._connection.access.api.close()

    def _start_check(self, github: Access) -> CheckRun | Outcome:
        reason = self._mismatch_reason() or token_can_check(self._options.token)
        if reason is not None:
            return Skipped(reason, requested=True)
        sha = self._destination.sha or self._find_pulls().sha
        if sha is None:
            return Skipped(self._find_pulls().reason, requested=False)
        name = self._options.check_name
        if self.external_id:
            return check_run.find_started(github, sha, name, self.external_id)
        self.external_id = f"{self._run}/{secrets.token_hex(8)}"
        self._check = sha, self.external_id
        return check_run.start_check(github, sha, name, self.external_id, self._place.run_url)

    def _started_check(self) -> CheckRun | Outcome:
        """Return the check run, or the channel's outcome, even if a signal interrupted `begin` during the creation."""
        if not isinstance(self._check, tuple):
            return self._check
        sha, external_id = self._check
        return self._call_guarded(check_run.find_started, sha, self._options.check_name, external_id)

    def _conclude(
        self,
        started: CheckRun | Outcome,
        findings: Findings,
        marks: Sequence[Annotation],
        notice: str = "",
        first_outcome: Outcome | None = None,
    ) -> Outcome:
        """Conclude the check run. If it is already concluded, `first_outcome` is the outcome of that, and only the
        summary is replaced, by one that begins with `notice`."""
        if isinstance(started, Outcome):
            return started
        shown = marks[:MOST_ANNOTATIONS]

        def write(github: Access) -> Outcome:
            title, summary = render_check(
                findings.reports,
                findings.problems,
                self._place_with_commit(),
                findings.template,
                # Problems of the template are reported once.
                findings.note if first_outcome is None else lambda _: None,
                [AnnotatedLine(mark.path, mark.line, mark.level) for mark in shown],
                len(marks) - len(shown),
                exit_code=findings.exit_code,
                first=notice,
            )
            ending = check_run.end_state(
                check_run.conclusion_of(findings.exit_code, self._options.check_fail_on),
                title,
                summary,
                datetime.now(UTC),
            )
            if first_outcome is not None:
                return check_run.prepend_summary(github, started, ending, first_outcome)
            return check_run.conclude(github, started, ending, [as_check_annotation(mark) for mark in shown])

        return self._call_guarded(write)

    def _write_comment(
        self, findings: Findings, earlier: dict[int, EarlierComment | None], github: Access, pull: Pull
    ) -> Outcome:
        """Write the comment of a pull request, and add the comment of an earlier run to `earlier`, by number."""
        first_line = marker(self._options.comment_id, self._options.kind)
        reasons = findings.problems or ((findings.reason,) if findings.reason else ())
        now = state_of(findings.reports, findings.exit_code, pull.head_sha, self._run, reasons)

        def render(previous: str | None) -> str:
            before = None if previous is None else State.read(previous)
            if findings.problems:
                return render_problem(findings.problems, first_line, self._place_with_commit(), now, before)
            if findings.markdown:
                return render_markdown(findings.markdown, first_line, self._place_with_commit(), now)
            return render_comment(
                findings.reports,
                first_line,
                replace(self._place_with_commit(), pages=findings.pages),
                now,
                before,
                findings.template,
                findings.note,
            )

        wanted = CommentRequest(
            mode=self._options.comment,
            failed=findings.exit_code != ExitCode.PASSED,
            render=render,
            changed=lambda body: not is_same_result(State.read(body), now),
            clash=lambda body: is_same_run(State.read(body), now),
            worse=lambda body: is_worse(State.read(body), now),
            check=self._options.check,
        )
        written = publish_comment(github, pull.number, first_line, wanted)
        earlier[pull.number] = written.earlier
        return written.outcome

    def _write_review(self, findings: Findings, marks: Sequence[Annotation], github: Access, pull: Pull) -> Outcome:
        return publish_review(github, pull.number, pull.head_sha, self._options.comment_id, findings.reports, marks)

    def _each_pull(
        self, name: str, publish: Callable[[Access, Pull], Outcome]
    ) -> tuple[tuple[int | None, Outcome], ...]:
        """Return (number, outcome) of a channel for each pull request; the number is None if no pull request was
        found."""
        if not self._options.is_requested(name):
            return ((None, _skipped_by_input(name)),)
        found = self._call_guarded(self._pulls_to_write)
        if isinstance(found, Outcome):
            return ((None, found),)
        outcomes: list[tuple[int | None, Outcome]] = []
        for pull in found:
            outcome = self._call_guarded(self._skip_if_outdated, pull)
            if outcome is None:
                outcome = self._call_guarded(publish, pull)
            outcomes.append((pull.number, outcome))
        return tuple(outcomes)

    def _pulls_to_write(self, github: Access) -> Sequence[Pull] | Outcome:
        foreign = self._mismatch_reason()
        if foreign is not None:
            return Skipped(foreign, requested=True)
        found = self._find_pulls()
        return found.pulls or Skipped(found.reason, requested=False)

    def _mismatch_reason(self) -> str | None:
        """Return the reason if the run evaluated another commit than the one for which results are published; None if
        the commits are equal, or if no check is needed."""
        reasons = (check_evaluated(self._destination, self._find_pulls(), commit) for commit in self._commits)
        return next((reason for reason in reasons if reason is not None), None)

    def _skip_if_outdated(self, github: Access, pull: Pull) -> Outcome | None:
        """Return `Skipped` if the pull request has a newer commit, so that a slow run does not replace a newer report;
        else None."""
        try:
            head = read_pull(github.api.repository.get_pull(pull.number)).head_sha
        except ApiError:
            # A token that cannot read may still write.
            return None
        if head == pull.head_sha:
            return None
        return Skipped(
            f"pull request #{pull.number} has a newer commit; the run of that commit reports it", requested=False
        )

    def _place_with_commit(self) -> LinkContext:
        """Return the `LinkContext` with the commit. For some events, the commit is known only from the pull request."""
        known = self._destination.sha or (self._found.sha if self._found is not None else None)
        return replace(self._place, sha=known, check_fails=self._options.check_fail_on if self._options.check else "")

    def _find_pulls(self) -> FoundPulls:
        """Return the pull requests of the destination; GitHub is called at most once."""
        if self._found is None:
            self._found = find_pulls(self._destination, self._api)
        return self._found

    def _call_guarded(self, call: Callable[Concatenate[Access, P], T], *about: P.args, **more: P.kwargs) -> T | Outcome:
        """Return the result of a call, or an outcome that describes its error, so that the error neither stops the run
        nor hides the verdict."""
        github = self._connection.access
        if github is None:
            return Skipped(self._connection.unavailable, requested=True)
        try:
            return call(github, *about, **more)
        except ApiError as error:
            return github.refusal_outcome("the pull requests cannot be looked up", "pull-requests: read", error)
        except Exception as error:  # noqa: BLE001 - as above
            return Failed(f"holodeck-action has a defect: {type(error).__name__}: {error}; please report it")


def _unannotated_reasons(findings: Findings) -> tuple[str, ...]:
    """Return the reasons why lines of suites are not annotated, one sentence each; empty if the run passed."""
    if findings.exit_code == ExitCode.PASSED:
        # There is nothing to annotate.
        return ()
    if findings.unannotated or all(report.provenance.folder is not None for report in findings.reports):
        return findings.unannotated
    return ("no lines are annotated for a suite whose record names no folder of this repository",)


def _skipped_by_input(name: str) -> Skipped:
    return Skipped(f"the input {name} is off", requested=False)
