"""A document as sections: each with the headings above it and its own text, without that of its subsections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holodeck_action.tools.knowledge.headings import Domain, Heading, Place, headings, numbered
from holodeck_action.tools.knowledge.tokens import token_spans

_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_EMPHASIS = re.compile(r"^(\*\*|__)(?=\S)(.*\S)\1$")
_TITLE_TOKENS = 20
"""Most tokens of a heading in a path; what is longer is cut there, and kept whole in the section's text."""


@dataclass(frozen=True, slots=True)
class Section:
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


@dataclass(slots=True)
class _Open:
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
        text: the document.
        domain: which other headings it has.
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
