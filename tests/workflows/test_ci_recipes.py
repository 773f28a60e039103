"""The recipes for other CI services fit their schemas, and their commands do what the documentation says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from tests.commands.project import Project
from tests.workflows.files import ROOT

FOLDER = ROOT / "examples" / "ci"
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
IMAGE = "ghcr.io/holodeck-action/holodeck-action:v1-slim"
SCHEMAS = {
    "gitlab-ci.yml": "vendor.gitlab-ci",
    "azure-pipelines.yml": "vendor.azure-pipelines",
    "buildkite.yml": "vendor.buildkite",
}
PROGRAMS = Path(sys.executable).parent
JUNIT = etree.XMLSchema(etree.parse(ROOT / "tests" / "reports" / "jenkins-junit.xsd"))

# Stands in for the engine: mounts are folders, and of the variables only those that are named come in.
DOCKER = f"""\
#!{sys.executable}
import os, sys
words = sys.argv[1:]
assert words.pop(0) == "run"
mounts, named = {{}}, []
while words[0].startswith("--"):
    option = words.pop(0)
    if option == "--volume":
        outside, _, inside = words.pop(0).partition(":")
        assert os.path.isdir(outside), outside
        mounts[inside] = outside
    elif option == "--env":
        named.append(words.pop(0))
    elif option == "--user":
        assert words.pop(0) == f"{{os.getuid()}}:{{os.getgid()}}"
    else:
        assert option == "--rm", option
assert words.pop(0) == "{IMAGE}"
os.chdir(mounts.pop("/github/workspace"))
words = [mounts.get(word, word) for word in words]
kept = {{name: os.environ[name] for name in ("PATH", *named) if name in os.environ}}
os.execvpe("holodeck-action", ["holodeck-action", *words], kept)
"""
# Stands in for Buildkite's agent: says what it was asked, and what it read.
AGENT = f"""\
#!{sys.executable}
import sys
with open("asked.txt", "a") as file:
    print(*sys.argv[1:], file=file)
    if sys.argv[1] == "annotate":
        file.write(sys.stdin.read())
