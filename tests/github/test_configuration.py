"""Configuration errors and suites outside of the repository: what is annotated, and why what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holodeck_action.github.annotations import locate_folder
from tests.action.step import Ended
from tests.commands.project import Project
from tests.github.events import HEAD, event_environ
from tests.github.fake import FakeGitHub
from tests.github.life import suite
from tests.github.steps import Scene, rows
from tests.github.workflow import READS

HOSTILE = "::error file=x,line=1::owned%0A##[set-env name=A]b\u202e"


@pytest.fixture
def scene(hub: FakeGitHub, project: Project) -> Scene:
    """A pull request, and a suite with a policy file."""
    made = Scene(hub, Project(project.folder / "workspace"))
    suite(made.project, "refund")
    made.show_diff()
    made.keep()
    return made


def in_log(ended: Ended) -> list[tuple[str, int, int]]:
    """Where the errors stand that the step's log annotates."""
    errors = [command.properties for command in ended.log.named("error") if "file" in command.properties]
    return [(found["file"], int(found["line"]), int(found["col"])) for found in errors]


def in_check(scene: Scene) -> list[tuple[str, int, int]]:
    """Where the annotations of the newest check run stand."""
    newest = max(scene.repository.check_runs(HEAD), key=lambda run: int(run["id"]))
    assert (newest["status"], newest["conclusion"]) == ("completed", "failure")
    return [(mark["path"], mark["start_line"], mark["start_column"]) for mark in newest["annotations"]]


def nested(scene: Scene, folder: str) -> None:
    """Put the suite into a folder of the workspace."""
    for name in ("agent.yaml", "holodeck-action.yaml", "answers.jsonl"):
        (scene.project.folder / folder).mkdir(parents=True, exist_ok=True)
        (scene.project.folder / name).rename(scene.project.folder / folder / name)


def test_each_error_is_annotated_where_it_stands(scene: Scene) -> None:
    scene.project.write(
        "agent.yaml",
        "name: shop\nmodel: {provider: openai, name: gpt-4o}\ninstructions: {inline: Answer.}\nevaluations:\n"
        f"  metrics:\n    - {{type: standard, metric: {json.dumps(HOSTILE)}}}\ntest_cases:\n  - {{input: 7}}\n",
    )
    scene.project.write("holodeck-action.yaml", "gates:\n  min_pass_rate: 2\n")
    ended = scene.step()
    assert ended.code == 2
    expected = [("agent.yaml", 6, 32), ("agent.yaml", 8, 13), ("holodeck-action.yaml", 2, 18)]
    assert in_log(ended) == in_check(scene) == expected
    assert {command.name for command in ended.meant} <= {"error", "add-mask"}
    titles = [command.properties["title"] for command in ended.log.named("error")]
    assert titles[1:] == ["NOT VALID · test_cases[0].input", "NOT VALID · gates.min_pass_rate", "holodeck-action"]
    assert "skipped" not in rows(ended.summary)["check"]


def test_a_target_of_the_policy_file_is_annotated_there(scene: Scene) -> None:
    nested(scene, "agents/shop")
    (scene.project.folder / "agents/shop/answers.jsonl").unlink()
    ended = scene.step({"suite": "agents/*/agent.yaml"})
    assert ended.code == 2
    assert "error: agents/shop/holodeck-action.yaml:2:12: target: transcript answers.jsonl does not exist" in ended.text
    assert in_log(ended) == in_check(scene) == [("agents/shop/holodeck-action.yaml", 2, 12)]


def test_a_gate_that_the_chosen_cases_cannot_reach_is_annotated(scene: Scene) -> None:
    scene.project.policy(target="recorded:answers.jsonl", gates={"max_cost_usd": 1.0})
    ended = scene.step()
    assert ended.code == 2
    assert in_log(ended) == in_check(scene) == [("holodeck-action.yaml", 4, 19)]


def test_many_errors_stay_within_githubs_limits(scene: Scene) -> None:
    scene.project.suite([{"input": "x", "ground_truth": "y", "nonsense": n} for n in range(120)])
    ended = scene.step()
    assert ended.code == 2
    assert len(in_check(scene)) == 120
    errors = ended.log.named("error")
    assert len(errors) == 10
    assert errors[8].properties["title"] == "112 more"
    assert len(in_log(ended)) == 8


@pytest.mark.parametrize("one_line", [False, True], ids=["block", "one line"])
def test_a_metric_behind_the_cases_does_not_take_their_annotation(scene: Scene, one_line: bool) -> None:
    """Its line is nobody's: the case that fails is to be found, whichever case is the only one to be graded by it."""
    own = {"name": "own", "input": "?", "ground_truth": "x", "evaluations": [{"type": "standard", "metric": "rouge"}]}
    last = {"name": "last", "input": "?", "ground_truth": "2 days"}
    scene.project.suite([own, last])
    suite_file = scene.project.folder / "agent.yaml"
    document = json.loads(suite_file.read_text())
    document["evaluations"] = document.pop("evaluations")
    suite_file.write_text(json.dumps(document, indent=None if one_line else 1))
    scene.project.answers([{"case": name, "response": "no"} for name in ("own", "last")])
    ended = scene.step()
    assert ended.code == 1
    text = suite_file.read_text()
    at = text.rindex("{", 0, text.index('"last"'))
    assert in_check(scene) == [("agent.yaml", text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))]


