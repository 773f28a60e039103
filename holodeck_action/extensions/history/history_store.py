"""Stores of histories: their protocol, and the store in a local folder."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec import Struct

from holodeck_action.extensions.history.history_layout import HISTORY_FILE, RECORDS_FOLDER
from holodeck_action.extensions.history.history_lines import (
    HistoryLine,
    HistoryLines,
    dump_line,
    new_lines,
    outdated_folders,
    parse_lines,
    suite_of,
)
from holodeck_action.record.disk import DISK, Disk, check_links, make_folder, open_folder, write_atomically
from holodeck_action.record.record import Record
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import Foreign, ForeignError, open_file, read_file
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

MOST_HISTORY_BYTES = 256 * 1024 * 1024
MOST_RESULTS_BYTES = 256 * 1024 * 1024
"""Size limit of the results of one run, unpacked, in bytes."""
_COMPRESSION, _GZIP_WBITS = 9, 31
_WAITS, _WAIT_S = 300, 0.1
"""Maximum number of pauses while another process appends, and the length of a pause in seconds."""


class HistoryError(ConfigurationError):
    """A history cannot be used; the message is one sentence that names the history and a remedy."""

    def __init__(self, message: str) -> None:
        super().__init__([message])


class HistoryEntry(Struct, frozen=True):
    """A run to add to a history.

    Attributes:
        line: line of the run.
        results: content of the results file; None if the history does not keep the results.
    """

    line: HistoryLine
    results: bytes | None


class HistoryStore(Protocol):
    """Stores a history, in a folder or on a branch."""

    def read(self) -> HistoryLines:
        """Return all lines; no lines if there is no history yet.

        Raises:
            HistoryError: the history cannot be read.
        """

    def append(self, entries: Sequence[HistoryEntry]) -> object:
        """Add the runs that the history does not have, and delete the results that it no longer keeps.

        Raises:
            HistoryError: the runs cannot be added; existing runs are not lost.
        """


class OpenHistory(Struct, frozen=True):
    """A history that was read from its folder; a new run can be compared with the runs in it."""

    store: HistoryFolder
    found: HistoryLines

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about unreadable lines."""
        return self.found.notices

    def results(self, run_text: str, other: Record | None) -> bytes:
        """Return the content of the results file of a run.

        Args:
            run_text: commit or position of a run; see `find_results`.
            other: any record of the suite, to find the suite's runs; None if the history has only one suite.

        Raises:
            HistoryError: no run matches, or runs of several commits or suites match.
        """
        return find_results(self.store, self.found, run_text, None if other is None else suite_of(other))


def open_history(folder: GivenPath, pause: Callable[[float], None], disk: Disk) -> OpenHistory:
    """Read the history in a folder.

    Raises:
        HistoryError: the history cannot be read.
    """
    store = HistoryFolder(folder, pause, disk)
    return OpenHistory(store, store.read())


def find_results(store: HistoryFolder, history_lines: HistoryLines, run_text: str, suite: str | None = None) -> bytes:
    """Return the content of the results file of a run in a history.

    Args:
        store: folder of the history.
        history_lines: lines of the history.
        run_text: at least the first 4 characters of the commit, or a position: -1 means the newest complete run, -2 the
            run before it.
        suite: folder and file of the suite; None if the history has only one suite.

    Raises:
        HistoryError: no run matches, or runs of several commits or suites match.
    """
    lines = [line for line in history_lines.lines if line.is_counted]
    suites = sorted({line.suite for line in lines})
    if suite is None and len(suites) > 1:
        raise HistoryError(
            f"the history has {len(suites)} suites ({_join_suites(suites)}); compare with results of one suite"
        )
    of_suite = [line for line in lines if suite is None or line.suite == suite]
    position = _parse_position(run_text)
    if position is not None:
        newest = of_suite[position] if -len(of_suite) <= position else None
        return _read_results(store, newest, run_text, len(of_suite))
    named = [
        line for line in of_suite if len(run_text) >= _SHORTEST_COMMIT and line.results_folder.startswith(run_text)
    ]
    if len({line.results_folder for line in named}) > 1:
        raise HistoryError(f"{one_line(run_text, 80)!r} matches several commits of the history; give more characters")
    return _read_results(store, named[-1] if named else None, run_text, len(of_suite))


_SHORTEST_COMMIT = 4


def _parse_position(run_text: str) -> int | None:
    return (
        int(run_text)
        if run_text.startswith("-") and run_text[1:].isdecimal() and len(run_text) < 10 and int(run_text) < 0
        else None
    )


