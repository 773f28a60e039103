"""What all channels share that write to GitHub: whose a text is, what to do about a refusal, when to look again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from holodeck_action.github.channels import Failed, Outcome, Skipped
from holodeck_action.github.remote import ApiError, Comment, Ownership, Remote, Review

LOOKS_S = (1.0, 4.0)
"""Seconds before each look for what GitHub may have done without saying so: it can take a moment to show."""
TRIES = 2
"""How often something is written: once more after GitHub left open whether it was, and it does not show."""

NO_PULL = "; there is no such pull request, or the token may not see it"
"""Hint behind a 404 of a call about a pull request."""

_LINE_END = re.compile("\r\n?|\n")

Written = TypeVar("Written", Comment, Review)


class Stopped(Exception):  # noqa: N818 - not an error: how the channel ends
    """A channel has ended, whatever it was about to do next."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def ownership(remote: Remote, items: Sequence[Written], *, app: bool, what: str) -> list[tuple[Written, Ownership]]:
    """Return those that we wrote, in their order: a marker alone proves nothing, anybody can write it.

    A GitHub that does not tell (GraphQL) is taken at the author's type: a bot's is ours, a person's never.

    Args:
        remote: GitHub.
        items: comments or reviews that have our marker.
        app: whether the token is the job's own or another GitHub App's, whose comments are a bot's.
        what: what cannot be told, for the sentence.

    Raises:
        Stopped: it cannot be told whether a person's is ours.
    """
    try:
        known = remote.ownership([item.node_id for item in items])
    except ApiError as error:
        bots = [item for item in items if item.author_type == "Bot"]
        if not app and len(bots) < len(items):
            told = f"{sentence(error)}; so it could not be told whether {what} ours"
            raise Stopped(Failed(f"{told}: give the job's own token, whose comments are a bot's")) from error
        return [(item, Ownership(own=True, minimized=False)) for item in bots] if app else []
    return [(item, known[item.node_id]) for item in items if item.node_id in known and known[item.node_id].own]


def edited(
    write: Callable[[], Written],
    listed: Callable[[], Iterable[Written]],
    item: Written,
    body: str,
    pause: Callable[[float], None],
    untold: str,
) -> Written:
    """Replace a body; where GitHub does not say whether it was done, look before it is tried again.

    Args:
        write: replaces it.
        listed: what stands there, with the item among it.
        item: as it was read.
        body: the new one.
        pause: waits so many seconds.
        untold: what to say where it cannot be looked up.

    Raises:
        ApiError: it was not written, or somebody else has written it meanwhile.
        Stopped: it cannot be told.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return write()
        except ApiError as error:
            if not error.accepted:
                raise
            try:
                found = _seen(listed, item.id, body, pause)
            except ApiError as unread:
                raise Stopped(Failed(f"{sentence(unread)}; {untold}")) from unread
            if found is not None and same(found.body, body):
                return found
            if found is None or not same(found.body, item.body) or tries == TRIES:
                raise


def _seen(
    listed: Callable[[], Iterable[Written]], ident: int, body: str, pause: Callable[[float], None]
) -> Written | None:
    """Return what stands there, looked at until it has the body."""
    found: Written | None = None
    for seconds in LOOKS_S:
        pause(seconds)
        found = next((item for item in listed() if item.id == ident), None)
        if found is not None and same(found.body, body):
            break
    return found


def refused(what: str, permission: str, error: ApiError, why: str, also: str = "", *, missing: str = "") -> Outcome:
    """Return how a channel ends that GitHub refuses a call.

    Args:
        what: what could not be done.
        permission: the line for `permissions:` that gives it.
        error: the refusal.
        why: one sentence on why the token cannot write, where that is to be expected.
        also: a hint behind the permission.
        missing: a hint where GitHub says that there is no such thing.
    """
    told = f"{what}: {sentence(error)}"
    if error.status == 401:
        return Skipped(f"{told}; give `github-token` a token that is valid", asked=True)
    if error.kind == "denied":
        return Skipped(because(why, f"{told}; add `{permission}` to the `permissions:` of the job{also}"), asked=True)
    return Failed(because(why, f"{told}{missing if error.status == 404 else ''}"))


def same(stored: str, text: str) -> bool:
    """Compare bodies as GitHub stores them: line ends and the white space at the end may be others."""
    return _LINE_END.sub("\n", stored).rstrip() == _LINE_END.sub("\n", text).rstrip()


def first_line(body: str) -> str:
    """Return the first line of a body, whatever ends it."""
    return _LINE_END.split(body, maxsplit=1)[0].rstrip()


def second_line(body: str) -> str:
    """Return the second line of a body, empty where there is none."""
    return "".join(_LINE_END.split(body, maxsplit=2)[1:2])


def sentence(error: ApiError) -> str:
    """Return what an error says, to go on after it."""
    return str(error).rstrip(".")


def because(why: str, told: str) -> str:
    """Put the reason before what it explains, where there is one."""
    return f"{why.rstrip('.')}; {told}" if why else told
