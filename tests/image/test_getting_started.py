"""docs/getting-started.md with Docker alone: the image in the place of uvx, and the job in its container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.action.composite import path_with
from tests.docs.beginner import PAGE, Beginner, Remote
from tests.docs.pages import blocks, typed
from tests.github.fake import FakeGitHub
from tests.image.conftest import IMAGE, Engine
from tests.image.test_life import Container

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

NAME = "ghcr.io/holodeck-action/holodeck-action:v1"
DOCKER = """#!/bin/sh
# docker, except that containers reach the package index as this machine does.
shift
exec {engine} run --network=host {options} "$@"
"""
UVX = """#!/bin/sh
shift
exec {command} "$@"
"""


def test_every_command_works_and_the_job_is_green(engine: Engine, tmp_path: Path, hub: FakeGitHub) -> None:
    assert engine.call("tag", IMAGE, NAME).code == 0
    certificates = {
        Path(os.environ[name]): os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ
    }
    [instead] = [
        each.command
        for block in blocks(PAGE)
        for each in typed(block)
        if each.command.endswith(" --help") and block.language == "console"
    ]
    variables = {name: os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ}
    (tmp_path / "cache").mkdir()
    options = [f"--env={name}={value}" for name, value in variables.items()]
    options += [f"--volume={file}:{place}" for file, place in certificates.items()]
    # What was downloaded is kept; what was installed is not.
    options += [f"--volume={tmp_path / 'cache'}:/downloads", "--env=UV_CACHE_DIR=/downloads"]
    path = path_with(
        tmp_path / "programs",
        ("docker", DOCKER.format(engine=engine.program, options=" ".join(options))),
        ("uvx", UVX.format(command=instead.removesuffix(" --help"))),
    )
    beginner = Beginner(tmp_path, {"PATH": path})
    remote = Remote(hub, beginner, Container(engine, certificates), **variables)
    assert any(command.startswith("uvx ") for command in beginner.follow(remote))
    assert {file.stat().st_uid for file in beginner.folder.rglob("*")} == {os.getuid()}
    beginner.check_last_run()
