"""What a review and its inline comments say, and the hidden markers that they are found by."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holodeck_action.github.annotations import MESSAGE_LIMIT, TITLE_LIMIT, Annotation
from holodeck_action.github.channels import first_line, second_line
from holodeck_action.github.sticky_comment import marker
from holodeck_action.reports.size_limit import COMMENT
from holodeck_action.results.report_views import Report
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
