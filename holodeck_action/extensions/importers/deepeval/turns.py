"""Converts the turns of DeepEval's conversations, from test files and datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holodeck_action.extensions.importers.converted_suite import ConvertedTurn
from holodeck_action.text.json_values import parse_json


def golden_turns(golden: Mapping[str, Any]) -> list[ConvertedTurn]:
    """Return the turns of a golden or conversation, a list or its JSON; empty if they cannot be turns of a suite."""
    turns = golden.get("turns")
    try:
        said = parse_json(turns) if isinstance(turns, str) else turns
    except ValueError:
        return []
    if not isinstance(said, list) or not all(isinstance(each, Mapping) for each in said):
        return []
    return _written_turns(said, golden.get("expected_outcome"))


def _written_turns(messages: Sequence[Mapping[str, Any]], outcome: Any) -> list[ConvertedTurn]:
    """Return the turns; empty unless user and assistant alternate and all contents are texts."""
    texts = [each.get("content") for each in messages]
    if len(messages) % 2 or any(each.get("role") != ("user", "assistant")[at % 2] for at, each in enumerate(messages)):
        return []
    if not all(isinstance(text, str) for text in texts) or not all(str(text).strip() for text in texts[::2]):
        return []
    turns = [_written_turn(question, answer) for question, answer in zip(messages[::2], messages[1::2], strict=True)]
    if turns and isinstance(outcome, str) and outcome.strip():
        turns[-1] = ConvertedTurn({**turns[-1].fields, "ground_truth": outcome}, turns[-1].reply)
    return turns


def _written_turn(question: Mapping[str, Any], answer: Mapping[str, Any]) -> ConvertedTurn:
    turn, reply = {"input": question["content"]}, {"response": answer["content"]}
    context, tools = answer.get("retrieval_context"), answer.get("tools_called")
    if isinstance(context, list) and all(isinstance(text, str) for text in context):
        turn["retrieval_context"] = context
    if isinstance(tools, list):
        reply["tool_invocations"] = [tool_call(tool) for tool in tools if isinstance(tool, Mapping)]
    return ConvertedTurn(turn, reply)


def tool_call(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool call of DeepEval to the format of transcripts."""
    made: dict[str, Any] = {"name": str(tool.get("name"))}
    made["args"] = tool.get("input_parameters", tool.get("inputParameters")) or {}
    if tool.get("output") is not None:
        made["result"] = tool["output"]
    return made
