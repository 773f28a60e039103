"""The journal stores each finished trial at once, so that a killed run asks no finished trial again.

The first line, the header, has the identity of the run; a JSON line for each trial follows. Each line contains its
digest. A thread fsyncs lines in groups, within half a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from holodeck_action.decide.error_table import OUTAGE_CODES
from holodeck_action.record.disk import Disk, open_existing, open_new
from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.record import TrialRecord
from holodeck_action.record.result_files import FINISHED_FILE
from holodeck_action.record.serialization import from_plain
from holodeck_action.text.foreign import Foreign, open_file
from holodeck_action.text.given_paths import GivenPath

JOURNAL_FILE = "journal.jsonl"
PREVIOUS_FILE = "journal.previous.jsonl"
FLUSH_INTERVAL_S = 0.25
FindChanged = Callable[[Mapping[str, str | None]], Sequence[str]]
"""Takes the digests of imported files by name, and returns the names of the changed files."""
_SHOWN = 10


class JournalError(Exception):
    """A journal cannot be resumed; the message gives the reason and a remedy."""


class Journal:
    """Appends finished trials to a file: each is written at once, so that a killed process loses none of them, and a
    thread of its own waits until groups of them are on the disk.

    A write error during the run, such as a full disk, does not end the run: the missing lines are written again with
    the next trials. `error` describes the problem as long as lines are missing; else it is None.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], keep_bytes: int, disk: Disk, case_count: int) -> None:
        """Open the journal, and check that it can be written.

        Args:
            path: path of the journal.
            identity: the identity of the run; only a run with the same identity can resume the journal.
            keep_bytes: number of bytes to keep of an existing file; 0 for a new file.
            disk: writes the file.
            case_count: number of cases to run, for the display of progress.

        Raises:
            OSError: the file cannot be opened or written.
        """
        self.error: str | None = None
        self._path, self._disk = path, disk
        self._file = open_existing(path) if keep_bytes else open_new(path)
        self._pending: list[bytes] = []
        self._unsynced: list[bytes] = []
        self._lock = threading.Lock()
        try:
            if keep_bytes:
                self._file.seek(0)
                self._head = self._file.readline()
                self._cut(keep_bytes)
                # Whether there is room is known only by writing.
                disk.write(self._file, b"\n" * len(self._head))
                self._cut(keep_bytes)
            else:
                head = {"journal": dict(identity), "planned": case_count}
                self._head = seal_line(json.dumps(head, sort_keys=True).encode()[:-1], b"")
                disk.write(self._file, self._head)
                disk.sync(self._file)
                disk.sync_folder(path.parent)
        except OSError:
            self._file.close()
            raise
        self._sound = self._written = keep_bytes or len(self._head)
        self._changed, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._sync_groups, name="journal", daemon=True)
        self._thread.start()

    def append(self, case_id: str, trial: bytes) -> None:
        """Append a finished trial as JSON: a killed process leaves it, and it is on disk within half a second."""
        self._append_line(json.dumps({"case": case_id})[:-1].encode() + b', "trial": ' + trial)

    def append_imports(self, imported: Mapping[str, str | None]) -> None:
        """Append digests of files that the suite's code has imported; call it before appending the trials that used
        them."""
        self._append_line(json.dumps({"imported": dict(imported)}, sort_keys=True).encode()[:-1])

    def _append_line(self, text: bytes) -> None:
        with self._lock:
            self._pending.append(seal_line(text, self._head))
            if self.error is None:
                self._write()
        self._changed.set()

    def close(self) -> None:
        """Write the remaining lines and close the file."""
        self._closing.set()
        self._changed.set()
        self._thread.join()
        self._file.close()

    def finish(self) -> None:
        """Keep the file as that of a finished run; call it when the run is complete and its results are on disk."""
        self._disk.rename(self._path, self._path.with_name(FINISHED_FILE))

    def remove(self) -> None:
        """Delete the file; call it when the run is complete and its results are on disk."""
        self._disk.remove(self._path)

    def _sync_groups(self) -> None:
        closing = False
        while not closing:
            self._changed.wait()
            # Before the rest: what is set from here on is seen in the next round.
            self._changed.clear()
            # Wait for a group: one fsync for many trials.
            closing = self._closing.wait(FLUSH_INTERVAL_S)
            self._sync()

    def _write(self) -> None:
        """Write the pending lines. The lock must be held."""
        data = b"".join(self._pending)
        try:
            self._disk.write(self._file, data)
        except OSError as error:
            self._fail(error, self._written)
        else:
            self._written += len(data)
            self._unsynced += self._pending
            self._pending = []

    def _sync(self) -> None:
        """Wait until the lines are on the disk; trials may be appended meanwhile."""
        with self._lock:
            if self._pending:
                self._write()
            group, end, self._unsynced = self._unsynced, self._written, []
        try:
            if group and self._path.is_file():
                self._disk.sync(self._file)
        except OSError as error:
            with self._lock:
                self._pending = group + self._unsynced + self._pending
                self._unsynced, self._written = [], self._sound
                self._fail(error, self._sound)
            return
        with self._lock:
            self._sound = end
            if not self._pending:
                self.error = None

    def _fail(self, error: OSError, end: int) -> None:
        self.error = (
            f"the journal {self._path.name} could not be written ({error.strerror}); --resume runs missing cases again"
        )
        if self._path.is_file():
            self._cut(end)

    def _cut(self, end: int) -> None:
        self._file.truncate(end)
        self._file.seek(end)


