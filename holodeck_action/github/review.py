"""The review: failing cases as inline comments, where the diff shows their lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from holodeck_action.github.annotations import MESSAGE_LIMIT, TITLE_LIMIT, Annotation
from holodeck_action.github.case_annotations import passing_keys
from holodeck_action.github.channels import (
    NO_PULL,
    TRIES,
    Access,
    Failed,
    Outcome,
    Published,
    Skipped,
    Stopped,
    first_line,
    same,
    second_line,
    sentence,
)
from holodeck_action.github.rest.objects import ApiError, Comment, InlineComment
from holodeck_action.github.sticky_comment import marker
from holodeck_action.reports.comment.size_limit import COMMENT
from holodeck_action.reports.report_views import Report
from holodeck_action.text.code_spans import fence, inline_code

_KEY = re.compile(r"[0-9a-f]{16}")
_PASSES = "✅ passes now"
_ROOM_FOR_END = 500
"""Characters and bytes for what is said behind a list of any length."""


class Markers:
    """The first lines of what belongs to one review id."""

    def __init__(self, review_id: str) -> None:
        """Make the markers of an id, which is any text: it is written as that of a comment is."""
        written = marker(review_id).removeprefix("<!-- holodeck-action:report:").removesuffix(" -->")
        self.review = f"<!-- holodeck-action:review:{written} -->"
        self._case = f"<!-- holodeck-action:case:{written}:"

    def case(self, key: str) -> str:
        """Return the first line of the inline comment about an annotation's key."""
        return f"{self._case}{key} -->"

    def key_of(self, body: str) -> str | None:
        """Return the key that an inline comment is about; None for one that is not of this id."""
        first = first_line(body)
        key = first.removeprefix(self._case).removesuffix(" -->")
        return key if _KEY.fullmatch(key) and first == self.case(key) else None

    def is_review(self, body: str) -> bool:
        """Tell whether a review is of this id."""
        return first_line(body) == self.review


def failing_text(markers: Markers, annotation: Annotation) -> str:
    """Return the inline comment about what fails: at most 8,000 characters."""
    title = inline_code(annotation.title, TITLE_LIMIT)
    return f"{markers.case(annotation.key)}\n❌ {title}{fence(annotation.message, MESSAGE_LIMIT)}".rstrip()


def passing_text(markers: Markers, key: str, sha: str) -> str:
    """Return the inline comment about what failed once and holds now."""
    return f"{markers.case(key)}\n{_PASSES} (commit {inline_code(sha[:7])})"


def is_passing_text(body: str) -> bool:
    """Tell whether an inline comment of ours says already that what it is about holds."""
    return second_line(body).startswith(_PASSES)


def review_text(
    markers: Markers, reports: Sequence[Report], shown: Sequence[Annotation], rest: Sequence[Annotation], elsewhere: int
) -> str:
    """Return the body of the review, within the budget of a comment.

    Of what fails, `shown` has an inline comment, `rest` stands on lines of the diff and has none, worst first, and
    `elsewhere` counts what is on other lines.
    """
    paragraphs = [markers.review, _head(len(shown) + len(rest))]
    if rest:
        paragraphs.append(f"{_failures(len(shown))} shown on the lines, the worst first. Not shown there:")
        paragraphs.append(_listed(rest, COMMENT.bytes - _ROOM_FOR_END - len("\n\n".join(paragraphs).encode())))
    if elsewhere:
        paragraphs.append(f"{_failures(elsewhere)} on lines that the diff does not show: see the report of the run.")
    unknown = sum(report.counts.error + report.counts.skipped for report in reports)
    if unknown:
        cases = "1 case was" if unknown == 1 else f"{unknown:,} cases were"
        paragraphs.append(f"⚠️ {cases} not judged, in error or not run: nothing is known of them.")
    # A marker ends an HTML block only with the line it stands on: the next one is Markdown again.
    return paragraphs[0] + "\n" + "\n\n".join(paragraphs[1:])


def _head(count: int) -> str:
    if not count:
        return "**holodeck-action**: the newest run found no failure on a line of this pull request."
    return f"**holodeck-action**: {_failures(count)} on lines of this pull request."


def _failures(count: int) -> str:
    return "1 failure" if count == 1 else f"{count:,} failures"


def _listed(rest: Sequence[Annotation], room: int) -> str:
    lines: list[str] = []
    for annotation in rest:
        place = inline_code(f"{annotation.path}:{annotation.line}", 200)
        line = f"- {place}: {inline_code(annotation.title, TITLE_LIMIT)}"
        room -= len(line.encode()) + 1
        if room < 0:
            lines.append(f"- … and {len(rest) - len(lines):,} more")
            break
        lines.append(line)
    return "\n".join(lines)


