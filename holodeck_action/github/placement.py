"""Where a suite stands in the repository that a workflow runs for, as far as its checkout tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holodeck_action.github.payload import EventError, Payload, is_repository, read_event
from holodeck_action.suite.checkout import folder_in_repository, origin, repository_root
from holodeck_action.text.plain import one_line

_HEADS = ("pull_request.head.repo.full_name", "workflow_run.head_repository.full_name")


@dataclass(frozen=True, slots=True)
class Placed:
    """A folder's path in the repository, empty for its root; or None, and `reason` says why in one sentence."""

    folder: str | None
    reason: str


def placed(folder: Path, environ: Mapping[str, str]) -> Placed:
    """Find a suite's folder in the repository of a workflow; outside of one, in the repository that holds it.

    A checkout of another repository has files at the same paths, which are not those of this one. What it was cloned
    from tells; a repository within another one that does not tell is another.
    """
    found = folder_in_repository(folder)
    root = repository_root(folder)
    if found is None or root is None:
        return Placed(None, _NO_REPOSITORY)
    here = environ.get("GITHUB_REPOSITORY", "")
    if not is_repository(here):
        return Placed(found, "")
    source = origin(root)
    if source is None:
        outer = repository_root(root.parent)
        nested = f"{one_line(str(root.relative_to(outer)), 200)} is a repository of its own" if outer else ""
        return Placed(None, _foreign(nested, here)) if nested else Placed(found, "")
    if source.casefold() in {name.casefold() for name in (here, *_heads(environ))}:
        return Placed(found, "")
    return Placed(None, _foreign(f"its checkout is one of {source}", here))


def unplaced(folders: Iterable[Path], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return why lines of suites in these folders cannot be annotated: each reason once."""
    return tuple(dict.fromkeys(found.reason for folder in folders if (found := placed(folder, environ)).reason))


def _heads(environ: Mapping[str, str]) -> list[str]:
    """Return the repositories, perhaps forks, whose commits an event of this one is about."""
    try:
        event = Payload(*read_event(environ))
    except EventError:
        return []
    return [name for name in map(event.get, _HEADS) if isinstance(name, str)]


def _foreign(why: str, here: str) -> str:
    return f"no line of the suite is annotated: {why}, and a line there is none of {here}"


_NO_REPOSITORY = (
    "no line of the suite is annotated: there is no .git folder, so it is not known where its files stand in the "
    "repository; check it out with actions/checkout"
)
