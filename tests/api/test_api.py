"""Suites evaluated from Python: with a callable of the program, in its process, by the rules of the command line."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import holodeck_action
from holodeck_action import (
    ConfigurationError,
    Record,
    compare,
    evaluate,
    load_suite,
    read_record,
    verdict_of,
)
from holodeck_action.record.canonical import canonical_json
from tests.commands.project import Project
from tests.docs.pages import blocks
from tests.llm.models import Answer, FakeModels, Request

Messages = list[dict[str, str]]


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Five cases, in the current folder."""
    project.numbered(5)
    project.policy()
    monkeypatch.chdir(project.folder)
    return project


def number(messages: Messages) -> str:
    return messages[-1]["content"].split()[-1].rstrip("?")


def outcomes(record: Record) -> list[str]:
    return [case.outcome for case in verdict_of(record).cases]


def error_of(record: Record) -> Any:
    return record.cases[0].trials[0].turns[0].error


def test_a_callable_is_evaluated_as_the_command_line_does(shop: Project) -> None:
    shop.write("answers.py", "def number(messages):\n    return messages[-1]['content'].split()[-1].rstrip('?')\n")
    _, expected = shop.evaluate("--target", "python:answers:number")
    record = evaluate("agent.yaml", number, environ=shop.environ())
    assert outcomes(record) == ["passed"] * 5
    named = canonical_json(expected).replace(b"python:answers:number", f"python:{__name__}:number".encode())
    assert canonical_json(record) == named
    assert verdict_of(record).exit_code == 0


async def thinking(messages: Messages, request: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"response": number(messages), "tool_invocations": [], "metadata": {"turn": request["turn"]}}


async def pieces(messages: Messages) -> AsyncIterator[str]:
    yield number(messages)
    yield ""


def generated(messages: Messages) -> Iterator[str]:
    yield from number(messages)


@pytest.mark.parametrize("target", [thinking, pieces, generated, lambda messages: {"response": number(messages)}])
def test_it_may_be_async_and_stream(shop: Project, target: Any) -> None:
    record = evaluate(".", target, repeat=2, concurrency=3, environ=shop.environ())
    assert outcomes(record) == ["passed"] * 5
    assert [len(case.trials) for case in record.cases] == [2] * 5


def raising(messages: Messages) -> str:
    raise KeyError("token-4711")


def leaving(messages: Messages) -> str:
    sys.exit(3)


async def leaving_later(messages: Messages) -> str:
    sys.exit(3)


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (raising, "raised", r"raising: it raised KeyError: '\*\*\*'"),
        (leaving, "exited", r"leaving: it called sys\.exit\(3\)"),
        (leaving_later, "exited", r"leaving_later: it called sys\.exit\(3\)"),
        (lambda messages: None, "bad_reply", r"<lambda>: "),
        (lambda messages: {"response": {1, 2}}, "not_json", r"<lambda>: the reply\.response is of type set"),
    ],
)
def test_its_failure_is_an_error_never_a_low_score(shop: Project, target: Any, code: str, message: str) -> None:
    record = evaluate("agent.yaml", target, environ=shop.environ(SHOP_TOKEN="token-4711"))
    assert (error_of(record).code, bool(re.search(message, error_of(record).message))) == (code, True), error_of(record)
    assert verdict_of(record).exit_code == 3


def test_a_deadline_ends_what_is_awaited_and_ignores_what_is_not(shop: Project) -> None:
    shop.policy(limits={"turn_timeout_s": 0.2})
    started, cancelled, release = threading.Event(), threading.Event(), threading.Event()

    async def waiting(messages: Messages) -> str:
        started.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "late"

    def blocked(messages: Messages) -> str:
        release.wait(600)
        return "0"

    assert error_of(evaluate("agent.yaml", waiting, limit=1, environ=shop.environ())).code == "timeout"
    assert cancelled.wait(60) or not started.is_set()
    assert error_of(evaluate("agent.yaml", blocked, limit=1, environ=shop.environ())).code == "timeout"
    release.set()


def test_it_works_where_an_event_loop_runs(shop: Project) -> None:
    async def cell() -> Record:
        return evaluate("agent.yaml", thinking, environ=shop.environ())

    assert outcomes(asyncio.run(cell())) == ["passed"] * 5


def test_a_suite_is_evaluated_as_it_was_loaded(shop: Project) -> None:
    suite = load_suite(environ=shop.environ())
    assert [case.name for case in suite.cases] == [f"case {n}" for n in range(5)]
    assert [case.name for case in evaluate(suite, number, cases=["case 3"], environ=shop.environ()).cases] == ["case 3"]
    shop.numbered(4)
    with pytest.raises(ConfigurationError, match=r"agent\.yaml: differs from what load_suite returned; load it again"):
        evaluate(suite, number, environ=shop.environ())


