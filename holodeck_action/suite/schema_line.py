"""The line with which an editor finds the JSON Schema of a YAML file."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Literal

from holodeck_action import __version__

SCHEMAS = f"https://raw.githubusercontent.com/holodeck-action/holodeck-action/v{__version__}/schemas"
"""The folder `schemas` of the repository, at the release of this version."""
_LINE = re.compile(rb"^[ \t]*#[ \t]*yaml-language-server[ \t]*:.*\$schema[ \t]*=", re.MULTILINE)


def schema_line(document: Literal["agent", "policy"]) -> str:
    """Return the line for a document, without its end."""
    return f"# yaml-language-server: $schema={SCHEMAS}/{document}.schema.json"


def with_schema_line(content: bytes, document: Literal["agent", "policy"]) -> bytes | None:
    """Return a YAML file with the line as its first one, where comments may stand before anything else.

    A byte order mark stays in front of it, and the line ends as the first line of the file does.

    Returns:
        None when the file names a schema already.

    Raises:
        UnicodeDecodeError: it is not UTF-8, where an ASCII line would break it.
    """
    content.decode("utf-8")
    # The mark may stand on a line of its own accord.
    mark = BOM_UTF8 if content.startswith(BOM_UTF8) else b""
    text = content[len(mark) :]
    if _LINE.search(text):
        return None
    first = re.search(rb"\r\n|\n|\r", text)
    return mark + schema_line(document).encode() + (first[0] if first else b"\n") + text
