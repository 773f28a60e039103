"""Publishing what a run found: each channel by itself, none in the way of another or of the verdict."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.github import check_run
from holodeck_action.github.annotations import MOST, Annotation, as_check
from holodeck_action.github.case_annotations import annotate
from holodeck_action.github.channels import Access, Channel, Failed, Outcome, Published, Skipped
from holodeck_action.github.event import Target, event_target
from holodeck_action.github.exam_annotations import annotate_exam
from holodeck_action.github.lookup import Found, check_evaluated, find, permission
from holodeck_action.github.rest.api import connect
from holodeck_action.github.rest.objects import ApiError, CheckRun, Pull
from holodeck_action.github.rest.payload import EventError, read_event
from holodeck_action.github.review import publish_review
from holodeck_action.github.stale_comments import first_line_unpublished, first_lines
from holodeck_action.github.sticky_comment import Commented, Earlier, Wanted, marker, publish_comment
from holodeck_action.github.surfaces import Surfaces
from holodeck_action.reports.comment.changes import State, clash, same_result, state_of, worse
from holodeck_action.reports.comment.check_summary import Mark, render_check
from holodeck_action.reports.comment.places import Place
from holodeck_action.reports.comment.pull_request import render_comment, render_problem
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.report_views import Report
from holodeck_action.workers.permission import CodeAllowed

T = TypeVar("T")


class Findings(Struct, frozen=True):
    """What there is to publish: the suites' reports, or the problems that kept them from running.

    Attributes:
        exit_code: of the run.
        reports: of the suites.
        problems: one sentence each.
        template: the user's.
        note: takes sentences about the template.
        marks: annotations of the problems.
        unplaced: why lines of some suites cannot be annotated, one sentence each.
        pages: whether the viewer's page was written beside the results.
    """

    exit_code: int
    reports: tuple[Report, ...]
    problems: tuple[str, ...]
    template: CustomTemplate | None
    note: Callable[[str], None]
    marks: tuple[Annotation, ...] = ()
    unplaced: tuple[str, ...] = ()
    pages: bool = False


class Publication(Struct, frozen=True):
    """How publishing ended: every channel, and the annotations for the step itself.

    These are the ones that no check run shows, and those of problems: the job that fails by them shows them, too.
    `first` is Markdown that the job summary begins with: which comments are out of date.
    """

    channels: tuple[Channel, ...]
    annotations: tuple[Annotation, ...]
    first: str = ""


class Connection(Struct, frozen=True):
    """GitHub, as far as it can be reached.

    Attributes:
        access: None where nothing can be published.
        unavailable: one sentence that says why there is no `access`.
        no_check: one sentence that says why the token can write no check run; None where it is to be tried.
    """

    access: Access | None
    unavailable: str = ""
    no_check: str | None = None


class Publisher:
    """One publication: begun before the run, ended after it whatever came of it."""

    def __init__(self, target: Target, connection: Connection, surfaces: Surfaces, place: Place, run: str) -> None:
        """Prepare a publication.

        `run` is run and attempt of the workflow, `ID/ATTEMPT`; empty outside of one.
        """
        self._target = target
        self._connection = connection
        self._surfaces = surfaces
        self._place = place
        self._run = run
        self._found: Found | None = None
        self._commits: tuple[str | None, ...] = ()
        self._check: CheckRun | Outcome = (
            Skipped("the run ended before the check run was begun", asked=True)
            if surfaces.asks("check")
            else _off("check")
        )
        self._starting: tuple[str, str] | None = None

    def permission(self) -> CodeAllowed:
        """Return the permission to run code of the event.

        Raises:
            CodeRefusedError: it must not run here.
        """
        access = self._connection.access
        look = None if access is None else partial(self._look, access)
        return permission(self._target, look, accepted=self._surfaces.allow_unsafe_forks)

    def begin(self, commits: Sequence[str | None] | None) -> None:
        """Show that a run is in progress.

        Args:
            commits: what is checked out for each suite, None where it is not known; no sequence where the record of
                another job's run is published.
        """
        if commits is not None and not self._target.checks_out_head:
            self._commits = tuple(commits)
        if self._surfaces.asks("check"):
            self._check = self._guarded(self._begin)

    def finish(self, findings: Findings) -> Publication:
        """Publish what was found, and close the connection."""
        try:
            return self._finish(findings)
        finally:
            if self._connection.access is not None:
                self._connection.access.api.close()

    def _finish(self, findings: Findings) -> Publication:
        wrong = findings.marks + annotate(findings.reports)
        marks = (*annotate_exam(findings.reports), *wrong)
        begun = self._begun()
        check = self._conclude(begun, findings, marks)
        comments, first = self._write_comments(findings)
        if first:
            check = self._conclude(begun, findings, marks, first, before=check)
        channels = [Channel("check", check), *(Channel("comment", outcome) for outcome in comments)]
        for _, outcome in self._each_pull("review", lambda github, pull: self._review(github, pull, findings, wrong)):
            channels.append(Channel("review", outcome))
        channels += [Channel("annotations", Skipped(reason, asked=False)) for reason in _unplaced(findings)]
        return Publication(tuple(channels), findings.marks if isinstance(check, Published) else marks, first)

    def _begin(self, github: Access) -> CheckRun | Outcome:
        foreign = self._foreign(github)
        if foreign is not None:
            return Skipped(foreign, asked=True)
        if self._connection.no_check is not None:
            return Skipped(self._connection.no_check, asked=True)
        sha = self._target.sha or self._look(github).sha
        if sha is None:
            return Skipped(self._look(github).reason, asked=False)
        external_id = f"{self._run}/{secrets.token_hex(8)}"
        self._starting = sha, external_id
        begun = check_run.start(github, sha, self._surfaces.check_name, external_id, self._place.run_url)
        self._starting = None
        return begun

    def _begun(self) -> CheckRun | Outcome:
        """Return the check run, also where a signal interrupted `begin` while GitHub made it."""
        if self._starting is None:
            return self._check
        sha, external_id = self._starting
        return self._guarded(lambda github: check_run.found(github, sha, self._surfaces.check_name, external_id))

    def _conclude(
        self,
        begun: CheckRun | Outcome,
        findings: Findings,
        marks: Sequence[Annotation],
        first: str = "",
        before: Outcome | None = None,
    ) -> Outcome:
        """Conclude the check run; one that was concluded `before` gets a summary that begins with `first`."""
        if not isinstance(begun, CheckRun):
            return begun
        shown = marks[:MOST]

        def write(github: Access) -> Outcome:
            title, summary = render_check(
                findings.reports,
                findings.problems,
                self._where(),
                findings.template,
                # What is wrong with the template is said once.
                findings.note if before is None else lambda _: None,
                [Mark(mark.path, mark.line, mark.level) for mark in shown],
                len(marks) - len(shown),
                exit_code=findings.exit_code,
                first=first,
            )
            ending = check_run.ending(
                check_run.conclusion_of(findings.exit_code, self._surfaces.check_fail_on),
                title,
                summary,
                datetime.now(UTC),
            )
            if before is not None:
                return check_run.begin_with(github, begun, ending, before)
            return check_run.conclude(github, begun, ending, [as_check(mark) for mark in shown])

        return self._guarded(write)

    def _write_comments(self, findings: Findings) -> tuple[tuple[Outcome, ...], str]:
        """Write the comments; return how each ended, and what to begin with if one of an earlier run stands there."""
        earlier: dict[int, Earlier | None] = {}

        def write(github: Access, pull: Pull) -> Outcome:
            written = self._comment(github, pull, findings)
            earlier[pull.number] = written.earlier
            return written.outcome

        ended = self._each_pull("comment", write)
        return tuple(outcome for _, outcome in ended), first_lines(self._target, self._where(), ended, earlier)

    def _comment(self, github: Access, pull: Pull, findings: Findings) -> Commented:
        first_line = marker(self._surfaces.comment_id)
        now = state_of(findings.reports, findings.exit_code, pull.head_sha, self._run, findings.problems)

        def render(previous: str | None) -> str:
            before = None if previous is None else State.read(previous)
            if findings.problems:
                return render_problem(findings.problems, first_line, self._where(), now, before)
            return render_comment(
                findings.reports,
                first_line,
                replace(self._where(), pages=findings.pages),
                now,
                before,
                findings.template,
                findings.note,
            )

        wanted = Wanted(
            mode=self._surfaces.comment,
            failed=findings.exit_code != ExitCode.PASSED,
            render=render,
            changed=lambda body: not same_result(State.read(body), now),
            clash=lambda body: clash(State.read(body), now),
            worse=lambda body: worse(State.read(body), now),
        )
        return publish_comment(github, pull.number, first_line, wanted)

    def _review(self, github: Access, pull: Pull, findings: Findings, marks: Sequence[Annotation]) -> Outcome:
        return publish_review(github, pull.number, pull.head_sha, self._surfaces.comment_id, findings.reports, marks)

    def _each_pull(
        self, name: str, publish: Callable[[Access, Pull], Outcome]
    ) -> tuple[tuple[int | None, Outcome], ...]:
        """Return how a channel ended for each pull request, by number; None if it ended before they were known."""
        if not self._surfaces.asks(name):
            return ((None, _off(name)),)

        def look(github: Access) -> Found | Outcome:
            foreign = self._foreign(github)
            if foreign is not None:
                return Skipped(foreign, asked=True)
            found = self._look(github)
            return found if found.pulls else Skipped(found.reason, asked=False)

        found = self._guarded(look)
        if not isinstance(found, Found):
            return ((None, found),)
        return tuple((pull.number, self._for_pull(pull, publish)) for pull in found.pulls)

    def _for_pull(self, pull: Pull, publish: Callable[[Access, Pull], Outcome]) -> Outcome:
        return self._guarded(lambda github: self._outdated(github, pull) or publish(github, pull))

    def _foreign(self, github: Access) -> str | None:
        """Tell why the run says nothing about the target's commit; asked by each channel, as GitHub may fail one."""
        if not self._commits:
            return None
        found = self._look(github)
        reasons = (check_evaluated(self._target, found, commit) for commit in self._commits)
        return next((reason for reason in reasons if reason is not None), None)

    def _outdated(self, github: Access, pull: Pull) -> Outcome | None:
        """Tell whether the pull request has moved on: a slow run must not replace the report of a newer one."""
        try:
            head = github.api.pull(pull.number).head_sha
        except ApiError:
            # A token that may not read may still write.
            return None
        if head == pull.head_sha:
            return None
        return Skipped(f"pull request #{pull.number} has a newer commit, whose own run reports it", asked=False)

    def _where(self) -> Place:
        """Return the place with the commit, which for some events only the pull request tells."""
        known = self._target.sha or (self._found.sha if self._found is not None else None)
        return replace(self._place, sha=known)

    def _look(self, github: Access) -> Found:
        """Return the pull requests of the event, looked up once."""
        if self._found is None:
            self._found = find(self._target, github.api)
        return self._found

    def _guarded(self, call: Callable[[Access], T]) -> T | Outcome:
        """Return what a call returns, or how its channel ends: no channel hides the verdict or keeps a run from it."""
        github = self._connection.access
        if github is None:
            return Skipped(self._connection.unavailable, asked=True)
        try:
            return call(github)
        except ApiError as error:
            return github.refused("the pull requests cannot be looked up", "pull-requests: read", error)
        except Exception as error:  # noqa: BLE001 - as above
            return Failed(f"holodeck-action has a defect: {type(error).__name__}: {error}; please report it")


