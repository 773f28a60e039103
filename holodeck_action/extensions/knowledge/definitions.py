"""Finds defined terms and references to sections in a document, and writes notes about them for its chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from holodeck_action.extensions.knowledge.structure import Document, Section
from holodeck_action.text.lazy_patterns import lazy_pattern

_VERB = r"(?:means|shall mean|has the meaning|have the meaning|refers to|is defined as|includes)\b"
_MARKED = lazy_pattern(
    r"(?:\"([^\"\n]{1,80})\"|“([^”\n]{1,80})”|‘([^’\n]{1,80})’|\*\*([^*\n]{1,80})\*\*)"
    rf"[ \t]*,?[ \t]*(?={_VERB})"
)
_PLAIN = lazy_pattern(rf"^[ \t]*((?:[\w'’\-]+[ \t]+){{1,5}}?)(?={_VERB})", re.MULTILINE)
_DEFINING = lazy_pattern(
    r"\b(?:definitions?|defined terms|interpretation|glossary|dictionary|meanings?)\b", re.IGNORECASE
)
_END = lazy_pattern(r"[.;](?=\s|$)|\n\s*\n|\n[ \t]*[\"“*]")
_MAX_DEFINITION = 400
"""Most characters of a definition in a note; the rest is cut off."""

_KINDS = {
    **dict.fromkeys(("section", "sections", "sec", "clause", "clauses", "§", "§§", "s", "ss"), "section"),
    **dict.fromkeys(("paragraph", "paragraphs", "para", "subsection", "subsections", "subparagraph"), "section"),
    **dict.fromkeys(("article", "articles", "art"), "article"),
    **dict.fromkeys(("part", "parts"), "part"),
    **dict.fromkeys(("chapter", "chapters"), "chapter"),
    **dict.fromkeys(("division", "divisions"), "division"),
    **dict.fromkeys(("schedule", "schedules"), "schedule"),
    **dict.fromkeys(("appendix", "appendices"), "appendix"),
    **dict.fromkeys(("annex", "annexes"), "annex"),
    **dict.fromkeys(("exhibit", "exhibits"), "exhibit"),
    **dict.fromkeys(("title", "titles"), "title"),
}
_DIGITS = r"\d+[A-Z]{0,3}(?:[.\-–]\d+[A-Z]{0,2})*"
_ITEMS = r"(?:\([A-Z0-9]{1,5}\))"
_REFERENCE = lazy_pattern(
    r"(?:(?<!['’])\b(?P<name>sections?|sec|clauses?|ss?|paragraphs?|para|subsections?|subparagraph|articles?|art|parts?|"
    r"chapters?|divisions?|schedules?|appendix|appendices|annex|annexes|exhibits?|titles?)\.?[ \t]+"
    rf"|(?P<mark>§§?)[ \t]*)(?P<first>(?:{_DIGITS}|[IVXLCDM]+\b|[A-Z]\b)?{_ITEMS}*)"
    rf"(?P<more>(?:(?:,[ \t]*|[ \t]+(?:and|or|to)[ \t]+){_DIGITS}{_ITEMS}*)*)",
    re.IGNORECASE,
)
_MORE = lazy_pattern(rf"{_DIGITS}{_ITEMS}*", re.IGNORECASE)


class Definition(Struct, frozen=True):
    """A defined term, the whole sentence that defines it, and the index of the sentence's section."""

    term: str
    text: str
    section: int


def find_definitions(sections: Sequence[Section]) -> tuple[Definition, ...]:
    """Return the definitions in a document, in document order; if a term is defined twice, only the first definition.

    A definition is a "quoted" or **bold** term before `means`, `has the meaning`, `refers to`, `is defined as` or
    `includes`. In a section about definitions (interpretation, glossary, …), a definition may also be a line that
    begins with up to five words before one of these verbs. A definition ends with its sentence.
    """
    found: dict[str, Definition] = {}
    for index, section in enumerate(sections):
        for start, term in sorted(_defined_terms(section)):
            if term and term[0].isalpha() and term not in found:
                found[term] = Definition(term, _sentence_at(section.text, start), index)
    return tuple(found.values())


class Glossary:
    """Finds the defined terms that a text uses."""

    def __init__(self, defined: Sequence[Definition]) -> None:
        """Compile the terms into a pattern; a lower-case term also matches with a capital first letter."""
        self._by_form: dict[str, Definition] = {}
        for definition in defined:
            self._by_form[definition.term] = definition
        for definition in defined:
            if definition.term.islower():
                self._by_form.setdefault(definition.term[0].upper() + definition.term[1:], definition)
        forms = sorted(self._by_form, key=lambda form: (-len(form), form))
        self._pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, forms))})(?:s|es)?(?!\w)") if forms else None

    def used_definitions(self, text: str) -> tuple[Definition, ...]:
        """Return the definitions of the terms that a text uses, in order of first use and without duplicates.

        If terms overlap in the text, only the longest one is found.
        """
        if self._pattern is None:
            return ()
        found = (self._by_form[match[1]] for match in self._pattern.finditer(" ".join(text.split())))
        return tuple(dict.fromkeys(found))


