"""Which lines of a changed file a review can comment on: those that its hunks show."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?", re.DOTALL)


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
