"""The files of a checkout that grading code and the target use, while a run collects them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from holodeck_action.record.closure import WRITTEN, Digests
from holodeck_action.suite.checkout import MOST_FILE, Checkout
from holodeck_action.workers.watching import Watch

_MOST_FILES = 10_000
"""Maximum number of files that are noted. Code of the suite reports them, so their number must be limited."""
_LONGEST_PATH = 4_096
_BYTECODE = "__pycache__"
_HEADER = 8
"""Length in bytes of the beginning of a bytecode file: magic number and flags."""


class UsedFiles:
    """Collects the files of a checkout that grading code uses, each once with its digest, and those of the target."""

    def __init__(self, checkout: Checkout, started: float) -> None:
        """Create an empty collection.

        Args:
            checkout: the checkout.
            started: time before which all files of the checkout were written, in seconds since 1970.
        """
        self._checkout = checkout
        self._started = started
        self._code: dict[str, str | None] = {}
        self._tested: set[str] = set()
        self._unsent: dict[str, str | None] = {}

    @property
    def watch(self) -> Watch:
        """What workers that run grading code note."""
        return Watch(self._checkout.root_paths, self.add_code)

    def add_code(self, paths: Sequence[str]) -> None:
        """Add files that grading code has used, by their absolute paths."""
        for path in paths[: _MOST_FILES - len(self._code)]:
            name = self._name(path)
            if name is not None and name not in self._code and not _is_cached_bytecode(self._checkout, name):
                self._code[name] = self._unsent[name] = self.digest(name)

    def add_tested(self, paths: Sequence[str]) -> None:
        """Add files that the target has imported, by their absolute paths."""
        self._tested.update(filter(None, map(self._name, paths[: _MOST_FILES - len(self._tested)])))

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

    def _name(self, path: str) -> str | None:
        return file_name(self._checkout, path) if 0 < len(path) <= _LONGEST_PATH else None


def file_name(checkout: Checkout, path: str) -> str:
    """Return a path relative to the suite's folder, with `/`; that of a folder ends with `/`."""
    name = Path(os.path.relpath(path, checkout.folder)).as_posix()
    return f"{name}/" if path.endswith(os.sep) else name


def file_digest(checkout: Checkout, name: str) -> str | None:
    """Return the SHA-256 (hex) of a file, or of the names in a folder if `name` ends with `/`; None if it does not
    exist or cannot be read."""
    try:
        if name.endswith("/"):
            # Hidden names are those of Git, caches and editors.
            names = sorted(each for each in os.listdir(checkout.resolve(name)) if not each.startswith((".", "__py")))
            return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
        return checkout.read(name, MOST_FILE).digest()
    except (OSError, ValueError):
        return None


def _is_cached_bytecode(checkout: Checkout, name: str) -> bool:
    """Return whether Python uses a bytecode file only as long as its source has not changed since, or it is missing."""
    if _BYTECODE not in name.split("/"):
        return False
    try:
        with checkout.open(name, MOST_FILE) as file:
            return file.read(_HEADER)[4:] == bytes(4)
    except (OSError, ValueError):
        return True
