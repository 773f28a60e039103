"""The channels (comment, check run, review): their outcomes, and shared code for ownership, refusals and polling.

No channel changes the verdict.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from holodeck_action.github.rest.api import MOST_NODES, Api, Ownership, reading
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.text.code_spans import cell
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

if TYPE_CHECKING:
    from holodeck_action.github.rest.api import Text

POLL_PAUSES_S = (1.0, 4.0)
"""Seconds to wait before each check whether an unconfirmed write took effect. GitHub may show a write with a delay."""
TRIES = 2
"""Maximum number of attempts to write: one retry if GitHub gave no answer and does not show the first write."""

NO_PULL = "; there is no such pull request, or the token may not see it"
"""Hint appended to the message of a 404 about a pull request."""

_REASON_LIMIT = 1000
# Addresses come from GitHub's answers: one that could end a Markdown link is not linked.
_ADDRESS = lazy_pattern(r"https?://[\w.:/?=&#%~+-]{1,500}", re.ASCII)
_LINE_END = lazy_pattern("\r\n?|\n")

T = TypeVar("T")
Item = TypeVar("Item", bound="Text")
"""A comment, review or issue of PyGithub; its strings are untrusted, and its body is None if it has no text."""


class Published(Struct, frozen=True):
    """The outcome of a channel that was published.

    Attributes:
        detail: the action in a few words, such as `updated`.
        url: URL of the published item; None if it has no page.
    """

    detail: str
    url: str | None = None


class Skipped(Struct, frozen=True):
    """The outcome of a channel that published nothing.

    Attributes:
        reason: one sentence; for a missing permission, it includes the line of the workflow that grants it.
        requested: whether publishing was requested but impossible, so that `require-publish` fails; False if there was
            nothing to publish, such as after a passed run if only failures are published.
    """

    reason: str
    requested: bool


class Failed(Struct, frozen=True):
    """The outcome of a channel whose publishing failed; `reason` is one sentence."""

    reason: str


Outcome = Published | Skipped | Failed


class Channel(Struct, frozen=True):
    """The result of a channel: name (`comment`, `check`, `review`, …) and outcome."""

    name: str
    outcome: Outcome


class Stopped(Exception):  # noqa: N818 - not an error: how the channel ends
    """Ends a channel early.

    Attributes:
        outcome: the outcome of the channel.
        unclear: whether the result of the last write is unknown.
    """

    def __init__(self, outcome: Outcome, *, is_unknown: bool = False) -> None:
        super().__init__()
        self.outcome = outcome
        self.unclear = is_unknown


class Access(Struct, frozen=True):
    """The access of channels to GitHub.

    Attributes:
        api: the client for GitHub's API.
        read_only_reason: one sentence on why the token probably cannot write; empty if it probably can.
        app: whether the token belongs to the job or a GitHub App, so that a bot is the author of comments.
        pause: waits for a number of seconds.
    """

    api: Api
    read_only_reason: str = ""
    app: bool = True
    pause: Callable[[float], None] = time.sleep

    def own_items(
        self, listed: Iterable[Item], has_marker: Callable[[str], object], clause: str
    ) -> Iterator[list[tuple[Item, Ownership]]]:
        """Yield the items that this action wrote, the newest first, in lists of one request each. A marker is no proof
        of authorship, since anyone can write it any number of times.

        GitHub's GraphQL API reports the items that this token wrote. If this request fails and `app` is true, all items
        by bots count as written by this action.

        Args:
            listed: comments, reviews or issues.
            has_marker: returns whether a body has this action's marker.
            clause: subject and verb of the error message, such as `a comment with our marker is`.

        Raises:
            Stopped: the request failed, and `app` does not show whether this action wrote the items.
        """
        marked = sorted((item for item in listed if has_marker(item.body)), key=age, reverse=True)
        for start in range(0, len(marked), MOST_NODES):
            yield self._own_of(marked[start : start + MOST_NODES], clause)

    def _own_of(self, comments: Sequence[Item], clause: str) -> list[tuple[Item, Ownership]]:
        try:
            known = self.api.ownership([item.node_id for item in comments])
        except ApiError as error:
            bots = [item for item in comments if _is_by_bot(item)]
            if not self.app and len(bots) < len(comments):
                reason = f"{error_clause(error)}; so it is unknown whether {clause} ours"
                raise Stopped(Failed(f"{reason}: use the job's own token, whose comments come from a bot")) from error
            return [(item, Ownership(own=True, minimized=False)) for item in bots] if self.app else []
        return [(item, known[item.node_id]) for item in comments if item.node_id in known and known[item.node_id].own]

    def create(
        self,
        make: Callable[[], T],
        find: Callable[[], T | None],
        unknown_message: str,
        is_done: Callable[[T | None], bool] = lambda found: found is not None,
    ) -> T:
        """Create something at most once. If GitHub does not confirm it, look for it before a retry.

        Args:
            make: creates it.
            find: returns it, or what another step has created in its place; None if GitHub shows neither.
            unknown_message: clause of the error message if it is unknown whether it was created.
            is_done: whether to look no further.

        Raises:
            ApiError: GitHub refused to create it.
            Stopped: it is unknown whether it was created.
        """
        for _ in range(TRIES):
            try:
                return make()
            except ApiError as unclear:
                if not unclear.accepted:
                    raise
                error = unclear
            found = self.poll_or_stop(find, is_done, unknown_message)
            if found is not None:
                return found
        raise Stopped(Failed(f"{error_clause(error)}; {unknown_message}"))

    def edit(
        self,
        write: Callable[[], None],
        list_comments: Callable[[], Iterable[Item]],
        comment: Item,
        body: str,
        unknown_message: str,
    ) -> Item:
        """Replace the body of a comment or review. If GitHub does not confirm the write, read the item before a retry.

        Args:
            write: writes the new body.
            list_comments: returns the current items, including the edited item.
            comment: the item before the edit.
            body: the new body.
            unknown_message: clause of the error message if the item cannot be read.

        Raises:
            ApiError: the body was not written, or the item was changed by another writer.
            Stopped: it is unknown whether the body was written.
        """
        before, tries = comment.body, 0
        while True:
            tries += 1
            try:
                write()
                return comment
            except ApiError as error:
                if not error.accepted:
                    raise
                found = self.poll_or_stop(
                    lambda: next((each for each in list_comments() if each.id == comment.id), None),
                    lambda found: found is not None and same_body(found.body, body),
                    unknown_message,
                )
                if found is not None and same_body(found.body, body):
                    return found
                if found is None or not same_body(found.body, before) or tries == TRIES:
                    raise

    def poll(self, look: Callable[[], T], is_done: Callable[[T], bool]) -> T:
        """Call `look` after each pause of `POLL_PAUSES_S` until `is_done` accepts its result; return the last result.

        Raises:
            ApiError: GitHub gave no answer.
        """
        for seconds in POLL_PAUSES_S:
            self.pause(seconds)
            seen = look()
            if is_done(seen):
                break
        return seen

    def poll_or_stop(self, look: Callable[[], T], is_done: Callable[[T], bool], unknown_message: str) -> T:
        """Call `poll`, and stop the channel if GitHub gives no answer.

        Raises:
            Stopped: the result is unknown; `unknown_message` is a clause of the reason.
        """
        try:
            return self.poll(look, is_done)
        except ApiError as error:
            raise Stopped(Failed(f"{error_clause(error)}; {unknown_message}"), is_unknown=True) from error

    @contextmanager
    def stopping(self, action: str, permission: str, note: str = "", *, missing_permission: str = "") -> Iterator[None]:
        """Stop the channel if GitHub refuses a call in the block; see `refusal_outcome` for the arguments.

        Raises:
            Stopped: the block raised an `ApiError`.
        """
        try:
            yield
        except ApiError as error:
            raise Stopped(
                self.refusal_outcome(action, permission, error, note, missing_permission=missing_permission)
            ) from error

    def refusal_outcome(
        self, action: str, permission: str, error: ApiError, note: str = "", *, missing_permission: str = ""
    ) -> Outcome:
        """Return the outcome of a channel after a refused call.

        Args:
            action: clause that names the failed action.
            permission: the line in `permissions:` that allows the action.
            error: the refusal.
            note: appended to the hint about the permission.
            missing_permission: a hint appended if the status is 404.
        """
        reason = f"{action}: {error_clause(error)}"
        if error.status == 401:
            return Skipped(f"{reason}; give `github-token` a token that is valid", requested=True)
        because = f"{self.read_only_reason.rstrip('.')}; " if self.read_only_reason else ""
        if error.kind == "denied":
            hint = f"add `{permission}` to the `permissions:` of the job{note}"
            return Skipped(f"{because}{reason}; {hint}", requested=True)
        return Failed(f"{because}{reason}{missing_permission if error.status == 404 else ''}")


def channel_table(channels: Sequence[Channel]) -> str:
    """Return the channels as a Markdown table, for the end of the job summary."""
    rows = "".join(f"| {channel.name} | {_result(channel.outcome)} |\n" for channel in channels)
    return f"\n### Published\n\n| Where | Result |\n| --- | --- |\n{rows}" if rows else ""


def channel_lines(channels: Sequence[Channel]) -> tuple[str, ...]:
    """Return one line per channel, for the log."""
    return tuple(_line(channel) for channel in channels)


def any_unpublished(channels: Sequence[Channel]) -> bool:
    """Return whether a requested channel was not published."""
    outcomes = [channel.outcome for channel in channels]
    return any(
        isinstance(outcome, Failed) or (isinstance(outcome, Skipped) and outcome.requested) for outcome in outcomes
    )


def _result(outcome: Outcome) -> str:
    if isinstance(outcome, Published):
        known = outcome.url is not None and _ADDRESS.fullmatch(outcome.url)
        return f"[{outcome.detail}]({outcome.url})" if known else outcome.detail
    sign, word = ("❌", "failed") if isinstance(outcome, Failed) else ("⏭️", "skipped")
    return f"{sign} {word}: {cell(outcome.reason, _REASON_LIMIT)}"


def _line(channel: Channel) -> str:
    outcome = channel.outcome
    if isinstance(outcome, Published):
        where = f": {one_line(outcome.url, 500)}" if outcome.url else ""
        return f"{channel.name}: {outcome.detail}{where}"
    word = "failed" if isinstance(outcome, Failed) else "skipped"
    note = "note: " if any_unpublished([channel]) else ""
    return f"{note}{channel.name} {word}: {one_line(outcome.reason, _REASON_LIMIT)}"


def same_body(stored: str | None, text: str | None) -> bool:
    """Return whether two bodies are equal, except for line ends and trailing white space, which GitHub may change."""
    return _LINE_END.sub("\n", stored or "").rstrip() == _LINE_END.sub("\n", text or "").rstrip()


def first_line(body: str | None) -> str:
    """Return the first line of a body, which is None if GitHub has no text."""
    return _LINE_END.split(body or "", maxsplit=1)[0].rstrip()


def age(item: Text) -> int:
    """Return a number that is larger for newer items of a kind."""
    return item.id


def newest_clause(count: int, noun: str) -> str:
    """Return the clause that several texts have the same marker, with a noun in the plural; empty for a single text."""
    return f"; {count} {noun} have this marker, and this is the newest" if count > 1 else ""


@reading
def _is_by_bot(item: Text) -> bool:
    # Whoever deletes an account leaves comments that have no author.
    return bool(item.user) and item.user.type == "Bot"


def second_line(body: str) -> str:
    """Return the second line of a body; an empty string if it has one line."""
    return "".join(_LINE_END.split(body, maxsplit=2)[1:2])


def error_clause(error: ApiError) -> str:
    """Return the message of an error without its final period, to be continued in a sentence."""
    return str(error).rstrip(".")
