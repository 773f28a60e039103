"""The wheel and the source distribution, built as the release builds them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.docs.beginner import of_the_machine
from tests.docs.pages import ROOT
from tests.workers.installing import uv

EPOCH = "1767225600"
"""SOURCE_DATE_EPOCH of the builds."""


@dataclass(frozen=True)
class Distributions:
    """A folder with one wheel and one source distribution."""

    folder: Path

    @property
    def wheel(self) -> Path:
        [found] = self.folder.glob("*.whl")
        return found

    @property
    def source(self) -> Path:
        [found] = self.folder.glob("*.tar.gz")
        return found


def copy_tracked(folder: Path) -> Path:
    """Copy the files of this checkout that Git knows into a new folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            if os.access(ROOT / name, os.X_OK):
                os.chmod(folder / name, (folder / name).stat().st_mode | 0o111)
    return folder


def build(tree: Path, out: Path, *options: str, **environ: str) -> None:
    """Build a tree with the hashed build requirements of the release.

    Without options, the wheel is built from the source distribution.
    """
    locked = ("--build-constraints", str(ROOT / "requirements" / "image.txt"), "--require-hashes")
    subprocess.run(
        [uv(), "build", "--quiet", *locked, *options, "--out-dir", out, tree],
        env={**of_the_machine(), "PATH": "/usr/bin:/bin", "HOME": str(out), "SOURCE_DATE_EPOCH": EPOCH, **environ},
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=300,
    )
