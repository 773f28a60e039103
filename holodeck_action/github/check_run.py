"""The check run: started before the run, annotated in batches, and concluded at the end (docs/github.md)."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from holodeck_action.decide.exit_codes import TOLERABLE, ExitCode
from holodeck_action.github.channels import (
    POLL_PAUSES_S,
    Access,
    Failed,
    Outcome,
    Published,
    Skipped,
    Stopped,
    error_clause,
)
from holodeck_action.github.rest.api import every, page_url, reading
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from github.CheckRun import CheckRun

Conclusion = Literal["success", "failure", "neutral", "cancelled"]

BATCH = 50
"""Maximum annotations of one request (`maxItems` of GitHub's OpenAPI description)."""
NAME_LIMIT = 100
"""Maximum characters of a check run's name, so that it fits GitHub's pages."""
TITLE_LIMIT = 255
"""Maximum characters of a title (GitHub's description of the Checks API)."""

_MOST_TRIES = 3
_RUNNING_TITLE = "The evaluation is running"
_ADDING_TITLE = "The annotations are being added"
_RUNNING_SUMMARY = "The result will appear here."
_USER_TOKEN = lazy_pattern(r"gh[pou]_|github_pat_|[0-9a-f]{40}\Z")
"""Matches tokens of users: classic, OAuth, user-to-server, fine-grained, and classic tokens from before 2021."""


def token_can_check(token: str) -> str | None:
    """Return the reason why a token cannot write check runs, in one sentence; None if the token can write them."""
    if _USER_TOKEN.match(token):
        return (
            "a check run can only be written by the job's own token or a GitHub App's, not by a personal access token: "
            "leave `github-token` to its default, or switch the check off with `check: false`"
        )
    return None


def conclusion_of(exit_code: int, fail_on: Literal["violation", "never"]) -> Literal["success", "failure", "neutral"]:
    """Return the conclusion of a check run.

    | exit code | `violation` | `never` |
    | --- | --- | --- |
    | 0 passed | success | success |
    | 1 failed, 3 incomplete, 4 stopped | failure | neutral |
    | 2 invalid, any other | failure | failure |

    Args:
        exit_code: exit code of the run.
        fail_on: the option `check-fail-on`. As with `fail-on`, a configuration error always fails.
    """
    if exit_code == ExitCode.PASSED:
        return "success"
    tolerated = fail_on == "never" and exit_code in TOLERABLE
    return "neutral" if tolerated else "failure"


def start_check(
    github: Access,
    sha: str,
    name: str,
    external_id: str,
    details_url: str | None,
) -> CheckRun | Outcome:
    """Create a check run in progress.

    The name is cut to `NAME_LIMIT` characters. The external id must be unique: it identifies a check run that GitHub
    created without confirming its creation. `details_url` is the target of the link "Details".

    Returns:
        The check run for `conclude`; if it was not created, the outcome of the channel.
    """
    short = _one_line(name, NAME_LIMIT)
    output: dict[str, Any] = {"title": _RUNNING_TITLE, "summary": _RUNNING_SUMMARY}
    linked: dict[str, Any] = {} if details_url is None else {"details_url": details_url}
    try:
        with github.stopping("the check run could not be created", "checks: write"):
            return github.create(
                lambda: github.api.repository.create_check_run(
                    short, sha, external_id=external_id, status="in_progress", output=output, **linked
                ),
                lambda: _look_for(github, sha, short, external_id),
                "it is unknown whether the check run was created, so it was not requested again",
            )
    except Stopped as stopped:
        return stopped.outcome


def find_started(github: Access, sha: str, name: str, external_id: str) -> CheckRun | Outcome:
    """Return the check run whose `start_check` was interrupted, such as by cancelling the job; if it is not found, the
    channel's outcome."""
    stopped = "the step was stopped while the check run was being created"
    try:
        made = github.poll(lambda: _look_for(github, sha, _one_line(name, NAME_LIMIT), external_id), bool)
    except ApiError as error:
        return Failed(f"{stopped}, which may stay in progress: {error_clause(error)}")
    return made if made is not None else Skipped(f"{stopped}, and GitHub shows no check run", requested=True)


class EndState(Struct, frozen=True):
    """The end of a check run: its summary is Markdown within `reports.comment.size_limit.CHECK`, the time in UTC."""

    conclusion: Conclusion
    title: str
    summary: str
    completed_at: datetime


def end_state(conclusion: Conclusion, title: str, summary: str, now: datetime) -> EndState:
    """Return the state of a concluded check run; the title is cut to `TITLE_LIMIT`. `now` must have a time zone."""
    return EndState(conclusion, _one_line(title, TITLE_LIMIT), summary, now.astimezone(UTC))


def conclude(github: Access, run: CheckRun, end_state: EndState, annotations: Sequence[Mapping[str, Any]]) -> Outcome:
    """Conclude a check run with its `end_state` and annotations.

    The check run is concluded even if annotations cannot be added, since a check run in progress would block the merge
    without a reason.

    Returns:
        `Published` if the check run is concluded with all annotations, else another outcome.
    """
    added, broken = _annotate(github, run, end_state, annotations)
    if broken is None:
        return _published_outcome(end_state, added, run)
    try:
        _end(github, run, end_state)
    except ApiError as error:
        left = f"the check run {page_url(run)} may not be concluded and may stay in progress"
        return github.refusal_outcome(left, "checks: write", error)
    if added == len(annotations):
        return _published_outcome(end_state, added, run)
    # A request without an answer may have added more: only certain annotations are claimed.
    return Failed(
        f"the check run {page_url(run)} is concluded ({end_state.conclusion}), but only {added} of its "
        f"{len(annotations)} annotations are certain to be there: {error_clause(broken)}"
    )


def prepend_summary(github: Access, run: CheckRun, end_state: EndState, first_outcome: Outcome) -> Outcome:
    """Replace the summary of a concluded check run by one that begins with a notice of an outdated comment.

    The notice comes late because the comment is written after the check run is concluded.

    Args:
        end_state: the state of the concluded check run, with the new summary.
        first_outcome: the outcome of concluding the check run.

    Returns:
        `first_outcome`, or `Failed` if `first_outcome` is `Published` and the summary could not be replaced.
    """
    try:
        _end(github, run, end_state)
    except ApiError as error:
        if not isinstance(first_outcome, Published):
            return first_outcome
        return Failed(
            f"the check run {page_url(run)} is concluded ({end_state.conclusion}), but its summary does not start "
            f"with the notice about the outdated comment: {error_clause(error)}"
        )
    return first_outcome


def _annotate(
    github: Access, run: CheckRun, end_state: EndState, annotations: Sequence[Mapping[str, Any]]
) -> tuple[int, ApiError | None]:
    """Add annotations in batches, the last one with the end state.

    Each request appends, so repeating it would duplicate annotations. After a request without an answer, the
    annotations of the check run are counted, and only the missing ones are sent.

    Returns:
        The number of annotations that are certainly added, and the error that prevented the end state, if any.
    """
    added = tries = 0
    while True:
        batch = annotations[added : added + BATCH]
        last = added + len(batch) >= len(annotations)
        try:
            if last:
                _write_end(github, run, end_state, batch)
            else:
                output = {"title": _ADDING_TITLE, "summary": _RUNNING_SUMMARY, "annotations": [*batch]}
                _stored(github, run).edit(status="in_progress", output=output)
        except ApiError as error:
            tries += 1
            if not error.accepted:
                return added, error
            try:
                count = github.poll(
                    lambda: _annotation_count(_stored(github, run)) - _annotation_count(run),
                    partial(operator.lt, added),
                )
            except ApiError:
                return added, error
            if count > added:
                added, tries = min(count, len(annotations)), 0
            elif count < added or tries == _MOST_TRIES:
                # The count is implausible, or the request fails repeatedly.
                return added, error
        else:
            added += len(batch)
            tries = 0
            if last:
                return added, None


def _write_end(
    github: Access, run: CheckRun, end_state: EndState, annotations: Sequence[Mapping[str, Any]] = ()
) -> None:
    _stored(github, run).edit(
        status="completed",
        conclusion=end_state.conclusion,
        completed_at=end_state.completed_at,
        output={"title": end_state.title, "summary": end_state.summary, "annotations": [*annotations]},
    )


def _stored(github: Access, run: CheckRun) -> CheckRun:
    """Return the check run as GitHub has it when a field of it is read; `run` stays as it was at the start."""
    return github.api.repository.get_check_run(run.id)


@reading
def _annotation_count(run: CheckRun) -> int:
    return run.output.annotations_count + 0


def _end(github: Access, run: CheckRun, end_state: EndState) -> None:
    """Write the end state without annotations; this request can safely be repeated."""
    for seconds in (POLL_PAUSES_S[0], None):
        try:
            _write_end(github, run, end_state)
            return
        except ApiError as error:
            if seconds is None or not error.accepted:
                raise
        github.pause(seconds)


def _look_for(github: Access, sha: str, name: str, external_id: str) -> CheckRun | None:
    runs = github.api.repository.get_commit(sha).get_check_runs(check_name=name, filter="all")
    return next((run for run in every(runs, "id", "external_id") if run.external_id == external_id), None)


def _published_outcome(end_state: EndState, count: int, run: CheckRun) -> Outcome:
    return Published(f"{end_state.conclusion}, {count} annotation{'' if count == 1 else 's'}", page_url(run))


def _one_line(text: str, limit: int) -> str:
    return " ".join(text.split())[:limit].rstrip()
