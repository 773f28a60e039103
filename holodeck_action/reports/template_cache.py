"""A cache of compiled templates next to Python's bytecode, since compiling takes longer than rendering a report."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

from holodeck_action import __version__


class TemplateCache(FileSystemBytecodeCache):
    """Stores compiled templates in `__pycache__`, unless Python is told not to write bytecode."""

    def __init__(self, conditions: object) -> None:
        """Store the conditions; no file is read.

        Args:
            conditions: settings on which a compiled template depends, compared by their `repr`.
        """
        super().__init__(str(Path(__file__).with_name("__pycache__")), "%s.jinjac")
        self._conditions = f"{__version__} {jinja2.__version__} {conditions!r}\n"

    def get_source_checksum(self, source: str) -> str:
        """Return the key of a compiled template: a hash of its source, the versions and the conditions."""
        return hashlib.sha256((self._conditions + source).encode()).hexdigest()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a compiled template; errors while writing are ignored."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)
