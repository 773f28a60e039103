"""A shop that refunds, and the scripted model that plays its customers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.commands.project import Project
from tests.llm.models import Answer, Reply, Request

AGENT = """
import json

LOG = []

def answer(messages):
    said = messages[-1]["content"]
    if "A-17" in said:
        return {
            "response": "Order A-17: 30 euros are refunded.",
            "tool_invocations": [{"name": "refund", "args": {"order": "A-17"}, "result": {"secret margin": 12}}],
        }
    return {"response": "Which order is it?", "tool_invocations": []}
"""
GOAL = "Get the money back for the kettle that leaks on the table."
USER: dict[str, Any] = {"goal": GOAL, "model": {"provider": "openai", "name": "gpt-4o-mini"}}


def shop(project: Project, *cases: dict[str, Any], agent: str | None = AGENT, **policy: Any) -> None:
    """Write a suite whose cases end well if the money is refunded, and the agent."""
    if agent is not None:
        project.write("agent.py", agent)
    expect = [{"contains": "refunded"}]
    named = [{"name": f"refund {number}", "expect": expect, **case} for number, case in enumerate(cases)]
    project.suite(named, evaluations=None)
    project.policy(target="python:agent:answer", **policy)


def goes_on(message: str) -> dict[str, str]:
    return {"state": "goes_on", "message": message}


def ended(state: str = "goal_met") -> dict[str, str]:
    return {"state": state, "message": ""}


def said(request: Request) -> list[str]:
    """What the person and the assistant have said, as the model that plays the person sees it."""
    found = re.search(r"Conversation:\n(~+)\n(.*)\n\1", request.text, re.DOTALL)
    return [] if found is None else [each["text"] for each in json.loads(found[2])]


def customer(request: Request) -> Reply:
    """Complain, tell the number when asked, and go when the money comes."""
    so_far = said(request)
    if not so_far:
        return Answer(json.dumps(goes_on(f"My kettle leaks (seed {request.body['seed'] % 1000}).")))
    if "refunded" in so_far[-1]:
        return Answer(json.dumps(ended()))
    return Answer(json.dumps(goes_on("It is A-17.")))


def saying(*answers: Any) -> Callable[[Request], Reply]:
    """Answer with these texts or JSON values in turn, and with the last one for ever."""
    left = list(answers)

    def answer(request: Request) -> Reply:
        found = left.pop(0) if len(left) > 1 else left[0]
        return found if isinstance(found, str | Answer) else Answer(json.dumps(found))

    return answer
