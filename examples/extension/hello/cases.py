"""Files of cases that end in `.words`: each line is a case, whose answer must be the same line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path


def rows(path: str) -> Iterator[Mapping[str, str]]:
    """Yield the cases of a file."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        yield {"input": line, "ground_truth": line}
