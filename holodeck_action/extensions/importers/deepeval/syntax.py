"""Reads the syntax of a Python file: calls, assigned variables, and parameters of tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def called_name(call: ast.Call) -> str:
    """Return the name of the called function or class, without the object or module before it."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def argument_of(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """Return the argument of a call with this name or at this position; None if it is missing."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def nodes_of(scope: Scope) -> list[ast.AST]:
    """Return all syntax nodes of a scope except those inside its functions."""
    found: list[ast.AST] = []
    left: list[ast.AST] = list(reversed(scope.body))
    while left:
        node = left.pop()
        found.append(node)
        if not isinstance(node, FUNCTIONS):
            left += reversed(list(ast.iter_child_nodes(node)))
    return found


def ids_expected_to_fail(scope: Scope, nodes: Sequence[ast.AST]) -> set[int]:
    """Return the ids of the nodes that the file expects to fail.

    These are the nodes inside `pytest.raises`, or all nodes if the scope is marked `pytest.mark.xfail`.
    """
    marks = scope.decorator_list if isinstance(scope, FUNCTIONS) else []
    names = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    if any(isinstance(name, ast.Attribute) and name.attr == "xfail" for name in names):
        return {id(node) for node in nodes}
    return {
        id(inner)
        for node in nodes
        if isinstance(node, ast.With | ast.AsyncWith)
        if any(
            isinstance(item.context_expr, ast.Call) and called_name(item.context_expr) == "raises"
            for item in node.items
        )
        for inner in ast.walk(node)
    }


def target_names(node: ast.AST) -> list[str]:
    """Return the variables to which a statement assigns."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return loop_names(node.target) if isinstance(node, ast.For | ast.AsyncFor) else []


def loop_names(target: ast.expr) -> list[str]:
    """Return the variables to which a loop assigns; empty if a target is not a variable."""
    listed = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    names = [item.id for item in listed if isinstance(item, ast.Name)]
    return names if len(names) == len(listed) else []


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[list[str], ast.expr]]:
    """Yield the names of test parameters and the expression with their values, for each `pytest.mark.parametrize`."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and called_name(decorator) == "parametrize":
            names = argument_of(decorator, "argnames", 0)
            values = argument_of(decorator, "argvalues", 1)
            listed = names.elts if isinstance(names, ast.List | ast.Tuple) else [names]
            texts = [item.value for item in listed if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            if values is not None and len(texts) == len(listed):
                yield [name.strip() for text in texts for name in text.split(",") if name.strip()], values


def row_of(node: ast.expr) -> Sequence[ast.expr]:
    """Return the items of a row of parameters: a list, a tuple or a call of `pytest.param`; any other expression as the
    only item."""
    if isinstance(node, ast.Call) and called_name(node) == "param":
        return node.args
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
