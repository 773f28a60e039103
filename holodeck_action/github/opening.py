"""From the environment of a step to its publication: the event, the token and GitHub's address."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holodeck_action.github.check import token_can_check
from holodeck_action.github.event import EventError, read_event, resolve
from holodeck_action.github.publisher import Connection, Publisher
from holodeck_action.github.remote import ApiError, Remote
from holodeck_action.github.surfaces import Surfaces
from holodeck_action.github.target import ByCommit, ByNumber, Lookup, NoPull, Target
from holodeck_action.reports.comment import Place

PRIVILEGED = frozenset(("pull_request_target", "workflow_run", "issue_comment", "workflow_dispatch"))
"""Events that have secrets and a token that can write although they may be about anybody's code."""


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
        connection = Connection(None, "GITHUB_EVENT_NAME is not set: this is no step of a workflow", None, True, pause)
    else:
        connection = _connection(surfaces, known, environ, pause)
    return Publisher(known, connection, surfaces, _place(known, environ, evaluates), _run(environ))


def event_target(environ: Mapping[str, str]) -> Target:
    """Return what the event of a step is about; of one that cannot be read nothing is known, and nothing is trusted."""
    try:
        return resolve(*read_event(environ), environ)
    except EventError as error:
        name = environ.get("GITHUB_EVENT_NAME", "").strip()
        return Target(
            event=name,
            repository=environ.get("GITHUB_REPOSITORY", ""),
            sha=None,
            lookup=NoPull(str(error)),
            comments=False,
            standing_for=frozenset(),
            checks_out_head=name not in PRIVILEGED,
            write=False,
            why="",
            fork=None,
            privileged=name in PRIVILEGED,
        )


def given_target(repository: str, pull: int | None, sha: str | None) -> Target:
    """Return a target that somebody names, instead of an event.

    Args:
        repository: `owner/name`.
        pull: number of the pull request; None where the commit finds it.
        sha: the commit that was evaluated; None for the head of the pull request, which the record is then held to.
    """
    lookup: Lookup = NoPull("no pull request and no commit was given")
    if pull is not None:
        lookup = ByNumber(pull)
    elif sha is not None:
        lookup = ByCommit(sha)
    return Target(
        event="",
        repository=repository,
        sha=sha,
        lookup=lookup,
        comments=True,
        standing_for=frozenset(),
        # Who names the commit, vouches for it.
        checks_out_head=sha is not None,
        write=True,
        why="",
        fork=False,
        privileged=False,
    )


def _connection(
    surfaces: Surfaces, target: Target, environ: Mapping[str, str], pause: Callable[[float], None]
) -> Connection:
    remote: Remote | None = None
    unavailable = ""
    if not surfaces.anything and not (target.privileged and target.fork is None):
        unavailable = "nothing was asked for"
    elif not surfaces.token:
        unavailable = "there is no token: leave the input github-token to its default, or set GITHUB_TOKEN"
    elif not target.repository:
        unavailable = "GITHUB_REPOSITORY is not set, so it is not known where to publish"
    else:
        from holodeck_action.github.api import connect

        try:
            api_url = environ.get("GITHUB_API_URL") or "https://api.github.com"
            remote = connect(surfaces.token, api_url, target.repository, pause=pause)
        except ApiError as error:
            unavailable = str(error)
        except ImportError:
            unavailable = "publishing needs PyGithub: install holodeck-action[github]"
    personal = token_can_check(surfaces.token)
    return Connection(remote, unavailable, personal, personal is None, pause)


def _place(target: Target, environ: Mapping[str, str], evaluates: bool) -> Place:
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
