"""Publishing what a run found: each channel by itself, none in the way of another or of the verdict."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from holodeck_action.github import check as check_run
from holodeck_action.github.annotations import MOST, Annotation, annotate, as_check
from holodeck_action.github.channels import Channel, Failed, Outcome, Published, Skipped
from holodeck_action.github.comment import Wanted, marker, publish_comment
from holodeck_action.github.lookup import Found, check_evaluated, find, refusal
from holodeck_action.github.remote import ApiError, CheckRun, Pull, Remote
from holodeck_action.github.review import publish_review
from holodeck_action.github.surfaces import Surfaces
from holodeck_action.github.target import Target
from holodeck_action.github.writing import refused
from holodeck_action.reports.changes import State, clash, same_result, state_of, worse
from holodeck_action.reports.comment import Place, render_check, render_comment, render_problem
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.results.verdict import EXIT_PASSED
from holodeck_action.results.views import Report

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Findings:
    """What there is to publish: the suites' reports, or the problems that kept them from running.

    Attributes:
        exit_code: of the run.
        reports: of the suites.
        problems: one sentence each.
        template: the user's.
        note: takes sentences about the template.
        marks: annotations of the problems.
        unplaced: why lines of some suites cannot be annotated, one sentence each.
    """

    exit_code: int
    reports: tuple[Report, ...]
    problems: tuple[str, ...]
    template: CustomTemplate | None
    note: Callable[[str], None]
    marks: tuple[Annotation, ...] = ()
    unplaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Publication:
    """How publishing ended: every channel, and the annotations for the step itself.

    These are the ones that no check run shows, and those of problems: the job that fails by them shows them, too.
    """

    channels: tuple[Channel, ...]
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class Connection:
    """GitHub, as far as it can be reached.

    Attributes:
        remote: makes the calls; None where nothing can be published.
        unavailable: one sentence that says why there is no `remote`.
        no_check: one sentence that says why the token can write no check run; None where it is to be tried.
        app: whether the token is the job's own or a GitHub App's.
        pause: waits so many seconds.
    """

    remote: Remote | None
    unavailable: str
    no_check: str | None
    app: bool
    pause: Callable[[float], None]


class Publisher:
    """One publication: begun before the run, ended after it whatever came of it."""

    def __init__(self, target: Target, connection: Connection, surfaces: Surfaces, place: Place, run: str) -> None:
        """Prepare a publication.

        Args:
            target: what the event is about.
            connection: GitHub.
            surfaces: what is asked for.
            place: where it is published, as the texts name it.
            run: run and attempt of the workflow, `ID/ATTEMPT`; empty outside of one.
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

    def refusal(self) -> str | None:
        """Return why code of the event must not run here, in one sentence; None where it may."""
        found = None
        if self._target.privileged and self._target.fork is None and self._connection.remote is not None:
            try:
                found = self._look(self._connection.remote)
            except ApiError:
                found = None
        return refusal(self._target, found, allowed=self._surfaces.allow_unsafe_forks)

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
        """Publish what was found."""
        marks = findings.marks + annotate(findings.reports)
        check = self._conclude(self._begun(), findings, marks)
        channels = [Channel("check", check)]
        for outcome in self._each_pull("comment", lambda remote, pull: self._comment(remote, pull, findings)):
            channels.append(Channel("comment", outcome))
        for outcome in self._each_pull("review", lambda remote, pull: self._review(remote, pull, findings, marks)):
            channels.append(Channel("review", outcome))
        channels += [Channel("annotations", Skipped(reason, asked=False)) for reason in _unplaced(findings)]
        return Publication(tuple(channels), findings.marks if isinstance(check, Published) else marks)

    def _begin(self, remote: Remote) -> CheckRun | Outcome:
        foreign = self._foreign(remote)
        if foreign is not None:
            return Skipped(foreign, asked=True)
        if self._connection.no_check is not None:
            return Skipped(self._connection.no_check, asked=True)
        sha = self._target.sha or self._look(remote).sha
        if sha is None:
            return Skipped(self._look(remote).reason, asked=False)
        external_id = f"{self._run}/{secrets.token_hex(8)}"
        self._starting = sha, external_id
        begun = check_run.start(
            remote,
            sha,
            self._surfaces.check_name,
            external_id,
            self._place.run_url,
            why=self._target.why,
            pause=self._connection.pause,
        )
        self._starting = None
        return begun

    def _begun(self) -> CheckRun | Outcome:
        """Return the check run, also where a signal interrupted `begin` while GitHub made it."""
        if self._starting is None:
            return self._check
        sha, external_id = self._starting
        name, pause = self._surfaces.check_name, self._connection.pause
        return self._guarded(lambda remote: check_run.found(remote, sha, name, external_id, pause))

    def _conclude(self, begun: CheckRun | Outcome, findings: Findings, marks: Sequence[Annotation]) -> Outcome:
        if not isinstance(begun, CheckRun):
            return begun
        return self._guarded(lambda remote: self._ended(remote, begun, findings, marks))

    def _ended(self, remote: Remote, begun: CheckRun, findings: Findings, marks: Sequence[Annotation]) -> Outcome:
        shown = marks[:MOST]
        title, summary = render_check(
            findings.reports,
            findings.problems,
            self._where(),
            findings.template,
            findings.note,
            len(marks) - len(shown),
            exit_code=findings.exit_code,
        )
        return check_run.conclude(
            remote,
            begun,
            conclusion=check_run.conclusion_of(findings.exit_code, self._surfaces.check_fail_on),
            title=title,
            summary=summary,
            annotations=[as_check(mark) for mark in shown],
            now=datetime.now(UTC),
            why=self._target.why,
            pause=self._connection.pause,
        )

    def _comment(self, remote: Remote, pull: Pull, findings: Findings) -> Outcome:
        first_line = marker(self._surfaces.comment_id)
        now = state_of(findings.reports, findings.exit_code, pull.head_sha, self._run, findings.problems)

        def render(previous: str | None) -> str:
            before = None if previous is None else State.read(previous)
            if findings.problems:
                return render_problem(findings.problems, first_line, self._where(), now, before)
            return render_comment(
                findings.reports, first_line, self._where(), now, before, findings.template, findings.note
            )

        wanted = Wanted(
            mode=self._surfaces.comment,
            failed=findings.exit_code != EXIT_PASSED,
            render=render,
            changed=lambda body: not same_result(State.read(body), now),
            clash=lambda body: clash(State.read(body), now),
            worse=lambda body: worse(State.read(body), now),
        )
        return publish_comment(
            remote,
            pull.number,
            first_line,
            wanted,
            why=self._target.why,
            app=self._connection.app,
            pause=self._connection.pause,
        )

    def _review(self, remote: Remote, pull: Pull, findings: Findings, marks: Sequence[Annotation]) -> Outcome:
        return publish_review(
            remote,
            pull.number,
            pull.head_sha,
            self._surfaces.comment_id,
            findings.reports,
            marks,
            why=self._target.why,
            app=self._connection.app,
            pause=self._connection.pause,
        )

    def _each_pull(self, name: str, publish: Callable[[Remote, Pull], Outcome]) -> tuple[Outcome, ...]:
        if not self._surfaces.asks(name):
            return (_off(name),)

        def look(remote: Remote) -> Found | Outcome:
            foreign = self._foreign(remote)
            if foreign is not None:
                return Skipped(foreign, asked=True)
            found = self._look(remote)
            return found if found.pulls else Skipped(found.reason, asked=False)

        found = self._guarded(look)
        if not isinstance(found, Found):
            return (found,)
        return tuple(self._for_pull(pull, publish) for pull in found.pulls)

    def _for_pull(self, pull: Pull, publish: Callable[[Remote, Pull], Outcome]) -> Outcome:
        return self._guarded(lambda remote: self._outdated(remote, pull) or publish(remote, pull))

    def _foreign(self, remote: Remote) -> str | None:
        """Tell why the run says nothing about the target's commit; asked by each channel, as GitHub may fail one."""
        if not self._commits:
            return None
        found = self._look(remote)
        told = (check_evaluated(self._target, found, commit) for commit in self._commits)
        return next((sentence for sentence in told if sentence is not None), None)

    def _outdated(self, remote: Remote, pull: Pull) -> Outcome | None:
        """Tell whether the pull request has moved on: a slow run must not replace the report of a newer one."""
        try:
            head = remote.pull(pull.number).head_sha
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

    def _look(self, remote: Remote) -> Found:
        """Return the pull requests of the event, looked up once."""
        if self._found is None:
            self._found = find(self._target, remote)
        return self._found

    def _guarded(self, call: Callable[[Remote], T]) -> T | Outcome:
        """Return what a call returns, or how its channel ends: no channel hides the verdict or keeps a run from it."""
        if self._connection.remote is None:
            return Skipped(self._connection.unavailable, asked=True)
        try:
            return call(self._connection.remote)
        except ApiError as error:
            return refused("the pull requests cannot be looked up", "pull-requests: read", error, self._target.why)
        except Exception as error:  # noqa: BLE001 - as above
            return Failed(f"holodeck-action has a defect: {type(error).__name__}: {error}; please report it")


def _unplaced(findings: Findings) -> tuple[str, ...]:
    """Return why suites have no annotations; of a record that another job made, that it names no folder is known."""
    if findings.exit_code == EXIT_PASSED:
        # There is nothing to annotate.
        return ()
    if findings.unplaced or all(report.provenance.folder is not None for report in findings.reports):
        return findings.unplaced
    return ("no line of a suite is annotated whose record names no folder of this repository",)


def _off(name: str) -> Skipped:
    return Skipped(f"the input {name} is off", asked=False)
