"""What a suite's texts compute ends by itself or is ended: time, memory, and the run around it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.model.targets import HttpTarget
from holodeck_action.targets.http import HttpAgent
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.templates.computation_pool import ComputationPool
from holodeck_action.targets.templates.templates import RequestTemplate
from tests.commands.project import Project
from tests.targets.conversations import MAX_BYTES, ask, make_case
from tests.targets.service import Service

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}" + (
    "{% endfor %}{% endfor %}"
)
POWER = "{{ 9 ** (9 ** 9) }}"
HUGE = "{{ 'x' * 3000000000 }}"
DEEP: Any = json.loads("[" * 60 + "1,2" + "]" * 60)
TIME = "took longer than 0.3 s"
VARIABLES = {"turn": {"input": "hi"}, "case": {}, "session": {}, "history": []}


def computed(function: str, endless: list[dict[str, Any]], ending: list[dict[str, Any]]) -> list[Any]:
    """What calls give, one after the other, or the error of each.

    Those that end may be late on a slow machine; they are made again then.
    """

    async def work() -> list[Any]:
        computing = ComputationPool(os.environ, str, seconds=0.3)

        async def outcome(args: dict[str, Any]) -> Any:
            try:
                return await computing.call(function, args, label="target request", code="bad")
            except AgentError as error:
                return error.message

        try:
            await computing.start(function)
            found = [await outcome(args) for args in endless]
            for args in ending:
                while TIME in str(result := await outcome(args)):
                    pass
                found.append(result)
        finally:
            await computing.close()
        return found

    return asyncio.run(work())


def request(text: str) -> dict[str, Any]:
    return {"mapping": json.dumps({"q": text}), "variables": VARIABLES}


def reply(path: str, body: Any) -> dict[str, Any]:
    return {"mapping": json.dumps({"text": path}), "body": json.dumps(body)}


def prompt(text: str) -> dict[str, Any]:
    return {"template": text, "parameters": ["text"], "values": {"text": "aaaaaaaaaa"}}


@pytest.mark.full
def test_a_request_that_does_not_end_is_ended_and_the_next_is_rendered() -> None:
    loops, power, huge, good = computed(
        "render_request", [request(LOOPS), request(POWER)], [request(HUGE), request("{{ turn.input }}")]
    )
    assert loops == "target request.q cannot be rendered: it took longer than 0.3 s"
    assert TIME in power
    assert huge == "target request.q cannot be rendered: it needs more memory than is allowed"
    assert good == '{"q": "hi"}'


@pytest.mark.full
def test_a_path_that_does_not_end_is_ended() -> None:
    slow, good = computed("extract_reply", [reply("$" + "..*" * 9 + "..nothing", DEEP)], [reply("$.a", {"a": "hi"})])
    assert slow.startswith("response.text, ")
    assert slow.endswith("cannot be applied to the answer: it took longer than 0.3 s")
    assert good == {"response": "hi"}


@pytest.mark.full
def test_a_prompt_that_grows_without_end_is_ended() -> None:
    grown = "{{ text" + "|replace('a', 'aaaaaaaaaa')" * 12 + " }}"
    too_large, good = computed("render_prompt", [prompt(grown)], [prompt("{{ text }}")])
    assert "memory" in too_large or TIME in too_large
    assert good == "aaaaaaaaaa"


@pytest.mark.parametrize("text", [POWER, "{% if 9 ** (9 ** 9) %}{% endif %}", LOOPS, f"a{POWER}b"])
def test_nothing_is_computed_before_the_run(text: str) -> None:
    """What would be computed would not end."""
    RequestTemplate({"q": text})


def test_a_setting_that_would_be_computed_is_refused() -> None:
    with pytest.raises(TargetError, match="autoescape cannot be used here"):
        RequestTemplate({"q": "{% autoescape 9 ** (9 ** 9) %}{% endautoescape %}"})


@pytest.mark.full
def test_the_deadline_of_a_turn_ends_it_and_other_turns_go_on(service: Service) -> None:
    """A template that only some inputs make endless: the others are answered."""
    endless = "{% if turn.input == 'bad' %}" + LOOPS + "{% endif %}{{ turn.input }}"
    target = HttpTarget.model_validate(
        {"type": "http", "url": f"{service.url}/", "request": {"q": endless}, "response": {"text": "$.q"}}
    )
    service.respond = lambda handler, received: handler.answer(received.body)

    async def work() -> list[str]:
        agent = HttpAgent(target, MAX_BYTES, os.environ, str)
        found: list[str] = []

        async def one(text: str) -> None:
            case = make_case(text, text)
            session = await agent.open(case, 0)
            try:
                async with asyncio.timeout(1.0 if text == "bad" else 60.0):
                    found.append((await session.send(case.turns[0])).response)
            except TimeoutError:
                found.append("deadline")

        try:
            await asyncio.gather(*(one(text) for text in ("bad", "a", "b")))
        finally:
            await agent.close()
        return sorted(found)

    assert asyncio.run(work()) == ["a", "b", "deadline"]


def endless(project: Project) -> None:
    project.suite([{"name": "a", "input": "hi", "ground_truth": "hi"}])
    project.policy(target={"type": "http", "url": "http://127.0.0.1:9/", "request": {"q": LOOPS}})


@pytest.mark.full
def test_the_deadline_of_the_run_ends_it(project: Project) -> None:
    endless(project)
    finished, record = project.evaluate("--run-timeout", "2")
    assert finished.code == 4, finished.stderr
    assert record.stopped is not None


@pytest.mark.races
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(project: Project, number: signal.Signals) -> None:
    endless(project)
    with project.start("run", "-o", "out", "--turn-timeout", "600") as process:
        project.wait_until(lambda: _limited(process.pid))
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode in (3, 4)
    assert (project.out / "results.json").is_file()


def _limited(pid: int) -> bool:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return any(b"workers.limited_workers" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)


def test_normal_requests_are_what_they_were(service: Service) -> None:
    target = HttpTarget.model_validate(
        {
            "type": "http",
            "url": f"{service.url}/",
            "request": {
                "a": "{{ turn.input }}",
                "b": "{{ history }}",
                "c": ["{{ turn.index }}", 1],
                "d": "x{{ none }}",
            },
            "response": {"text": "$.a"},
        }
    )
    service.respond = lambda handler, received: handler.answer(received.body)
    assert ask(HttpAgent(target, MAX_BYTES, os.environ, str), make_case("a", "hé")) == [Reply("hé")]
    assert service.received[0].body == {"a": "hé", "b": [], "c": [0, 1], "d": "x"}