MOST_INLINE = 20
"""Inline comments on a pull request that tell of a failure."""

_ASKED = 1000
"""Comments that are asked about: anybody can write our marker, ours are among the newest."""
_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?", re.DOTALL)
_UNKNOWN = "whether the review was {} could not be told, so it was not sent again: the next run brings it up to date"


def publish_review(
    github: Access, pull_number: int, sha: str, review_id: str, reports: Sequence[Report], marks: Sequence[Annotation]
) -> Outcome:
    """Show what fails on the lines of the diff, and bring earlier inline comments of ours up to date.

    What fails and has no inline comment yet gets one, the worst first, all of them in one review. One that has is
    edited; where it holds now, the comment says so. What was not judged this time keeps its comment as it is: nobody
    knows that it holds. Only comments that we wrote count; one that somebody has hidden stays hidden.

    `sha` is the head that was evaluated; `marks` are the annotations of the reports, worst first.
    """
    if not reports:
        return Skipped("nothing was evaluated: the review stays as it is", asked=False)
    try:
        return _Channel(github, pull_number, sha, Markers(review_id)).publish(reports, marks)
    except Stopped as stopped:
        return stopped.outcome


class _Plan(Struct, frozen=True):
    """What is to be done; what fails is worst first.

    Attributes:
        shown: what fails and has an inline comment.
        new: what fails on lines of the diff and gets one.
        rest: what fails on lines of the diff beyond `MOST_INLINE`.
        elsewhere: how much fails on other lines.
        edits: inline comments of ours with the body they are to have, and whether what they are about holds now.
    """

    shown: tuple[Annotation, ...]
    new: tuple[Annotation, ...]
    rest: tuple[Annotation, ...]
    elsewhere: int
    edits: tuple[tuple[Comment, str, bool], ...]


