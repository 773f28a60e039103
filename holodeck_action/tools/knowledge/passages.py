"""Chunks of structured documents: one section each, or equal pieces that know which sections they are from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from holodeck_action.tools.knowledge.chunking import chunk_spans
from holodeck_action.tools.knowledge.headings import Domain
from holodeck_action.tools.knowledge.structure import Section, sections
from holodeck_action.tools.knowledge.tokens import count_tokens

_ANCHOR = re.compile(r"\W+")
_LONGEST_ANCHOR = 60
_CITED = frozenset(("section", "item", "article"))
"""Kinds of sections that a bare number names: `4.2` is a section, not Part 4.2."""


@dataclass(frozen=True, slots=True)
class ChunkRules:
    """How documents become chunks.

    Attributes:
        strategy: `structure`: a chunk has text of one section alone; `token`: pieces of equal size.
        domain: which headings the documents have besides Markdown's.
        most_tokens: tokens of a chunk (see `tokens`), the headings it begins with included.
        overlap: tokens that two neighbouring chunks of one section (or of a document, by token) share, at most half of
            `most_tokens`.
        depth: headings that stand deeper are text of the section around them; None for no limit.
    """

    strategy: Literal["structure", "token"] = "structure"
    domain: Domain = "none"
    most_tokens: int = 800
    overlap: int = 50
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    Attributes:
        id: the file with the section's number or the words of its heading, such as `policy.md#4.2(a)`; a second chunk
            of the section ends in `~2`. By token: the file with the chunk's number, such as `policy.md#3`.
        source: the file.
        title: the section in which it begins, with the headings around it.
        text: its text; by structure it begins with the title in a line of its own, which a blank line ends.
        sections: indexes of the document's sections that it has text of.
        numbers: the numbers of the sections that begin in it or that it is from.
    """

    id: str
    source: str
    title: str
    text: str
    sections: tuple[int, ...]
    numbers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A file with its sections and its chunks, all in its order."""

    source: str
    text: str
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]

    def chunk_of(self, section: int) -> Chunk | None:
        """Return the chunk in which a section begins, or that of its first subsection; None when there is none."""
        place = bisect_left(self.chunks, section, key=lambda chunk: chunk.sections[-1] if chunk.sections else 0)
        return self.chunks[place] if place < len(self.chunks) else None


def document(source: str, text: str, rules: ChunkRules) -> Document:
    """Divide a document into sections and chunks.

    Every visible character of the text, but for the marks of Markdown's headings, is in a chunk.
    """
    found = sections(text, rules.domain, rules.depth)
    make = _by_structure if rules.strategy == "structure" else _by_token
    return Document(source, text, found, tuple(make(source, text, found, rules)))


def _by_structure(source: str, text: str, found: Sequence[Section], rules: ChunkRules) -> Iterator[Chunk]:
    used: dict[str, int] = {}
    for index, section in enumerate(found):
        shown = _shown_path((*section.path, section.label) if section.label else (), rules.most_tokens // 4)
        if not section.text and _is_shown_below(index, found, rules):
            continue
        name = _unused(f"{source}#{_anchor(section)}", used)
        numbers = (section.number,) if section.number and section.kind in _CITED else ()
        spans = chunk_spans(section.text, size=rules.most_tokens - count_tokens(shown), overlap=rules.overlap) or [
            (0, 0)
        ]
        for place, (start, end) in enumerate(spans, start=1):
            body = section.text[start:end]
            yield Chunk(
                name if place == 1 else f"{name}~{place}",
                source,
                section.title,
                f"{shown}\n\n{body}" if shown and body else shown or body,
                (index,),
                numbers,
            )


def _unused(name: str, used: dict[str, int]) -> str:
    """Return a name that no section has yet: the second `usage` is `usage-2`; `used` counts them."""
    free = name
    while free in used:
        used[name] += 1
        free = f"{name}-{used[name]}"
    used[free] = 1
    return free


def _is_shown_below(index: int, found: Sequence[Section], rules: ChunkRules) -> bool:
    """Whether the heading of a section without text of its own stands in a chunk of a section in it."""
    below = found[index + 1] if index + 1 < len(found) else None
    if below is None or below.parent != index:
        return False
    label = found[index].label
    shown = _shown_path((*below.path, below.label), rules.most_tokens // 4)
    if below.path[-1] != label or len(below.path) + 1 > shown.count(" > ") + 1 or shown.startswith("… > "):
        return False
    return bool(below.text) or _is_shown_below(index + 1, found, rules)


def _by_token(source: str, text: str, found: Sequence[Section], rules: ChunkRules) -> Iterator[Chunk]:
    starts = [section.start for section in found]
    for place, (start, end) in enumerate(chunk_spans(text, size=rules.most_tokens, overlap=rules.overlap), start=1):
        around = [index for index, at in enumerate(starts) if at <= start][-1:]
        inside = [index for index, at in enumerate(starts) if start < at < end]
        held = (*around, *inside)
        numbers = tuple(found[index].number for index in held if found[index].kind in _CITED and found[index].number)
        title = found[held[0]].title if held else ""
        yield Chunk(f"{source}#{place}", source, title, text[start:end], held, numbers)


def _shown_path(path: Sequence[str], most_tokens: int) -> str:
    """Return the headings of a chunk, the outermost left out where they would take too much of it."""
    for first in range(len(path)):
        shown = " > ".join(path[first:] if not first else ("…", *path[first:]))
        if count_tokens(shown) <= most_tokens:
            return shown
    return path[-1] if path else ""


def _anchor(section: Section) -> str:
    if section.number and section.kind in _CITED:
        return section.number
    words = _ANCHOR.sub("-", section.label.casefold()).strip("-")
    return words[:_LONGEST_ANCHOR].rstrip("-") or "top"
