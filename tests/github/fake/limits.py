"""Limits that GitHub documents, or is known to have, and its description of the API does not check.

Each function returns what is wrong with a request's body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.github.fake.diff import Place, places
from tests.github.fake.records import Pull

BODY_CHARACTERS = 65_536
"""Of a comment ("Body is too long (maximum is 65536 characters)"), a review and an inline comment."""
BODY_BYTES = 262_144
"""What its column of the database takes: four bytes for each character."""
TITLE_CHARACTERS = 256
"""Of an issue ("title is too long (maximum is 256 characters)")."""
ANNOTATION_TITLE = 255
"""Characters (description of `annotations[].title`)."""
ANNOTATION_TEXT = 64 * 1024
"""Bytes of `message` and of `raw_details` (their descriptions: "The maximum size is 64 KB")."""
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a field, as GitHub says it."""

    field: str
    message: str


def text_problems(value: Any, field: str = "body") -> Iterator[Problem]:
    """Look for text that is not Unicode: JSON can write lone surrogates, UTF-8 cannot."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield Problem(field, "Problems parsing JSON: not UTF-8")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from text_problems(item, f"{field}.{name}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from text_problems(item, f"{field}[{place}]")


def body_problems(text: str | None, field: str = "body") -> Iterator[Problem]:
    """Judge the Markdown of a comment."""
    if not (text or "").strip():
        yield Problem(field, "Body cannot be blank")
        return
    assert text is not None
    if len(text) > BODY_CHARACTERS or len(text.encode(errors="surrogatepass")) > BODY_BYTES:
        yield Problem(field, f"Body is too long (maximum is {BODY_CHARACTERS} characters)")


def title_problems(text: str) -> Iterator[Problem]:
    """Judge the title of an issue."""
    if not text.strip() or len(text) > TITLE_CHARACTERS or not text.isprintable():
        yield Problem("title", f"must have 1 to {TITLE_CHARACTERS} characters")


def check_problems(body: Mapping[str, Any], *, create: bool) -> Iterator[Problem]:
    """Judge a check run as it is created or updated."""
    if create and not _SHA.fullmatch(body["head_sha"]):
        yield Problem("head_sha", f"No commit found for SHA: {body['head_sha']}")
    if not body.get("name", "-").strip():
        yield Problem("name", "Name cannot be blank")
    if (body.get("status") == "completed" or "completed_at" in body) and "conclusion" not in body:
        yield Problem("conclusion", "Conclusion is required with completed_at or a status of completed")
    if body.get("conclusion") == "stale":
        yield Problem("conclusion", "Only GitHub can set the conclusion stale")
    if "conclusion" in body and body.get("status", "completed") != "completed":
        yield Problem("status", "A conclusion makes the status completed")
    if "details_url" in body and not body["details_url"].startswith(("http://", "https://")):
        yield Problem("details_url", "must use http or https")
    output = body.get("output", {})
    for field in ("title", "summary"):
        if field in output and not output[field].strip():
            yield Problem(f"output.{field}", f"{field} cannot be blank")
    for place, annotation in enumerate(output.get("annotations", ())):
        for problem in annotation_problems(annotation):
            yield Problem(f"output.annotations[{place}].{problem.field}", problem.message)


def annotation_problems(annotation: Mapping[str, Any]) -> Iterator[Problem]:
    """Judge an annotation."""
    path, start, end = annotation["path"], annotation["start_line"], annotation["end_line"]
    if not path or path.startswith("/") or "\\" in path or {"", ".", ".."} & set(path.split("/")):
        yield Problem("path", "must be relative to the root of the repository")
    if start < 1:
        yield Problem("start_line", "Line numbers start at 1")
    if end < start:
        yield Problem("end_line", "must not be before start_line")
    columns = [annotation[name] for name in ("start_column", "end_column") if name in annotation]
    if columns and start != end:
        yield Problem("start_column", "Annotations only support columns on one line")
    if any(column < 1 for column in columns):
        yield Problem("start_column", "Column numbers start at 1")
    if len(columns) == 2 and columns[0] > columns[1]:
        yield Problem("end_column", "must not be before start_column")
    if len(annotation.get("title", "")) > ANNOTATION_TITLE:
        yield Problem("title", f"is too long (maximum is {ANNOTATION_TITLE} characters)")
    if not annotation["message"].strip():
        yield Problem("message", "cannot be blank")
    for field in ("message", "raw_details"):
        if len(annotation.get(field, "").encode(errors="surrogatepass")) > ANNOTATION_TEXT:
            yield Problem(field, "is too long (maximum is 64 KB)")


def review_problems(body: Mapping[str, Any], pull: Pull) -> Iterator[Problem]:
    """Judge a review; GitHub does not say which of its comments is wrong, this does."""
    if body.get("commit_id", pull.head_sha) not in pull.commits:
        yield Problem("commit_id", "commit_id is not part of the pull request")
    comments = body.get("comments", ())
    if body.get("event") in ("COMMENT", "REQUEST_CHANGES") or body.get("body"):
        yield from body_problems(body.get("body"))
    elif not comments and body.get("event") != "APPROVE":
        yield Problem("body", "Review cannot be empty")
    for number, comment in enumerate(comments):
        yield from (
            Problem(f"comments[{number}].{item.field}", item.message) for item in _inline_problems(comment, pull)
        )


def _inline_problems(comment: Mapping[str, Any], pull: Pull) -> Iterator[Problem]:
    yield from body_problems(comment["body"])
    if "position" in comment or "line" not in comment:
        yield Problem("position", "position is closing down; use line")
        return
    if all(comment["path"] != file["filename"] for file in pull.files):
        yield Problem("path", "Path could not be resolved")
        return
    if place_of(comment, pull) is None:
        yield Problem("line", "Line could not be resolved")
    if "start_line" in comment:
        start = {**comment, "line": comment["start_line"], "side": comment.get("start_side", "RIGHT")}
        if comment["start_line"] >= comment["line"] or place_of(start, pull) is None:
            yield Problem("start_line", "Start line could not be resolved")


def place_of(comment: Mapping[str, Any], pull: Pull) -> Place | None:
    """Return where an inline comment stands in the diff; None when it does not."""
    return places(pull.patch(comment["path"])).get((comment.get("side", "RIGHT"), comment["line"]))
