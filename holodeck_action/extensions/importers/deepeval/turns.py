"""Converts the turns of DeepEval's conversations, from test files and datasets."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from holodeck_action.extensions.importers.converted_suite import ConvertedTurn
from holodeck_action.extensions.importers.deepeval.reading import PythonFile, ScopedExpression
from holodeck_action.extensions.importers.deepeval.syntax import argument_of, called_name
from holodeck_action.extensions.importers.source import UnfitError
from holodeck_action.text.json_values import parse_json


def constructed_turns(file: PythonFile, value: ScopedExpression) -> list[ConvertedTurn]:
    """Return the turns of a conversation that an expression constructs; empty if they cannot be turns of a suite."""
    assert isinstance(value.node, ast.Call)
    turns, expected = argument_of(value.node, "turns", 0), argument_of(value.node, "expected_outcome", None)
    try:
        said = [] if turns is None else [_turn_fields(file, each) for each in file.values(value.with_node(turns))]
        outcome = None if expected is None else file.literal(value.with_node(expected))
    except UnfitError:
        return []
    return _written_turns(said, outcome)


def golden_turns(golden: Mapping[str, Any]) -> list[ConvertedTurn]:
    """Return the turns of a golden, which are a list or its JSON; empty if they cannot be turns of a suite."""
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


def _turn_fields(file: PythonFile, turn: ScopedExpression) -> dict[str, Any]:
    if not isinstance(turn.node, ast.Call) or called_name(turn.node) != "Turn":
        raise UnfitError("no turn")
    found: dict[str, Any] = {}
    for name, at in (("role", 0), ("content", 1), ("retrieval_context", None)):
        if (node := argument_of(turn.node, name, at)) is not None:
            found[name] = file.literal(turn.with_node(node))
    if (node := argument_of(turn.node, "tools_called", None)) is not None:
        found["tools_called"] = [tool_fields(file, value) for value in file.values(turn.with_node(node))]
    return found


def tool_fields(file: PythonFile, value: ScopedExpression) -> dict[str, Any]:
    """Return the literal arguments of a `ToolCall`.

    Raises:
        UnfitError: the expression is not a `ToolCall`, or its value is known only at run time.
    """
    if not isinstance(value.node, ast.Call) or called_name(value.node) != "ToolCall":
        raise UnfitError(f"line {value.node.lineno}: an expression whose value is known only at run time")
    names = ("name", "input_parameters", "output")
    found = {name: argument_of(value.node, name, None) for name in names}
    return {name: file.literal(value.with_node(node)) for name, node in found.items() if node is not None}


def tool_call(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool call of DeepEval to the format of transcripts."""
    made: dict[str, Any] = {"name": str(tool.get("name"))}
    made["args"] = tool.get("input_parameters", tool.get("inputParameters")) or {}
    if tool.get("output") is not None:
        made["result"] = tool["output"]
    return made
