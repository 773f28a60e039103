"""Scripts of workflows, run with what they get from GitHub and from the step before."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.action.step import Step
from tests.commands.project import Project
from tests.workflows.files import ROOT, bash, jobs, script, steps

CI = ROOT / ".github" / "workflows" / "ci.yml"
ON_DEMAND = ROOT / "examples" / "workflows" / "comment-command.yml"
UNPUBLISHED = {"comment": "off", "check": "false"}


def _inputs(step: dict[str, Any]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in {**step["with"], **UNPUBLISHED}.items()}


@pytest.mark.full
def test_ci_expects_what_the_examples_give(project: Project) -> None:
    shutil.copytree(ROOT / "examples", project.folder / "examples")
    every, expected, passing = [
        step for step in steps(CI) if step.get("uses") == "./" or step.get("name") == "What the examples gave"
    ]
    runner = Step(project)
    ended = runner.run(_inputs(every))
    assert ended.code == 0, ended.text
    given = re.sub(
        r"\$\{\{ steps\.evaluate\.outputs\.([\w-]+) \}\}", lambda it: ended.outputs[it[1]], expected["env"]["GIVEN"]
    )
    assert bash(expected["run"], project.folder, {"GIVEN": given}).returncode == 0, given
    assert bash(expected["run"], project.folder, {"GIVEN": given.replace("failed", "passed")}).returncode == 1
    runner.output_file.unlink()
    ended = runner.run(_inputs(passing))
    assert (ended.code, ended.outputs["passed"], ended.outputs["failed"]) == (0, "2", "0"), ended.text


def test_the_jobs_of_the_workflow_of_shards_give_one_verdict(project: Project) -> None:
    """Its steps run as the runner runs them: one job for each shard, and one that merges what they uploaded."""
    project.numbered(10, wrong=frozenset({3}))
    whole = project.run("run", "-o", "whole")
    found = jobs(ROOT / "examples" / "workflows" / "shards.yml")
    evaluating, merging = [
        next(step for step in job["steps"] if str(step.get("uses")).startswith("holodeck-action/"))
        for job in found.values()
    ]
    [download] = [step["with"] for step in found["merge"]["steps"] if "download-artifact" in str(step.get("uses"))]
    runner = Step(project)
    for shard in found["shard"]["strategy"]["matrix"]["shard"]:
        inputs = {"shard": evaluating["with"]["shard"].replace("${{ matrix.shard }}", str(shard))}
        ended = runner.run({**inputs, "check": "true", "comment": "always"})
        assert (ended.code, ended.outputs["verdict"], ended.outputs["exit-code"]) == (0, "", "0"), ended.text
        # Of several artifacts each has a folder of its own name.
        artifact = project.folder / download["path"] / f"shard-{shard}"
        artifact.parent.mkdir(exist_ok=True)
        shutil.move(project.folder / "holodeck-results", artifact)
        runner.output_file.unlink()
        runner.summary_file.unlink(missing_ok=True)
    ended = runner.run(_inputs(merging))
    assert (ended.code, ended.outputs["verdict"]) == (whole.code, "failed") == (1, "failed"), ended.text
    assert (ended.outputs["passed"], ended.outputs["failed"], ended.outputs["total"]) == ("9", "1", "10")
    assert "case 3" in ended.summary
    merged, alone = (read_record(project.folder / name / "results.json") for name in ("holodeck-results", "whole"))
    assert canonical_json(merged) == canonical_json(alone)
    shutil.rmtree(project.folder / download["path"] / "shard-2")
    runner.output_file.unlink()
    ended = runner.run(_inputs(merging))
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    assert "shard 2/4 is missing" in ended.text
    runner.output_file.unlink()
    ended = runner.run({"merge": "shards", "shard": "1/2", **UNPUBLISHED})
    assert (ended.code, "input shard: cannot be combined with merge, which runs nothing" in ended.text) == (2, True)


def test_the_jobs_of_the_matrix_give_one_verdict(project: Project) -> None:
    """Its steps run as the runner runs them: one job for each suite, and one that publishes what they uploaded."""
    found = jobs(ROOT / "examples" / "workflows" / "matrix.yml")
    evaluating, publishing = [
        next(step for step in job["steps"] if str(step.get("uses")).startswith("holodeck-action/"))
        for job in found.values()
    ]
    [upload] = [step["with"] for step in found["evaluate"]["steps"] if "upload-artifact" in str(step.get("uses"))]
    [download] = [step["with"] for step in found["publish"]["steps"] if "download-artifact" in str(step.get("uses"))]
    runner = Step(project)
    agents = found["evaluate"]["strategy"]["matrix"]["agent"]
    for agent in agents:
        Project(project.folder / "agents" / agent).numbered(2, wrong=frozenset({1} if agent == agents[-1] else ()))
        inputs = {name: value.replace("${{ matrix.agent }}", agent) for name, value in evaluating["with"].items()}
        ended = runner.run(inputs)
        assert ended.code == (agent == agents[-1]), ended.text
        artifact = project.folder / download["path"] / upload["name"].replace("${{ matrix.agent }}", agent)
        artifact.parent.mkdir(exist_ok=True)
        shutil.move(project.folder / upload["path"], artifact)
        runner.output_file.unlink()
        runner.summary_file.unlink(missing_ok=True)
    ended = runner.run(_inputs(publishing))
    assert (ended.code, ended.outputs["verdict"], ended.outputs["total"]) == (1, "failed", "6"), ended.text
    assert re.findall("## (.) tested", ended.summary) == ["❌", "✅", "✅"]
    shutil.rmtree(artifact)
    runner.output_file.unlink()
    ended = runner.run(_inputs(publishing))
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid"), ended.text


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, as the runner has it")
@pytest.mark.parametrize(
    ("permission", "head", "says"),
    [
        ("admin", "octo/shop", None),
        ("write", "octo/shop", None),
        ("read", "octo/shop", "::error::alice may not write to this repository"),
        ("none", "octo/shop", "::error::alice may not write to this repository"),
        ("write", "mallory/shop", "::error::the branch is not in this repository"),
        ("write", None, "::error::the branch is not in this repository"),
    ],
)
def test_only_those_who_may_write_evaluate_only_branches_of_the_repository(
    tmp_path: Path, permission: str, head: str | None, says: str | None
) -> None:
    """`gh` is stood in for: it answers as GitHub's API does, through jq as the real one."""
    sha = "a" * 40
    answers = {
        "repos/octo/shop/collaborators/alice/permission": {"permission": permission, "user": {"login": "alice"}},
        "repos/octo/shop/pulls/7": {"head": {"sha": sha, "repo": head and {"full_name": head}}},
    }
    for place, answer in answers.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(json.dumps(answer), encoding="utf-8")
    (tmp_path / "gh").write_text('#!/bin/sh\ntest "$1 $3" = "api --jq" && exec jq -r "$4" "$2"\n', encoding="utf-8")
    (tmp_path / "gh").chmod(0o755)
    output = tmp_path / "output"
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "octo/shop",
        "GITHUB_OUTPUT": str(output),
        "LOGIN": "alice",
        "PULL": "7",
    }
    # Without `shell:`, the runner's default is without pipefail.
    text = script(ON_DEMAND, "asked")
    ended = subprocess.run(
        ["bash", "-e", "-c", text], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == (says or "")
    assert ended.returncode == (1 if says else 0)
    assert (output.read_text(encoding="utf-8") if output.exists() else "") == ("" if says else f"sha={sha}\n")


def test_the_workflow_of_traces_keeps_nights_for_four_weeks(tmp_path: Path) -> None:
    keep = script(ROOT / "examples" / "workflows" / "traces.yml", "keep")
    for name, days in (("1", 40), ("2", 27)):
        (tmp_path / "nights" / name).mkdir(parents=True)
        past = time.time() - days * 24 * 3600
        os.utime(tmp_path / "nights" / name, (past, past))
    (tmp_path / "holodeck-results").mkdir()
    (tmp_path / "holodeck-results" / "results.json").write_text("{}")
    for _ in range(2):
        ended = bash(keep, tmp_path, {"GITHUB_RUN_ID": "3"})
        assert ended.returncode == 0, ended.stderr
    kept = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("nights/**/*"))
    assert kept == ["nights/2", "nights/3", "nights/3/results.json"]
