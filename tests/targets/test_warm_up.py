"""Latency is that of answers: start, import and warm-up of an agent are over when its first turn begins."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path

import jsonschema
import pytest

from holodeck_action.record.record import TurnRecord
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.targets.service import Handler, Received, Service

AGENT = """
import json, sys, time

{import_}

def answer(messages):
    {first}
    return messages[-1]["content"][8:-1]

def ready(messages):
    global loaded
    loaded = globals().get("loaded") or time.time()
    return str(loaded)

def commanded(answer=answer):
    for line in sys.stdin:
        request = json.loads(line)
        with open("asked.jsonl", "a") as log:
            log.write(line)
        print(json.dumps(answer(request["messages"])), flush=True)
"""
"""`ready` answers with the time at which its process was ready: after its import, or at its first answer."""


def _agent(project: Project, import_: str = "", first: str = "") -> None:
    project.write("slow_agent.py", AGENT.format(import_=import_, first=first.strip()))


def _run(project: Project, target: object, warm_up: str | None = None) -> Finished:
    project.numbered(2)
    project.policy(target=target, warm_up=warm_up, limits={"concurrency": 2})
    return project.run("run", "-o", "out")


def _began_ready(project: Project, kind: str, warm_up: str | None = None) -> list[bool]:
    """Run, and tell of each turn whether its process was ready when it began."""
    command = f"command:{sys.executable} -c 'import slow_agent as a; a.commanded(a.ready)'"
    _run(project, command if kind == "command" else "python:slow_agent:ready", warm_up)
    turns = read_record(project.out / "results.json").turns
    return [_started(turn) >= float(turn.response or "nan") for turn in turns]


def _started(turn: TurnRecord) -> float:
    assert turn.timing is not None
    return datetime.fromisoformat(turn.timing.started_at).timestamp()


def _command(project: Project) -> str:
    return f"command:{sys.executable} -c 'import slow_agent; slow_agent.commanded()'"


def _asked(project: Project) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(project.folder / "asked.jsonl").read_text().splitlines()]


def test_a_turn_begins_after_the_import_of_a_python_target(project: Project) -> None:
    _agent(project, "loaded = time.time()")
    assert _began_ready(project, "python") == [True, True]


def test_a_turn_begins_after_the_start_of_a_command_with_a_warm_up(project: Project) -> None:
    _agent(project, "loaded = time.time()")
    assert _began_ready(project, "command", "Hello") == [True, True]
    schema = json.loads(project.run("schema", "request").stdout)
    asked = _asked(project)
    for request in asked:
        jsonschema.validate(request, schema, jsonschema.Draft202012Validator)
    # Every process answers the warm-up, then its turn, which knows nothing of it.
    first, then = ([each for each in asked if each.get("warm_up") is known] for known in (True, None))
    assert [each["input"] for each in first] == ["Hello"] * 2
    assert sorted(str(each["input"]) for each in then) == ["what is 0?", "what is 1?"]
    assert [len(list(each["messages"])) for each in then] == [1, 1]  # type: ignore[call-overload]
    assert len({each["session"] for each in asked}) == 4


@pytest.mark.proves("Policy: warm_up")
@pytest.mark.parametrize("warm_up", [None, "Hello"])
@pytest.mark.parametrize("kind", ["python", "command"])
def test_what_an_agent_does_once_is_charged_to_a_turn_unless_it_is_warmed_up(
    project: Project, kind: str, warm_up: str | None
) -> None:
    _agent(project)
    found = _began_ready(project, kind, warm_up)
    # Without a warm-up, a worker's second turn finds it ready.
    assert found == [True, True] if warm_up else not all(found)


@pytest.mark.full
def test_a_service_is_warmed_up_once_for_all_conversations(project: Project, service: Service) -> None:
    warm: list[float] = []

    def respond(handler: Handler, received: Received) -> None:
        if received.body["text"] == "Hello":
            warm.append(time.time())
        handler.answer({"reply": received.body["text"][8:-1]})

    service.respond = respond
    mapped = {"request": {"text": "{{ turn.input }}", "said": "{{ history }}"}, "response": {"text": "$.reply"}}
    finished = _run(project, {"type": "http", "url": service.url, **mapped}, "Hello")
    assert finished.code == 0, finished.stdout + finished.stderr
    texts = [received.body["text"] for received in service.received]
    assert texts[0] == "Hello"
    assert sorted(texts[1:]) == ["what is 0?", "what is 1?"]
    assert [received.body["said"] for received in service.received] == [[]] * 3
    assert min(map(_started, read_record(project.out / "results.json").turns)) >= warm[0]


@pytest.mark.parametrize(
    ("first", "kind", "sentence"),
    [
        ('raise ValueError("no")', "python", "the warm-up failed: slow_agent:answer: it raised ValueError: no"),
        ("sys.exit(3)", "command", "the warm-up failed: the command exited with code 3 without answering"),
        ('return {"error": "no"}', "python", "the warm-up failed: no"),
        ("return 5", "command", "the warm-up failed: the reply must be text or an object"),
    ],
)
def test_a_warm_up_that_fails_is_an_error_of_every_case(project: Project, first: str, kind: str, sentence: str) -> None:
    _agent(project, first=first)
    finished = _run(project, _command(project) if kind == "command" else "python:slow_agent:answer", "Hello")
    assert finished.code == 3
    assert finished.stdout.count(sentence) == 2, finished.stdout


def test_a_service_whose_warm_up_fails_is_not_asked_again(project: Project, service: Service) -> None:
    service.respond = lambda handler, _: handler.answer({"no": 1}, 500)
    finished = _run(project, f"http:{service.url}", "Hello")
    assert finished.code == 3
    assert finished.stdout.count("the warm-up failed: ") == 2
    assert len(service.received) == 1


def test_a_transcript_needs_no_warm_up(project: Project) -> None:
    project.numbered(2)
    project.policy(target="recorded:answers.jsonl", warm_up="Hello")
    assert project.run("run", "-o", "out").code == 0
