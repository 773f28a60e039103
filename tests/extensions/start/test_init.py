"""`init` writes a suite that runs, and a workflow that GitHub takes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holodeck_action.cli import main
from holodeck_action.suite.schema_line import SCHEMAS, schema_line
from tests.action.step import ROOT, Step
from tests.commands.project import Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.workflow import REPOSITORY, Workflow

FILES = ["agent.yaml", "holodeck-action.yaml", "my_agent.py", ".github/workflows/evaluate.yml", ".holodeck/.gitignore"]
WORKFLOW = FILES[3]
SHIPPED = {
    "agent": ["agent.yaml", "framework_agent.yaml"],
    "policy": ["holodeck-action.yaml", "gates.yaml", "framework.yaml"],
}


def _written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_written_suite_runs_green_by_the_commands_it_prints(project: Project) -> None:
    finished = project.run("init")
    assert finished.code == 0
    assert _written(project.folder) == sorted(FILES)
    lines = finished.stdout.splitlines()
    assert lines[: len(FILES)] == [f"wrote {name}" for name in FILES]
    commands = [line.split() for line in lines[lines.index("next:") + 1 :]]
    assert [command[:2] for command in commands] == [["holodeck-action", "validate"], ["holodeck-action", "run"]]
    for command in commands:
        ended = project.run(*command[1:])
        assert (ended.code, "warning" in ended.stderr) == (0, False), ended.stderr
    assert " · 2 of 2 passed" in ended.stdout


@pytest.mark.proves("init: FOLDER")
def test_it_writes_into_a_folder_and_says_how_to_go_on(project: Project) -> None:
    finished = project.run("init", "my shop")
    assert finished.code == 0
    assert _written(project.folder / "my shop") == sorted(FILES)
    assert finished.stdout.endswith("next:\n  holodeck-action validate 'my shop'\n  holodeck-action run 'my shop'\n")
    assert project.run("run", "my shop").code == 0


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_overwritten(project: Project, name: str) -> None:
    project.write(name, "mine")
    finished = project.run("init")
    assert finished.code == 0
    assert f"kept {name}\n" in finished.stdout
    assert f"wrote {name}\n" not in finished.stdout
    lined = name in FILES[:2]
    assert (project.folder / name).read_text().splitlines()[lined:] == ["mine"]
    assert (f"added the line with the schema for editors to {name}\n" in finished.stdout) is lined
    before = {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}
    again = project.run("init")
    assert "wrote" not in again.stdout
    assert {path: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()} == before


def test_a_suite_that_is_there_gets_what_is_missing(project: Project) -> None:
    """Its own model answers: no stand-in is put in its place."""
    project.numbered(2)
    (project.folder / "holodeck-action.yaml").unlink()
    suite = (project.folder / "agent.yaml").read_bytes()
    finished = project.run("init")
    assert finished.stdout.splitlines()[:5] == [
        "kept agent.yaml",
        "added the line with the schema for editors to agent.yaml",
        "wrote holodeck-action.yaml",
        "wrote .github/workflows/evaluate.yml",
        "wrote .holodeck/.gitignore",
    ]
    assert (project.folder / "agent.yaml").read_bytes() == f"{schema_line('agent')}\n".encode() + suite
    assert not (project.folder / "my_agent.py").exists()
    assert project.run("validate").code == 0
    assert project.run("run", "--target", "recorded:answers.jsonl").code == 0


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def asked(
    project: Project, typed: str, stdin: type[io.StringIO] = Terminal, *options: str, **environ: str
) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(["init", *options], project.environ(**environ), project.folder, stdin(typed), stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def test_at_a_terminal_the_target_of_a_suite_is_asked_for(project: Project) -> None:
    project.numbered(2)
    policy = project.folder / "holodeck-action.yaml"
    policy.unlink()
    code, _, stderr = asked(project, "nonsense\nrecorded:answers.jsonl\n")
    assert (code, stderr.count("What answers the cases? recorded:PATH, python:MODULE:CALLABLE, ")) == (0, 2)
    assert "nonsense: must be recorded:PATH, " in stderr
    assert yaml.safe_load(policy.read_text()) == {"target": "recorded:answers.jsonl", "gates": {"min_pass_rate": 1.0}}
    assert project.run("run").code == 0
    # A suite with its policy file has nothing to ask for.
    assert asked(project, "recorded:others.jsonl\n")[2] == ""


@pytest.mark.parametrize(("typed", "stdin"), [("\n", Terminal), ("", Terminal), ("command:x\n", io.StringIO)])
def test_without_an_answer_the_suites_own_model_stays(project: Project, typed: str, stdin: type[io.StringIO]) -> None:
    project.numbered(2)
    (project.folder / "holodeck-action.yaml").unlink()
    assert asked(project, typed, stdin)[0] == 0
    assert "target" not in yaml.safe_load((project.folder / "holodeck-action.yaml").read_text())


def test_answers_that_are_no_target_write_nothing(project: Project) -> None:
    project.numbered(2)
    (project.folder / "holodeck-action.yaml").unlink()
    before = _written(project.folder)
    code, stdout, stderr = asked(project, "a\nb\nc\nrecorded:x\n")
    assert (code, stdout) == (2, "")
    assert stderr.endswith("error: no target was named in 3 answers; nothing was written\n")
    assert _written(project.folder) == before


YAML = "name: shop\nmodel: {provider: openai, name: m}\ninstructions: {inline: Answer.}\n"
CASES = (
    "test_cases: [{name: a, input: x, ground_truth: y}]\nevaluations: {metrics: [{type: standard, metric: equality}]}\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{YAML}{CASES}", f"LINE\n{YAML}{CASES}"),
        (f"---\n{YAML}{CASES}...\n", f"LINE\n---\n{YAML}{CASES}...\n"),
        (f"%YAML 1.2\n---\n{YAML}{CASES}", f"LINE\n%YAML 1.2\n---\n{YAML}{CASES}"),
        (f"# Grüße\r\n{YAML}{CASES}", f"LINE\r\n# Grüße\r\n{YAML}{CASES}"),
        (f"\ufeff{YAML}{CASES}", f"\ufeffLINE\n{YAML}{CASES}"),
        (f"# yaml-language-server: $schema=./mine.json\n{YAML}{CASES}", ""),
        (f"{YAML}# yaml-language-server: $schema=https://example.com/agent.json\n{CASES}", ""),
    ],
)
def test_editors_are_told_the_schema_of_a_suite_that_is_there(project: Project, before: str, after: str) -> None:
    suite = project.write("agent.yaml", before.encode())
    suite.chmod(0o640)
    finished = project.run("init")
    assert finished.code == 0
    assert suite.read_bytes().decode() == (after or before).replace("LINE", schema_line("agent"))
    assert ("added the line" in finished.stdout) is bool(after)
    assert suite.stat().st_mode & 0o777 == 0o640
    assert project.run("validate", OPENAI_API_KEY="sk-none").code == 0
    assert "added the line" not in project.run("init").stdout


def test_a_file_in_another_encoding_and_one_behind_a_link_stay_as_they_are(project: Project) -> None:
    text = f"{YAML}{CASES}".encode("utf-16")
    project.write("agent.yaml", text)
    project.write("shared/policy.yaml", "gates: {min_pass_rate: 1}\n")
    (project.folder / "holodeck-action.yaml").symlink_to("shared/policy.yaml")
    assert "added" not in project.run("init").stdout
    assert (project.folder / "agent.yaml").read_bytes() == text
    assert (project.folder / "shared/policy.yaml").read_text() == "gates: {min_pass_rate: 1}\n"


@pytest.mark.full
def test_the_schemas_at_the_address_are_those_that_the_program_prints(project: Project) -> None:
    assert project.run("init").code == 0
    assert schema_line("agent") in (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    for name, document in (("agent.yaml", "agent"), ("holodeck-action.yaml", "policy")):
        line = (project.folder / name).read_text().splitlines()[0]
        assert line == f"# yaml-language-server: $schema={SCHEMAS}/{document}.schema.json"
        committed = ROOT / "schemas" / f"{document}.schema.json"
        assert committed.read_text(encoding="utf-8") == project.run("schema", document).stdout, "run `make fields`"
        # The metric of examples/metric is in a package of its own.
        ours = [file for file in (ROOT / "examples").rglob(name) if file.parent.name != "metric"]
        assert len(ours) > 1
        ours += [ROOT / "holodeck_action/starter" / source for source in SHIPPED[document]] + [project.folder / name]
        _check("check-jsonschema", "--schemafile", str(committed), *map(str, ours))


@pytest.mark.parametrize(
    ("there", "instead_of"),
    [("holodeck-action.yml", "holodeck-action.yaml"), (".github/workflows/ci.yaml", ".github/workflows/evaluate.yml")],
)
def test_what_does_the_same_by_another_name_is_enough(project: Project, there: str, instead_of: str) -> None:
    project.write(there, "# - uses: holodeck-action/holodeck-action@v1\n")
    finished = project.run("init")
    assert f"kept {there} for {instead_of}\n" in finished.stdout
    assert not (project.folder / instead_of).exists()


def test_a_link_that_leads_nowhere_is_not_written_through(project: Project) -> None:
    (project.folder / "agent.yaml").symlink_to(project.folder / "elsewhere.yaml")
    assert "kept agent.yaml\n" in project.run("init").stdout
    assert not (project.folder / "elsewhere.yaml").exists()


def test_nothing_is_written_where_a_link_leads_out_of_the_checkout(tmp_path: Path) -> None:
    project = Project(tmp_path / "checkout")
    (tmp_path / "victim").mkdir()
    project.folder.mkdir()
    (project.folder / "linked").symlink_to(tmp_path / "victim")
    finished = project.run("init", "linked/new")
    assert (finished.code, f"a link leads to {tmp_path / 'victim'}" in finished.stderr) == (2, True)
    assert _written(tmp_path / "victim") == []


def test_a_folder_that_cannot_be_written_is_named(project: Project) -> None:
    project.write("taken", "a file")
    finished = project.run("init", "taken")
    assert finished.code == 2
    assert finished.stderr.startswith("error: taken/agent.yaml: cannot be written: ")
    project.write(".github", "a file")
    finished = project.run("init")
    assert finished.stderr.startswith("error: .github/workflows/evaluate.yml: cannot be written: ")


def test_two_suites_of_a_repository_are_in_the_workflow_at_its_root(project: Project) -> None:
    (project.folder / ".git").mkdir()
    first = project.run("init", "services/billing")
    assert "wrote .github/workflows/evaluate.yml\n" in first.stdout
    assert not (project.folder / "services/billing/.github").exists()
    workflow = project.folder / WORKFLOW
    [job] = yaml.safe_load(workflow.read_text())["jobs"].values()
    assert job["steps"][1]["with"]["suite"] == "services/billing/agent.yaml\n"
    second = project.run("init", "services/support").stdout
    assert f"note: {WORKFLOW} already existed; add services/support/agent.yaml to the lines of `suite:`" in second
    both = project.run("run", "services/*")
    assert both.code == 0, both.stderr
    assert "PASSED: billing · " in both.stdout
    assert "PASSED: support · " in both.stdout


def test_the_written_workflow_is_what_the_step_can_do(project: Project) -> None:
    step = Step(project)
    assert step.project.run("init").code == 0
    workflow = yaml.safe_load((step.project.folder / WORKFLOW).read_text())
    job = workflow["jobs"]["evaluate"]
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read", "actions": "read", "pull-requests": "write", "checks": "write"}
    [used] = [part for part in job["steps"] if "holodeck-action" in part.get("uses", "")]
    ended = step.run(used["with"])
    assert ended.code == 0, ended.text
    assert ended.outputs["verdict"] == "passed"


def test_the_written_workflow_shows_the_result_on_a_pull_request(hub: FakeGitHub, project: Project) -> None:
    workspace = Project(project.folder / "workspace")
    workspace.folder.mkdir()
    assert workspace.run("init").code == 0
    workflow = yaml.safe_load((workspace.folder / WORKFLOW).read_text())
    assert "pull_request" in workflow[True]  # YAML 1.1 reads `on` as true.
    job = workflow["jobs"]["evaluate"]
    [used] = [part["with"] for part in job["steps"] if "holodeck-action" in part.get("uses", "")]
    permissions = {name.replace("-", "_"): level for name, level in job["permissions"].items()}
    repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic")
    ended = Workflow(hub, workspace, permissions=permissions).job(inputs=used | {"require-publish": "true"})
    assert ended.code == 0, ended.text
    assert ended.outputs["comment-url"] == repository.comments(7)[0]["html_url"]
    assert ended.outputs["check-url"] == repository.check_runs(HEAD)[0]["html_url"]


def test_workflow_documentation_and_readme_name_one_action() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "holodeck_action/starter/evaluate.yml"]
    used = {
        line.partition("uses:")[2].split()[0]
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if "uses:" in line and "/holodeck-action@" in line
    }
    assert used == {"holodeck-action/holodeck-action@v1"}


def _check(program: str, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_the_written_workflow_fits_githubs_schema() -> None:
    _check("check-jsonschema", "--builtin-schema", "vendor.github-workflows", "holodeck_action/starter/evaluate.yml")


def test_the_written_workflow_is_safe() -> None:
    """As it is: in the repository that it is written to nobody has set zizmor up for it."""
    _check("zizmor", "--offline", "--no-config", "holodeck_action/starter/evaluate.yml")


def test_run_in_an_empty_folder_names_init(project: Project) -> None:
    for command in ("run", "validate"):
        finished = project.run(command)
        assert (finished.code, "agent.yaml: no such suite" in finished.stderr) == (2, True)
        assert "`holodeck-action init` writes one" in finished.stderr
    assert "init" not in project.run("run", "elsewhere.yaml").stderr


def test_the_workflow_compares_with_main_and_cancels_no_run_of_main() -> None:
    written = yaml.safe_load((ROOT / "holodeck_action/starter/evaluate.yml").read_text(encoding="utf-8"))
    steps = written["jobs"]["evaluate"]["steps"]
    assert [step["with"].get("baseline") for step in steps] == [None, "artifact", None]
    assert steps[2]["with"]["name"] == "holodeck-results"
    assert written["concurrency"]["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"
    assert written["concurrency"]["group"] == "evaluate-${{ github.event.pull_request.number || github.sha }}"


@pytest.mark.proves("init: --ci")
def test_the_pipeline_of_gitlab_is_the_recipe(project: Project) -> None:
    finished = project.run("init", "--ci", "gitlab")
    assert "wrote .gitlab-ci.yml\n" in finished.stdout
    assert not (project.folder / ".github").exists()
    recipe = (ROOT / "examples/ci/gitlab-ci.yml").read_bytes()
    assert (project.folder / ".gitlab-ci.yml").read_bytes() == recipe
    project.write(".gitlab-ci.yml", "mine")
    assert "note: .gitlab-ci.yml already existed; add the job" in project.run("init", "--ci", "gitlab").stdout
    assert (project.folder / ".gitlab-ci.yml").read_text() == "mine"
