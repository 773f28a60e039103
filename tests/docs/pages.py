"""The pages of the documentation: their blocks, and the commands and files in them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what stands behind it on the fence, and its text."""

    line: int
    language: str
    mark: str
    text: str


@dataclass(frozen=True)
class Typed:
    """A command of a page, and what the page shows that it prints."""

    line: int
    command: str
    shown: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, those of lists without their indentation."""
    found: list[Block] = []
    fence: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.lstrip().startswith("```"):
            lines.append(line)
        elif fence is None:
            language, _, mark = line.strip()[3:].partition(" ")
            fence, lines = (number, language, mark), []
        else:
            found.append(Block(*fence, textwrap.dedent("\n".join(lines)) + "\n"))
            fence = None
    assert fence is None, f"{page.name}:{fence}: the block does not end"
    return found


def typed(block: Block) -> Iterator[Typed]:
    """Yield the commands of a console block, whose lines begin with `$`, each with the lines below it."""
    for part in f"\n{block.text}".split("\n$ ")[1:]:
        command, _, shown = part.partition("\n")
        yield Typed(block.line, command, shown.strip("\n"))