def seal_line(text: bytes, head: bytes) -> bytes:
    """Return a line of the journal: the text, and a digest over the journal's first line (`head`) and the text."""
    return text + f', "digest": "{hashlib.sha256(head + text).hexdigest()}"}}\n'.encode()


def has_valid_digest(line: bytes, head: bytes) -> bool:
    """Return whether a line's digest is valid for its text and for the journal's first line (`head`)."""
    text, _, _ = line.rpartition(b', "digest": "')
    return line == seal_line(text, head)


class ResumedRun(Struct, frozen=True):
    """The state of a resumed run: finished trials, the number of bytes of the journal to keep, and notices."""

    trials: Mapping[tuple[str, int], TrialRecord]
    keep_bytes: int
    notices: tuple[str, ...]


def read_for_resume(path: GivenPath, identity: Mapping[str, Any], find_changed: FindChanged) -> ResumedRun:
    """Read the finished trials of an interrupted run, or else of the run that has ended in this folder; there are none
    if both journals do not exist, or if the finished run differs from this one.

    Args:
        path: path of the journal.
        identity: the identity of the run.
        find_changed: finds the changed files among those that the suite's code imported.

    Raises:
        JournalError: the journal is another run's, is broken or cannot be read, or imported files have changed.
    """
    if not os.path.lexists(path):
        return _reopen_finished(path, identity, find_changed)
    try:
        found, imported = _read_journal(path, identity)
    except OSError as error:
        raise JournalError(f"{path}: the journal cannot be read: {error.strerror}") from error
    edited = find_changed(imported) if found.trials else ()
    if edited:
        names = ", ".join(edited[:_SHOWN]) + (", …" if len(edited) > _SHOWN else "")
        raise JournalError(
            f"{path}: code that the interrupted run imported has changed since ({names}); "
            "run without --resume to start again"
        )
    return found


def _reopen_finished(path: GivenPath, identity: Mapping[str, Any], find_changed: FindChanged) -> ResumedRun:
    """Read the journal of a finished run, and put it in the place of the missing one."""
    # A run moves the results of the one before it to `previous` first.
    places = (path.parent / PREVIOUS_FOLDER / FINISHED_FILE, path.parent / FINISHED_FILE)
    finished = next((place for place in places if place.path.is_file()), None)
    if finished is None:
        return ResumedRun({}, 0, (f"there is no {path.name} to resume from; all cases are run",))
    try:
        found = read_for_resume(finished, identity, find_changed)
        os.replace(finished, path)
    except (JournalError, OSError) as error:
        reason = str(error).removesuffix("; run without --resume to start again")
        return ResumedRun({}, 0, (f"the finished run is not used, and all cases are run: {reason}",))
    notice = f"the run in this folder has ended; its {len(found.trials):,} trials are not run again"
    return ResumedRun(found.trials, found.keep_bytes, (*found.notices, notice))


def set_aside_journal(path: Path) -> tuple[str, ...]:
    """Rename the journal of an interrupted run that is not resumed; return a notice if there was a journal.

    Raises:
        OSError: the file cannot be renamed.
    """
    if path.is_symlink() or not path.is_file() or not path.stat().st_size:
        return ()
    path.replace(path.with_name(PREVIOUS_FILE))
    return (f"the journal of an interrupted run was kept as {PREVIOUS_FILE}; --resume would have continued it",)


