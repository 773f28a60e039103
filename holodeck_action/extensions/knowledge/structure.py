"""A document as sections, each with the headings above it, and as chunks that know which sections they are from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.knowledge.chunking import chunk_spans, count_tokens, token_spans
from holodeck_action.extensions.knowledge.headings import Domain, Heading, Place, headings, numbered

_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_EMPHASIS = re.compile(r"^(\*\*|__)(?=\S)(.*\S)\1$")
_TITLE_TOKENS = 20
"""Most tokens of a heading in a path; what is longer is cut there, and kept whole in the section's text."""


class Section(Struct, frozen=True):
    """A section of a document.

    Attributes:
        path: headings of the sections around it, outermost first.
        label: its own heading; empty for text before the first one.
        kind: see `Heading.kind`; empty for text before the first heading.
        number: its whole number, such as `1.2(a)(1)`; empty for none.
        text: its own text, without the heading, blanks around it removed.
        start: where it begins in the document, in characters.
        parent: index of the section around it; None at the top.
    """

    path: tuple[str, ...]
    label: str
    kind: str
    number: str
    text: str
    start: int
    parent: int | None

    @property
    def title(self) -> str:
        """The section with all the headings around it."""
        return " > ".join((*self.path, self.label)) if self.label else ""


class _Open(Struct):
    """A section that is being read."""

    heading: Heading
    index: int
    start: int
    parent: int | None
    lines: list[str] = field(default_factory=list)


def sections(text: str, domain: Domain = "none", depth: int | None = None) -> tuple[Section, ...]:
    """Divide a document at its headings.

    Markdown's headings count in every domain (not those in fenced code), and rank above all others.

    Args:
        depth: headings that would stand deeper than this are text of the section around them; None for no limit.

    Returns:
        The sections in the order of the document. Each visible character of the document is in the text of one, or in
        its label, but for the marks of Markdown's headings.
    """
    opened: list[_Open] = []
    found: list[_Open] = [_Open(Heading((-1, 0), "", "", "", ""), 0, 0, None)]
    for line, start, made in _lines(text, domain, opened):
        added = False
        for heading in made:
            above = [item for item in opened if item.heading.rank < heading.rank]
            if depth is not None and len(above) >= depth:
                break
            opened[:] = above
            entry = _Open(_short(heading), len(found), start, above[-1].index if above else None)
            entry.lines = [entry.heading.body] if entry.heading.body else []
            opened.append(entry)
            found.append(entry)
            added = True
        if not added:
            (opened[-1] if opened else found[0]).lines.append(line)
    return tuple(_finished(found))


def _finished(found: list[_Open]) -> Iterator[Section]:
    """Yield the sections; the one before the first heading only where there is text."""
    first = 0 if "".join(found[0].lines).strip() else 1
    paths: dict[int, tuple[str, ...]] = {}
    numbers: dict[int, str] = {}
    for entry in found[first:]:
        above = paths[entry.parent] if entry.parent is not None else ()
        heading = entry.heading
        number = heading.number
        if heading.kind == "item" and entry.parent is not None:
            number = numbers[entry.parent] + number
        paths[entry.index] = (*above, heading.title)
        numbers[entry.index] = number if heading.kind in ("section", "item", "article") else ""
        body = "\n".join(entry.lines).strip("\n").rstrip()
        parent = None if entry.parent is None else entry.parent - first
        yield Section(above, heading.label, heading.kind, number, body, entry.start, parent)


def _lines(text: str, domain: Domain, opened: list[_Open]) -> Iterator[tuple[str, int, tuple[Heading, ...]]]:
    """Yield each line with its place and the headings that it opens; `opened` is read as the caller changes it."""
    fence, start, begins, matter = "", 0, True, text.startswith("---\n")
    pending: tuple[str, int] | None = None
    for number, raw in enumerate(text.split("\n")):
        line = raw.rstrip("\r")
        at, start = start, start + len(raw) + 1
        if pending is not None:
            # A line that may be underlined waits for the next one.
            (held, held_at), pending = pending, None
            mark = _UNDERLINE.match(line)
            if mark is not None and not fence:
                yield held, held_at, (_markdown(held.strip(), 1 if mark[1][0] == "=" else 2, domain),)
                begins = True
                continue
            made = _plain(held, domain, opened, True)
            yield held, held_at, made
            begins = bool(made)
        if matter or fence or (opening := _FENCE.match(line)):
            closing = _FENCE.match(line) if fence else None
            if matter:
                matter = number == 0 or line.rstrip() != "---"
            elif not fence:
                fence = opening[1]  # type: ignore[index]
            elif closing is not None and closing[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            yield line, at, ()
            begins = not (matter or fence)
        elif (atx := _ATX.match(line)) is not None and (title := _closed(atx[2])):
            yield line, at, (_markdown(title, len(atx[1]), domain),)
            begins = True
        elif begins and line.strip():
            pending = line, at
        else:
            made = _plain(line, domain, opened, begins)
            yield line, at, made
            begins = bool(made) or not line.strip()
    if pending is not None:
        yield pending[0], pending[1], _plain(pending[0], domain, opened, True)


def _closed(title: str) -> str:
    """Return a heading without the marks that may close it."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


def _plain(line: str, domain: Domain, opened: list[_Open], begins: bool) -> tuple[Heading, ...]:
    bare = line.strip()
    if not bare:
        return ()
    if bold := _EMPHASIS.match(bare):
        bare = bold[2].strip()
    return headings(bare, domain, Place(tuple(item.heading for item in opened), begins))


def _markdown(title: str, level: int, domain: Domain) -> Heading:
    if bold := _EMPHASIS.match(title):
        title = bold[2]
    kind, number = numbered(title, domain)
    return Heading((0, level), kind, number, title, title)


def _short(heading: Heading) -> Heading:
    """Cut a title that is too long for paths; a label that is cut is kept whole in the text."""
    title, label, body = _cut(heading.title), _cut(heading.label), heading.body
    if label != heading.label:
        body = f"{heading.label}\n{body}" if body else heading.label
    return replace(heading, title=title, label=label, body=body)


def _cut(title: str) -> str:
    spans = token_spans(title)
    return title if len(spans) <= _TITLE_TOKENS else f"{title[: spans[_TITLE_TOKENS - 2][1]]} …"


_ANCHOR = re.compile(r"\W+")
_LONGEST_ANCHOR = 60
_CITED = frozenset(("section", "item", "article"))
"""Kinds of sections that a bare number names: `4.2` is a section, not Part 4.2."""


class ChunkRules(Struct, frozen=True):
    """How documents become chunks.

    Attributes:
        strategy: `structure`: a chunk has text of one section alone; `token`: pieces of equal size.
        domain: which headings the documents have besides Markdown's.
        most_tokens: tokens of a chunk, the headings it begins with included.
        overlap: tokens that two neighbouring chunks of one section (or of a document, by token) share, at most half of
            `most_tokens`.
        depth: headings that stand deeper are text of the section around them; None for no limit.
    """

    strategy: Literal["structure", "token"] = "structure"
    domain: Domain = "none"
    most_tokens: int = 800
    overlap: int = 50
    depth: int | None = None


class Chunk(Struct, frozen=True):
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


class Document(Struct, frozen=True):
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
