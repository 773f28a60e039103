"""The review: inline comments about failing cases on lines of the diff."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.github.annotations import MESSAGE_LIMIT, TITLE_LIMIT, Annotation
from holodeck_action.github.case_annotations import passing_keys
from holodeck_action.github.channels import (
    NO_PULL,
    Access,
    Item,
    Outcome,
    Published,
    Skipped,
    Stopped,
    age,
    first_line,
    same_body,
    second_line,
)
from holodeck_action.github.rest.api import every, page_url
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.sticky_comment import marker
from holodeck_action.reports.comment.size_limit import COMMENT
from holodeck_action.reports.report_views import Report
from holodeck_action.text.code_spans import fence, inline_code
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from github.Commit import Commit
    from github.PullRequest import PullRequest
    from github.PullRequestComment import PullRequestComment
    from github.PullRequestReview import PullRequestReview

_FIELDS = "node_id", "body", "html_url", "user"
_KEY = lazy_pattern(r"[0-9a-f]{16}")
_PASSES_TEXT = "✅ passes now"
_ROOM_FOR_END = 500
"""Bytes reserved for the paragraphs after the list of failures."""


class Markers:
    """The markers of one review id: the first lines of the review and of its inline comments."""

    def __init__(self, review_id: str) -> None:
        """Create the markers of an id, which may be any string and is encoded like a comment's id."""
        written = marker(review_id).removeprefix("<!-- holodeck-action:report:").removesuffix(" -->")
        self.review = f"<!-- holodeck-action:review:{written} -->"
        self._case = f"<!-- holodeck-action:case:{written}:"

    def case(self, key: str) -> str:
        """Return the first line of the inline comment about an annotation's key."""
        return f"{self._case}{key} -->"

    def key_of(self, body: str) -> str | None:
        """Return the annotation's key in the body of an inline comment; None if the body has no marker of this id."""
        first = first_line(body)
        key = first.removeprefix(self._case).removesuffix(" -->")
        return key if _KEY.fullmatch(key) and first == self.case(key) else None

    def is_review(self, body: str) -> bool:
        """Return whether a body is that of a review with this id."""
        return first_line(body) == self.review


def failing_text(markers: Markers, annotation: Annotation) -> str:
    """Return the body of the inline comment about a failure: at most 8,000 characters."""
    title = inline_code(annotation.title, TITLE_LIMIT)
    return f"{markers.case(annotation.key)}\n❌ {title}{fence(annotation.message, MESSAGE_LIMIT)}".rstrip()


def passing_text(markers: Markers, key: str, sha: str) -> str:
    """Return the body of the inline comment about an earlier failure that passes now."""
    return f"{markers.case(key)}\n{_PASSES_TEXT} (commit {inline_code(sha[:7])})"


def is_passing_text(body: str) -> bool:
    """Return whether the body of one of our inline comments already reports a pass."""
    return second_line(body).startswith(_PASSES_TEXT)


def review_text(
    markers: Markers,
    reports: Sequence[Report],
    inline_annotations: Sequence[Annotation],
    listed_annotations: Sequence[Annotation],
    unlisted_count: int,
) -> str:
    """Return the body of the review, within the size limit of a comment.

    `inline_annotations` are the failures with an inline comment, `listed_annotations` the other failures on lines of
    the diff, worst first, and `unlisted_count` is the number of failures on other lines.
    """
    paragraphs = [markers.review, _headline(len(inline_annotations) + len(listed_annotations))]
    if listed_annotations:
        paragraphs.append(
            f"{_failure_count(len(inline_annotations))} shown on the lines, the worst first. Not shown there:"
        )
        paragraphs.append(
            _list_failures(listed_annotations, COMMENT.bytes - _ROOM_FOR_END - len("\n\n".join(paragraphs).encode()))
        )
    if unlisted_count:
        paragraphs.append(
            f"{_failure_count(unlisted_count)} on lines that the diff does not show: see the report of the run."
        )
    unknown = sum(report.counts.error + report.counts.skipped for report in reports)
    if unknown:
        cases = "1 case was" if unknown == 1 else f"{unknown:,} cases were"
        paragraphs.append(f"⚠️ {cases} not judged, in error or not run: their outcome is unknown.")
    # The HTML block of a marker ends with its line: the next line is Markdown again.
    return paragraphs[0] + "\n" + "\n\n".join(paragraphs[1:])


