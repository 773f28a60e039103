"""Who answers, how many at a time and for how long, from which of several files; what is never shown."""

from __future__ import annotations

import json
import sys
from functools import partial

import pytest

from tests.commands.project import Project
from tests.fields.bounds import overlapping, unhurried
from tests.fields.runs import lettered, run_all

PROGRAM = f"command:{sys.executable} agent.py"


@pytest.mark.proves(
    "AgentConfig: execution",
    "ExecutionConfig: parallel_test_cases",
    "ProjectConfig: execution",
    "Limits: concurrency",
    "run: --concurrency",
)
@pytest.mark.parametrize(
    ("policy", "top", "config", "flags", "code"),
    [
        ({"limits": {"concurrency": 1}}, {}, {}, (), 0),
        ({"limits": {"concurrency": 4}}, {"parallel_test_cases": 1}, {}, (), 1),
        ({}, {"parallel_test_cases": 1}, {"parallel_test_cases": 4}, (), 0),
        ({}, {}, {"parallel_test_cases": 1}, (), 0),
        ({"limits": {"concurrency": 4}}, {}, {}, ("--concurrency", "1"), 0),
    ],
)
def test_conversations_at_a_time(
    project: Project,
    policy: dict[str, object],
    top: dict[str, int],
    config: dict[str, int],
    flags: tuple[str, ...],
    code: int,
) -> None:
    overlapping(project, execution=top)
    project.policy(target=PROGRAM, **policy)
    project.write("config.yaml", json.dumps({"execution": config}))
    assert project.run("run", *flags).code == code


PLACES = ("flag", "policy", "agent.yaml", "config.yaml", "user", "environment")
SECONDS = dict(zip(PLACES, ("0.9", "0.8", "0.7", "0.6", "0.5", "0.4"), strict=True))


@pytest.mark.proves(
    "AgentConfig: execution", "ExecutionConfig: llm_timeout", "ProjectConfig: execution", "HOLODECK_LLM_TIMEOUT"
)
@pytest.mark.parametrize("highest", PLACES)
def test_the_deadline_of_a_turn_comes_from_the_highest_place(project: Project, highest: str) -> None:
    """The lower a place, the shorter its deadline: one that came through would be seen."""
    given = {place: SECONDS[place] for place in PLACES[PLACES.index(highest) :]}
    execution = {place: {"llm_timeout": float(seconds)} for place, seconds in given.items()}
    limits = {"limits": {"turn_timeout_s": float(given["policy"])}} if "policy" in given else {}
    unhurried(project, 8, limits, execution=execution.get("agent.yaml"))
    for place, file in (("config.yaml", "config.yaml"), ("user", "home/.holodeck/config.yaml")):
        if place in given:
            project.write(file, json.dumps({"execution": execution[place]}))
    flags = ("--turn-timeout", given["flag"]) if "flag" in given else ()
    variables = {"HOLODECK_LLM_TIMEOUT": given["environment"]}
    finished = project.run("run", *flags, **variables)
    assert f"did not answer within {SECONDS[highest]} s" in finished.stdout


@pytest.mark.proves("Policy: secrets")
def test_a_listed_secret_is_shown_nowhere(project: Project) -> None:
    lettered(project, "F")
    project.answers([{"case": "case 0", "response": "planted-7731"}])
    shown = []
    for secrets in ([], ["planted-7731"]):
        project.policy(target="recorded:answers.jsonl", secrets=secrets)
        finished = project.run("run", "-o", "out")
        assert finished.code == 1
        shown.append("planted-7731" in finished.stdout + (project.out / "results.json").read_text())
    assert shown == [True, False]


def _answered_by(project: Project, target: str | None) -> None:
    lettered(project, "P")
    project.write("agent.py", "def answer(messages):\n    return 'Paris'\n")
    project.write("program.py", "import sys\nfor line in sys.stdin:\n    print('\"Paris\"', flush=True)\n")
    project.policy(target=target)


@pytest.mark.proves("Policy: target", "RecordedTarget: path", "PythonTarget: reference", "CommandTarget: command")
def test_the_target_answers(project: Project) -> None:
    targets = {
        "recorded:answers.jsonl": 0,
        "python:agent:answer": 0,
        f"command:{sys.executable} program.py": 0,
        # Nothing listens there.
        "http://127.0.0.1:9/": 3,
    }
    ran = run_all(project.folder, {target: partial(_answered_by, target=target) for target in targets})
    assert {target: found.code for target, found in ran.items()} == targets
    _answered_by(project, None)
    assert project.run("run").code == 2
