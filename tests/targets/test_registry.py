"""From a target to its agent, and how a target is named in the record."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.model.targets import HttpTarget, parse_target
from holodeck_action.suite.values import Suite
from holodeck_action.targets.factory import build_agent, describe_target
from holodeck_action.targets.protocol import Reply
from holodeck_action.workers.pool import WorkerPool
from tests.tables import walk
from tests.targets.conversations import MAX_BYTES, converse, run
from tests.targets.service import Service
from tests.workers.support import CODE

AGENT_YAML = """
name: demo
model: {provider: openai, name: gpt-4o}
instructions: {inline: Answer.}
test_cases: [{name: Refund, input: How long?, ground_truth: 7 days}]
evaluations: {metrics: [{type: standard, metric: equality}]}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "suite").mkdir()
    path = tmp_path / "suite" / "agent.yaml"
    path.write_text(AGENT_YAML)
    return load_suite(path, environ={}, home=None, metrics=built_in())


def asked(suite: Suite, target: str, folder: Path) -> Reply | AgentError:
    """Build the agent of a target, ask it the suite's only case, close everything."""

    async def ask() -> Reply | AgentError:
        async with WorkerPool(
            suite.folder, environ=os.environ, cwd=suite.folder, size=1, code=CODE, redact=str
        ) as pool:
            agent = build_agent(
                suite,
                parse_target(target),
                checkout=Checkout.unbounded(folder),
                environ=os.environ,
                max_bytes=MAX_BYTES,
                code=CODE,
                pool=pool,
                redact=str,
            )
            try:
                (reply,) = await converse(agent, suite.cases[0])
                return reply
            finally:
                await agent.close()

    return run(ask())


def test_a_relative_transcript_starts_in_the_given_folder(suite: Suite, tmp_path: Path) -> None:
    for folder in (suite.folder, tmp_path):
        (folder / "t.jsonl").write_text(json.dumps({"case": "Refund", "response": f"from {folder.name}"}))
        assert asked(suite, "recorded:t.jsonl", folder) == Reply(f"from {folder.name}")
    (tmp_path / "suite" / "t.jsonl").unlink()
    with pytest.raises(TargetError, match=r"transcript t\.jsonl does not exist"):
        asked(suite, "recorded:t.jsonl", suite.folder)


def test_a_command_starts_in_the_suite_folder(suite: Suite, tmp_path: Path) -> None:
    (suite.folder / "agent.py").write_text("import os; input(); print('\"' + os.getcwd() + '\"')")
    assert asked(suite, f"command:{sys.executable} agent.py", tmp_path) == Reply(str(suite.folder))


def test_a_python_callable_is_imported_from_the_suite_folder(suite: Suite, tmp_path: Path) -> None:
    (suite.folder / "demo_target.py").write_text("def reply(messages): return messages[-1]['content'] + '!'")
    assert asked(suite, "python:demo_target:reply", tmp_path) == Reply("How long?!")


def test_a_service_is_asked(suite: Suite, tmp_path: Path) -> None:
    service = Service()
    try:
        assert asked(suite, f"http:{service.url}/chat", tmp_path) == Reply("hello")
    finally:
        service.close()


@walk(
    ("target", "shown"),
    [
        ("recorded:transcripts/a.jsonl", "recorded:transcripts/a.jsonl"),
        ("python:app.agent:answer", "python:app.agent:answer"),
        ("command:python agent.py", "command:python agent.py"),
        ("command:python agent.py --key s3cret", "command:python agent.py …"),
        ("command:env KEY=s3cret python agent.py", "command:env …"),
        ("command:agent 's3cret", "command:…"),
        (
            "http:https://user:s3cret@example.org:8443/v1/chat?key=s3cret#s3cret",
            "http:https://example.org:8443/v1/chat",
        ),
        ("http:http://[::1]:80", "http:http://[::1]:80"),
    ],
)
def test_a_target_is_named_without_secrets(target: str, shown: str) -> None:
    assert describe_target(parse_target(target)) == shown


def test_headers_are_no_part_of_a_targets_name() -> None:
    target = HttpTarget.model_validate({"url": "https://example.org/", "headers": {"X-Key": "s3cret"}})
    assert describe_target(target) == "http:https://example.org/"
