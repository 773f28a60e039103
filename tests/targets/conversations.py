"""Cases to ask agents about, and the plain loop that asks them as the runner does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, Reply

T = TypeVar("T")

MARK = SourceMark("agent.yaml", 1, 1)
MAX_BYTES = 1_000_000


def make_case(
    case_id: str, *inputs: str, name: str | None = None, ground_truth: str | None = None, **turn_fields: Any
) -> Case:
    """A case with one turn per input (`hello` when none is given)."""
    texts = enumerate(inputs or ("hello",))
    turns = tuple(Turn(index, text, MARK, ground_truth, **turn_fields) for index, text in texts)
    return Case(case_id, name, "0" * 64, MARK, turns, multi_turn=len(turns) > 1)


async def converse(agent: Agent, case: Case, trial: int = 0) -> list[Reply | AgentError]:
    """Ask all turns of a case in one session, going on after errors; an error at `open` is the only entry."""
    try:
        session = await agent.open(case, trial)
    except AgentError as error:
        return [error]
    answers: list[Reply | AgentError] = []
    try:
        for turn in case.turns:
            try:
                await session.prepare()
                answers.append(await session.send(turn))
            except AgentError as error:
                answers.append(error)
    finally:
        await session.close()
    return answers


def ask(agent: Agent, case: Case, trial: int = 0) -> list[Reply | AgentError]:
    """Ask one case from outside any event loop."""
    return run(_ask_and_close(agent, case, trial))


def answer(agent: Agent, case: Case, trial: int = 0) -> Reply:
    """Ask a single-turn case that must be answered."""
    (reply,) = ask(agent, case, trial)
    assert isinstance(reply, Reply), reply
    return reply


def failure(agent: Agent, case: Case, trial: int = 0) -> AgentError:
    """Ask a case whose first turn must fail."""
    error = ask(agent, case, trial)[0]
    assert isinstance(error, AgentError), error
    return error


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine under a bound that only a hang can reach."""

    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


async def _ask_and_close(agent: Agent, case: Case, trial: int) -> list[Reply | AgentError]:
    try:
        return await converse(agent, case, trial)
    finally:
        await agent.close()
