"""Opens the publisher of a step or of `publish`: where it publishes, with which token, and the links of its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from holodeck_action.github.channel_options import ChannelOptions
from holodeck_action.github.channels import Access
from holodeck_action.github.check_run import token_can_check
from holodeck_action.github.event import Destination, event_destination
from holodeck_action.github.publisher import Connection, Publication, Publisher
from holodeck_action.github.rest.api import connect
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.payload import EventError, Payload, is_number, read_event
from holodeck_action.github.stale_comments import unpublished_notice
from holodeck_action.reports.comment.places import LinkContext


def open_publisher(
    channel_options: ChannelOptions,
    environ: Mapping[str, str],
    pause: Callable[[float], None],
    *,
    evaluates: bool,
    destination: Destination | None = None,
) -> Publisher:
    """Return a publisher, without calling GitHub.

    Args:
        channel_options: the options of the channels.
        environ: the environment variables of the step.
        pause: waits for a number of seconds.
        evaluates: whether this run evaluates; if not, it publishes another run's record, and links lead to that run.
        destination: where to publish; None to determine it from the event of the current step.
    """
    known = destination if destination is not None else event_destination(environ)
    if destination is None and not known.event:
        connection = Connection(None, "GITHUB_EVENT_NAME is not set: this is not a step of a workflow")
    else:
        connection = _connect(channel_options, known, environ, pause)
    at = replace(_place(known, environ, evaluates=evaluates), comment_id=channel_options.subject)
    return Publisher(known, connection, channel_options, at, _run_attempt(environ), environ)


def empty_publication(environ: Mapping[str, str]) -> Publication:
    """Return the publication of a step with invalid inputs: only a notice that an earlier comment may be outdated."""
    destination = event_destination(environ)
    off = environ.get("INPUT_COMMENT", "").strip() == "off"
    return Publication(
        (), (), "" if off else unpublished_notice(destination, _place(destination, environ, evaluates=True))
    )


def _connect(
    channel_options: ChannelOptions,
    destination: Destination,
    environ: Mapping[str, str],
    pause: Callable[[float], None],
) -> Connection:
    if not channel_options.calls_github and not (destination.privileged and destination.fork is None):
        return Connection(None, "every output is switched off")
    if channel_options.token and not destination.repository:
        return Connection(None, "GITHUB_REPOSITORY is not set, so the repository to publish to is unknown")
    try:
        api = connect(channel_options.token, environ.get("GITHUB_API_URL") or None, destination.repository, pause=pause)
    except ApiError as error:
        return Connection(None, str(error))
    app = token_can_check(channel_options.token) is None
    return Connection(Access(api, destination.read_only_reason, app, pause))


def _place(destination: Destination, environ: Mapping[str, str], *, evaluates: bool) -> LinkContext:
    server = (environ.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")
    run_id = environ.get("GITHUB_RUN_ID", "") if evaluates else _evaluated_run(environ)
    home = f"{server}/{destination.repository}"
    return LinkContext(
        server, destination.repository, destination.sha, f"{home}/actions/runs/{run_id}" if run_id.isdecimal() else None
    )


def _evaluated_run(environ: Mapping[str, str]) -> str:
    """Return the id of the run in a `workflow_run` event, else of this run; an empty string outside of a workflow."""
    try:
        number = Payload(*read_event(environ)).get("workflow_run.id")
    except EventError:
        number = None
    return str(number) if is_number(number) else environ.get("GITHUB_RUN_ID", "")


def _run_attempt(environ: Mapping[str, str]) -> str:
    return "/".join(part for name in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT") if (part := environ.get(name, "")))
