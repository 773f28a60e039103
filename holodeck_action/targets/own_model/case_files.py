"""Reads the files that cases name, as the text and images that models and metrics receive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from holodeck_action.llm.messages import Image, Question
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.values import Case, Turn
from holodeck_action.suite.yaml.variables import is_ci
from holodeck_action.targets.documents.kinds import Kind, document_kind
from holodeck_action.targets.documents.reader import DocumentError, DocumentReader, missing_packages
from holodeck_action.targets.own_model.downloads import DownloadError, Downloads, Fetcher, resolve_host
from holodeck_action.text.foreign import Redact, RefusedFileError, open_file

_HTML = (b"<!doctype html", b"<html")


class Attachment(Struct, frozen=True):
    """A file of a turn.

    Attributes:
        name: path or URL of the file.
        description: description of the file in the case; None if there is none.
        content: text of the file, or the image.
    """

    name: str
    description: str | None
    content: str | Image


class CaseFiles:
    """Reads the files of a suite's cases. All conversations of a run share an instance, in one event loop."""

    def __init__(
        self,
        checkout: Checkout,
        *,
        file_timeout_s: float,
        download_timeout_s: float,
        cache: Path | None,
        online: bool,
        environ: Mapping[str, str],
        redact: Redact,
    ) -> None:
        """Create the instance; nothing is read, started or connected yet.

        Args:
            checkout: the suite's folder, the base of relative paths, and the folders that may be read.
            file_timeout_s: maximum seconds to convert one file to text.
            download_timeout_s: maximum seconds of one download.
            cache: folder in which downloads are kept between runs; None to keep no downloads.
            online: whether files may be downloaded; False in a replay.
            environ: the job's environment. In CI, nothing is downloaded from private networks.
            redact: removes secrets from error messages.
        """
        self._checkout = checkout
        self._reader = DocumentReader(timeout_s=file_timeout_s, environ=environ, redact=redact)
        fetcher = Fetcher(public_only=is_ci(environ), resolve=resolve_host)
        self._downloads = Downloads(
            fetcher, timeout_s=download_timeout_s, cache=cache, online=online, pause=asyncio.sleep
        )

    async def read(self, turn: Turn) -> tuple[Attachment, ...]:
        """Return all files of a turn with their contents, in order.

        Raises:
            AgentError: `bad_file`: a file cannot be read.
        """
        return await self._read_all(turn.files)

    async def texts(self, turn: Turn) -> tuple[str, ...]:
        """Return the texts of a turn's files; images are omitted.

        Raises:
            AgentError: `bad_file`: a file cannot be read.
        """
        found = await self._read_all([file for file in turn.files if file.type != "image"])
        return tuple(attachment.content for attachment in found if isinstance(attachment.content, str))

    async def close(self) -> None:
        """Stop downloads and conversions, and delete temporary files."""
        await self._downloads.close()
        await self._reader.close()

    async def _read_all(self, files: Sequence[FileInput]) -> tuple[Attachment, ...]:
        found = await asyncio.gather(*(self._read(file) for file in files), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return tuple(each for each in found if isinstance(each, Attachment))

    async def _read(self, file: FileInput) -> Attachment:
        name = display_name(file)
        try:
            if file.path is not None:
                path, checkout = self._checkout.folder / file.path, self._checkout
            else:
                path = await self._downloads.path(str(file.url), cached=file.cache is not False)
                checkout = Checkout.unbounded(path.parent)
            content: str | Image
            if file.type == "image":
                content = await asyncio.to_thread(_read_image, path, checkout)
            else:
                content = await self._reader.text(
                    path,
                    checkout,
                    pages=file.pages or None,
                    sheet=file.sheet,
                    cells=file.range,
                    kind=await asyncio.to_thread(_detect_kind, file, path),
                )
        except (DocumentError, DownloadError) as error:
            raise AgentError(f"the file {name} cannot be used: {error.message}", "bad_file", {"file": name}) from None
        return Attachment(name, file.description, content)


def display_name(file: FileInput) -> str:
    """Return the name of a file for models and reports: its path, or its URL without user, query and fragment.

    The query may contain a signature, which is secret and differs between runs.
    """
    if file.path is not None:
        return file.path
    try:
        parts = urlsplit(str(file.url))
    except ValueError:
        return "(no URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def files_to_convert(cases: Iterable[Case]) -> Iterator[tuple[Turn, FileInput, Kind]]:
    """Yield the turn, the file and the kind of each file of the cases that must be converted to text."""
    for case in cases:
        for turn in case.turns:
            for file in turn.files:
                if file.type != "image" and (kind := _kind_by_name(file)) != "text":
                    yield turn, file, kind


def check_file_packages(cases: Iterable[Case]) -> None:
    """Check that the packages that convert the cases' files are installed.

    Raises:
        TargetError: a package is missing.
    """
    for turn, file, kind in files_to_convert(cases):
        if (missing := missing_packages(kind)) is not None:
            raise TargetError(f"{turn.mark}: files: {display_name(file)}: {missing}")


def _kind_by_name(file: FileInput) -> Kind:
    """Return the kind of a file by its `type` in the case; a text file with an HTML extension is `html`."""
    match file.type:
        case "pdf" | "excel" | "word" | "powerpoint":
            return file.type
        case _:
            return "html" if file.type == "text" and document_kind(PurePath(display_name(file))) == "html" else "text"


def _detect_kind(file: FileInput, path: Path) -> Kind:
    """Return the kind of a file by its `type`; a downloaded text file is `html` if its content starts like HTML."""
    kind = _kind_by_name(file)
    if kind == "text" and file.type == "text" and file.url is not None:
        with open_file(path, MOST_FILE) as opened:
            begin = opened.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        if begin.startswith(_HTML):
            return "html"
    return kind


def _read_image(path: Path, checkout: Checkout) -> Image:
    """Return the image in a file.

    Raises:
        DocumentError: the file cannot be read, or is not an image that models support.
    """
    try:
        with checkout.open(path, MOST_FILE) as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise DocumentError("there is no such file") from None
    except RefusedFileError as error:
        raise DocumentError(f"it {error.clause}") from None
    except OSError as error:
        raise DocumentError(f"it cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise DocumentError(f"the image is larger than {MOST_BYTES // 1_000_000} MB; give a smaller one")
    kind = media_type(data)
    if kind is None:
        raise DocumentError("the file is not a PNG, JPEG, GIF or WebP image")
    return Image(kind, data)


MOST_BYTES = 20_000_000
"""Maximum bytes of one image; some models accept less."""


def media_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image; None for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def message_with_files(attachments: Sequence[Attachment], text: str) -> Question:
    """Return the user's message with the files of a turn and its input `text`.

    The message has a block for each file, then `text`, separated by blank lines, and the images. A block has the line
    `File: <path or URL>`, the description if there is one, and the file's text.
    """
    blocks = "\n\n".join([*map(_text_block, attachments), text])
    return Question(blocks, tuple(file.content for file in attachments if not isinstance(file.content, str)))


def _text_block(file: Attachment) -> str:
    lines = [f"File: {file.name}"]
    if file.description is not None:
        lines.append(f"Description: {file.description}")
    if isinstance(file.content, str):
        lines.append(file.content)
    return "\n".join(lines)
