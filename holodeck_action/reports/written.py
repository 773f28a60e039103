"""Writes reports and exports to the file that a user names, or to standard output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from holodeck_action.record.disk import check_links, write_atomically, write_through
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath


def write_text(text: str, file: GivenPath | None, stdout: TextIO) -> None:
    """Write text to a file, or to standard output if `file` is None; see `write_pieces`."""
    write_pieces([text.encode("utf-8", "replace")], file, stdout)


def write_pieces(pieces: Iterable[bytes], file: GivenPath | None, stdout: TextIO) -> None:
    """Write UTF-8 to a file, replacing it atomically; to standard output if `file` is None.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    if file is None:
        stdout.writelines(piece.decode() for piece in pieces)
        return
    try:
        path = file.path
        is_stream = path.exists() and not path.is_file()
        check_links(file if is_stream else file.parent)
        if is_stream:
            # A device or a pipe is written to, not replaced.
            write_through(path, pieces)
        else:
            write_atomically(path, pieces)
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be written: {error.strerror}"]) from error
