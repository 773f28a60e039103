"""Warm-up requests, which agents get before their first turn, outside its time limits. Their answers are discarded."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from typing import Any

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.targets.protocol import Reply, seed_of

WARM_UP_S = 60.0
"""Maximum seconds of a warm-up."""

_CASE = "warm-up"


def warm_up_request(text: str) -> dict[str, Any]:
    """Return a warm-up request. It has the form of a turn's request with the input `text`, but belongs to no case of
    the suite."""
    return {
        "session": str(uuid.uuid4()),
        "case": _CASE,
        "name": None,
        "tags": [],
        "trial": 0,
        "turn": 0,
        "seed": seed_of(_CASE, 0),
        "input": text,
        "messages": [{"role": "user", "content": text}],
        "files": [],
        "turn_config": {},
        "warm_up": True,
    }


async def await_warm_up(answer: Awaitable[Reply]) -> None:
    """Wait for the answer to a warm-up request.

    Raises:
        AgentError: the agent did not answer; the code is `timeout`, or the code of the agent's error.
    """
    try:
        async with asyncio.timeout(WARM_UP_S):
            reply = await answer
    except TimeoutError:
        raise AgentError(f"the warm-up took longer than {WARM_UP_S:g} s", "timeout") from None
    except AgentError as error:
        raise AgentError(f"the warm-up failed: {error.message}", error.code, error.context) from None
    # A cut answer shows that the agent is ready.
    if reply.error is not None and reply.error.kind != "cut_off":
        raise AgentError(f"the warm-up failed: {reply.error.message}", reply.error.code)
