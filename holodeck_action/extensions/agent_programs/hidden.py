"""The hidden files of a command: never in an agent's workspace, and copied into an exam tree last."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from holodeck_action.extensions.agent_programs.workspace import (
    MOST_BYTES,
    WorkspaceError,
    copy_file,
    tree_digest,
    walk,
)
from holodeck_action.suite.checkout import MOST_FILE, Checkout


class HiddenFiles(Struct, frozen=True):
    """A folder or a file of the suite that grades.

    Attributes:
        checkout: the checkout of the suite.
        path: the path in it, and in exam trees.
        loaded: digest of the files when the suite was loaded; None if they could not be read.
    """

    checkout: Checkout
    path: str
    loaded: str | None

    @classmethod
    def of(cls, checkout: Checkout, path: str) -> HiddenFiles:
        """Return the files at a path of a checkout."""
        return cls(checkout, path, _digest(checkout, path))

    @property
    def exist(self) -> bool:
        """Whether there is a folder or a file that the suite may read."""
        try:
            return self.place.exists()
        except OSError:
            return False

    @property
    def place(self) -> Path:
        """The folder or the file.

        Raises:
            OSError: it is outside of the checkout.
        """
        return self.checkout.resolve(self.path)

    def digest(self) -> str | None:
        """Return a digest of the paths and contents as they are now; None if they cannot be read."""
        return _digest(self.checkout, self.path)

    def copy_to(self, tree: Path) -> None:
        """Copy the files to the same relative path of an exam tree.

        Raises:
            WorkspaceError: they cannot be read.
        """
        try:
            source = self.place
        except OSError as error:
            raise WorkspaceError(f"{self.path} cannot be read: {error.strerror}") from None
        if not source.exists():
            raise WorkspaceError(f"{self.path} does not exist")
        for name in walk(source) if source.is_dir() else ("",):
            place = os.path.normpath(os.path.join(self.path, name))
            copy_file(self.checkout.folder, place, tree, MOST_BYTES, replace=True)


def _digest(checkout: Checkout, path: str) -> str | None:
    try:
        place = checkout.resolve(path)
        return tree_digest(place) if place.is_dir() else checkout.read(path, MOST_FILE).digest()
    except OSError:
        return None
