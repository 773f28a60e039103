"""Stands in for your agent, so that the suite runs without a key: let `answer` call the real one."""

from __future__ import annotations

from typing import Any


def answer(messages: list[dict[str, str]]) -> dict[str, Any]:
    """Answer the last message of a conversation; each one is `{"role": ..., "content": ...}`."""
    question = messages[-1]["content"]
    if "A-17" in question:
        return {
            "response": "Order A-17 arrives on Thursday.",
            "tool_invocations": [{"name": "find_order", "args": {"order": "A-17"}}],
        }
    # An empty list says that no tool was called; without it, no one could tell.
    return {"response": "You can send it back within 30 days of its delivery.", "tool_invocations": []}