"""


def loaded(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return content


def gitlab() -> list[str]:
    script: list[str] = loaded("gitlab-ci.yml")["evaluate"]["script"]
    return script


def azure() -> list[str]:
    steps = loaded("azure-pipelines.yml")["jobs"][0]["steps"]
    [step] = [step for step in steps if "script" in step]
    assert step["env"]["OPENAI_API_KEY"] == "$(OPENAI_API_KEY)"
    return [step["script"]]


def jenkins() -> list[str]:
    text = (FOLDER / "Jenkinsfile").read_text(encoding="utf-8")
    return re.findall(r"sh(?:\(\s*script:)? '([^']+)'", text)


def buildkite() -> list[str]:
    # The agent reads `$$` as `$` when it uploads the pipeline.
    return [loaded("buildkite.yml")["steps"][0]["command"].replace("$$", "$")]


RECIPES = {"GitLab": gitlab, "Azure Pipelines": azure, "Jenkins": jenkins, "Buildkite": buildkite}


def shell(project: Project, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """Run lines as the services do: in one shell, which ends at the first that fails."""
    for name, text in (("docker", DOCKER), ("buildkite-agent", AGENT)):
        project.write(f"home/bin/{name}", text).chmod(0o755)
    path = f"{project.folder / 'home' / 'bin'}:{PROGRAMS}:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
        cwd=project.folder,
        env={"PATH": path, "HOME": str(project.folder / "home"), "CI": "true", "OPENAI_API_KEY": "sk-planted"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.full
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_recipe_fits_the_schema_of_its_service(name: str) -> None:
    # The schemas have patterns of JavaScript without its flag `u`.
    command = [str(PROGRAMS / "check-jsonschema"), "--regex-variant", "nonunicode", "--builtin-schema", SCHEMAS[name]]
    ended = subprocess.run([*command, FOLDER / name], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_page_has_each_recipe_as_it_is() -> None:
    files = sorted(FOLDER.iterdir())
    assert sorted(file.name for file in files) == sorted([*SCHEMAS, "Jenkinsfile"])
    for file in files:
        fence = "groovy" if file.name == "Jenkinsfile" else "yaml fragment"
        assert f"```{fence}\n{file.read_text(encoding='utf-8')}```\n" in PAGE, f"copy {file.name} into docs/ci.md"
        assert IMAGE in file.read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize("service", RECIPES)
def test_the_commands_of_a_recipe_leave_its_files(project: Project, service: str) -> None:
    project.numbered(3, frozenset({1}))
    ended = shell(project, RECIPES[service]())
    assert ended.returncode == 1, ended.stdout + ended.stderr
    results = project.folder / "holodeck-results"
    assert {"results.json", "verdict.json", "report.md", "junit.xml"} <= {file.name for file in results.iterdir()}
    document = etree.parse(results / "junit.xml")
    JUNIT.assertValid(document)
    assert len(document.findall(".//testcase")) == 3
    assert len(document.findall(".//failure")) == 1


@pytest.mark.parametrize("service", RECIPES)
@pytest.mark.parametrize(("code", "commands"), [(0, "validate|run"), (2, "validate|run"), (3, "run")])
def test_the_commands_of_a_recipe_end_with_the_exit_code_of_the_program(
    project: Project, service: str, code: int, commands: str
) -> None:
    program = f'#!/bin/sh\necho "$1" >> asked.txt\ncase "$1" in {commands}) exit {code};; esac\n'
    project.write("home/bin/holodeck-action", program).chmod(0o755)
    assert shell(project, RECIPES[service]()).returncode == code
    assert (project.folder / "asked.txt").exists()


def _paths() -> Iterator[tuple[str, str]]:
    """The files that each recipe names, as patterns."""
    evaluate = loaded("gitlab-ci.yml")["evaluate"]
    yield "GitLab", evaluate["artifacts"]["reports"]["junit"]
    yield from (("GitLab", f"{path}**/*") for path in evaluate["artifacts"]["paths"])
    for step in loaded("azure-pipelines.yml")["jobs"][0]["steps"]:
        if step.get("task", "").startswith("PublishTestResults"):
            yield "Azure Pipelines", step["inputs"]["testResultsFiles"]
        if "publish" in step:
            yield "Azure Pipelines", step["publish"]
    text = (FOLDER / "Jenkinsfile").read_text(encoding="utf-8")
    yield from (("Jenkins", path) for path in re.findall(r"(?:testResults|artifacts): '([^']+)'", text))
    yield from (("Buildkite", path) for path in loaded("buildkite.yml")["steps"][0]["artifact_paths"])


@pytest.mark.full
def test_what_recipes_keep_and_show_is_there(project: Project) -> None:
    project.numbered(3, frozenset({1}))
    assert shell(project, gitlab()).returncode == 1
    named = list(_paths())
    assert {service for service, _ in named} == set(RECIPES)
    for service, pattern in named:
        assert list(project.folder.glob(pattern)), (service, pattern)
    report = loaded("buildkite.yml")["steps"][-1]["command"]
    assert shell(project, report).returncode == 0
    download, annotate, *shown = (project.folder / "asked.txt").read_text().splitlines()
    assert download == "artifact download holodeck-results/report.md ."
    assert annotate == "annotate --context holodeck-action --style info"
    assert "\n".join(shown) + "\n" == (project.folder / "holodeck-results" / "report.md").read_text()


def test_only_exit_code_3_is_tried_again_or_no_failure() -> None:
    evaluate = loaded("gitlab-ci.yml")["evaluate"]
    assert evaluate["retry"] == {"max": 1, "exit_codes": 3}
    assert "allow_failure" not in evaluate
    assert evaluate["artifacts"]["when"] == "always"
    step, wait, _ = loaded("buildkite.yml")["steps"]
    assert step["retry"]["automatic"] == [{"exit_status": 3, "limit": 1}]
    assert "soft_fail" not in step
    assert wait["continue_on_failure"]
    text = (FOLDER / "Jenkinsfile").read_text(encoding="utf-8")
    assert re.findall(r"code (==|!=) (\d)", text) == [("==", "3"), ("!=", "0")]
    assert text.index("unstable(") < text.index("error(") < text.index("post {") < text.index("always {")
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|//.*", "", text)
    for opening, closing in ("{}", "()"):
        assert bare.count(opening) == bare.count(closing)
    for azure_step in loaded("azure-pipelines.yml")["jobs"][0]["steps"]:
        assert "continueOnError" not in azure_step
        publishes = "publish" in azure_step or azure_step.get("task", "").startswith("Publish")
        assert (azure_step.get("condition") == "succeededOrFailed()") == publishes


@pytest.mark.full
def test_the_hook_of_pre_commit_validates_the_suites_of_changed_files(project: Project) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["language"] == "python"
    assert f"- id: {hook['id']}\n" in PAGE
    project.numbered(1)
    for file in ("agent.yaml", "holodeck-action.yaml", "answers.jsonl"):
        project.write(f"agents/shop/{file}", (project.folder / file).read_bytes())
    project.write("my-agent.yaml", "no suite")
    files = sorted(str(file.relative_to(project.folder)) for file in project.folder.rglob("*") if file.is_file())
    chosen = [file for file in files if re.search(hook["files"], file)]
    assert chosen == [
        *("agent.yaml", "agents/shop/agent.yaml", "agents/shop/holodeck-action.yaml", "holodeck-action.yaml"),
    ]

    def committed(*changed: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = shlex.split(hook["entry"])
        command = [str(PROGRAMS / program), *arguments, *changed]
        return subprocess.run(
            command, cwd=project.folder, env=project.environ(), capture_output=True, text=True, check=False
        )

    ended = committed(*chosen)
    assert (ended.returncode, ended.stdout.count(": valid: ")) == (0, 2), ended.stderr
    # A policy file stands for the suite beside it.
    project.write("agents/shop/holodeck-action.yaml", "gates: {min_pass_rat: 1}\n")
    ended = committed("agents/shop/holodeck-action.yaml")
    assert ended.returncode == 2, ended.stdout
    assert "error: agents/shop/holodeck-action.yaml:1:9: gates.min_pass_rat: unknown key" in ended.stderr
    project.write("alone/holodeck-action.yaml", "gates: {min_pass_rate: 1}\n")
    assert (
        "alone/holodeck-action.yaml: this policy file's folder has no agent.yaml"
        in committed("alone/holodeck-action.yaml").stderr
    )
