"""Which files of the checkout the suite's own code has imported, and what was in them: a journal holds to that."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from holodeck_action.suite.checkout import MOST_FILE, Checkout

_MOST_FILES = 10_000
"""Files that are followed: user code says which they are, and might go on for ever."""
_LONGEST_PATH = 4_096


class ImportedFiles:
    """Collects the files that worker processes say they have imported, each once, with its digest."""

    def __init__(self, checkout: Checkout, named: Iterable[Path] = ()) -> None:
        """Begin with none.

        Args:
            checkout: the suite's; what lies outside of it is not followed.
            named: files that the identity of the run covers already.
        """
        self._checkout = checkout
        self._named = frozenset(os.path.relpath(path, checkout.folder) for path in named)
        self._digests: dict[str, str | None] = {}
        self._listener: Callable[[Mapping[str, str | None]], None] = _nobody

    def __call__(self, paths: Sequence[str]) -> None:
        """Take note of files, given by absolute paths; those known already are passed over."""
        found: dict[str, str | None] = {}
        for path in paths[: _MOST_FILES - len(self._digests)]:
            # Relative, so that a checkout elsewhere goes on as well.
            name = os.path.relpath(path, self._checkout.folder) if len(path) <= _LONGEST_PATH else ""
            if name and name not in self._digests and name not in self._named:
                found[name] = self._digest(name)
        self._digests |= found
        if found:
            self._listener(found)

    def tell(self, listener: Callable[[Mapping[str, str | None]], None]) -> None:
        """Tell of the files known so far, and of others as they come."""
        if self._digests:
            listener(self._digests)
        self._listener = listener

    def changed(self, imported: Mapping[str, str | None]) -> list[str]:
        """Return which of some files do not hold any more what they held when they were imported."""
        return sorted(name for name, digest in imported.items() if self._digest(name) != digest)

    def _digest(self, name: str) -> str | None:
        """Digest a file as it is now; None where it is gone or out of reach."""
        try:
            return hashlib.sha256(self._checkout.read(name, MOST_FILE)).hexdigest()
        except (OSError, ValueError):
            return None


def _nobody(found: Mapping[str, str | None]) -> None:
    pass