def _headline(count: int) -> str:
    if not count:
        return "**holodeck-action**: the newest run found no failure on a line of this pull request."
    return f"**holodeck-action**: {_failure_count(count)} on lines of this pull request."


def _failure_count(count: int) -> str:
    return "1 failure" if count == 1 else f"{count:,} failures"


def _list_failures(listed_annotations: Sequence[Annotation], max_bytes: int) -> str:
    lines: list[str] = []
    for annotation in listed_annotations:
        place = inline_code(f"{annotation.path}:{annotation.line}", 200)
        line = f"- {place}: {inline_code(annotation.title, TITLE_LIMIT)}"
        max_bytes -= len(line.encode()) + 1
        if max_bytes < 0:
            lines.append(f"- … and {len(listed_annotations) - len(lines):,} more")
            break
        lines.append(line)
    return "\n".join(lines)


MOST_INLINE = 20
"""Maximum number of inline comments about failures on a pull request."""

_MOST_QUERIES = 10
"""Maximum number of queries, of 100 comments each, about authorship. Anyone can write the marker; this action's
comments are among the newest."""
_HUNK = lazy_pattern(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?", re.DOTALL)
_UNCONFIRMED = "whether the review was {} is unknown, so it was not sent again; the next run brings it up to date"


def publish_review(
    github: Access, pull_number: int, sha: str, review_id: str, reports: Sequence[Report], marks: Sequence[Annotation]
) -> Outcome:
    """Show failures on the lines of the diff, and update our earlier inline comments.

    Failures without an inline comment get one, the worst first, all in one review. Existing comments are edited; if the
    metric or turn passes now, its comment reports the pass. A comment is not changed if the metric or turn was not
    judged in this run. Only this action's comments are edited; a comment that a user has hidden stays hidden.

    `sha` is the evaluated head; `marks` are the annotations of the reports, worst first.
    """
    if not reports:
        return Skipped("nothing was evaluated, so the review stays as it is", requested=False)
    try:
        return _ReviewChannel(github, pull_number, sha, Markers(review_id)).publish(reports, marks)
    except Stopped as stopped:
        return stopped.outcome


class _Plan(Struct, frozen=True):
    """The planned comments and edits; failures are worst first.

    Attributes:
        shown: failures that already have an inline comment.
        new: failures on lines of the diff that get an inline comment.
        rest: failures on lines of the diff beyond `MOST_INLINE`.
        elsewhere: number of failures on other lines.
        edits: our inline comments to edit, each with its new body and whether this body reports a pass.
    """

    shown: tuple[Annotation, ...]
    new: tuple[Annotation, ...]
    rest: tuple[Annotation, ...]
    elsewhere: int
    edits: tuple[tuple[PullRequestComment, str, bool], ...]


class _ReviewChannel(Struct, frozen=True):
    github: Access
    number: int
    sha: str
    markers: Markers

    def publish(self, reports: Sequence[Report], marks: Sequence[Annotation]) -> Outcome:
        with self._stopping("the review could not be read", "read"):
            ours = self._inline_comments()
            plan = self._plan(ours, _unique_failures(marks), passing_keys(reports))
            # If there are no new comments, the newest review is updated.
            newest = None if plan.new else self._newest_review()
        if not plan.new and not ours and newest is None:
            return Skipped(
                "no failing case is on a line of the diff; the annotations show the failing cases", requested=False
            )
        updated, passing = self._edit_comments(plan.edits)
        body = review_text(self.markers, reports, (*plan.shown, *plan.new), plan.rest, plan.elsewhere)
        details = [(len(plan.new), "made"), (updated, "updated"), (passing, "marked as passing")]
        url = None
        if plan.new:
            url = self._create_review(plan.new, body)
        elif newest is not None:
            url = page_url(newest)
            if not same_body(newest.body, body):
                url = self._update_review(newest, body)
                details.append((0, "review updated"))
        else:
            url = page_url(max((comment for comments in ours.values() for comment in comments), key=age))
        return Published(_join_details(details), url)

    def _plan(
        self,
        existing_comments: Mapping[str, Sequence[PullRequestComment]],
        failing: Sequence[Annotation],
        passing: frozenset[str],
    ) -> _Plan:
        lines: Mapping[str, frozenset[int]] = {}
        if any(annotation.key not in existing_comments for annotation in failing):
            files = {annotation.path for annotation in failing}
            listed = (
                file
                for file in every(self._pull.get_files(), "filename", "patch")
                if file.filename in files and file.patch
            )
            lines = {file.filename: commentable_lines(file.patch) for file in listed}
        shown = tuple(annotation for annotation in failing if annotation.key in existing_comments)
        others = [annotation for annotation in failing if annotation.key not in existing_comments]
        in_diff = [item for item in others if item.line in lines.get(item.path, frozenset())]
        room = max(0, MOST_INLINE - len(shown))
        wanted = {annotation.key: failing_text(self.markers, annotation) for annotation in shown}
        edits: list[tuple[PullRequestComment, str, bool]] = []
        for key, comments in existing_comments.items():
            for comment in comments:
                if key in wanted and not same_body(comment.body, wanted[key]):
                    edits.append((comment, wanted[key], False))
                elif key not in wanted and key in passing and not is_passing_text(comment.body):
                    edits.append((comment, passing_text(self.markers, key, self.sha), True))
        return _Plan(shown, tuple(in_diff[:room]), tuple(in_diff[room:]), len(others) - len(in_diff), tuple(edits))

    def _edit_comments(self, edits: Sequence[tuple[PullRequestComment, str, bool]]) -> tuple[int, int]:
        """Edit inline comments; return the number of edits that report a failure, and of edits that report a pass."""
        done = [0, 0]
        for comment, body, passes in edits:
            what = "an inline comment could not be updated"
            if sum(done):
                what += f" ({sum(done)} of {len(edits)} were)"
            with self._stopping(what, "write"):
                try:
                    self._edit(partial(comment.edit, body), self._list_comments, comment, body)
                except ApiError as error:
                    # A user has deleted it since it was listed.
                    if error.kind == "not_found":
                        continue
                    raise
            done[passes] += 1
        return done[0], done[1]

    def _create_review(self, annotations: Sequence[Annotation], body: str) -> str:
        """Create the review, at most once, and return its URL."""
        comments: list[Any] = [
            {"path": item.path, "line": item.line, "side": "RIGHT", "body": failing_text(self.markers, item)}
            for item in annotations
        ]
        keys = {annotation.key for annotation in annotations}
        with self._stopping("the review could not be created", "write"):
            return self.github.create(
                lambda: page_url(self._pull.create_review(self._commit, body, "COMMENT", comments)),
                lambda: self._newest_about(keys),
                _UNCONFIRMED.format("made"),
            )

    def _newest_about(self, keys: set[str]) -> str | None:
        """Return the URL of our newest inline comment about any of the keys; None if there is no such comment."""
        ours = self._inline_comments()
        newest = max((comment for key in keys & ours.keys() for comment in ours[key]), key=age, default=None)
        return None if newest is None else page_url(newest)

    def _update_review(self, review: PullRequestReview, body: str) -> str:
        with self._stopping("the review could not be updated", "write"):
            return page_url(self._edit(lambda: review.edit(body), self._list_reviews, review, body))

    def _edit(self, write: Callable[[], None], list_items: Callable[[], Iterable[Item]], item: Item, body: str) -> Item:
        return self.github.edit(write, list_items, item, body, _UNCONFIRMED.format("updated"))

    @property
    def _pull(self) -> PullRequest:
        return self.github.api.repository.get_pull(self.number)

    @property
    def _commit(self) -> Commit:
        from github.Commit import Commit

        # PyGithub would request the commit to learn its hash.
        return Commit(self.github.api.repository.requester, attributes={"sha": self.sha})

    def _list_comments(self) -> Sequence[PullRequestComment]:
        return every(self._pull.get_review_comments(), "id", *_FIELDS)

    def _list_reviews(self) -> Sequence[PullRequestReview]:
        return every(self._pull.get_reviews(), "id", *_FIELDS)

    def _inline_comments(self) -> Mapping[str, Sequence[PullRequestComment]]:
        """Return our inline comments by annotation key."""
        found: dict[str, list[PullRequestComment]] = defaultdict(list)
        for comment in self._own_items(self._list_comments(), self.markers.key_of):
            found[self.markers.key_of(comment.body) or ""].append(comment)
        return dict(found)

    def _newest_review(self) -> PullRequestReview | None:
        return next(self._own_items(self._list_reviews(), self.markers.is_review), None)

    def _own_items(self, listed: Iterable[Item], has_marker: Callable[[str], object]) -> Iterator[Item]:
        owned = self.github.own_items(listed, has_marker, "inline comments with our marker are")
        return (item for part in islice(owned, _MOST_QUERIES) for item, _ in part)

    def _stopping(self, action: str, permission: str) -> AbstractContextManager[None]:
        note = " (`pull-requests: write` to write the review)" if permission == "read" else ""
        return self.github.stopping(action, f"pull-requests: {permission}", note, missing_permission=NO_PULL)


def _unique_failures(marks: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """Return the annotations with the level `failure`, without duplicates of a key."""
    found: dict[str, Annotation] = {}
    for annotation in marks:
        if annotation.level == "failure":
            found.setdefault(annotation.key, annotation)
    return tuple(found.values())


def _join_details(counts: Iterable[tuple[int, str]]) -> str:
    said = []
    for count, what in counts:
        if what == "review updated":
            said.append(what)
        elif count:
            said.append(f"{count} inline {'comment' if count == 1 else 'comments'} {what}")
    return ", ".join(said) or "unchanged"


def commentable_lines(patch: str) -> frozenset[int]:
    """Return the numbers, from 1, of the lines in the new file that a patch adds or shows as context.

    Args:
        patch: hunks of a unified diff, without the lines that name the files, as in GitHub's list of changed files.

    Returns:
        The lines; empty if the patch is invalid, since GitHub refuses a whole review if one line is not in the diff.
    """
    lines: set[int] = set()
    position = old = new = 0
    after_line = False
    # Only \n ends a line of a diff: a file's lines may contain other line ends.
    for text in patch.removesuffix("\n").split("\n"):
        if text.startswith("\\"):
            if not after_line:
                return frozenset()
            after_line = False
            continue
        if not old and not new:
            hunk = _HUNK.fullmatch(text)
            if hunk is None or (lines and int(hunk[3]) < position):
                return frozenset()
            old, new = (1 if count is None else int(count) for count in (hunk[2], hunk[4]))
            position = int(hunk[3])
            if (old == new == 0) or (new and position < 1):
                return frozenset()
            after_line = False
            continue
        sign = text[:1]
        if sign not in ("+", "-", " "):
            return frozenset()
        old -= sign != "+"
        new -= sign != "-"
        if sign != "-":
            lines.add(position)
            position += 1
        after_line = True
    # The number of lines differs from the header's.
    return frozenset() if old or new else frozenset(lines)
