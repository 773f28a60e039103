"""What a model is told of the files of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holodeck_action.targets.attachments.files import Attachment

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent


def prompt(files: Sequence[Attachment], text: str) -> str | list[UserContent]:
    """Return the user's message: a block for each file, then the input, joined by blank lines; images follow.

    A block is `File: <path or URL>`, the description where there is one, and the file's text (format reference §1.8).
    """
    if not files:
        return text
    blocks = "\n\n".join([*map(_block, files), text])
    images = [file.content for file in files if not isinstance(file.content, str)]
    if not images:
        return blocks
    from pydantic_ai.messages import BinaryContent

    return [blocks, *(BinaryContent(data=image.data, media_type=image.media_type) for image in images)]


def _block(file: Attachment) -> str:
    lines = [f"File: {file.name}"]
    if file.description is not None:
        lines.append(f"Description: {file.description}")
    if isinstance(file.content, str):
        lines.append(file.content)
    return "\n".join(lines)
