"""Compiled templates, kept beside Python's own bytecode: to compile them takes longer than to render a report."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, FileSystemBytecodeCache

from holodeck_action import __version__


class TemplateCache(FileSystemBytecodeCache):
    """Keeps compiled templates where Python would keep bytecode, and if Python would write any."""

    def __init__(self, conditions: object) -> None:
        """Prepare; nothing is read.

        Args:
            conditions: settings of the environment that a compiled template depends on; their `repr` counts.
        """
        super().__init__(str(Path(__file__).with_name("__pycache__")), "%s.jinjac")
        self._conditions = f"{__version__} {jinja2.__version__} {conditions!r}\n"

    def get_source_checksum(self, source: str) -> str:
        """Return what tells a compiled template from that of another source, program, library or environment."""
        return hashlib.sha256((self._conditions + source).encode()).hexdigest()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template; a folder that cannot be written keeps none."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)
