"""Agents that are a Python callable."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.record import RetrievedChunk, ToolInvocation
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.python import PythonAgent
from holodeck_action.workers.pool import WorkerPool
from tests.targets.conversations import MAX_BYTES, converse, make_case
from tests.workers.support import run, running, wait_until, write


def ask(folder: Path, name: str, case: Case, max_bytes: int = MAX_BYTES, size: int = 1) -> list[Reply | AgentError]:
    async def work(pool: WorkerPool) -> list[Reply | AgentError]:
        return await converse(PythonAgent(f"agent:{name}", pool, max_bytes), case)

    answers: list[Reply | AgentError] = run(folder, work, size=size)
    return answers


def test_a_turn_sees_the_conversation_so_far(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        def answer(messages):
            return " | ".join(f"{m['role']}: {m['content']}" for m in messages)

        async def answer_async(messages):
            return {"response": str(len(messages))}
        """,
        "agent",
    )
    case = make_case("c", "one", "two")
    assert [reply.response for reply in ask(tmp_path, "answer", case) if isinstance(reply, Reply)] == [
        "user: one",
        "user: one | assistant: user: one | user: two",
    ]
    assert ask(tmp_path, "answer_async", case) == [Reply("1"), Reply("3")]


def test_a_reply_with_everything(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        def answer(messages):
            return {
                "response": "Köln",
                "tool_invocations": [{"name": "find", "args": {"k": (1, 2)}, "result": {"n": 1}}],
                "retrieved_chunks": [{"id": "a", "text": "A", "score": 0.5}],
            }
        """,
        "agent",
    )
    assert ask(tmp_path, "answer", make_case("c")) == [
        Reply(
            "Köln",
            (ToolInvocation("find", {"k": [1, 2]}, {"n": 1}, bytes=8),),
            ("A",),
            (RetrievedChunk("a", "A", 0.5),),
        )
    ]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("1 / 0", "raised", "agent:answer: it raised ZeroDivisionError: division by zero (agent.py:3)"),
        ("None", "bad_reply", "agent:answer: the reply must be text or an object with `response`, not null"),
        ("{'answer': 'x'}", "bad_reply", None),
        ("object()", "not_json", "agent:answer: the reply is of type object, which JSON cannot hold"),
        ("'x' * 150", "too_large", None),
        ("'x' * 10 ** 7", "too_large", "agent:answer: it returned more than 200 bytes"),
        ("os._exit(7)", "crashed", "agent:answer: its process exited with code 7"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, body: str, code: str, message: str | None) -> None:
    write(tmp_path, f"import os\ndef answer(messages):\n    print('log'); return {body}\n", "agent")
    (error,) = ask(tmp_path, "answer", make_case("c"), max_bytes=100)
    assert isinstance(error, AgentError)
    assert error.code == code
    if message is not None:
        assert error.message == message
    assert error.context["output"] == "log\n"


def test_a_failed_turn_is_not_part_of_the_conversation(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        def answer(messages):
            if messages[-1]["content"] == "break":
                raise ValueError("no")
            return str([m["content"] for m in messages])
        """,
        "agent",
    )
    first, error, last = ask(tmp_path, "answer", make_case("c", "one", "break", "two"))
    assert first == Reply("['one']")
    assert isinstance(error, AgentError)
    assert last == Reply("""['one', "['one']", 'two']""")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_cancelled_turn_stops_the_work(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, pathlib

        def answer(messages):
            part = pathlib.Path(__file__).with_name("part")
            part.write_text(str(os.getpid()))
            part.rename(part.with_name("pid"))
            while True:
                pass
        """,
        "agent",
    )

    async def work(pool: WorkerPool) -> None:
        session = await PythonAgent("agent:answer", pool, MAX_BYTES).open(make_case("c"), 0)
        sending = asyncio.create_task(session.send(make_case("c").turns[0]))
        assert await asyncio.to_thread(wait_until, (tmp_path / "pid").exists)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert not running(int((tmp_path / "pid").read_text()))
        await session.close()

    run(tmp_path, work, environ=os.environ)
