"""A registry of images on loopback: Docker's own, of Debian's package `docker-registry`, and `skopeo` as its client."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.release.loopback import free_port, listens
from tests.release.machine import not_tried
from tests.workers.support import wait_until


def skopeo(*arguments: str) -> str:
    """Run skopeo and return what it prints."""
    ended = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@dataclass(frozen=True)
class Registry:
    """A running registry: `host:port`."""

    address: str

    def push(self, layout: Path, name: str) -> str:
        """Push the image of a layout, and return its digest as the registry gives it."""
        place = f"docker://{self.address}/{name}"
        skopeo("copy", "--preserve-digests", "--dest-tls-verify=false", f"oci:{layout}", place)
        return str(json.loads(skopeo("inspect", "--tls-verify=false", place))["Digest"])

    def pull(self, name: str, digest: str, layout: Path) -> None:
        """Pull an image by its digest into a layout."""
        place = f"docker://{self.address}/{name}@{digest}"
        skopeo("copy", "--preserve-digests", "--src-tls-verify=false", place, f"oci:{layout}")


@contextmanager
def serve_images(folder: Path) -> Iterator[Registry]:
    """Serve an empty registry that keeps its files in a folder; skip the test if there is none to start."""
    missing = [program for program in ("docker-registry", "skopeo") if shutil.which(program) is None]
    if missing:
        not_tried(f"THE REGISTRY: {' and '.join(missing)} must be installed (apt-get install docker-registry skopeo)")
    port = free_port()
    settings = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "files")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    folder.mkdir()
    # JSON is YAML.
    (folder / "config.yml").write_text(json.dumps(settings), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        assert wait_until(lambda: listens(port), 60), (folder / "log").read_text(encoding="utf-8")
        yield Registry(f"127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
