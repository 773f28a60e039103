"""Finds functions that answer a question, in the Python files of a repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from holodeck_action.extensions.start.python_agents import FoundAgent, located, parse_module, python_files

_NAMES = frozenset({"answer", "ask", "chat", "reply", "respond", "run_agent", "answer_question", "handle_message"})
"""Names of functions that answer."""
_CONVERSATIONS = frozenset({"messages", "conversation", "history"})
"""Names of a parameter that takes a conversation, as targets pass it."""
_QUESTIONS = frozenset({"question", "message", "prompt", "query", "text", "user_input", "user_message", "input"})
"""Names of a parameter that takes one text."""


def find_functions(folder: Path) -> list[tuple[FoundAgent, bool, bool]]:
    """Return functions that answer, sorted by depth: each with whether it takes a conversation (else one text), and
    whether it is a coroutine function."""
    return sorted(
        (located(folder, path, function, function.name), takes in _CONVERSATIONS, is_async)
        for path in python_files(folder)
        for function, takes, is_async in _answering(path)
    )


def _answering(path: Path) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str, bool]]:
    tree = parse_module(path, [f"def {name}(" for name in _NAMES])
    for statement in () if tree is None else tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name in _NAMES:
            needed = _only_parameter(statement.args)
            if needed in _CONVERSATIONS | _QUESTIONS and not statement.decorator_list:
                yield statement, needed, isinstance(statement, ast.AsyncFunctionDef)


def _only_parameter(arguments: ast.arguments) -> str:
    """Return the name of the only parameter without a default; empty if there is none, or several."""
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    is_only = len(needed) == 1 and None not in arguments.kw_defaults
    return needed[0].arg if is_only else ""
