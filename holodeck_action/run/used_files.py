"""The files of a checkout that the suite's code uses, while a run collects them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holodeck_action.record.closure import WRITTEN, Digests
from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.workers.watching import Watch

_MOST_FILES = 10_000
"""Maximum number of files that are noted. Code of the suite reports them, so their number must be limited."""
_LONGEST_PATH = 4_096
_BYTECODE = "__pycache__"
_CHUNK = 1 << 20
_HEADER = 8
"""Length in bytes of the beginning of a bytecode file: magic number and flags."""


class UsedFiles:
    """Collects the files of a checkout that the suite's code imports and those that grading code uses, each once with
    its digest, and those of the target."""

    def __init__(self, checkout: Checkout, started: float, named: Iterable[Path]) -> None:
        """Create an empty collection.

        Args:
            checkout: the checkout.
            started: time before which all files of the checkout were written, in seconds since 1970.
            named: files that do not count as imported, because the identity of the run covers them already.
        """
        self._checkout = checkout
        self._started = started
        self._named = frozenset(file_name(checkout, str(path)) for path in named)
        self._imports: dict[str, str | None] = {}
        self._listener: Callable[[Mapping[str, str | None]], None] = lambda digests: None
        self._code: dict[str, str | None] = {}
        self._tested: set[str] = set()
        self._unsent: dict[str, str | None] = {}

    @property
    def watch(self) -> Watch:
        """What workers that run grading code note."""
        return Watch(self._checkout.root_paths, self.add_code)

    def add_code(self, paths: Sequence[str]) -> None:
        """Add files that grading code has used, by their absolute paths."""
        for name in self._names(paths, len(self._code)):
            if name not in self._code and not _is_cached_bytecode(self._checkout, name):
                self._code[name] = self._unsent[name] = self.digest(name)

    def add_tested(self, paths: Sequence[str]) -> None:
        """Add files that the target has imported, by their absolute paths."""
        self.add_imported(paths)
        self._tested.update(self._names(paths, len(self._tested)))

    def add_imported(self, paths: Sequence[str]) -> None:
        """Add files that code of the suite has imported, by their absolute paths."""
        names = self._names(paths, len(self._imports))
        self.add_imports({name: file_digest(self._checkout, name) for name in names if name not in self._imports})

    def add_imports(self, digests: Mapping[str, str | None]) -> None:
        """Add the digests of imported files, such as those that were imported on another machine, in a copy of the
        checkout."""
        found = {name: each for name, each in digests.items() if name not in self._named and name not in self._imports}
        self._imports |= found
        if found:
            self._listener(found)

    def notify(self, listener: Callable[[Mapping[str, str | None]], None]) -> None:
        """Call a listener with the digests of imported files so far, and with new ones when they are added."""
        if self._imports:
            listener(self._imports)
        self._listener = listener

    @property
    def imports(self) -> Mapping[str, str]:
        """Digests of the imported files that could be read, by path relative to the suite's folder."""
        return {name: digest for name, digest in self._imports.items() if digest is not None}

    def changed_files(self, imported: Mapping[str, str | None]) -> list[str]:
        """Return the sorted names of the files whose content now differs from the given digests."""
        return sorted(name for name, digest in imported.items() if file_digest(self._checkout, name) != digest)

    def add_digests(self, digests: Digests) -> None:
        """Add files that grading code used on another machine, in a copy of the checkout."""
        self._code.update(digests)

    def take_unsent(self) -> Digests:
        """Return the files of grading code that were added since the last call."""
        taken, self._unsent = self._unsent, {}
        return taken

    def digest(self, name: str) -> str | None:
        """Return the digest of a file; `WRITTEN` if it was written since the start."""
        try:
            written = os.stat(self._checkout.resolve(name)).st_ctime >= self._started
        except (OSError, ValueError):
            return None
        return WRITTEN if written else file_digest(self._checkout, name)

    @property
    def code(self) -> Digests:
        """The files that grading code has used, in order of name."""
        return dict(sorted(self._code.items()))

    @property
    def shared(self) -> tuple[str, ...]:
        """The files that grading code has used and the target has imported."""
        return tuple(sorted(self._tested & self._code.keys()))

    def _names(self, paths: Sequence[str], known: int) -> Iterator[str]:
        for path in paths[: _MOST_FILES - known]:
            if 0 < len(path) <= _LONGEST_PATH:
                yield file_name(self._checkout, path)


def file_name(checkout: Checkout, path: str) -> str:
    """Return a path relative to the suite's folder, with `/`; that of a folder ends with `/`."""
    name = Path(os.path.relpath(path, checkout.folder)).as_posix()
    return f"{name}/" if path.endswith(os.sep) else name


def file_digest(checkout: Checkout, name: str, max_bytes: int = MOST_FILE) -> str | None:
    """Return the SHA-256 (hex) of a file, or of the names in a folder if `name` ends with `/`; None if it does not
    exist or cannot be read."""
    try:
        if name.endswith("/"):
            # Hidden names are those of Git, caches and editors.
            names = sorted(each for each in os.listdir(checkout.resolve(name)) if not each.startswith((".", "__py")))
            return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
        return content_digest(checkout, name, max_bytes)
    except (OSError, ValueError):
        return None


def content_digest(checkout: Checkout, name: str | Path, max_bytes: int) -> str:
    """Return the SHA-256 (hex) of a file, which is read in pieces.

    Raises:
        OSError: as `Checkout.open`.
    """
    digest = hashlib.sha256()
    with checkout.open(name, max_bytes) as content:
        while part := content.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()


def _is_cached_bytecode(checkout: Checkout, name: str) -> bool:
    """Return whether Python uses a bytecode file only as long as its source has not changed since, or it is missing."""
    if _BYTECODE not in name.split("/"):
        return False
    try:
        with checkout.open(name, MOST_FILE) as file:
            return file.read(_HEADER)[4:] == bytes(4)
    except (OSError, ValueError):
        return True
