"""A package index on loopback: it has this project's distributions, and redirects to the machine's index for others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.release.loopback import free_port, listens
from tests.workers.support import wait_until

OF_AN_INDEX = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
"""Variables that name the only index of a machine."""


@dataclass(frozen=True)
class PackageIndex:
    """A running index, and its log."""

    url: str
    log: Path

    @property
    def environ(self) -> dict[str, str]:
        """Variables with which pip and uv install from this index alone."""
        return dict.fromkeys(OF_AN_INDEX, self.url)

    @property
    def sent(self) -> set[str]:
        """The names of the files that it was asked for."""
        return set(re.findall(r"GET /packages/(\S+)", self.log.read_text(encoding="utf-8")))


@contextmanager
def serve_packages(folder: Path, log: Path) -> Iterator[PackageIndex]:
    """Serve the distributions in a folder.

    A request for another project is redirected to the index that the machine is configured for, so that the version of
    this project is never that of another index.
    """
    port = free_port()
    named = [os.environ[name] for name in OF_AN_INDEX if os.environ.get(name)]
    elsewhere = ["--fallback-url", f"{named[0].rstrip('/')}/"] if named else []
    program = Path(sys.executable).with_name("pypi-server")
    options = ["-v", "--server", "wsgiref", "--interface", "127.0.0.1", "--port", str(port), *elsewhere]
    command = [str(program), "run", *options, str(folder)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        assert wait_until(lambda: listens(port), 60), log.read_text(encoding="utf-8")
        yield PackageIndex(f"http://127.0.0.1:{port}/simple/", log)
    finally:
        process.kill()
        process.wait()
