"""Containers of the images that `make image-test` has built."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image.lock import ROOT

IMAGE = "holodeck-action:tested"
SLIM = "holodeck-action:tested-slim"
WORKSPACE = "/github/workspace"
OTHER_UID = 12345


@dataclass(frozen=True)
class Ended:
    """An ended container."""

    code: int
    stdout: str
    stderr: str


class Engine:
    """`docker`, or what stands for it, with an image."""

    def __init__(self, program: str, image: str = IMAGE) -> None:
        self.program, self.image = program, image

    def call(self, *arguments: str, timeout_s: float = 100) -> Ended:
        ended = subprocess.run(
            [self.program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def run(
        self,
        *arguments: str,
        options: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        network: str = "none",
        timeout_s: float = 100,
    ) -> Ended:
        """Run a container, without network unless one is named: the image's entry point with the arguments."""
        given = [f"--env={name}={value}" for name, value in (environ or {}).items()]
        mounted = [f"--volume={folder}:{place}" for folder, place in (mounts or {}).items()]
        command = ("run", "--rm", f"--network={network}", *given, *mounted, *options, self.image, *arguments)
        return self.call(*command, timeout_s=timeout_s)

    def shell(
        self,
        script: str,
        options: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
    ) -> str:
        """Run a shell script in a container and return what it prints; it must succeed."""
        ended = self.run("-euc", script, options=("--entrypoint=/bin/sh", *options), environ=environ, mounts=mounts)
        assert ended.code == 0, ended
        return ended.stdout


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that has the image."""
    program = os.environ.get("IMAGE_ENGINE")
    assert program, "run: make image-test"
    return Engine(program)


@pytest.fixture(scope="session")
def slim(engine: Engine) -> Engine:
    """The engine with the slim image."""
    return Engine(engine.program, SLIM)


@pytest.fixture
def checkout(tmp_path: Path, engine: Engine) -> Iterator[Path]:
    """A clone of a repository with the support example; it belongs to another user."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "examples" / "support", folder)
    here = {folder: WORKSPACE}
    identity = "-c user.name=octo -c user.email=octo@example.com"
    engine.shell(f"git init -q && git add . && git {identity} commit -qm suite", mounts=here)
    engine.shell(f"chown -R {OTHER_UID}:{OTHER_UID} .", mounts=here)
    yield folder
    engine.shell(f"chown -R {os.getuid()}:{os.getgid()} .", mounts=here)