def test_without_a_check_run_the_log_has_them(scene: Scene) -> None:
    scene.project.policy(nonsense=1)
    ended = scene.step(permissions=READS)
    assert in_log(ended) == [("holodeck-action.yaml", 2, 2)]
    assert rows(ended.summary)["check"].startswith("⏭️")


@pytest.mark.parametrize("invalid", [True, False], ids=["not valid", "failing"])
def test_a_workspace_without_a_repository_says_why_nothing_is_annotated(scene: Scene, invalid: bool) -> None:
    if invalid:
        scene.project.policy(nonsense=1)
    ended = scene.step(checkout=None)
    assert ended.code == (2 if invalid else 1)
    assert in_log(ended) == in_check(scene) == []
    assert "annotations skipped: no line of the suite is annotated: there is no .git folder" in ended.text
    assert "| annotations | ⏭️ skipped:" in ended.summary
    suite(scene.project)
    assert "annotations skipped" not in scene.step(checkout=None).text


@pytest.mark.parametrize("invalid", [True, False], ids=["not valid", "failing"])
def test_a_suite_of_another_repository_is_not_annotated_in_this_one(scene: Scene, invalid: bool) -> None:
    """The same path of this repository is another file: neither annotations nor links lead to it."""
    nested(scene, "prompts")
    scene.project.write("prompts/.git/HEAD", "b" * 40 + "\n")
    scene.project.write("prompts/.git/config", '[remote "origin"]\n\turl = https://github.com/octo/prompts\n')
    if invalid:
        scene.project.write("prompts/holodeck-action.yaml", "nonsense: 1\n")
    ended = scene.step({"suite": "prompts", "review": "failures"})
    assert ended.code == (2 if invalid else 1)
    assert in_log(ended) == in_check(scene) == []
    assert "its checkout is one of octo/prompts, so its lines are not lines of octo/shop" in ended.text
    assert scene.repository.review_comments(7) == []
    assert not any("#L" in text for text in scene.texts())


URLS = [
    ("https://github.com/octo/shop", True),
    ("https://x-access-token:t@github.com/Octo/Shop.git", True),
    ("git@github.com:octo/shop.git", True),
    ("ssh://git@github.example.com:22/octo/shop/", True),
    ("https://github.com/fork/shop", True),  # the head repository of the event's pull request
    ("https://github.com/octo/prompts", False),
    ("git@github.com:octo/prompts", False),
    ("/srv/mirrors/shop.git", True),  # no address on a server: nothing is known of it
    ("file:///srv/mirrors/shop.git", True),
    ("", True),
]


@pytest.mark.parametrize(("url", "here"), URLS)
@pytest.mark.parametrize("linked", [False, True], ids=["folder", "submodule"])
def test_what_a_checkout_was_cloned_from_tells_whose_it_is(tmp_path: Path, url: str, here: bool, linked: bool) -> None:
    root, git = tmp_path / "work/prompts", tmp_path / ("modules/prompts" if linked else "work/prompts/.git")
    (root / "agents").mkdir(parents=True)
    git.mkdir(parents=True)
    (git / "config").write_text(f'[core]\n\turl = x\n[remote "upstream"]\n\turl = y\n[remote "origin"]\n\turl={url}\n')
    if linked:
        (root / ".git").write_text("gitdir: ../../modules/prompts\n")
    changes = {"pull_request.head.repo.full_name": "fork/shop"}
    environ = {**event_environ("pull_request", tmp_path, overrides=changes), "GITHUB_REPOSITORY": "octo/shop"}
    found = locate_folder(root / "agents", environ)
    assert (found.folder, bool(found.reason)) == (("agents", False) if here else (None, True))
    # A laptop knows no repository of a workflow.
    assert locate_folder(root / "agents", {}).folder == "agents"


def test_a_repository_within_the_checkout_that_does_not_say_whose_it_is_is_another(tmp_path: Path) -> None:
    for folder in ("shop/.git", "shop/prompts/.git"):
        (tmp_path / folder).mkdir(parents=True)
    environ = {"GITHUB_REPOSITORY": "octo/shop"}
    assert locate_folder(tmp_path / "shop", environ).folder == ""
    inner = locate_folder(tmp_path / "shop/prompts", environ)
    assert inner.folder is None
    assert "prompts is a separate repository" in inner.reason


def test_the_command_line_annotates_in_a_workflow(project: Project) -> None:
    project.write(".git/HEAD", HEAD)
    project.write("shop/agent.yaml", "name: 7\n")
    told = project.run("validate", "shop", GITHUB_ACTIONS="true", GITHUB_REPOSITORY="octo/shop")
    plain = project.run("validate", "shop")
    assert told.code == plain.code == 2
    commands = told.stderr.removeprefix(plain.stderr).splitlines()
    assert commands[0].startswith("::error file=shop/agent.yaml,line=1,col=")
    assert len(plain.errors) == len(commands)
