"""The agent's own code in some scenarios, the same for every program; it is copied into the folder of the job."""

from __future__ import annotations

import atexit
import json
import os
import urllib.request
from pathlib import Path
from typing import Any

TOOLS = {"find_order": "Look an order up.", "refund": "Refund an order."}
_PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer a conversation with the model at OPENAI_BASE_URL; returns `response` and `tool_invocations`."""
    talk = [{"role": "system", "content": os.environ.get("AGENT_INSTRUCTIONS", "Answer.")}, *messages]
    calls: list[dict[str, Any]] = []
    while True:
        body = _post({"model": "gpt-4o", "messages": talk, "tools": [_tool(name) for name in TOOLS]})
        _misbehave(**body.get("code", {"do": ""}))
        message = body["choices"][0]["message"]
        if not message.get("tool_calls"):
            return {"response": message["content"], "tool_invocations": calls}
        talk.append(message)
        for call in message["tool_calls"]:
            args = json.loads(call["function"]["arguments"])
            calls.append({"name": call["function"]["name"], "args": args, "result": "done"})
            talk.append({"role": "tool", "tool_call_id": call["id"], "content": "done"})


def _tool(name: str) -> dict[str, Any]:
    function = {"name": name, "description": TOOLS[name], "parameters": _PARAMETERS}
    return {"type": "function", "function": function}


def _post(body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), headers)) as reply:
        found: dict[str, Any] = json.load(reply)
        return found


def _misbehave(do: str, old: str = "", new: str = "") -> None:
    """Do what the scenario wants of a broken or hostile agent."""
    if do == "raise":
        raise RuntimeError("the agent is broken")
    if do == "exit":
        os._exit(0)
    if do == "atexit":
        atexit.register(os._exit, 0)
    if do == "rewrite":
        for path in {*Path.cwd().rglob("*"), *Path(__file__).parent.rglob("*")}:
            if path.suffix in (".json", ".jsonl", ".yaml", ".py") and path.is_file():
                path.write_text(path.read_text().replace(old, new))