class _Channel(Struct, frozen=True):
    github: Access
    number: int
    sha: str
    markers: Markers

    def publish(self, reports: Sequence[Report], marks: Sequence[Annotation]) -> Outcome:
        try:
            ours = self._inline_comments()
            plan = self._plan(ours, _failing(marks), passing_keys(reports))
            # Without one to make, the newest review tells how it stands.
            newest = None if plan.new else self._newest_review()
        except ApiError as error:
            raise Stopped(self._stopped("the review could not be read", "read", error)) from error
        if not plan.new and not ours and newest is None:
            return Skipped(
                "no failing case stands on a line of the diff; the annotations show those that fail", asked=False
            )
        updated, passing = self._edit(plan.edits)
        body = review_text(self.markers, reports, (*plan.shown, *plan.new), plan.rest, plan.elsewhere)
        details = [(len(plan.new), "made"), (updated, "updated"), (passing, "marked as passing")]
        url = None
        if plan.new:
            url = self._create(plan.new, body)
        elif newest is not None:
            url = newest.url
            if not same(newest.body, body):
                url = self._update_review(newest, body)
                details.append((0, "review updated"))
        else:
            url = max((comment for comments in ours.values() for comment in comments), key=_age).url
        return Published(_detail(details), url)

    def _plan(
        self, ours: Mapping[str, Sequence[Comment]], failing: Sequence[Annotation], passing: frozenset[str]
    ) -> _Plan:
        lines: Mapping[str, frozenset[int]] = {}
        if any(annotation.key not in ours for annotation in failing):
            files = {annotation.path for annotation in failing}
            changed = (file for file in self.github.api.files(self.number) if file.path in files and file.patch)
            lines = {file.path: commentable_lines(file.patch or "") for file in changed}
        shown = tuple(annotation for annotation in failing if annotation.key in ours)
        others = [annotation for annotation in failing if annotation.key not in ours]
        in_diff = [item for item in others if item.line in lines.get(item.path, frozenset())]
        room = max(0, MOST_INLINE - len(shown))
        wanted = {annotation.key: failing_text(self.markers, annotation) for annotation in shown}
        edits: list[tuple[Comment, str, bool]] = []
        for key, comments in ours.items():
            for comment in comments:
                if key in wanted and not same(comment.body, wanted[key]):
                    edits.append((comment, wanted[key], False))
                elif key not in wanted and key in passing and not is_passing_text(comment.body):
                    edits.append((comment, passing_text(self.markers, key, self.sha), True))
        return _Plan(shown, tuple(in_diff[:room]), tuple(in_diff[room:]), len(others) - len(in_diff), tuple(edits))

    def _edit(self, edits: Sequence[tuple[Comment, str, bool]]) -> tuple[int, int]:
        """Edit inline comments; return how many tell of a failure and how many of what holds now."""
        done = [0, 0]
        for comment, body, holds in edits:
            try:
                self.github.edit(
                    partial(self.github.api.update_review_comment, comment.id, body),
                    lambda: self.github.api.review_comments(self.number),
                    comment,
                    body,
                    _UNKNOWN.format("updated"),
                )
            except ApiError as error:
                # Somebody has deleted it since it was listed.
                if error.kind == "not_found":
                    continue
                what = "an inline comment could not be updated"
                if sum(done):
                    what += f" ({sum(done)} of {len(edits)} were)"
                raise Stopped(self._stopped(what, "write", error)) from error
            done[holds] += 1
        return done[0], done[1]

    def _create(self, new: Sequence[Annotation], body: str) -> str:
        """Make a review and return where it is to be seen; never a second one."""
        comments = [InlineComment(item.path, item.line, failing_text(self.markers, item)) for item in new]
        keys = {annotation.key for annotation in new}
        error: ApiError | None = None
        for _ in range(TRIES):
            try:
                return self.github.api.create_review(self.number, self.sha, body, comments).url
            except ApiError as unclear:
                if not unclear.accepted:
                    raise Stopped(self._stopped("the review could not be made", "write", unclear)) from unclear
                error = unclear
            found = self.github.poll_or_stop(lambda: self._newest_about(keys), bool, _UNKNOWN.format("made"))
            if found is not None:
                return found.url
        assert error is not None
        raise Stopped(Failed(f"{sentence(error)}; {_UNKNOWN.format('made')}"))

    def _newest_about(self, keys: set[str]) -> Comment | None:
        """Return the newest of our inline comments about some of the keys."""
        ours = self._inline_comments()
        return max((comment for key in keys & ours.keys() for comment in ours[key]), key=_age, default=None)

    def _update_review(self, review: Comment, body: str) -> str:
        try:
            return self.github.edit(
                lambda: self.github.api.update_review(self.number, review.id, body),
                lambda: self.github.api.reviews(self.number),
                review,
                body,
                _UNKNOWN.format("updated"),
            ).url
        except ApiError as error:
            raise Stopped(self._stopped("the review could not be updated", "write", error)) from error

    def _inline_comments(self) -> Mapping[str, Sequence[Comment]]:
        """Return our inline comments by what they are about."""
        marked = [item for item in self.github.api.review_comments(self.number) if self.markers.key_of(item.body)]
        found: dict[str, list[Comment]] = defaultdict(list)
        for comment in self._own(marked):
            found[self.markers.key_of(comment.body) or ""].append(comment)
        return dict(found)

    def _newest_review(self) -> Comment | None:
        marked = [item for item in self.github.api.reviews(self.number) if self.markers.is_review(item.body)]
        return max(self._own(marked), key=_age, default=None)

    def _own(self, marked: Iterable[Comment]) -> list[Comment]:
        newest = sorted(marked, key=_age, reverse=True)[:_ASKED]
        return [item for item, _ in self.github.ours(newest, "inline comments with our marker are")]

    def _stopped(self, what: str, permission: str, error: ApiError) -> Outcome:
        also = " (`pull-requests: write` to write the review)" if permission == "read" else ""
        return self.github.refused(what, f"pull-requests: {permission}", error, also, missing=NO_PULL)


def _failing(marks: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """Return what failed, each thing once."""
    found: dict[str, Annotation] = {}
    for annotation in marks:
        if annotation.level == "failure":
            found.setdefault(annotation.key, annotation)
    return tuple(found.values())


def _detail(counts: Iterable[tuple[int, str]]) -> str:
    said = []
    for count, what in counts:
        if what == "review updated":
            said.append(what)
        elif count:
            said.append(f"{count} inline {'comment' if count == 1 else 'comments'} {what}")
    return ", ".join(said) or "unchanged"


def _age(item: Comment) -> int:
    return item.id


def commentable_lines(patch: str) -> frozenset[int]:
    """Return the 1-based lines of the new file that a patch adds or shows as context.

    Args:
        patch: hunks of a unified diff, as GitHub lists them for a file: without lines that name the files.

    Returns:
        The lines; none at all where the patch is not what it says it is, as GitHub refuses a whole review for one
        comment on another line.
    """
    lines: set[int] = set()
    position = old = new = 0
    after_line = False
    # Only \n ends a line of a diff: a file's lines may hold any other end.
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
    # Fewer or more lines than the header says.
    return frozenset() if old or new else frozenset(lines)
