"""The line in which a YAML file names its JSON Schema for editors."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Literal

from holodeck_action import __version__
from holodeck_action.text.lazy_patterns import lazy_pattern

SCHEMAS = f"https://raw.githubusercontent.com/holodeck-action/holodeck-action/v{__version__}/schemas"
"""The folder `schemas` of the repository, at the release of this version."""
_LINE = lazy_pattern(rb"^[ \t]*#[ \t]*yaml-language-server[ \t]*:.*\$schema[ \t]*=", re.MULTILINE)


def schema_line(document: Literal["agent", "policy"]) -> str:
    """Return the line for a document, without its end."""
    return f"# yaml-language-server: $schema={SCHEMAS}/{document}.schema.json"


def with_schema_line(content: bytes, document: Literal["agent", "policy"]) -> bytes | None:
    """Return a YAML file with the schema line added at its start.

    A byte order mark stays at the start of the file. The new line ends like the file's first line.

    Returns:
        The new content; None if the file already names a schema.

    Raises:
        UnicodeDecodeError: the file is not UTF-8, and an ASCII line could break it.
    """
    content.decode("utf-8")
    # A byte order mark may come first.
    mark = BOM_UTF8 if content.startswith(BOM_UTF8) else b""
    text = content[len(mark) :]
    if _LINE.search(text):
        return None
    first = re.search(rb"\r\n|\n|\r", text)
    return mark + schema_line(document).encode() + (first[0] if first else b"\n") + text