def _unplaced(findings: Findings) -> tuple[str, ...]:
    """Return why suites have no annotations; of a record that another job made, that it names no folder is known."""
    if findings.exit_code == ExitCode.PASSED:
        # There is nothing to annotate.
        return ()
    if findings.unplaced or all(report.provenance.folder is not None for report in findings.reports):
        return findings.unplaced
    return ("no line of a suite is annotated whose record names no folder of this repository",)


def _off(name: str) -> Skipped:
    return Skipped(f"the input {name} is off", asked=False)


def open_publisher(
    surfaces: Surfaces,
    environ: Mapping[str, str],
    pause: Callable[[float], None],
    *,
    evaluates: bool,
    target: Target | None = None,
) -> Publisher:
    """Prepare to publish what a step finds; nothing is called yet.

    Args:
        surfaces: what is asked for.
        environ: the environment of the step.
        pause: waits so many seconds.
        evaluates: whether this run evaluates; else it publishes the record of another one, which the texts then link.
        target: what it is about; None for what the event of the step is about.
    """
    known = target if target is not None else event_target(environ)
    if target is None and not known.event:
        connection = Connection(None, "GITHUB_EVENT_NAME is not set: this is no step of a workflow")
    else:
        connection = _connection(surfaces, known, environ, pause)
    return Publisher(known, connection, surfaces, _place(known, environ, evaluates=evaluates), _run(environ))


