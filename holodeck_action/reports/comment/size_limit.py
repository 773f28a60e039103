"""GitHub's size limits for texts, and functions that shorten texts to fit (docs/github.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from holodeck_action.text.lazy_patterns import lazy_pattern

Detail = Literal["full", "counts", "reasons", "tables"]

DETAILS: tuple[Detail, ...] = ("full", "counts", "reasons", "tables")
"""Levels of detail: everything; passing cases only as a count; failing cases without answers; tables only."""


class SizeLimit(Struct, frozen=True):
    """Maximum size of a text in Unicode characters and in UTF-8 bytes; both limits apply."""

    characters: int
    bytes: int

    def holds(self, character_count: int, size: int) -> bool:
        """Return whether a text of `character_count` characters and `size` bytes is within the limits."""
        return character_count <= self.characters and size <= self.bytes

    def without(self, text: str) -> SizeLimit:
        """Return the limits that remain after a text."""
        return SizeLimit(self.characters - len(text), self.bytes - len(text.encode()))


COMMENT = SizeLimit(65_000, 65_000)
"""The limits for the body of a comment: GitHub's limit of 65,536 characters, minus some for a marker and a link."""

CHECK = SizeLimit(65_535, 65_535)
"""The limits for `output.summary` and `output.text` of a check run: `maxLength` in GitHub's OpenAPI description."""

JOB_SUMMARY = SizeLimit(1024 * 1024, 1024 * 1024)
"""The limits for a step's job summary: the runner uploads at most 1 MiB."""

IN_THE_RECORD = "the whole record is in results.json"
"""Default clause about the location of the rest of a cut report."""

_SHORTEST_ROW = 20
"""Minimum number of characters of a row with a title and a position."""
_LINE = lazy_pattern(r"(?<![^\n])[^\n]*\n")
_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})(.*)")
_CODE_SPAN = lazy_pattern(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_HTML_BLOCK = lazy_pattern(
    r" {0,3}</?(details|summary|div|table|tr|td|th|tbody|thead|ul|ol|li|p|h[1-6])\b", re.IGNORECASE
)
_DETAILS = lazy_pattern(r"<(/?)details\b", re.IGNORECASE)


def fit(render: Callable[[Detail], Iterable[str]], limit: SizeLimit, footer: str, listed_count: int = 0) -> str:
    """Return the most detailed rendering that fits; if none fits, the least detailed one, cut.

    Args:
        render: yields the text in pieces for a level of detail; iteration stops once the limit is exceeded.
        limit: size limits of the text.
        footer: trusted Markdown that refers to the complete report; appended to a cut text.
        listed_count: number of rows that only the most detailed level has; used to skip that level if it cannot fit.
    """
    text = ""
    # Skip a level whose rows cannot fit.
    for detail in DETAILS[listed_count * _SHORTEST_ROW > limit.characters :]:
        text, whole = gather(render(detail), limit)
        if whole:
            return text
    return cut(text, limit, footer)


def gather(pieces: Iterable[str], limit: SizeLimit) -> tuple[str, bool]:
    """Join pieces until the limit is exceeded.

    Returns:
        The text, and whether it is complete; if not, it is slightly longer than the limit.
    """
    gathered: list[str] = []
    characters = size = 0
    for piece in pieces:
        gathered.append(piece)
        characters += len(piece)
        size += len(piece.encode("utf-8", "replace"))
        if not limit.holds(characters, size):
            return "".join(gathered), False
    return "".join(gathered), True


def cut(text: str, limit: SizeLimit, footer: str) -> str:
    """Cut Markdown at the end of a line, and close an open fence and open `<details>` there.

    Args:
        text: Markdown without `<details>` tags in HTML comments.
        limit: size limits of the result.
        footer: trusted Markdown to append.
    """
    end = f"\n\n_The report was cut here: {footer}_\n"
    best = ""
    characters = size = 0
    for line, closing in _lines_with_closers(text):
        characters += len(line)
        size += len(line.encode())
        tail = closing + end
        if not limit.holds(characters, size):
            break
        if limit.holds(characters + len(tail), size + len(tail.encode())):
            best = text[:characters] + tail
    return best or end.lstrip()


def _lines_with_closers(text: str) -> Iterator[tuple[str, str]]:
    """Yield each complete line, and the text that closes the fence and `<details>` elements still open after it."""
    fence = ""
    html = False
    depth = 0
    for line in _LINE.findall(text):
        mark = None if html else _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            # Everything up to the next blank line is HTML, including apparent fences and code spans.
            html = bool(line.strip()) and (html or bool(_HTML_BLOCK.match(line)))
            for slash in _DETAILS.findall(line if html else _CODE_SPAN.sub("", line)):
                depth = max(0, depth - 1) if slash else depth + 1
        yield line, (f"{fence}\n" if fence else "") + "\n</details>" * depth
