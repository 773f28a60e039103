"""Each option of `race` has an effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.project import Finished, Project
from tests.extensions.race.track import answered, outcome, race, variants, write
from tests.llm.models import KEY, FakeModels

pytestmark = pytest.mark.models(answer=answered)
PAIR = ("best-100", "best-99")


def recorded(project: Project, count: int = 3) -> None:
    """A suite whose target is a file; its two variants answer alike."""
    project.numbered(count)
    project.write("other.jsonl", (project.folder / "answers.jsonl").read_bytes())


def race_recorded(project: Project, *arguments: str, suite: str = "agent.yaml") -> Finished:
    axes = ("--vary", "target=recorded:answers.jsonl", "--vary", "target=recorded:other.jsonl")
    return project.run("race", suite, "-o", "out", *axes, *arguments)


@pytest.mark.proves("race: SUITE --output-dir --html --limit --case --repeat --min-pass")
def test_suite_folder_page_and_cases(project: Project) -> None:
    recorded(project)
    assert race_recorded(project).code == 0
    assert outcome(project)["cases"] == 3
    assert (project.out / "report.html").is_file()
    # The transcripts have one trial of each case, so that all cases are in error.
    assert race_recorded(project, "--limit", "2", "--no-html", "--repeat", "3").code == 3
    assert outcome(project)["cases"] == 2
    assert not (project.out / "report.html").exists()
    (folder, *_) = (each["folder"] for each in outcome(project)["variants"])
    text = (project.out / folder / "results.json").read_text()
    assert '"repeat":3' in text
    assert race_recorded(project, "--case", "case 1").code == 0
    assert outcome(project)["cases"] == 1
    assert "no such suite" in race_recorded(project, suite="absent.yaml").stderr
    assert race_recorded(project, "--repeat", "2", "--min-pass", "3").code == 2
    # Without the option, there is a folder, too.
    (project.folder / "agent.yaml").rename(project.folder / "suite.yaml")
    axes = ("--vary", "target=recorded:answers.jsonl", "--vary", "target=recorded:other.jsonl")
    assert project.run("race", "suite.yaml", *axes).code == 0
    assert (project.folder / "holodeck-race" / "race.json").is_file()


@pytest.mark.proves("race: --target")
def test_the_target_of_all_variants(project: Project, models: FakeModels) -> None:
    write(project, models, 3)
    project.policy(target="command:cat")
    assert "applies to the suite's own model, but" in race(project, names=PAIR).stderr
    assert race(project, "--target", "model", names=PAIR).code == 0


@pytest.mark.full
def test_no_password_of_a_target_is_printed_or_names_a_folder(project: Project) -> None:
    project.numbered(1)
    # The name is cut within the password of the last one.
    targets = (
        "http://shop:hunter2-fish@127.0.0.1:9/x",
        "command:true --password hunter2-fish",
        f"http://{'u' * 175}:hunter2-fish@127.0.0.1:9/",
        "recorded:answers.jsonl",
    )
    axes = [text for target in targets for text in ("--vary", f"target={target}")]
    finished = project.run("race", "-o", "out", *axes, "--allow-plain-http")
    assert finished.code == 3, finished.stderr
    texts = [finished.stdout, finished.stderr, *map(str, project.out.rglob("*"))]
    texts += [path.read_text() for path in project.out.rglob("*") if path.is_file()]
    assert not any("hunter2" in text for text in texts)
    assert (project.out / "target-http-127-0-0-1-9-x").is_dir()


@pytest.mark.proves("race: --cache")
def test_a_cache_is_shared_by_races(project: Project, models: FakeModels) -> None:
    write(project, models, 10)
    assert race(project, "--cache", "kept", names=PAIR).code == 0
    before = len(models.requests)
    assert race(project, "--cache", "kept", names=PAIR).code == 0
    assert len(models.requests) == before == 20
    assert variants(project)["best-99"]["run"]["model_calls"]["cached"] == 10


@pytest.mark.proves("race: --env-file")
def test_variables_of_a_file(project: Project) -> None:
    recorded(project)
    project.suite([{"name": "one", "input": "1", "ground_truth": "${RIGHT}"}])
    project.answers([{"case": "one", "response": "1"}])
    project.answers([{"case": "one", "response": "1"}], "other.jsonl")
    project.write("variables", "RIGHT=1\n")
    assert [race_recorded(project, *flags).code for flags in ((), ("--env-file", "variables"))] == [2, 0]


@pytest.mark.proves("race: --allow-path --allow-plain-http --allow-unsafe-forks")
def test_permissions_are_those_of_the_command(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "case.txt").write_text("text")
    project = Project(tmp_path / "checkout")
    project.folder.mkdir()
    project.numbered(1)
    project.write("other.jsonl", (project.folder / "answers.jsonl").read_bytes())
    project.policy(target="recorded:../outside/answers.jsonl")
    axes = ("--vary", "repeat_word=1", "--vary", "repeat_word=2")
    found = [project.run("race", *axes, *flags).stderr for flags in ((), ("--allow-path", str(outside)))]
    assert ["the file is outside the checkout" in text for text in found] == [True, False]
    project.policy(target={"type": "http", "url": "http://agent.example/", "headers": {"authorization": "Bearer x"}})
    found = [project.run("race", *axes, *flags).stderr for flags in ((), ("--allow-plain-http",))]
    assert ["unencrypted to agent.example" in text for text in found] == [True, False]
    fork = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request_target", "OPENAI_API_KEY": KEY}
    found = [project.run("race", *axes, *flags, **fork).stderr for flags in ((), ("--allow-unsafe-forks",))]
    assert found[0] != found[1]
    assert "fork" in found[0]


@pytest.mark.proves("race: --requirements")
def test_packages_of_the_code(project: Project) -> None:
    project.numbered(1)
    project.write("agent.py", "def answer(messages):\n    return '0'\n")
    axes = ("--vary", "target=python:agent:answer", "--vary", "target=recorded:answers.jsonl")
    assert project.run("race", *axes).code == 0
    refused = project.run("race", *axes, "--requirements", "absent.txt")
    assert refused.code == 2
    assert "absent.txt" in refused.stderr
