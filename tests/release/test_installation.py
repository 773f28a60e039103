"""The package installed from an index, by three installers, on every version of Python that it claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holodeck_action import __version__
from holodeck_action.record.result_files import read_record
from tests.release.distributions import Distributions
from tests.release.machine import INSTALLERS, NAME, Machine, python, versions
from tests.release.package_index import PackageIndex

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize("installer", INSTALLERS)
def test_the_program_runs_its_own_starter(
    tmp_path: Path, distributions: Distributions, index: PackageIndex, version: str, installer: str
) -> None:
    machine = Machine(tmp_path, index, python(version))
    program = INSTALLERS[installer](machine)
    assert machine.do(*program, "--version") == f"{NAME}, version {__version__}\n"
    assert index.sent == {distributions.wheel.name}

    assert "wrote agent.yaml\n" in machine.do(*program, "init")
    assert machine.do(*program, "validate").startswith("agent.yaml: valid: ")
    machine.do(*program, "run", "-o", "results")
    results = tmp_path / "work" / "results"
    assert json.loads((results / "verdict.json").read_text(encoding="utf-8"))["outcome"] == "passed"
    assert read_record(results / "results.json").provenance.tool_version == __version__
    assert f"python: CPython {version}." in machine.do(*program, "doctor")

    # All that a person sees is computed again from the record.
    machine.do(*program, "report", "results/results.json", "--format", "html", "-o", "again.html")
    assert (tmp_path / "work" / "again.html").read_bytes() == (results / "report.html").read_bytes()
