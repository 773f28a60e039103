"""Whether code of an event may run, as a sentence."""

from __future__ import annotations

from collections.abc import Callable

from holodeck_action.github.event import Destination
from holodeck_action.github.lookup import FoundPulls, evaluation_permission
from holodeck_action.workers.permission import CodeRefusedError
from tests.github.events import HEAD


def is_head(is_known: Callable[[str], bool]) -> str | None:
    """Judge a checkout of the pull request's head, whose commit GitHub does not know otherwise."""
    return None if is_known(HEAD) else "nothing shows it"


def refusal(destination: Destination, found: FoundPulls | None, *, allowed: bool) -> str | None:
    """Return why the code to evaluate must not run; None where it may. `found` is None where GitHub says nothing."""
    try:
        evaluation_permission(destination, None if found is None else lambda: found, is_head, accepted=allowed)
    except CodeRefusedError as error:
        return str(error)
    return None
