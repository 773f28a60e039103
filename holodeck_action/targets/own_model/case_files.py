"""The files of cases as models and metrics get them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from holodeck_action.llm.messages import Image, Question
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.values import Case, Turn
from holodeck_action.suite.yaml.variables import is_ci
from holodeck_action.targets.documents.kinds import Kind, kind_of
from holodeck_action.targets.documents.reader import DocumentError, DocumentReader, missing_packages
from holodeck_action.targets.own_model.downloads import DownloadError, Downloads, Fetcher, resolve
from holodeck_action.text.foreign import Redact, RefusedFileError, open_file

_HTML = (b"<!doctype html", b"<html")


class Attachment(Struct, frozen=True):
    """A file that was read: `name` is its path or URL, `content` its text or the image that it is."""

    name: str
    description: str | None
    content: str | Image


class CaseFiles:
    """The files of a suite's cases; shared by all conversations of a run, within one event loop."""

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
        """Prepare; nothing is read, started or connected yet.

        Args:
            checkout: the suite's folder, in which paths of files start, and what may be read.
            file_timeout_s: seconds one conversion may take.
            download_timeout_s: seconds one download may take.
            cache: folder in which downloads are kept between runs; None keeps none.
            online: False in a replay, which downloads nothing.
            environ: the job's environment; in CI nothing is downloaded from private networks.
            redact: removes secrets from the reasons why a file cannot be read.
        """
        self._checkout = checkout
        self._reader = DocumentReader(timeout_s=file_timeout_s, environ=environ, redact=redact)
        fetcher = Fetcher(public_only=is_ci(environ), resolve=resolve)
        self._downloads = Downloads(
            fetcher, timeout_s=download_timeout_s, cache=cache, online=online, pause=asyncio.sleep
        )

    async def read(self, turn: Turn) -> tuple[Attachment, ...]:
        """Read all files of a turn, in their order.

        Raises:
            AgentError: `bad_file`, one of them cannot be read.
        """
        return await self._all(turn.files)

    async def texts(self, turn: Turn) -> tuple[str, ...]:
        """Return the texts of a turn's files, images left out.

        Raises:
            AgentError: `bad_file`, one of them cannot be read.
        """
        found = await self._all([file for file in turn.files if file.type != "image"])
        return tuple(attachment.content for attachment in found if isinstance(attachment.content, str))

    async def close(self) -> None:
        """End what is under way and remove what was downloaded and is not kept."""
        await self._downloads.close()
        await self._reader.close()

    async def _all(self, files: Sequence[FileInput]) -> tuple[Attachment, ...]:
        found = await asyncio.gather(*(self._read(file) for file in files), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return tuple(each for each in found if isinstance(each, Attachment))

    async def _read(self, file: FileInput) -> Attachment:
        name = shown_name(file)
        try:
            if file.path is not None:
                path, checkout = self._checkout.folder / file.path, self._checkout
            else:
                path = await self._downloads.path(str(file.url), cached=file.cache is not False)
                checkout = Checkout.anywhere(path.parent)
            content: str | Image
            if file.type == "image":
                content = await asyncio.to_thread(_image, path, checkout)
            else:
                content = await self._reader.text(
                    path,
                    checkout,
                    pages=file.pages or None,
                    sheet=file.sheet,
                    cells=file.range,
                    kind=await asyncio.to_thread(_kind, file, path),
                )
        except (DocumentError, DownloadError) as error:
            raise AgentError(f"the file {name} cannot be used: {error.message}", "bad_file", {"file": name}) from None
        return Attachment(name, file.description, content)


def shown_name(file: FileInput) -> str:
    """Return how a file is named to models and people: its path, or its URL without query and fragment.

    What a signed URL is signed with is no business of a model, and would differ in every run.
    """
    if file.path is not None:
        return file.path
    try:
        parts = urlsplit(str(file.url))
    except ValueError:
        return "(no URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_packages(cases: Iterable[Case]) -> None:
    """Make sure that the files of the cases can be read at all.

    Raises:
        TargetError: packages for one of them are not installed.
    """
    for case in cases:
        for turn in case.turns:
            for file in turn.files:
                missing = None if file.type == "image" else missing_packages(_kind_by_name(file))
                if missing is not None:
                    raise TargetError(f"{turn.mark}: files: {shown_name(file)}: {missing}")


def _kind_by_name(file: FileInput) -> Kind:
    """Return what a file is by its type, and by its name where a text may be a page."""
    match file.type:
        case "pdf" | "excel" | "word" | "powerpoint":
            return file.type
        case _:
            return "html" if file.type == "text" and kind_of(PurePath(shown_name(file))) == "html" else "text"


def _kind(file: FileInput, path: Path) -> Kind:
    """Return what a file is; what comes from a URL is a page when it begins like one."""
    kind = _kind_by_name(file)
    if kind == "text" and file.type == "text" and file.url is not None:
        with open_file(path, MOST_FILE) as opened:
            begin = opened.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        if begin.startswith(_HTML):
            return "html"
    return kind


def _image(path: Path, checkout: Checkout) -> Image:
    """Read an image.

    Raises:
        DocumentError: it is none that models can see.
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
        raise DocumentError("it is no PNG, JPEG, GIF or WebP image")
    return Image(kind, data)


MOST_BYTES = 20_000_000
"""Most bytes of one image; what a single model takes may be less."""


def media_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def message_with_files(files: Sequence[Attachment], text: str) -> Question:
    """Return the user's message: a block for each file, then the input, joined by blank lines; images follow.

    A block is `File: <path or URL>`, the description where there is one, and the file's text.
    """
    blocks = "\n\n".join([*map(_block, files), text])
    return Question(blocks, tuple(file.content for file in files if not isinstance(file.content, str)))


def _block(file: Attachment) -> str:
    lines = [f"File: {file.name}"]
    if file.description is not None:
        lines.append(f"Description: {file.description}")
    if isinstance(file.content, str):
        lines.append(file.content)
    return "\n".join(lines)
