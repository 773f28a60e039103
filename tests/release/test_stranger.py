"""A stranger follows the first page of the site with the packages of a release, and without a checkout of this project.

The commands are those of the page. The program comes from an index on loopback. The job runs `runner/action.yml` in the
files of the release, as GitHub gives them to a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.action import composite
from tests.action.composite import path_with
from tests.docs.beginner import Beginner, Remote
from tests.github.fake import FakeGitHub
from tests.github.workflow import TOKEN
from tests.release.distributions import Distributions
from tests.release.machine import Machine, python, versions
from tests.release.package_index import PackageIndex
from tests.workers.installing import uv

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class OnTheRunner:
    """Runs the step without a container: the files of the release in `tree`, an empty home for all jobs."""

    tree: Path
    home: Path

    def __call__(self, environ: Mapping[str, str], workspace: Path, files: Path) -> tuple[int, bytes, bytes]:
        """Run the step; its outputs are those of the composite action."""
        declared = composite.composite()["inputs"]
        named = {name: f"INPUT_{name.upper()}" for name in declared}
        inputs = {name: environ[variable] for name, variable in named.items() if variable in environ}
        others = {name: value for name, value in environ.items() if not name.startswith("INPUT_")}
        job = {**others, "HOME": str(self.home), "RUNNER_TEMP": str(files)}
        ended = composite.run(workspace, inputs, job, TOKEN, timeout_s=600, folder=self.tree / "runner")
        texts = [f"{name}<<END-OF-{name}\n{value}\nEND-OF-{name}\n" for name, value in ended.outputs.items()]
        (files / "set_output").write_text("".join(texts), encoding="utf-8")
        return ended.code, ended.log.encode(), b""


def test_the_first_page_leads_to_a_red_pull_request_and_to_a_green_one(
    tmp_path: Path, tree: Path, distributions: Distributions, index: PackageIndex, hub: FakeGitHub
) -> None:
    version = versions()[0]
    machine = Machine(tmp_path, index, python(version))
    # What the page types with Docker has tests of its own.
    path_with(tmp_path / "programs", ("docker", "#!/bin/sh\n"))
    environ = {
        **{name: value for name, value in machine.environ.items() if name != "HOME"},
        "PATH": f"{tmp_path / 'programs'}:{uv().parent}:{machine.environ['PATH']}",
    }
    beginner = Beginner(tmp_path, environ)
    (tmp_path / "runner-home").mkdir()
    remote = Remote(hub, beginner, OnTheRunner(tree, tmp_path / "runner-home"), **environ)
    typed = beginner.follow(remote)
    assert len([command for command in typed if command.startswith("uvx holodeck-action ")]) == 5
    assert index.sent == {distributions.wheel.name}
    beginner.check_last_run()
    assert [check["conclusion"] for check in remote.checks] == ["success", "failure", "success"]
    marks = [[(mark["path"], mark["start_line"]) for mark in check["annotations"]] for check in remote.checks]
    # The check that the answer does not pass, and its case, whose metric it does not reach.
    assert marks == [[], [("agent.yaml", 15), ("agent.yaml", 11)], []]
