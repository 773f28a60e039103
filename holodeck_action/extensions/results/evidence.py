"""Finds results files of other programs, and refuses those that are no evidence about the job's commit."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from holodeck_action.extensions.results.files import FORMATS, is_own, read_results
from holodeck_action.extensions.results.options import read_pass_mark
from holodeck_action.extensions.results.stored import FormatError, StoredResults
from holodeck_action.github.bases.local_git import run_git
from holodeck_action.suite.checkout import head_commit
from holodeck_action.text.given_paths import GivenPath


class Evidence(NamedTuple):
    """What was found in files.

    Attributes:
        files: the contents of those that can be used.
        problems: a sentence for each file that cannot be used.
        unknown: the files that are of no other program.
    """

    files: Sequence[StoredResults]
    problems: Sequence[str]
    unknown: Sequence[GivenPath]


def read_evidence(
    paths: Sequence[GivenPath], options: Mapping[str, Any], cwd: Path, environ: Mapping[str, str]
) -> Evidence:
    """Read results files.

    Args:
        paths: files, or globs of them.
        options: values of the extension's options by setting name.
        cwd: absolute path of the current folder.
        environ: the environment variables.
    """
    problems: list[str] = []
    found: list[StoredResults] = []
    unknown: list[GivenPath] = []
    seen: set[Path] = set()
    marks = dict(map(read_pass_mark, options.get("pass_at", ())))
    bare = bool(options.get("without_plugin"))
    for path in paths:
        names = _expanded(path)
        if not names:
            problems.append(f"{path}: no such file; give the results files, or a glob of them")
        for name in names:
            # A file that two globs match is no second trial.
            if name.real in seen:
                continue
            seen.add(name.real)
            try:
                read = None if is_own(name) else read_results(name, marks, without_plugin=bare)
            except FormatError as error:
                problems.append(f"{name}: {error}")
                continue
            if read is None:
                unknown.append(name)
                continue
            found.append(read)
            if not options.get("accept_stored"):
                problems += _staleness(name, read, cwd, environ)
    return Evidence(found, problems, unknown)


def format_names() -> str:
    """Return the names of all formats, for messages."""
    return ", ".join(each.name for each in FORMATS)


def _expanded(path: GivenPath) -> list[GivenPath]:
    """Return the files of a glob, or the path itself if there is such a file, or if the path is not a glob."""
    text = str(path)
    if os.path.lexists(path) or not glob.has_magic(text):
        return [path]
    return [GivenPath(Path(name), path.start) for name in sorted(glob.glob(text, root_dir=path.start, recursive=True))]


def _staleness(path: GivenPath, results: StoredResults, cwd: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each reason why results may not be of this job."""
    way_out = "run it in this job, or accept it with --accept-stored"
    folder = path.real.parent
    if run_git(folder, environ, "ls-files", "--error-unmatch", "--", path.real.name) is not None:
        yield f"{path}: is tracked by git, so it is no result of this job; {way_out}"
        return
    head = head_commit(cwd)
    if results.commit is not None and head is not None and not head.startswith(results.commit):
        yield f"{path}: is of commit {results.commit[:12]}, and {head[:12]} is checked out; {way_out}"
    # The runner writes the event's file when the job begins.
    begun = _modified(environ.get("GITHUB_EVENT_PATH", "").strip())
    written = _moment(results.written) or _modified(path)
    if begun is not None and written is not None and written < begun:
        at = results.written or written.isoformat()
        yield f"{path}: was written at {at}, before this job began; {way_out}"


def _modified(file: str | GivenPath) -> datetime | None:
    """Return when a file was written, in whole seconds; None if there is no file."""
    try:
        return datetime.fromtimestamp(int(os.stat(file).st_mtime), UTC) if file else None
    except OSError:
        return None


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
