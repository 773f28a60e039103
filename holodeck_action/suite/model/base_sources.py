"""Where the results can come from that a run is compared with, as they are written. Nothing heavy is imported here."""

from __future__ import annotations

from typing import Literal, NamedTuple

SOURCES = r"^(file:.+|artifact(:.+)?|branch:[A-Za-z0-9._/-]+|merge-base)$"
"""All forms of a source."""

MERGE_BASE = "merge-base"
"""The one source that has no results yet: the suite of another commit, which runs beside this one."""

SourceKind = Literal["file", "artifact", "branch", "merge-base"]


class BaseSource(NamedTuple):
    """A source, taken apart.

    Attributes:
        kind: what gives the results.
        name: path of the file, name of the artifact or the branch; empty for none.
    """

    kind: SourceKind
    name: str


def parse_source(written: str) -> BaseSource:
    """Take apart a text that `SOURCES` matches."""
    kind, _, name = written.partition(":")
    match kind:
        case "file" | "artifact" | "branch" | "merge-base":
            return BaseSource(kind, name)
    raise ValueError(f"{written!r} is no source of results to compare with")