class RunProgress(Struct, frozen=True):
    """The progress of a run: identity, number of cases (None if not known), and finished trials by case id."""

    identity: Mapping[str, Any]
    planned: int | None
    trials: Mapping[str, Sequence[TrialRecord]]


def read_progress(path: Path) -> RunProgress | None:
    """Read the journal of a run in progress, whatever its identity; None if the file is empty or not a journal.

    Raises:
        OSError: the file cannot be read.
    """
    trials: dict[str, list[TrialRecord]] = {}
    with open_file(path, None, follow_links=False) as file:
        header = file.readline()
        try:
            head = _read_head(header)
        except ValueError:
            return None
        for _, entry in _entries(file, header):
            if entry is not None and entry.trial is not None:
                trials.setdefault(entry.case, []).append(entry.trial)
    return RunProgress(head.journal, head.planned, trials)


def _read_journal(path: GivenPath, identity: Mapping[str, Any]) -> tuple[ResumedRun, Mapping[str, str | None]]:
    """Read the finished trials of an interrupted run, and the digests of the files that the suite's code imported, by
    name (see `UsedFiles`). Trials that met an outage, and incomplete, broken and edited lines of trials, are
    omitted.

    Raises:
        JournalError: the journal belongs to another run, or its header or a line with digests of code is broken.
        OSError: the file cannot be read.
    """
    trials: dict[tuple[str, int], TrialRecord] = {}
    imported: dict[str, str | None] = {}
    sound = broken = 0
    with open_file(path, None, follow_links=False) as file:
        header = file.readline()
        # A process that was killed while writing the header had run nothing yet.
        if header.endswith(b"\n"):
            _check_identity(path, header, identity)
            sound = len(header)
        for line, entry in _entries(file, header):
            sound += len(line)
            if entry is None and line.startswith(b'{"imported"'):
                # The code of the trials is unknown.
                raise JournalError(f"{path}: the journal was edited; run without --resume to start again")
            if entry is None:
                broken += 1
            elif entry.trial is None:
                # The first digest of a file is the one that the trials before it used.
                imported = {**entry.imported, **imported}
            elif path.name == FINISHED_FILE or not _was_outage(entry.trial):
                trials[entry.case, entry.trial.index] = entry.trial
    notices = (f"{broken} broken line(s) of {path.name} are run again",) if broken else ()
    return ResumedRun(trials, sound, notices), imported


class _Head(Struct, frozen=True):
    journal: dict[str, Any]
    planned: int | None = None


class _Entry(Struct, frozen=True):
    """The content of a line: a trial of a case, or digests of imported files."""

    case: str = ""
    trial: TrialRecord | None = None
    imported: Mapping[str, str | None] = {}


def _read_head(header: bytes) -> _Head:
    """Raises: ValueError: the line is not the first line of a journal."""
    return from_plain(Foreign(header).json(), _Head)


def _entries(file: BinaryIO, header: bytes) -> Iterator[tuple[bytes, _Entry | None]]:
    """Yield each complete line after the header and its content, which is None if the line is broken or was edited."""
    for line in file:
        if not line.endswith(b"\n"):
            return
        try:
            yield line, from_plain(Foreign(line).json(), _Entry) if has_valid_digest(line, header) else None
        except ValueError:
            yield line, None


def _was_outage(trial: TrialRecord) -> bool:
    """Return whether a trial lacks an answer or an evaluation because of an outage."""
    errors = [trial.error, *(turn.error for turn in trial.turns), *(evaluation.error for _, evaluation in trial.graded)]
    return any(error is not None and error.code in OUTAGE_CODES for error in errors)


def _check_identity(path: GivenPath, header: bytes, identity: Mapping[str, Any]) -> None:
    try:
        found = _read_head(header).journal
    except ValueError as error:
        raise JournalError(
            f"{path}: the journal's first line is broken; run without --resume to start again"
        ) from error
    differing = [key for key in sorted({*found, *identity}) if found.get(key) != identity.get(key)]
    if differing:
        changes = ", ".join(f"{key} was {found.get(key)!r}, is {identity.get(key)!r}" for key in differing)
        raise JournalError(
            f"{path}: the interrupted run differs from this one ({changes}); run without --resume to start again"
        )
    if not has_valid_digest(header, b""):
        raise JournalError(f"{path}: the journal's first line was edited; run without --resume to start again")
