"""The check run: in progress early, annotations in batches, concluded last (docs/github.md)."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from holodeck_action.decide.exit_codes import TOLERABLE, ExitCode
from holodeck_action.github.channels import LOOKS_S, Access, Failed, Outcome, Published, Skipped, sentence
from holodeck_action.github.rest.objects import ApiError, CheckRun, CheckState

Conclusion = Literal["success", "failure", "neutral", "cancelled"]

BATCH = 50
"""Annotations of one request (`maxItems` of GitHub's OpenAPI description)."""
NAME_LIMIT = 100
"""Characters of a check run's name that fit the places where it is shown."""
TITLE_LIMIT = 255
"""Characters of a title (GitHub's description of the Checks API)."""

_TRIES = 3
_STARTED = "The evaluation is running"
_RUNNING = "The result will stand here."
_PERSONAL = re.compile(r"gh[pou]_|github_pat_|[0-9a-f]{40}\Z")
"""Tokens of a person: classic, OAuth, an App's on behalf of a user, fine-grained, and classic ones of before 2021."""


def token_can_check(token: str) -> str | None:
    """Return why a token cannot write check runs, in one sentence; None where it is to be tried."""
    if _PERSONAL.match(token):
        return (
            "a check run can only be written by the job's own token or a GitHub App's, not by a personal access token: "
            "leave `github-token` to its default, or switch the check off with `check: false`"
        )
    return None


def conclusion_of(exit_code: int, fail_on: Literal["violation", "never"]) -> Literal["success", "failure", "neutral"]:
    """Return how a check run is concluded.

    | exit code | `violation` | `never` |
    | --- | --- | --- |
    | 0 passed | success | success |
    | 1 failed, 3 incomplete, 4 stopped | failure | neutral |
    | 2 invalid, any other | failure | failure |

    Args:
        exit_code: of the run (`results.verdict`).
        fail_on: the input `check-fail-on`. As with `fail-on`, a configuration error fails whatever it says.
    """
    if exit_code == ExitCode.PASSED:
        return "success"
    tolerated = fail_on == "never" and exit_code in TOLERABLE
    return "neutral" if tolerated else "failure"


def start(
    github: Access,
    sha: str,
    name: str,
    external_id: str,
    details_url: str | None,
) -> CheckRun | Outcome:
    """Make a check run that is in progress.

    At most `NAME_LIMIT` characters of the name are used. No other check run has the external id: by it one is found
    that GitHub made without saying so. `details_url` is where "Details" leads.

    Returns:
        The check run for `conclude`, or how the channel ended without one.
    """
    state = CheckState("in_progress", title=_STARTED, summary=_RUNNING, details_url=details_url)
    short = _line(name, NAME_LIMIT)
    reason = ""
    for _ in range(_TRIES - 1):
        try:
            return github.api.create_check(sha, short, external_id, state)
        except ApiError as error:
            if not error.accepted:
                return github.refused("the check run could not be made", "checks: write", error)
            reason = sentence(error)
        try:
            made = _made(github, sha, short, external_id)
        except ApiError as error:
            reason = sentence(error)
            break
        if made is not None:
            return made
    return Failed(f"whether the check run was made could not be told, so it was not asked for again: {reason}")


def found(github: Access, sha: str, name: str, external_id: str) -> CheckRun | Outcome:
    """Return the check run of a `start` that was interrupted, such as by a runner that cancels the job."""
    stopped = "the step was stopped while the check run was made"
    try:
        made = _made(github, sha, _line(name, NAME_LIMIT), external_id)
    except ApiError as error:
        return Failed(f"{stopped}, which may stay in progress: {sentence(error)}")
    return made if made is not None else Skipped(f"{stopped}, and GitHub shows none", asked=True)


def ending(conclusion: Conclusion, title: str, summary: str, now: datetime) -> CheckState:
    """Return the state of a check run that is concluded.

    The title is cut at `TITLE_LIMIT`, the summary has to be within `reports.size_limit.CHECK`, `now` has a time zone.
    """
    return CheckState(
        status="completed",
        conclusion=conclusion,
        title=_line(title, TITLE_LIMIT),
        summary=summary,
        completed_at=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def conclude(github: Access, run: CheckRun, end: CheckState, annotations: Sequence[Mapping[str, Any]]) -> Outcome:
    """Conclude a check run by its `ending`, with annotations.

    Annotations that cannot be added do not keep it from being concluded: one that is in progress for ever would hold
    up the merge without saying why.

    Returns:
        Published where it stands with all annotations.
    """
    added, broken = _annotate(github, run, end, annotations)
    if broken is None:
        return _published(end, added, run)
    try:
        _end(github, run, end)
    except ApiError as error:
        left = f"the check run {run.url} is not known to be concluded and may stay in progress"
        return github.refused(left, "checks: write", error)
    if added == len(annotations):
        return _published(end, added, run)
    # Of a request without an answer some more may stand there: only what is certain is claimed.
    return Failed(
        f"the check run {run.url} is concluded ({end.conclusion}), but only {added} of its {len(annotations)} "
        f"annotations are certain to stand there: {sentence(broken)}"
    )


def begin_with(github: Access, run: CheckRun, end: CheckState, before: Outcome) -> Outcome:
    """Give a concluded check run a summary that begins with the comment that is out of date.

    The comment is written after the check run is concluded: however long GitHub takes for it, nothing is in progress.

    Args:
        end: the `ending` with that summary.
        before: how the check run was concluded.

    Returns:
        `before`, or how the channel ends if it was published and the summary could not be replaced.
    """
    try:
        _end(github, run, end)
    except ApiError as error:
        if not isinstance(before, Published):
            return before
        return Failed(
            f"the check run {run.url} is concluded ({end.conclusion}), but its summary does not begin with the comment "
            f"that is out of date: {sentence(error)}"
        )
    return before


def _annotate(
    github: Access, run: CheckRun, end: CheckState, annotations: Sequence[Mapping[str, Any]]
) -> tuple[int, ApiError | None]:
    """Add annotations, the last of them with the end.

    A request appends, so that sending it twice shows its annotations twice: after one of which GitHub did not say
    whether it was done, what stands there is counted and only what is missing is sent.

    Returns:
        How many stand there as far as it is known, and what kept the end from being written, if anything.
    """
    added = tries = 0
    while True:
        batch = annotations[added : added + BATCH]
        last = added + len(batch) >= len(annotations)
        more = CheckState(
            status="in_progress", title="The annotations are being added", summary=_RUNNING, annotations=batch
        )
        try:
            github.api.update_check(run.id, replace(end, annotations=batch) if last else more)
        except ApiError as error:
            tries += 1
            if not error.accepted:
                return added, error
            try:
                count = github.poll(
                    lambda: github.api.check(run.id).annotations - run.annotations, partial(operator.lt, added)
                )
            except ApiError:
                return added, error
            if count > added:
                added, tries = min(count, len(annotations)), 0
            elif count < added or tries == _TRIES:
                # What stands there cannot be told, or the request fails for good.
                return added, error
        else:
            added += len(batch)
            tries = 0
            if last:
                return added, None


def _end(github: Access, run: CheckRun, end: CheckState) -> None:
    """Conclude without adding anything, which can be repeated."""
    for seconds in (LOOKS_S[0], None):
        try:
            github.api.update_check(run.id, end)
            return
        except ApiError as error:
            if seconds is None or not error.accepted:
                raise
        github.pause(seconds)


def _made(github: Access, sha: str, name: str, external_id: str) -> CheckRun | None:
    return github.poll(
        lambda: next((run for run in github.api.checks(sha, name) if run.external_id == external_id), None), bool
    )


def _published(end: CheckState, count: int, run: CheckRun) -> Outcome:
    return Published(f"{end.conclusion}, {count} annotation{'' if count == 1 else 's'}", run.url)


def _line(text: str, limit: int) -> str:
    return " ".join(text.split())[:limit].rstrip()