def nothing_published(environ: Mapping[str, str]) -> Publication:
    """Return the publication of a step whose inputs cannot be used: a comment of an earlier run stays as it is."""
    target = event_target(environ)
    off = environ.get("INPUT_COMMENT", "").strip() == "off"
    return Publication((), (), "" if off else first_line_unpublished(target, _place(target, environ, evaluates=True)))


def _connection(
    surfaces: Surfaces, target: Target, environ: Mapping[str, str], pause: Callable[[float], None]
) -> Connection:
    if not surfaces.anything and not (target.privileged and target.fork is None):
        return Connection(None, "nothing was asked for")
    if not surfaces.token:
        return Connection(None, "there is no token: leave the input github-token to its default, or set GITHUB_TOKEN")
    if not target.repository:
        return Connection(None, "GITHUB_REPOSITORY is not set, so it is not known where to publish")
    api_url = environ.get("GITHUB_API_URL") or "https://api.github.com"
    try:
        api = connect(surfaces.token, api_url, target.repository, pause=pause)
    except ApiError as error:
        return Connection(None, str(error))
    personal = check_run.token_can_check(surfaces.token)
    return Connection(Access(api, target.why, personal is None, pause), no_check=personal)


def _place(target: Target, environ: Mapping[str, str], *, evaluates: bool) -> Place:
    server = (environ.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")
    run_id = environ.get("GITHUB_RUN_ID", "") if evaluates else _evaluated_run(environ)
    home = f"{server}/{target.repository}"
    return Place(server, target.repository, target.sha, f"{home}/actions/runs/{run_id}" if run_id.isdecimal() else None)


def _evaluated_run(environ: Mapping[str, str]) -> str:
    """Return the id of the run that a `workflow_run` is about, else of this one; empty outside of a workflow."""
    try:
        _, payload = read_event(environ)
    except EventError:
        payload = {}
    run = payload.get("workflow_run")
    number = run.get("id") if isinstance(run, Mapping) else None
    return str(number) if isinstance(number, int) and number > 0 else environ.get("GITHUB_RUN_ID", "")


def _run(environ: Mapping[str, str]) -> str:
    return "/".join(part for name in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT") if (part := environ.get(name, "")))
