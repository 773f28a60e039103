"""Divides a document into sections with headings, and into chunks with the indexes of their sections."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.knowledge.chunking import chunk_spans, count_tokens, token_spans
from holodeck_action.extensions.knowledge.headings import Domain, Heading, LineContext, kind_and_number, read_headings
from holodeck_action.text.lazy_patterns import lazy_pattern

_ATX = lazy_pattern(r" {0,3}(#{1,6})[ \t]+(\S.*)$")
_UNDERLINE = lazy_pattern(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = lazy_pattern(r" {0,3}(```+|~~~+)")
_EMPHASIS = lazy_pattern(r"^(\*\*|__)(?=\S)(.*\S)\1$")
_TITLE_TOKENS = 20
"""Most tokens of a heading in a path; the section's text contains a longer heading in full."""


class Section(Struct, frozen=True):
    """A section of a document.

    Attributes:
        path: headings of the enclosing sections, outermost first.
        label: heading of the section; empty for the text before the first heading.
        kind: see `Heading.kind`; empty for the text before the first heading.
        number: full number of the section, such as `1.2(a)(1)`; empty if it has no number.
        text: text of the section without the heading and subsections, without white space at either end.
        start: position of the section in the document, in characters.
        parent: index of the enclosing section; None if the section is at the top level.
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
        """The headings of the enclosing sections and of this section, joined by ` > `."""
        return " > ".join((*self.path, self.label)) if self.label else ""


class _OpenSection(Struct):
    """A section whose lines are still being read."""

    heading: Heading
    index: int
    start: int
    parent: int | None
    lines: list[str] = field(default_factory=list)


def split_sections(text: str, domain: Domain = "none", depth: int | None = None) -> tuple[Section, ...]:
    """Split a document into sections at its headings.

    Markdown headings outside of fenced code are recognised in every domain and rank above all other headings.

    Args:
        depth: number of levels; deeper headings are part of the enclosing section's text. None if there is no limit.

    Returns:
        The sections in the order of the document. Each visible character, except for the marks of Markdown headings, is
        in the text or label of a section.
    """
    opened: list[_OpenSection] = []
    found: list[_OpenSection] = [_OpenSection(Heading((-1, 0), "", "", "", ""), 0, 0, None)]
    for line, start, made in _lines_with_headings(text, domain, opened):
        added = False
        for heading in made:
            above = [item for item in opened if item.heading.rank < heading.rank]
            if depth is not None and len(above) >= depth:
                break
            opened[:] = above
            entry = _OpenSection(_shorten_heading(heading), len(found), start, above[-1].index if above else None)
            entry.lines = [entry.heading.body] if entry.heading.body else []
            opened.append(entry)
            found.append(entry)
            added = True
        if not added:
            (opened[-1] if opened else found[0]).lines.append(line)
    return tuple(_finish_sections(found))


def _finish_sections(sections: list[_OpenSection]) -> Iterator[Section]:
    """Yield the finished sections; the text before the first heading is a section only if it is not blank."""
    first = 0 if "".join(sections[0].lines).strip() else 1
    paths: dict[int, tuple[str, ...]] = {}
    numbers: dict[int, str] = {}
    for entry in sections[first:]:
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


def _lines_with_headings(
    text: str, domain: Domain, open_sections: list[_OpenSection]
) -> Iterator[tuple[str, int, tuple[Heading, ...]]]:
    """Yield each line with its start in characters and the headings in it.

    Reading a line depends on the open sections, so the caller must update `open_sections` after each line.
    """
    fence, start, begins, matter = "", 0, True, text.startswith("---\n")
    pending: tuple[str, int] | None = None
    for number, raw in enumerate(text.split("\n")):
        line = raw.rstrip("\r")
        at, start = start, start + len(raw) + 1
        if pending is not None:
            # The next line may underline this one, so wait for it.
            (held, held_at), pending = pending, None
            mark = _UNDERLINE.match(line)
            if mark is not None and not fence:
                yield held, held_at, (_markdown_heading(held.strip(), 1 if mark[1][0] == "=" else 2, domain),)
                begins = True
                continue
            made = _plain_headings(held, domain, open_sections, True)
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
        elif (atx := _ATX.match(line)) is not None and (title := _without_closing_marks(atx[2])):
            yield line, at, (_markdown_heading(title, len(atx[1]), domain),)
            begins = True
        elif begins and line.strip():
            pending = line, at
        else:
            made = _plain_headings(line, domain, open_sections, begins)
            yield line, at, made
            begins = bool(made) or not line.strip()
    if pending is not None:
        yield pending[0], pending[1], _plain_headings(pending[0], domain, open_sections, True)


def _without_closing_marks(title: str) -> str:
    """Return a Markdown heading without the `#` marks at its end."""
    title = title.rstrip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


def _plain_headings(
    line: str, domain: Domain, open_sections: list[_OpenSection], is_section_start: bool
) -> tuple[Heading, ...]:
    bare = line.strip()
    if not bare:
        return ()
    if bold := _EMPHASIS.match(bare):
        bare = bold[2].strip()
    return read_headings(bare, domain, LineContext(tuple(item.heading for item in open_sections), is_section_start))


def _markdown_heading(title: str, level: int, domain: Domain) -> Heading:
    if bold := _EMPHASIS.match(title):
        title = bold[2]
    kind, number = kind_and_number(title, domain)
    return Heading((0, level), kind, number, title, title)


def _shorten_heading(heading: Heading) -> Heading:
    """Return a heading with a title and label of limited length; if the label is cut, the body begins with the whole
    label.
    """
    title, label, body = _cut_title(heading.title), _cut_title(heading.label), heading.body
    if label != heading.label:
        body = f"{heading.label}\n{body}" if body else heading.label
    return replace(heading, title=title, label=label, body=body)


def _cut_title(title: str) -> str:
    spans = token_spans(title)
    return title if len(spans) <= _TITLE_TOKENS else f"{title[: spans[_TITLE_TOKENS - 2][1]]} …"


_ANCHOR = lazy_pattern(r"\W+")
_MAX_ANCHOR = 60
_CITED = frozenset(("section", "item", "article"))
"""Kinds of sections whose number alone identifies them: `4.2` is a section, not Part 4.2."""


class ChunkRules(Struct, frozen=True):
    """The settings for splitting documents into chunks.

    Attributes:
        strategy: `structure` for chunks that follow the sections, `token` for chunks of about equal size.
        domain: kind of document, which determines the headings that count besides Markdown headings.
        most_tokens: largest number of tokens in a chunk, including the headings at its start.
        overlap: number of tokens that adjacent chunks of a section (with `token`, of a document) share; at most half of
            `most_tokens`.
        depth: number of levels; deeper headings are part of the enclosing section's text. None if there is no limit.
    """

    strategy: Literal["structure", "token"] = "structure"
    domain: Domain = "none"
    most_tokens: int = 800
    overlap: int = 50
    depth: int | None = None


class Chunk(Struct, frozen=True):
    """A part of a document that is searched as a unit.

    Attributes:
        id: with `structure`, the file and the section's number or heading, such as `policy.md#4.2(a)`, with `~2` for
            the section's second chunk; with `token`, the file and the chunk's number, such as `policy.md#3`.
        source: name of the file.
        title: title of the section in which the chunk begins.
        text: text of the chunk; with `structure`, it begins with a line with the title and a blank line.
        sections: indexes of the sections whose text the chunk contains.
        numbers: numbers of the sections that begin in the chunk or contain it.
    """

    id: str
    source: str
    title: str
    text: str
    sections: tuple[int, ...]
    numbers: tuple[str, ...]


class Document(Struct, frozen=True):
    """A file with its sections and chunks, both in the order of the file."""

    source: str
    text: str
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]

    def chunk_of(self, section: int) -> Chunk | None:
        """Return the chunk in which a section, or its first subsection with text, begins; None if there is no such
        chunk.
        """
        place = bisect_left(self.chunks, section, key=lambda chunk: chunk.sections[-1] if chunk.sections else 0)
        return self.chunks[place] if place < len(self.chunks) else None


def make_document(source: str, text: str, rules: ChunkRules) -> Document:
    """Return a document divided into sections and chunks.

    Each visible character of the text, except for the marks of Markdown headings, is in a chunk.
    """
    found = split_sections(text, rules.domain, rules.depth)
    make = _chunks_by_structure if rules.strategy == "structure" else _chunks_by_token
    return Document(source, text, found, tuple(make(source, text, found, rules)))


def _chunks_by_structure(source: str, text: str, sections: Sequence[Section], rules: ChunkRules) -> Iterator[Chunk]:
    used: dict[str, int] = {}
    for index, section in enumerate(sections):
        shown = _path_text((*section.path, section.label) if section.label else (), rules.most_tokens // 4)
        if not section.text and _is_in_subsection_chunk(index, sections, rules):
            continue
        name = _unique_name(f"{source}#{_anchor(section)}", used)
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


def _unique_name(name: str, used_names: dict[str, int]) -> str:
    """Return a name that is not in `used_names`, and add it: the second `usage` becomes `usage-2`."""
    free = name
    while free in used_names:
        used_names[name] += 1
        free = f"{name}-{used_names[name]}"
    used_names[free] = 1
    return free


def _is_in_subsection_chunk(index: int, sections: Sequence[Section], rules: ChunkRules) -> bool:
    """Return whether the chunk of a subsection contains the heading of section `index`."""
    below = sections[index + 1] if index + 1 < len(sections) else None
    if below is None or below.parent != index:
        return False
    label = sections[index].label
    shown = _path_text((*below.path, below.label), rules.most_tokens // 4)
    if below.path[-1] != label or len(below.path) + 1 > shown.count(" > ") + 1 or shown.startswith("… > "):
        return False
    return bool(below.text) or _is_in_subsection_chunk(index + 1, sections, rules)


def _chunks_by_token(source: str, text: str, sections: Sequence[Section], rules: ChunkRules) -> Iterator[Chunk]:
    starts = [section.start for section in sections]
    for place, (start, end) in enumerate(chunk_spans(text, size=rules.most_tokens, overlap=rules.overlap), start=1):
        around = [index for index, at in enumerate(starts) if at <= start][-1:]
        inside = [index for index, at in enumerate(starts) if start < at < end]
        held = (*around, *inside)
        numbers = tuple(
            sections[index].number for index in held if sections[index].kind in _CITED and sections[index].number
        )
        title = sections[held[0]].title if held else ""
        yield Chunk(f"{source}#{place}", source, title, text[start:end], held, numbers)


def _path_text(path: Sequence[str], most_tokens: int) -> str:
    """Return headings joined by ` > `; if that is too long, the outermost headings are replaced by an ellipsis."""
    for first in range(len(path)):
        shown = " > ".join(path[first:] if not first else ("…", *path[first:]))
        if count_tokens(shown) <= most_tokens:
            return shown
    return path[-1] if path else ""


def _anchor(section: Section) -> str:
    if section.number and section.kind in _CITED:
        return section.number
    words = _ANCHOR.sub("-", section.label.casefold()).strip("-")
    return words[:_MAX_ANCHOR].rstrip("-") or "top"
