"""Checks the event of the job, its token, and GitHub's API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from holodeck_action.extensions.doctor.findings import Finding
from holodeck_action.extensions.doctor.reachability import try_address
from holodeck_action.github.event import Destination, NoLookup, event_destination
from holodeck_action.github.job import Job
from holodeck_action.github.rest.api import PUBLIC_API_URL, user_permissions
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.input_values import github_token

_ABOUT = "Job"
_FORK = {True: "code of a fork", False: "no code of a fork", None: "whether the code is a fork's is unknown"}
_LOG = 'for a workflow\'s token they are in the log of the step "Set up job", below "GITHUB_TOKEN Permissions"'


def examine_job(caller: Caller, *, online: bool) -> Iterator[Finding]:
    """Yield the findings about the job's event, its token and GitHub's API, which is called only if `online`."""
    environ, token = caller.environ, github_token(caller.environ)
    destination = event_destination(environ) if environ.get("GITHUB_ACTIONS") == "true" else None
    yield _event(destination)
    yield _token(token, destination)
    if not online:
        yield Finding(_ABOUT, "GitHub", "unknown", "not called; --online tries to reach it")
        return
    reached, text = try_address(environ.get("GITHUB_API_URL") or PUBLIC_API_URL)
    yield Finding(_ABOUT, "GitHub", "ok" if reached else "note", text)
    if token and reached:
        yield _repository(caller, token)


def _event(destination: Destination | None) -> Finding:
    if destination is None:
        return Finding(_ABOUT, "event", "ok", "none, since this is not a job of GitHub Actions", {"event": None})
    event, fork, lookup = destination.event, destination.fork, destination.lookup
    secrets = ", with the repository's secrets and a token that can write" if destination.privileged else ""
    why = f"; {lookup.reason}" if isinstance(lookup, NoLookup) else ""
    details: dict[str, Any] = {"event": event, "fork": fork, "privileged": destination.privileged}
    text = f"{event}: {_FORK[fork]}{secrets}{why}"
    return Finding(_ABOUT, "event", "unknown" if fork is None else "ok", text, details)


def _token(token: str, destination: Destination | None) -> Finding:
    if not token:
        text = "none, so nothing can be published or fetched: set GITHUB_TOKEN"
        return Finding(_ABOUT, "token", "ok" if destination is None else "note", text, {"set": False})
    if destination is not None and destination.read_only_reason:
        return Finding(_ABOUT, "token", "note", destination.read_only_reason, {"set": True, "writes": False})
    text = f"set; its write permissions are unknown, since GitHub does not report them: {_LOG}"
    return Finding(_ABOUT, "token", "unknown", text, {"set": True, "writes": None})


def _repository(caller: Caller, token: str) -> Finding:
    # Nothing is waited for: a person looks at the screen.
    with Job(caller.environ, token, lambda seconds: None, lambda: datetime.now(UTC)) as job:
        try:
            granted = user_permissions(job.api(caller.cwd))
        except ApiError as error:
            return Finding(_ABOUT, "repository", "note", error.with_remedy("contents: read"))
    held = [name for name, given in granted.items() if given is True]
    more = f"; its user has the permissions {', '.join(held)}; the token may have fewer" if held else ""
    return Finding(_ABOUT, "repository", "ok", f"the token can read it{more}", {"user_permissions": held})
