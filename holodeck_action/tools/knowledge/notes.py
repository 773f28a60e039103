"""What is added to a chunk for its reader: definitions of its words, and the sections it refers to."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.tools.knowledge.definitions import Glossary, References, definitions
from holodeck_action.tools.knowledge.passages import Document

_MOST = 10
"""Definitions, and references, of one chunk."""


def notes(document: Document, *, defined: bool, referred: bool) -> Iterator[str]:
    """Yield what is added to each chunk of a document, empty for nothing.

    Args:
        document: with its chunks.
        defined: whether definitions are added of words that a chunk uses and does not define itself.
        referred: whether headings are added of sections that a chunk refers to and is not from.
    """
    glossary = Glossary(definitions(document.sections) if defined else ())
    references = References(document.sections) if referred else None
    for chunk in document.chunks:
        lines: list[str] = []
        plain = " ".join(chunk.text.replace("**", "").split())
        used = [found.text for found in glossary.used(chunk.text) if found.text.rstrip("…") not in plain]
        if used:
            lines += ["Definitions:", *(f"- {text}" for text in used[:_MOST])]
        targets = references.of(chunk.text, chunk.sections) if references is not None else ()
        if targets:
            lines.append("Refers to:")
        for target in targets[:_MOST]:
            found_in = document.chunk_of(target)
            place = "" if found_in is None else f" ({found_in.id})"
            lines.append(f"- {document.sections[target].title}{place}")
        yield "\n".join(lines)