def _read_results(store: HistoryFolder, line: HistoryLine | None, run_text: str, count: int) -> bytes:
    if line is None:
        raise HistoryError(
            f"the history has no run {one_line(run_text, 80)!r} among its {count}; "
            "give 4 or more characters of its commit, or -1 for the newest"
        )
    content = store.results(line)
    if content is None:
        raise HistoryError(
            f"the results of {line.results_folder[:12]} are no longer kept: a history keeps results of the newest "
            "runs, then one per week; name another run"
        )
    return content


def _join_suites(suites: Sequence[str]) -> str:
    shown = ", ".join(one_line(suite, 80) for suite in suites[:5])
    return shown if len(suites) <= 5 else f"{shown}, …"


def pack(content: bytes) -> bytes:
    """Return results compressed with gzip; equal results give equal bytes."""
    return zlib.compress(content, _COMPRESSION, _GZIP_WBITS)


def unpack(packed: bytes, place: str) -> bytes:
    """Return decompressed results.

    Args:
        packed: the results, compressed with gzip.
        place: name of the results in messages.

    Raises:
        HistoryError: the results are damaged or too large.
    """
    try:
        return Foreign(packed).unpack(MOST_RESULTS_BYTES).parse(bytes)
    except ForeignError as error:
        raise HistoryError(f"{place}: {error}") from error


class HistoryFolder:
    """A history in a folder, to which several processes may add runs at the same time; implements `HistoryStore`."""

    def __init__(self, folder: GivenPath, pause: Callable[[float], None], disk: Disk = DISK) -> None:
        self._folder, self._pause, self._disk = folder, pause, disk

    def read(self) -> HistoryLines:
        """Return all lines; see `HistoryStore`."""
        file = self._folder / HISTORY_FILE
        return parse_lines(self._content(), str(file))

    def append(self, entries: Sequence[HistoryEntry]) -> int:
        """Add runs, and return how many the history did not have; see `HistoryStore`."""
        try:
            make_folder(self._folder)
            with self._exclusive_access():
                return self._append(entries)
        except OSError as error:
            name = self._folder.written_path(error.filename) if error.filename else self._folder
            raise HistoryError(f"{name}: cannot be written: {error.strerror}; give another folder") from error

    def results(self, line: HistoryLine) -> bytes | None:
        """Return the content of a run's results file; None if the history does not keep it.

        Raises:
            HistoryError: the file cannot be read.
        """
        file = self._folder / line.record_path
        try:
            packed = read_file(file, MOST_RESULTS_BYTES).parse(bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HistoryError(f"{file}: cannot be read: {error.strerror}") from error
        return unpack(packed, str(file))

    def _content(self) -> bytes:
        file = self._folder / HISTORY_FILE
        try:
            with open_file(file, None) as opened:
                if os.fstat(opened.fileno()).st_size > MOST_HISTORY_BYTES:
                    raise HistoryError(f"{file}: has more than {MOST_HISTORY_BYTES:,} bytes; remove its oldest lines")
                return opened.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise HistoryError(f"{file}: cannot be read: {error.strerror}; give the folder of a history") from error

    def _append(self, entries: Sequence[HistoryEntry]) -> int:
        content = self._content()
        known = parse_lines(content, HISTORY_FILE).lines
        new = tuple(new_lines(known, (entry.line for entry in entries)))
        if not new:
            return 0
        for entry in entries:
            if entry.line in new and entry.results is not None:
                file = self._folder / entry.line.record_path
                make_folder(file.parent)
                write_atomically(file.path, [pack(entry.results)], disk=self._disk)
        # A truncated last line stays a separate line.
        before = content if not content or content.endswith(b"\n") else content + b"\n"
        lines = [before, *map(dump_line, new)]
        write_atomically(self._folder.path / HISTORY_FILE, lines, disk=self._disk)
        self._delete_outdated((*known, *new))
        return len(new)

    def _delete_outdated(self, lines: Sequence[HistoryLine]) -> None:
        """Delete the results that the history no longer keeps."""
        for place in outdated_folders(lines):
            folder = self._folder / RECORDS_FOLDER / place
            check_links(folder)
            shutil.rmtree(folder.path, ignore_errors=True)

    @contextmanager
    def _exclusive_access(self) -> Iterator[None]:
        """Lock the folder against other writers; the kernel releases the lock when the process ends.

        Raises:
            OSError: another process did not release the lock in time.
        """
        with open_folder(self._folder.path) as handle:
            self._lock(handle)
            yield

    def _lock(self, descriptor: int) -> None:
        for _ in range(_WAITS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._pause(_WAIT_S)
            except OSError:
                # Some network file systems have no locks; append without one.
                return
            else:
                return
        raise OSError(errno.EBUSY, "another run is adding to it", str(self._folder.path))
