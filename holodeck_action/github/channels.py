"""How a channel ends: what it published, or why it did not. No channel changes the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holodeck_action.text.code_spans import cell
from holodeck_action.text.plain import one_line

_REASON_LIMIT = 1000
# Addresses come from GitHub's answers: what could end a Markdown link is not made one.
_ADDRESS = re.compile(r"https?://[\w.:/?=&#%~+-]{1,500}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Published:
    """It stands on GitHub.

    Attributes:
        detail: what was done, in a few words, such as `updated`.
        url: where it is to be seen; None for what has no page.
    """

    detail: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was published.

    Attributes:
        reason: one sentence; for a missing permission with the line of a workflow that gives it.
        asked: it was asked for and could not be done, which `require-publish` fails; False where nothing was to be
            done, such as a mode that publishes failures only.
    """

    reason: str
    asked: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """Publishing was tried and went wrong; `reason` is one sentence."""

    reason: str


Outcome = Published | Skipped | Failed


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel that has ended: its name (`comment`, `check`, `review`, …) and how."""

    name: str
    outcome: Outcome


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
