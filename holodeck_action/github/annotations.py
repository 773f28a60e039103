"""Annotations: what is wrong, on the lines that asked for it. Check runs, workflow commands and reviews show them.

All texts of an annotation are plain: no hidden characters, no line that a runner obeys. A position that no line of the
repository can have gives no annotation, as GitHub would refuse it or show it at the wrong place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.github.rest.payload import EventError, Payload, is_repository, read_event
from holodeck_action.reports.phrases import repository_path, usable
from holodeck_action.suite.checkout import folder_in_repository, origin, repository_root
from holodeck_action.suite.configuration_errors import Located
from holodeck_action.text.plain import one_line

_HEADS = ("pull_request.head.repo.full_name", "workflow_run.head_repository.full_name")


class Placed(Struct, frozen=True):
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


Level = Literal["failure", "warning", "notice"]

MOST = 1000
"""Annotations of one check run: 20 calls of 50, as many as a page can be read of; those after it have no `details`."""

TITLE_LIMIT = 255
"""Characters of a title (OpenAPI description of check runs); we keep as many bytes."""
MESSAGE_LIMIT = 4000
"""Characters of a message: below the 4,096 that a runner keeps, at most 16 KB of the 64 KB that a check run takes."""
DETAILS_LIMIT = 16_000
"""Bytes of details: a quarter of the 64 KB that a check run takes, so that 50 of them are one small request."""


class Annotation(Struct, frozen=True):
    """A message at a line.

    Attributes:
        path: the file, relative to the root of the repository.
        line: 1-based line.
        column: 1-based column; None where it is not known.
        level: as the API names it.
        title: one line of at most `TITLE_LIMIT` characters and bytes.
        message: lines of at most `MESSAGE_LIMIT` characters.
        details: input, answer and tool calls at more length, at most `DETAILS_LIMIT` bytes; may be empty.
        key: what it is about, the same in every run: hash of suite, case, turn and, if it is on a metric, metric.
    """

    path: str
    line: int
    column: int | None
    level: Level
    title: str
    message: str
    details: str
    key: str


def annotate_problems(problems: Iterable[Located], environ: Mapping[str, str]) -> tuple[Annotation, ...]:
    """Return an annotation for each problem whose line the repository of a workflow has, in their order."""
    known = {problem: placed(problem.folder, environ).folder for problem in problems}
    paths = ((problem, repository_path(folder, problem.mark)) for problem, folder in known.items())
    return tuple(_of_problem(problem, path) for problem, path in paths if path is not None)


def _of_problem(problem: Located, path: str) -> Annotation:
    field = one_line(problem.field, 150)
    title = f"NOT VALID · {field}" if field else "NOT VALID"
    named = json.dumps([path, problem.mark.line, problem.mark.column, problem.field, problem.message])
    return Annotation(
        path=path,
        line=problem.mark.line,
        column=problem.mark.column if usable(problem.mark.column) else None,
        level="failure",
        title=fitting(title, TITLE_LIMIT, TITLE_LIMIT),
        message=fitting(one_line(problem.message, MESSAGE_LIMIT), MESSAGE_LIMIT, 4 * MESSAGE_LIMIT),
        details="",
        key=hashlib.sha256(named.encode()).hexdigest()[:16],
    )


def as_check(annotation: Annotation) -> dict[str, Any]:
    """Return an annotation as the API of check runs takes it."""
    made: dict[str, Any] = {
        "path": annotation.path,
        "start_line": annotation.line,
        "end_line": annotation.line,
        "annotation_level": annotation.level,
        "title": annotation.title,
        "message": annotation.message,
    }
    if annotation.column is not None:
        made |= {"start_column": annotation.column, "end_column": annotation.column}
    if annotation.details:
        made["raw_details"] = annotation.details
    return made


def fitting(text: str, characters: int, size: int) -> str:
    """Cut a text to so many characters and bytes, whole characters, without space at its ends."""
    if len(text) <= characters and len(text.encode()) <= size:
        return text.strip()
    kept = text[: characters - 1].encode()[: size - len("…".encode())].decode(errors="ignore")
    return kept.strip() + "…"
