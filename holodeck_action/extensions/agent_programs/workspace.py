"""The folder in which an agent works: a copy of a fixture, and what the agent changed in it."""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.record.disk import UNSYNCED_DISK, write_new
from holodeck_action.text.foreign import Foreign, ForeignError, Redact, RefusedFileError, read_file

MOST_FILES = 100_000
"""Maximum number of files in a workspace."""
MOST_BYTES = 500_000_000
"""Maximum bytes of all files of a workspace."""
MOST_KEPT_FILES = 500
"""Maximum number of changed files of a trial that are kept with their contents."""
MOST_KEPT_BYTES = 16_000_000
"""Maximum bytes of these files."""
MOST_TEXT = 200_000
"""Maximum bytes of a file whose difference is shown."""
_NO_END = "\\ No newline at end of file"
_MOST_DIFFERENCE = 64_000
"""Maximum characters of the difference of a trial that the record keeps."""
_REPOSITORY = ".git"
"""The name of Git's own folder, or of the file that leads to it."""
_NOT_COUNTED = (_REPOSITORY, "__pycache__")
"""Names of folders that no agent edits: programs write into them while it works."""


class WorkspaceError(Exception):
    """A workspace cannot be made or read; the message is a clause to write after its name."""


class Entry(Struct, frozen=True):
    """One file: digest of its content (of the target's path of a link), size in bytes, and whether it can be run."""

    sha256: str
    size: int
    executable: bool
    link: bool = False


Snapshot = Mapping[str, Entry]
"""The files of a workspace by their relative paths."""


def walk(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the files and links in a folder, sorted, without those of Git and Python's bytecode.

    Raises:
        WorkspaceError: there are too many, or a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise WorkspaceError(f"has a folder that cannot be read: {error.strerror}")

    found: list[str] = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        above = os.path.relpath(place, folder)
        folders[:] = [name for name in folders if name not in _NOT_COUNTED]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        names = [name for name in (*files, *links) if name != _REPOSITORY]
        found += [os.path.normpath(os.path.join(above, name)) for name in names]
        if len(found) > MOST_FILES:
            raise WorkspaceError(f"has more than {MOST_FILES:,} files")
    yield from sorted(found)


def snapshot(folder: Path) -> Snapshot:
    """Return the files of a folder.

    Raises:
        WorkspaceError: the folder is too large, or a file cannot be read.
    """
    found: dict[str, Entry] = {}
    left = MOST_BYTES
    for name in walk(folder):
        try:
            found[name] = _entry(folder / name, left)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise WorkspaceError(f"has a file that cannot be read, {name}: {error.strerror}") from None
        left -= found[name].size
    return found


def _entry(path: Path, left: int) -> Entry:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(path))
        return Entry(hashlib.sha256(target).hexdigest(), len(target), executable=False, link=True)
    if not stat.S_ISREG(status.st_mode):
        return Entry("", 0, executable=False)
    content = read_file(path, left, follow_links=False)
    return Entry(content.digest(), len(content), executable=bool(status.st_mode & stat.S_IXUSR))


def tree_digest(folder: Path) -> str:
    """Return a digest of the paths and contents of a folder's files.

    Raises:
        OSError: the folder cannot be read.
    """
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is not a folder")
    try:
        lines = [f"{name}\0{entry.sha256}\0{entry.executable:d}\n" for name, entry in snapshot(folder).items()]
    except WorkspaceError as error:
        raise RefusedFileError(str(error)) from None
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def copy_folder(source: Path, to: Path, *, any_links: bool = False) -> None:
    """Copy a folder's files, with their permission to be run; a link is copied if it leads to inside of the folder.

    Args:
        source: the folder.
        to: the folder of the copy.
        any_links: whether all links are copied, as setups make them to programs of the system.

    Raises:
        WorkspaceError: the folder is too large, or a file cannot be copied.
    """
    root, left = Path(os.path.realpath(source)), MOST_BYTES
    for name in walk(root):
        left -= copy_file(root, name, to, left, any_links=any_links)