class References:
    """Finds the sections that a part of the document refers to."""

    def __init__(self, sections: Sequence[Section]) -> None:
        """Index the sections by kind and number."""
        self._sections = sections
        self._by_number: dict[tuple[str, str], int] = {}
        for index, section in enumerate(sections):
            kind = "section" if section.kind == "item" else section.kind
            if section.number:
                self._by_number.setdefault((kind, section.number.casefold()), index)

    def referenced_sections(self, text: str, sections: Sequence[int]) -> tuple[int, ...]:
        """Return the indexes of the sections that a text refers to, in order of first reference and without duplicates.

        If the document has no section `4.2(b)`, a reference to it finds section `4.2`. `subsection (2)` is looked up
        within the text's own section.

        Args:
            text: a part of the document.
            sections: indexes of the sections that contain the text; references to these sections and their parents are
                not returned.
        """
        own = {around for index in sections for around in self._enclosing_sections(index)}
        found = dict.fromkeys(
            self._find_section(kind, number, sections[:1]) for kind, number in _named_references(text)
        )
        return tuple(target for target in found if target is not None and target not in own)

    def _find_section(self, kind: str, number: str, sections: Sequence[int]) -> int | None:
        if number.startswith("("):
            around = (self._sections[at].number for index in sections for at in self._enclosing_sections(index))
            starts = [base + number for base in around if base]
        else:
            # Drop the last designators one by one until a section matches.
            ends = [place for place, character in enumerate(number) if character == "("]
            starts = [number, *(number[:end] for end in reversed(ends))]
        keys = ((kind, start.casefold()) for start in starts)
        return next((self._by_number[key] for key in keys if key in self._by_number), None)

    def _enclosing_sections(self, index: int) -> Iterator[int]:
        at: int | None = index
        while at is not None:
            yield at
            at = self._sections[at].parent


def _named_references(text: str) -> Iterator[tuple[str, str]]:
    for match in _REFERENCE.finditer(text):
        kind = _KINDS[(match["name"] or match["mark"]).casefold()]
        if match["first"]:
            yield kind, match["first"]
            for more in _MORE.findall(match["more"]):
                yield kind, more


def _defined_terms(section: Section) -> Iterator[tuple[int, str]]:
    for match in _MARKED.finditer(section.text):
        yield match.start(), " ".join(next(group for group in match.groups() if group is not None).split())
    if _DEFINING.search(section.title):
        for match in _PLAIN.finditer(section.text):
            yield match.start(1), " ".join(match[1].split())


def _sentence_at(text: str, start: int) -> str:
    end = _END.search(text, start)
    sentence = " ".join(text[start : len(text) if end is None else end.start() + (end[0][0] in ".;")].split())
    sentence = sentence.replace("**", "").rstrip(";")
    return sentence if len(sentence) <= _MAX_DEFINITION else f"{sentence[:_MAX_DEFINITION]}…"


_MAX_ENTRIES = 10
"""Maximum number of definitions, and of references, in the note of one chunk."""


def chunk_notes(document: Document, *, with_definitions: bool, with_references: bool) -> Iterator[str]:
    """Yield the note for each chunk of a document; a note is empty if there is nothing to add to the chunk.

    Args:
        with_definitions: whether notes contain definitions of terms that the chunk uses but does not define itself.
        with_references: whether notes contain the headings of other sections that the chunk refers to.
    """
    glossary = Glossary(find_definitions(document.sections) if with_definitions else ())
    references = References(document.sections) if with_references else None
    for chunk in document.chunks:
        lines: list[str] = []
        plain = " ".join(chunk.text.replace("**", "").split())
        used = [found.text for found in glossary.used_definitions(chunk.text) if found.text.rstrip("…") not in plain]
        if used:
            lines += ["Definitions:", *(f"- {text}" for text in used[:_MAX_ENTRIES])]
        targets = references.referenced_sections(chunk.text, chunk.sections) if references is not None else ()
        if targets:
            lines.append("Refers to:")
        for target in targets[:_MAX_ENTRIES]:
            found_in = document.chunk_of(target)
            place = "" if found_in is None else f" ({found_in.id})"
            lines.append(f"- {document.sections[target].title}{place}")
        yield "\n".join(lines)
