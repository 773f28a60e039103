"""The lines of a unified diff on which GitHub takes comments."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the diff: its index below the first hunk header, and the hunk down to it."""

    position: int
    hunk: str


def places(patch: str | None) -> dict[tuple[str, int], Place]:
    """Return the places of a file's patch by side (`LEFT`, `RIGHT`) and line; both sides have the context lines."""
    found: dict[tuple[str, int], Place] = {}
    left = right = position = 0
    hunk: list[str] = []
    for text in (patch or "").split("\n"):
        if header := _HUNK.match(text):
            left, right = int(header[1]), int(header[2])
            position += bool(hunk)
            hunk = [text]
            continue
        if not hunk:
            continue
        position += 1
        hunk.append(text)
        place = Place(position, "\n".join(hunk))
        if text.startswith((" ", "-")) or text == "":
            found["LEFT", left] = place
            left += 1
        if text.startswith((" ", "+")) or text == "":
            found["RIGHT", right] = place
            right += 1
    return found
