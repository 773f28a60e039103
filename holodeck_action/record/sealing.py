"""The last line of a record's files: the SHA-256 of everything before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from holodeck_action.text.lazy_patterns import lazy_pattern

DIGEST = lazy_pattern(rb',\n "digest": "([0-9a-f]{64})"\n}\s*\Z')
RECORD_DIGEST = lazy_pattern(rb',\n "record_digest": "([0-9a-f]{64})"\Z')
END = b"\n}\n"


class SealedFile:
    """The content of a file, in pieces that can be iterated once, with the SHA-256 of all other lines as its last line.

    `digest` is set after the last piece.
    """

    def __init__(self, pieces: Iterable[bytes], record_digest: str) -> None:
        self.digest, self.record_digest = "", record_digest
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        hashed = hashlib.sha256()
        for piece in chain(self._pieces, [f',\n "record_digest": "{self.record_digest}"'.encode()]):
            hashed.update(piece)
            yield piece
        self.digest = hashed.hexdigest()
        yield f',\n "digest": "{self.digest}"'.encode()
        yield END


def lines_of(head: Mapping[str, Any], lines: Iterable[bytes], name: str = "cases") -> Iterator[bytes]:
    """Yield a JSON object without its closing brace. Its last field is a list with one item per line, so that large
    files can be streamed and diffed.

    Args:
        head: the fields before the items.
        lines: items of the list, each as JSON.
        name: key of the list.
    """
    yield json.dumps(head, ensure_ascii=False, allow_nan=False, indent=1).removesuffix("\n}").encode()
    yield f',\n "{name}": ['.encode()
    for position, item in enumerate(lines):
        yield (b",\n" if position else b"\n") + item
    yield b"\n ]"
