"""The slim image beside the complete one: the same records, and a sentence for a suite that needs more."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.image.conftest import WORKSPACE, Engine
from tests.image.lock import ROOT

pytestmark = pytest.mark.image

COMPLETE = "use the complete image, whose tag has no -slim, such as v1"


@pytest.mark.parametrize("example", ["support", "financial", "retrieval"])
def test_both_images_give_the_record_of_the_command_line(
    engine: Engine, slim: Engine, tmp_path: Path, example: str
) -> None:
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / example, folder)
    here = [sys.executable, "-m", "holodeck_action.cli", "run", "-o", "here"]
    assert subprocess.run(here, cwd=folder, capture_output=True, check=False).returncode == 1
    for image, output in ((engine, "complete"), (slim, "slim")):
        ended = image.run("run", "-o", output, mounts={folder: WORKSPACE})
        assert ended.code == 1, ended

    records = {canonical_json(read_record(folder / name / "results.json")) for name in ("here", "complete", "slim")}
    assert len(records) == 1


GEVAL = {"type": "geval", "name": "Polite", "criteria": "The answer is polite.", "threshold": 0.5}
AZURE = {"type": "standard", "metric": "groundedness", "threshold": 0.5}
PDF = {"files": [{"path": "a.pdf", "type": "pdf"}]}
TABLE = {"test_cases": None, "test_cases_file": "cases.parquet"}
SERVER = {"name": "shop", "description": "The shop", "type": "mcp", "command": "npx", "args": ["shop"]}


@pytest.mark.parametrize(
    ("says", "metrics", "case", "top"),
    [
        ("needs packages that are not installed", [GEVAL], {}, {}),
        ("needs packages that are not installed", [AZURE], {}, {}),
        ("a.pdf: reading a PDF file needs the `files` extra, which is not installed", None, PDF, {}),
        ("Parquet needs the Python package 'pyarrow', which is not installed", None, {}, TABLE),
        ("tools.shop.command: npx is not on the PATH", None, {}, {"tools": [SERVER]}),
    ],
    ids=["G-Eval", "Azure", "document", "table", "Node.js"],
)
def test_a_suite_that_needs_more_is_refused_by_the_tag_to_use(
    slim: Engine,
    project: Project,
    says: str,
    metrics: list[dict[str, Any]] | None,
    case: dict[str, Any],
    top: dict[str, Any],
) -> None:
    project.write("a.pdf", "%PDF-1.4\n")
    project.write("cases.parquet", "PAR1PAR1")
    project.suite([{"name": "a", "input": "?", "ground_truth": "b", **case}], metrics, **top)

    ended = slim.run("run", mounts={project.folder: WORKSPACE}, environ={"OPENAI_API_KEY": "sk-none"})

    assert ended.code == 2, ended
    [sentence] = [line for line in ended.stderr.splitlines() if COMPLETE in line]
    assert says in sentence
    assert "pip install" not in ended.stderr


def test_it_lacks_the_libraries_that_few_suites_need_and_keeps_the_tools(slim: Engine) -> None:
    printed = slim.shell(
        """
        cd /opt/holodeck-action/lib/python3*/site-packages
        ls -d azure deepeval magika markitdown onnxruntime openai pandas pyarrow 2>/dev/null || true
        command -v node npm npx || true
        git --version >&2; uvx --version >&2; python -c 'import github, mcp'
        """
    )

    assert printed == ""