def test_two_records_are_compared(shop: Project) -> None:
    shop.policy(gates={"min_pass_rate": 0.5})
    base = evaluate("agent.yaml", number, environ=shop.environ())
    head = evaluate("agent.yaml", lambda messages: number(messages).replace("3", "4"), environ=shop.environ())
    assert [change.title for change in compare(base, head).regressed] == ["case 3"]
    assert (verdict_of(base, base=base).exit_code, verdict_of(head, base=base).exit_code) == (0, 1)


def test_results_are_written_and_read_again(shop: Project) -> None:
    record = evaluate("agent.yaml", number, output_dir="out", environ=shop.environ())
    assert {"results.json", "verdict.json", "report.md"} <= {path.name for path in (shop.folder / "out").iterdir()}
    assert (
        canonical_json(read_record("out")) == canonical_json(read_record("out/results.json")) == canonical_json(record)
    )
    with pytest.raises(ConfigurationError, match=r"nowhere\.json: cannot be read"):
        read_record("nowhere.json")


def test_model_calls_are_recorded_and_replayed(shop: Project) -> None:
    with FakeModels(keys=["sk-api"]) as models:

        def answered(request: Request) -> Answer:
            return Answer(request.text.split()[-1].rstrip("?"))

        models.answer(answered)
        environ = shop.environ(OPENAI_API_KEY="sk-api", OPENAI_BASE_URL=models.openai_url)
        first = evaluate("agent.yaml", record="calls", environ=environ)
        asked = len(models.requests)
        again = evaluate("agent.yaml", replay="calls", environ=shop.environ(OPENAI_BASE_URL=models.openai_url))
        assert (asked, len(models.requests)) == (5, 5)
        assert canonical_json(first) == canonical_json(again)
        stopped = evaluate("agent.yaml", max_tokens=1, environ=environ)
        assert verdict_of(stopped).exit_code == 4


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"suite": "elsewhere"}, r"elsewhere: no such suite"),
        ({"concurrency": 0}, r"concurrency: 0 is not allowed \(allowed: a whole number, 1 or more\)"),
        ({"run_timeout": -1.0}, r"run_timeout: -1\.0 is not allowed"),
        ({"target": "python:nothing"}, r"must be python:MODULE:CALLABLE"),
        ({"cases": ["nobody*"]}, r"nobody\*"),
        ({"replay": "calls", "cache": "kept"}, r"--replay answers only from its folder"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(shop: Project, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        evaluate(**{"target": number, **given}, environ=shop.environ())


def test_a_forks_suite_is_refused_as_in_a_workflow(shop: Project) -> None:
    event = {"pull_request": {"head": {"repo": {"full_name": "them/fork"}}, "base": {"repo": {"full_name": "us/shop"}}}}
    shop.write("event.json", str(event).replace("'", '"'))
    environ = shop.environ(
        GITHUB_ACTIONS="true",
        GITHUB_EVENT_NAME="pull_request_target",
        GITHUB_EVENT_PATH=str(shop.folder / "event.json"),
        GITHUB_REPOSITORY="us/shop",
    )
    with pytest.raises(ConfigurationError):
        evaluate("agent.yaml", number, environ=environ)


@pytest.mark.full
def test_names_are_imported_when_they_are_used(project: Project) -> None:
    code = (
        "import sys, holodeck_action\n"
        "assert 'holodeck_action.api' not in sys.modules\n"
        "assert set(holodeck_action.__all__) <= set(dir(holodeck_action))\n"
        "from holodeck_action import *\n"
        "print(evaluate.__module__)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=project.folder, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("holodeck_action.api\n", "")
    assert Path(holodeck_action.__file__).with_name("py.typed").exists()
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        holodeck_action.evaluat  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.full
def test_the_tests_of_the_page_pass(project: Project) -> None:
    page = Path(holodeck_action.__file__).parents[1] / "docs" / "python.md"
    for block in blocks(page):
        if block.mark not in ("", "norun"):
            project.write(block.mark, block.text)
    # DeepEval's plugin imports all of it.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:deepeval", "."]
    environ = project.environ(PYTHONPATH=str(Path(holodeck_action.__file__).parents[1]))
    ended = subprocess.run(command, cwd=project.folder, env=environ, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, "2 passed" in ended.stdout) == (0, True), ended.stdout + ended.stderr
