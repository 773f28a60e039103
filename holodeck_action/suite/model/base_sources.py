"""The written forms of `baseline.source`. This module imports nothing heavy."""

from typing import Literal, NamedTuple

SOURCE_PATTERN = r"^(file:.+|artifact(:.+)?|branch:[A-Za-z0-9._/-]+|merge-base)$"
"""Regular expression of all forms of a source."""

MERGE_BASE = "merge-base"
"""The source without stored results: the suite at another commit is evaluated in the same run."""

SourceKind = Literal["file", "artifact", "branch", "merge-base"]


class BaseSource(NamedTuple):
    """The source of a base's results.

    Attributes:
        kind: the kind of source.
        name: path of the file, or name of the artifact or branch; empty if none is given.
    """

    kind: SourceKind
    name: str


def parse_source(source: str) -> BaseSource:
    """Parse a string that matches `SOURCE_PATTERN`. Raises: ValueError: the kind of source is unknown."""
    kind, _, name = source.partition(":")
    match kind:
        case "file" | "artifact" | "branch" | "merge-base":
            return BaseSource(kind, name)
    raise ValueError(f"{source!r} is not a source of results to compare with")
