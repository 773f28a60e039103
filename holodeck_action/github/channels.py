"""How a channel ends: what it published, or why it did not. No channel changes the verdict."""

from __future__ import annotations

from dataclasses import dataclass


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
