"""How a channel ends, and what all channels share that write to GitHub: whose a text is, refusals, when to look again.

No channel changes the verdict.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError, Comment, Ownership
from holodeck_action.text.code_spans import cell
from holodeck_action.text.plain import one_line

LOOKS_S = (1.0, 4.0)
"""Seconds before each look for what GitHub may have done without saying so: it can take a moment to show."""
TRIES = 2
"""How often something is written: once more after GitHub left open whether it was, and it does not show."""

NO_PULL = "; there is no such pull request, or the token may not see it"
"""Hint behind a 404 of a call about a pull request."""

_REASON_LIMIT = 1000
# Addresses come from GitHub's answers: what could end a Markdown link is not made one.
_ADDRESS = re.compile(r"https?://[\w.:/?=&#%~+-]{1,500}", re.ASCII)
_LINE_END = re.compile("\r\n?|\n")

T = TypeVar("T")


class Published(Struct, frozen=True):
    """It stands on GitHub.

    Attributes:
        detail: what was done, in a few words, such as `updated`.
        url: where it is to be seen; None for what has no page.
    """

    detail: str
    url: str | None = None


class Skipped(Struct, frozen=True):
    """Nothing was published.

    Attributes:
        reason: one sentence; for a missing permission with the line of a workflow that gives it.
        asked: it was asked for and could not be done, which `require-publish` fails; False where nothing was to be
            done, such as a mode that publishes failures only.
    """

    reason: str
    asked: bool


class Failed(Struct, frozen=True):
    """Publishing was tried and went wrong; `reason` is one sentence."""

    reason: str


Outcome = Published | Skipped | Failed


class Channel(Struct, frozen=True):
    """A channel that has ended: its name (`comment`, `check`, `review`, …) and how."""

    name: str
    outcome: Outcome


class Stopped(Exception):  # noqa: N818 - not an error: how the channel ends
    """A channel has ended, whatever it was about to do next.

    Attributes:
        outcome: how it ended.
        unclear: whether the last write was done is not known.
    """

    def __init__(self, outcome: Outcome, *, unclear: bool = False) -> None:
        super().__init__()
        self.outcome = outcome
        self.unclear = unclear


class Access(Struct, frozen=True):
    """GitHub, as a channel writes to it.

    Attributes:
        api: makes the calls.
        why: one sentence on why the token cannot write, where that is to be expected.
        app: whether the token is the job's own or another GitHub App's, whose comments are a bot's.
        pause: waits so many seconds.
    """

    api: Api
    why: str = ""
    app: bool = True
    pause: Callable[[float], None] = time.sleep

    def ours(self, items: Sequence[Comment], what: str) -> list[tuple[Comment, Ownership]]:
        """Return those that we wrote, in their order: a marker alone proves nothing, anybody can write it.

        A GitHub that does not tell (GraphQL) is taken at the author's type: a bot's is ours, a person's never.

        Args:
            items: comments or reviews that have our marker.
            what: what cannot be told, for the sentence.

        Raises:
            Stopped: it cannot be told whether a person's is ours.
        """
        try:
            known = self.api.ownership([item.node_id for item in items])
        except ApiError as error:
            bots = [item for item in items if item.author_type == "Bot"]
            if not self.app and len(bots) < len(items):
                reason = f"{sentence(error)}; so it could not be told whether {what} ours"
                raise Stopped(Failed(f"{reason}: give the job's own token, whose comments are a bot's")) from error
            return [(item, Ownership(own=True, minimized=False)) for item in bots] if self.app else []
        return [(item, known[item.node_id]) for item in items if item.node_id in known and known[item.node_id].own]

    def edit(
        self,
        write: Callable[[], Comment],
        listed: Callable[[], Iterable[Comment]],
        item: Comment,
        body: str,
        unknown: str,
    ) -> Comment:
        """Replace a body; where GitHub does not say whether it was done, look before it is tried again.

        Args:
            write: replaces it.
            listed: what stands there, with the item among it.
            item: as it was read.
            body: the new one.
            unknown: what to say where it cannot be looked up.

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
                found = self.poll_or_stop(
                    lambda: next((each for each in listed() if each.id == item.id), None),
                    lambda found: found is not None and same(found.body, body),
                    unknown,
                )
                if found is not None and same(found.body, body):
                    return found
                if found is None or not same(found.body, item.body) or tries == TRIES:
                    raise

    def poll(self, look: Callable[[], T], enough: Callable[[T], bool]) -> T:
        """Look for what GitHub may have done, until it is enough or for the last time, and return what was seen.

        Raises:
            ApiError: it cannot be told.
        """
        for seconds in LOOKS_S:
            self.pause(seconds)
            seen = look()
            if enough(seen):
                break
        return seen

    def poll_or_stop(self, look: Callable[[], T], enough: Callable[[T], bool], unknown: str) -> T:
        """Look as `poll`.

        Raises:
            Stopped: it cannot be told, as `unknown` says.
        """
        try:
            return self.poll(look, enough)
        except ApiError as error:
            raise Stopped(Failed(f"{sentence(error)}; {unknown}"), unclear=True) from error

    def refused(self, what: str, permission: str, error: ApiError, also: str = "", *, missing: str = "") -> Outcome:
        """Return how a channel ends that GitHub refuses a call.

        Args:
            what: what could not be done.
            permission: the line for `permissions:` that gives it.
            error: the refusal.
            also: a hint behind the permission.
            missing: a hint where GitHub says that there is no such thing.
        """
        reason = f"{what}: {sentence(error)}"
        if error.status == 401:
            return Skipped(f"{reason}; give `github-token` a token that is valid", asked=True)
        because = f"{self.why.rstrip('.')}; " if self.why else ""
        if error.kind == "denied":
            hint = f"add `{permission}` to the `permissions:` of the job{also}"
            return Skipped(f"{because}{reason}; {hint}", asked=True)
        return Failed(f"{because}{reason}{missing if error.status == 404 else ''}")


def table(channels: Sequence[Channel]) -> str:
    """Return the channels as a Markdown table, for the end of the job summary."""
    rows = "".join(f"| {channel.name} | {_result(channel.outcome)} |\n" for channel in channels)
    return f"\n### Published\n\n| Where | Result |\n| --- | --- |\n{rows}" if rows else ""


def lines(channels: Sequence[Channel]) -> tuple[str, ...]:
    """Return a line per channel, for the log."""
    return tuple(_line(channel) for channel in channels)


def missing(channels: Sequence[Channel]) -> bool:
    """Tell whether something that was asked for is not published."""
    outcomes = [channel.outcome for channel in channels]
    return any(isinstance(outcome, Failed) or (isinstance(outcome, Skipped) and outcome.asked) for outcome in outcomes)


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
    note = "note: " if missing([channel]) else ""
    return f"{note}{channel.name} {word}: {one_line(outcome.reason, _REASON_LIMIT)}"


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
