"""Finds the files that a retrieval tool searches and reads their text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.cases.files import source_path
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import quoted
from holodeck_action.targets.documents.kinds import document_kind
from holodeck_action.text.foreign import ForeignError, RefusedFileError
from holodeck_action.text.lazy_patterns import lazy_pattern

_HEADING_MARKS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_BLOCK_TAGS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "dd",
            "div",
            "dl",
            "dt",
            "figcaption",
            "figure",
            "footer",
        ),
        *("form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "title", "tr", "ul"),
    }
)
_TAGS_WITHOUT_TEXT = frozenset(("script", "style", "template", "noscript"))
_BLANKS = lazy_pattern(r"[ \t\r\f\v\n]+")
_GAPS = lazy_pattern(r"(?<!\s)[^\S\n]*+\n[^\S\n]*+\n\s*+")


class _HtmlTextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0
        self._kept = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _TAGS_WITHOUT_TEXT:
            self._silent += 1
        elif tag in _HEADING_MARKS:
            self.parts.append(f"\n\n{_HEADING_MARKS[tag]}")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in _BLOCK_TAGS:
            self.parts.append("\n\n- " if tag == "li" else "\n\n")
        self._kept += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in _TAGS_WITHOUT_TEXT:
            self._silent = max(0, self._silent - 1)
        elif tag in _HEADING_MARKS or tag in _BLOCK_TAGS:
            self.parts.append("\n\n")
        if tag == "pre":
            self._kept = max(0, self._kept - 1)

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data if self._kept else _BLANKS.sub(" ", data))


def text_of_html(document: str) -> str:
    """Return the text of an HTML document; invalid markup is tolerated."""
    reader = _HtmlTextParser()
    reader.feed(document)
    reader.close()
    return _GAPS.sub("\n\n", "".join(reader.parts)).strip()


TEXT_SUFFIXES = frozenset(
    {
        *(".txt", ".text", ".md", ".markdown", ".mdx", ".rst", ".adoc", ".log"),
        *(".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".yaml", ".yml", ".xml", ".toml"),
    }
)
HTML_SUFFIXES = frozenset((".html", ".htm", ".xhtml"))
DOCUMENT_SUFFIXES = frozenset((".pdf", ".docx", ".pptx", ".xlsx", ".xlsm"))
"""Suffixes of files that the document reader converts to text."""

MOST_FILES = 10_000
MOST_BYTES = 50_000_000
"""Maximum number of files in a source, and maximum size of a file in bytes."""


class DocumentTextReader(Protocol):
    """Reads the text of PDF and Office files; `holodeck_action.targets.documents.reader` implements it."""

    async def text(self, path: Path, checkout: Checkout) -> str:
        """Return the text of a file that the checkout allows to be read.

        Raises:
            Exception: the file cannot be read; the exception's attribute `message` is a sentence.
        """
        ...


class SourceFile(Struct, frozen=True):
    """One file of a tool's source.

    Attributes:
        path: path of the file.
        name: path of the file relative to the source, with `/` as the separator; the file's own name if the source is a
            file.
        checkout: the checkout through which the file is opened.
    """

    path: Path
    name: str
    checkout: Checkout

    @property
    def suffix(self) -> str:
        """The file's suffix in lower case, such as `.md`."""
        return self.path.suffix.lower()


