"""Annotations: problems on lines of the repository, for check runs, workflow commands and reviews.

All strings of an annotation are plain text, without hidden characters and without lines that a runner would execute as
workflow commands. Invalid positions are not annotated, since GitHub would reject them or show them at a wrong line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.github.rest.payload import EventError, Payload, is_repository, read_event
from holodeck_action.reports.phrases import is_valid_position, repository_path
from holodeck_action.suite.checkout import folder_in_repository, origin, repository_root
from holodeck_action.suite.configuration_errors import LocatedProblem
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import one_line

_HEAD_REPOSITORY_FIELDS = ("pull_request.head.repo.full_name", "workflow_run.head_repository.full_name")


class FolderPlace(Struct, frozen=True):
    """A folder's path in the workflow's repository; empty for the root. If the folder is outside of this repository,
    `folder` is None, and `reason` is a sentence with the reason."""

    folder: str | None
    reason: str


def locate_folder(folder: Path, environ: Mapping[str, str]) -> FolderPlace:
    """Return a suite's path in the workflow's repository; outside of a workflow, in the suite's repository.

    The checkout of another repository may have files at the same paths; the URL of its `origin` identifies it. A nested
    repository without an origin counts as another repository.
    """
    found = folder_in_repository(folder)
    root = repository_root(folder)
    if found is None or root is None:
        return FolderPlace(None, _NO_REPOSITORY)
    here = environ.get("GITHUB_REPOSITORY", "")
    if not is_repository(here):
        return FolderPlace(found, "")
    source = origin(root)
    if source is None:
        outer = repository_root(root.parent)
        nested = f"{one_line(str(root.relative_to(outer)), 200)} is a separate repository" if outer else ""
        return FolderPlace(None, _foreign_reason(nested, here)) if nested else FolderPlace(found, "")
    if source.casefold() in {name.casefold() for name in (here, *_head_repositories(environ))}:
        return FolderPlace(found, "")
    return FolderPlace(None, _foreign_reason(f"its checkout is one of {source}", here))


def unannotated_reasons(folders: Iterable[Path], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the reasons why lines of suites in these folders cannot be annotated, each reason once."""
    return tuple(dict.fromkeys(found.reason for folder in folders if (found := locate_folder(folder, environ)).reason))


def _head_repositories(environ: Mapping[str, str]) -> list[str]:
    """Return the head repositories (perhaps forks) named by the event."""
    try:
        event = Payload(*read_event(environ))
    except EventError:
        return []
    return [name for name in map(event.get, _HEAD_REPOSITORY_FIELDS) if isinstance(name, str)]


def _foreign_reason(reason: str, current: str) -> str:
    return f"no line of the suite is annotated: {reason}, so its lines are not lines of {current}"


_NO_REPOSITORY = (
    "no line of the suite is annotated: there is no .git folder, so the paths of its files in the "
    "repository are unknown; check it out with actions/checkout"
)


Level = Literal["failure", "warning", "notice"]

MOST_ANNOTATIONS = 1000
"""Maximum number of annotations of a check run (20 requests of 50), and of annotations that have `details`."""

TITLE_LIMIT = 255
"""Maximum characters of a title (OpenAPI description of check runs). The same limit is applied to the title's bytes."""
MESSAGE_LIMIT = 4000
"""Maximum characters of a message: below a runner's 4,096, and at most 16 KB of a check run's 64 KB."""
DETAILS_LIMIT = 16_000
"""Maximum bytes of an annotation's details: a quarter of GitHub's limit of 64 KB, so that a request with 50 annotations
stays small."""


class Annotation(Struct, frozen=True):
    """A message that is shown at a line of a file.

    Attributes:
        path: path of the file, relative to the root of the repository.
        line: 1-based line.
        column: 1-based column; None if it is unknown.
        level: the level in GitHub's API.
        title: one line of at most `TITLE_LIMIT` characters and bytes.
        message: lines of at most `MESSAGE_LIMIT` characters.
        details: input, answer and tool calls, at most `DETAILS_LIMIT` bytes; may be empty.
        key: hash of suite, case and turn, and of the metric if the annotation is about one; the same in every run.
    """

    path: str
    line: int
    column: int | None
    level: Level
    title: str
    message: str
    details: str
    key: str


def annotate_problems(problems: Iterable[LocatedProblem], environ: Mapping[str, str]) -> tuple[Annotation, ...]:
    """Return an annotation for each problem on a line of the workflow's repository, in the order of the problems."""
    known = {problem: locate_folder(problem.folder, environ).folder for problem in problems}
    paths = ((problem, repository_path(folder, problem.mark)) for problem, folder in known.items())
    return tuple(_annotate_problem(problem, path) for problem, path in paths if path is not None)


def annotation_at(
    source: SourceMark, path: str, level: Level, title: str, message: str, key: str, details: str = ""
) -> Annotation:
    """Return an annotation at a position in the file `path`, with its texts cut to their limits."""
    # GitHub cannot show a column of a sheet.
    column = source.column if is_valid_position(source.column) and not source.sheet else None
    return Annotation(
        path=path,
        line=source.file_line,
        column=column,
        level=level,
        title=_fit_text(title, TITLE_LIMIT, TITLE_LIMIT),
        message=_fit_text(message, MESSAGE_LIMIT, 4 * MESSAGE_LIMIT),
        details=_fit_text(details, DETAILS_LIMIT, DETAILS_LIMIT),
        key=key,
    )


def annotation_key(*named: object) -> str:
    """Return the key of what JSON values name."""
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]


def _annotate_problem(problem: LocatedProblem, path: str) -> Annotation:
    field, mark = one_line(problem.field, 150), problem.mark
    title = f"NOT VALID · {field}" if field else "NOT VALID"
    message = f"{mark.in_sheet}: {problem.message}" if mark.sheet else problem.message
    key = annotation_key(path, mark.line, mark.column, problem.field, problem.message)
    return annotation_at(mark, path, "failure", title, one_line(message, MESSAGE_LIMIT), key)


def as_check_annotation(annotation: Annotation) -> dict[str, Any]:
    """Return an annotation as the JSON object that GitHub's API of check runs expects."""
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


def _fit_text(text: str, max_characters: int, size: int) -> str:
    """Cut a string to a maximum number of characters and of bytes, and strip it."""
    if len(text) <= max_characters and len(text.encode()) <= size:
        return text.strip()
    kept = text[: max_characters - 1].encode()[: size - len("…".encode())].decode(errors="ignore")
    return kept.strip() + "…"