def copy_file(
    root: Path, name: str, to: Path, most_bytes: int, *, replace: bool = False, any_links: bool = False
) -> int:
    """Copy one file or link from a folder to the same place in another folder; return its size in bytes.

    Args:
        root: the folder.
        name: path of the file, relative to the folder.
        to: the other folder.
        most_bytes: maximum size of the file.
        replace: whether a file at the place is replaced.
        any_links: whether a link may lead out of the folder.

    Raises:
        WorkspaceError: the file is larger than `most_bytes`, or cannot be copied.
    """
    path, copy = root / name, to / name
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        if replace:
            copy.unlink(missing_ok=True)
        if path.is_symlink():
            if not any_links and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
                raise WorkspaceError(f"has a link that leads out of it: {name}")
            target = os.readlink(path)
            # An absolute path would lead from the copy to the original.
            inside = os.path.isabs(target) and Path(target).is_relative_to(root)
            os.symlink(os.path.relpath(target, path.parent) if inside else target, copy)
            return 0
        content = read_file(path, most_bytes, follow_links=False)
        write_new(copy, [content.parse(bytes)], UNSYNCED_DISK)
        os.chmod(copy, 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
        return len(content)
    except OSError as error:
        raise WorkspaceError(f"has a file that cannot be copied, {name}: {error.strerror}") from None


def stored_changes(folder: Path, before: Snapshot, after: Snapshot, redact: Redact) -> dict[str, Any]:
    """Return the files that differ between two snapshots, with their contents, as JSON values for a recording.

    Args:
        folder: the workspace.
        before: its files before.
        after: its files now.
        redact: removes secrets from contents.

    Returns:
        For each path None if it was deleted, else `link`, the target of a link, or `pipe`, also for devices and
        sockets, or `text` or `base64`, and `executable`. A name that is not UTF-8 is a null and its base64.

    Raises:
        WorkspaceError: the changes are too large, or a file cannot be read.
    """
    found: dict[str, Any] = {}
    left = MOST_KEPT_BYTES
    for name in sorted({*before, *after}):
        entry, path = after.get(name), folder / name
        if before.get(name) == entry:
            continue
        try:
            if entry is None:
                found[_stored_name(name)] = None
            elif entry.link:
                found[_stored_name(name)] = {"link": _stored_name(os.readlink(path))}
            elif not entry.sha256:
                found[_stored_name(name)] = {"pipe": True}
            else:
                content = read_file(path, left, follow_links=False).parse(bytes)
                left -= len(content)
                found[_stored_name(name)] = {**_stored_content(content, redact), "executable": entry.executable}
        except OSError as error:
            raise WorkspaceError(f"has a change that cannot be recorded, {name}: {error.strerror}") from None
        if len(found) > MOST_KEPT_FILES:
            raise WorkspaceError(f"has more than {MOST_KEPT_FILES:,} changed files, which are too many to be recorded")
    return found


def _stored_content(content: bytes, redact: Redact) -> dict[str, str]:
    clean = redact(content.decode("utf-8", "surrogateescape"))
    try:
        clean.encode()
    except UnicodeEncodeError:
        return {"base64": b64encode(clean.encode("utf-8", "surrogateescape")).decode()}
    return {"text": clean}


def _stored_name(name: str) -> str:
    """Return a name as text; one that is not UTF-8 begins with a null, which no name has."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"\0{b64encode(os.fsencode(name)).decode()}"
    return name


def _read_name(stored: str) -> str:
    return os.fsdecode(b64decode(stored[1:])) if stored.startswith("\0") else stored


def restore(folder: Path, files: Mapping[str, Any], *, everything: bool) -> None:
    """Write recorded changes (see `stored_changes`) to a folder.

    Args:
        folder: the folder.
        files: the changes.
        everything: whether pipes, and links that lead out of the folder, are made, too; else they are left out.

    Raises:
        WorkspaceError: a path is outside of the folder.
        OSError: a file cannot be written.
    """
    root = Path(os.path.realpath(folder))
    # Files are deleted first, because a file can be in the place of a folder.
    for name, stored in sorted(files.items(), key=lambda each: each[1] is not None):
        path = root / _read_name(name)
        if not Path(os.path.realpath(path.parent)).is_relative_to(root):
            raise WorkspaceError(f"has a path that leads out of it: {name}")
        if stored is None:
            path.unlink(missing_ok=True)
            remove_empty(path.parent, root)
        elif everything or _is_harmless(path, stored, root):
            _restore_file(path, stored)


def _is_harmless(path: Path, stored: Mapping[str, Any], root: Path) -> bool:
    """Return whether a program that reads a stored file neither waits nor reads a file of another folder."""
    target = Path(os.path.realpath(path.parent / _read_name(stored.get("link", ""))))
    return "pipe" not in stored and target.is_relative_to(root)


def _restore_file(path: Path, stored: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if "link" in stored:
        os.symlink(_read_name(stored["link"]), path)
    elif "pipe" in stored:
        os.mkfifo(path)
    else:
        content = stored["text"].encode() if "text" in stored else b64decode(stored["base64"])
        write_new(path, [content], UNSYNCED_DISK)
        os.chmod(path, 0o755 if stored["executable"] else 0o644)


def remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder of a tree, and those above it, as long as they are empty."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def changes(
    folder: Path,
    before: Snapshot,
    original: Path | None,
    ignored: Callable[[Sequence[str]], Container[str]],
) -> dict[str, Any]:
    """Return the changes of a workspace since a snapshot, as JSON values for the record.

    Args:
        folder: the workspace.
        before: its files before.
        original: the folder of which it is a copy; None if it was empty.
        ignored: returns those of some paths that the workspace's own .gitignore leaves out.

    Returns:
        `changed`: each file with `path`, `change` (`added`, `modified` or `deleted`), `sha256`, `added_lines` and
        `removed_lines` (None unless the file is a small text), and `ignored` if it is left out; `difference`: a
        unified difference of the texts; `difference_cut`: whether it was cut.

    Raises:
        WorkspaceError: the workspace cannot be read.
    """
    if os.path.islink(folder):
        raise WorkspaceError("was replaced by a link")
    after = snapshot(folder)
    found: list[dict[str, Any]] = []
    shown, size, cut = [], 0, False
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    left_out = ignored(names)
    for name in names:
        lines = _difference(name, original, folder, before.get(name), after.get(name))
        change = "added" if name not in before else "modified" if name in after else "deleted"
        counts = (None, None) if lines is None else tuple(sum(map(_is_change(sign), lines[2:])) for sign in "+-")
        digest = after[name].sha256 if name in after else None
        found.append(
            {"path": name, "change": change, "sha256": digest, "added_lines": counts[0], "removed_lines": counts[1]}
        )
        if name in left_out:
            found[-1]["ignored"] = True
            continue
        for line in lines or ():
            size += len(line) + 1
            cut |= size > _MOST_DIFFERENCE
            if not cut:
                shown.append(line)
    return {"changed": found, "difference": "\n".join(shown), "difference_cut": cut}


def _is_change(sign: str) -> Any:
    return lambda line: line.startswith(sign)


def _difference(
    name: str, original: Path | None, folder: Path, before: Entry | None, after: Entry | None
) -> list[str] | None:
    """Return the unified difference of a file; None unless it is a small text."""
    old, new = (
        "" if entry is None else None if place is None else small_text(place / name)
        for entry, place in ((before, original), (after, folder))
    )
    if old is None or new is None:
        return None
    names = (f"a/{name}", f"b/{name}")
    found = difflib.unified_diff(split_lines(old), split_lines(new), *names)
    return [part for line in found for part in (line.removesuffix("\n"), *(() if line.endswith("\n") else (_NO_END,)))]


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a line feed ends a line, as in Git."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def small_text(path: Path) -> str | None:
    """Return the content of a small text file; None for another file."""
    try:
        content: Foreign = read_file(path, MOST_TEXT, follow_links=False)
        return content.text()
    except (OSError, ForeignError):
        return None