def source_files(source: str, checkout: Checkout, *, tool: str) -> tuple[SourceFile, ...]:
    """Return the files of a source: the source itself if it is a file, or the readable files in a folder, sorted by
    name.

    Folders are searched recursively. Hidden files and folders, whose names begin with a dot, links to folders, and
    files of unsupported kinds (see `unread_files`) are left out.

    Args:
        source: value of the setting in the suite: a path or a `file:` URL.
        checkout: resolves relative paths and decides which files may be read.

    Raises:
        TargetError: the source is not on this machine, does not exist, is outside the files that may be read, or
            contains nothing that can be read.
    """
    place = _source_path(source, checkout, tool)
    if place.is_file():
        return (_check_size(SourceFile(place, place.name, checkout), tool),)
    if not place.is_dir():
        raise TargetError(f"tools.{tool}.source: {quoted(source)} does not exist (a path relative to agent.yaml)")
    files = sorted((file for file in _files_in(place, checkout) if _is_read(file)), key=lambda file: file.name)
    if not files:
        raise TargetError(
            f"tools.{tool}.source: the folder {quoted(source)} holds no file that can be read "
            f"({', '.join(sorted(TEXT_SUFFIXES | HTML_SUFFIXES | DOCUMENT_SUFFIXES))})"
        )
    if len(files) > MOST_FILES:
        raise TargetError(
            f"tools.{tool}.source: the folder {quoted(source)} holds {len(files)} files; at most {MOST_FILES} are read"
        )
    return tuple(_check_size(file, tool) for file in files)


def unread_files(source: str, checkout: Checkout, *, tool: str) -> tuple[str, ...]:
    """Return the sorted names of the files of unsupported kinds in a source's folder; empty if the source is a file."""
    place = _source_path(source, checkout, tool)
    return (
        tuple(sorted(file.name for file in _files_in(place, checkout) if not _is_read(file))) if place.is_dir() else ()
    )


def needs_reader(file: SourceFile) -> bool:
    """Return whether a file needs the reader for PDF and Office files."""
    return document_kind(file.path) not in ("text", "html")


async def source_text(file: SourceFile, documents: DocumentTextReader | None = None) -> str:
    """Return the text of a file: UTF-8 text unchanged, HTML without tags, and the text in PDF and Office files.

    Args:
        documents: reader for PDF and Office files; not needed for other files.

    Raises:
        AgentError: `tool_unavailable`: the file cannot be read.
    """
    if needs_reader(file):
        if documents is None:
            raise _unavailable_error(file, "there is no reader for documents of its kind")
        try:
            return await documents.text(file.path, file.checkout)
        except Exception as error:
            raise _unavailable_error(file, str(getattr(error, "message", error))) from error
    try:
        text = (await asyncio.to_thread(file.checkout.read, file.path, MOST_BYTES)).text()
    except ForeignError as error:
        raise _unavailable_error(file, f"it {error}") from None
    except OSError as error:
        raise _unavailable_error(file, error.strerror or type(error).__name__) from None
    return text_of_html(text) if file.suffix in HTML_SUFFIXES else text


def _unavailable_error(file: SourceFile, reason: str) -> AgentError:
    return AgentError(f"{file.name}: cannot be read: {reason}", "tool_unavailable")


def _source_path(source: str, checkout: Checkout, tool: str) -> Path:
    path = source_path(source)
    if path is None and source.lower().startswith("file:"):
        raise TargetError(f"tools.{tool}.source: {quoted(source)} is on another machine; give a path on this one")
    if path is None:
        raise TargetError(
            f"tools.{tool}.source: {quoted(_without_secrets(source))} is remote, and a gate must not depend on "
            "remote content that can change; download it in an earlier step and give its path"
        )
    try:
        checkout.resolve(path)
    except RefusedFileError as error:
        raise TargetError(f"tools.{tool}.source: {quoted(source)} {error.clause}") from None
    return checkout.folder / path


def _without_secrets(source: str) -> str:
    """Return a URL without its user, password and query."""
    parts = urlsplit(source)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_read(file: SourceFile) -> bool:
    return file.suffix in TEXT_SUFFIXES or file.suffix in HTML_SUFFIXES or file.suffix in DOCUMENT_SUFFIXES


def _files_in(place: Path, checkout: Checkout) -> Iterator[SourceFile]:
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield SourceFile(path, path.relative_to(place).as_posix(), checkout)


def _check_size(file: SourceFile, tool: str) -> SourceFile:
    try:
        file.checkout.check(file.path, MOST_BYTES)
    except RefusedFileError as error:
        raise TargetError(f"tools.{tool}.source: {quoted(file.name)} {error.clause}") from None
    except OSError as error:
        raise TargetError(f"tools.{tool}.source: {quoted(file.name)} cannot be read: {error.strerror}") from None
    return file
