"""Finds the cases and metrics in the syntax tree of a Python file, without running its code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.importers.deepeval.syntax import (
    FUNCTIONS,
    Scope,
    argument_of,
    called_name,
    ids_expected_to_fail,
    loop_names,
    nodes_of,
    parameters_of,
    row_of,
    target_names,
)
from holodeck_action.extensions.importers.source import MOST_CASES, UnfitError, json_problem

SINGLE_TURN = ("LLMTestCase", "MLLMTestCase", "Golden")
CONVERSATIONS = ("ConversationalTestCase", "ConversationalGolden")
_CASES = (*SINGLE_TURN, *CONVERSATIONS)
_DATASETS = ("EvaluationDataset",)
_MAX_DEPTH = 20
"""Most names in a chain in which each name refers to the next one."""
_MAX_STEPS = 500_000
"""Most expressions to evaluate in one file; an expression counts each time it is evaluated."""
_MAX_TEXT = 1_000_000
"""Most characters of a concatenated text."""


class ScopedExpression(Struct, frozen=True):
    """An expression and the scope in which its names are looked up.

    Attributes:
        node: the expression.
        scope: the function or module that contains the expression.
        names: current values of loop variables and test parameters, by name.
    """

    node: ast.expr
    scope: Scope
    names: Mapping[str, ScopedExpression] = field(default_factory=dict)

    def with_node(self, node: ast.expr) -> ScopedExpression:
        """Return `node` as an expression with the same scope and names."""
        return ScopedExpression(node, self.scope, self.names)


class EvaluationCall(Struct, frozen=True):
    """A call such as `assert_test`, which evaluates cases with metrics.

    Attributes:
        call: syntax node of the call.
        function: name of the enclosing function; empty at the top level.
        cases: the argument with the cases; None if it is missing.
        metrics: the argument with the metrics; None if it is missing.
        fails: whether the file expects the call to fail.
    """

    call: ast.Call
    function: str
    cases: ScopedExpression | None
    metrics: ScopedExpression | None
    fails: bool = False


class _Content:
    """The statements of a scope, without those inside its functions.

    Attributes:
        nodes: all syntax nodes, in the order of the file.
        targets: statements that assign to a variable, by the variable's name.
        loops: all loops, each with the ids of the nodes inside it.
        added: method calls on a variable, such as `cases.append(…)`, by the variable's name.
    """

    def __init__(self, scope: Scope) -> None:
        self.nodes = nodes_of(scope)
        self.targets: dict[str, list[ast.AST]] = {}
        self.loops: list[tuple[ast.For | ast.AsyncFor, frozenset[int]]] = []
        self.added: dict[str, list[tuple[ast.Call, str]]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(target_names(node)):
                self.targets.setdefault(name, []).append(node)
            if isinstance(node, ast.For | ast.AsyncFor):
                self.loops.append((node, frozenset(map(id, ast.walk(node)))))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and node.args:
                    self.added.setdefault(owner.id, []).append((node, node.func.attr))


class PythonFile:
    """The syntax tree of a test file, with functions that evaluate its expressions without running it.

    Attributes:
        tree: syntax tree of the module.
        calls: all calls in the module.
        classes: names of the classes that the module defines.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        nodes = list(ast.walk(tree))
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
        self.classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        self._imports = {
            (alias.asname or alias.name, node.module)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self._contents: dict[Scope, _Content] = {}
        self._steps = 0

    def imports(self, name: str, package: str) -> bool:
        """Return whether the file imports a name from a package or a module in it."""
        return any(
            found == name and module is not None and f"{module}.".startswith(f"{package}.")
            for found, module in self._imports
        )

    def _content(self, scope: Scope) -> _Content:
        if scope not in self._contents:
            self._contents[scope] = _Content(scope)
        return self._contents[scope]

    def _step(self, depth: int) -> None:
        self._steps += 1
        if depth > _MAX_DEPTH:
            raise UnfitError("its names refer to each other")
        if self._steps > _MAX_STEPS:
            raise UnfitError("its names lead to too many expressions")

    def evaluation_calls(self) -> Iterator[EvaluationCall]:
        """Return the calls of `assert_test`, `evaluate` and `measure`, in the order of their lines."""
        found = []
        for scope in (self.tree, *self._functions):
            failing = ids_expected_to_fail(scope, self._content(scope).nodes)
            for node in self._content(scope).nodes:
                if isinstance(node, ast.Call) and (site := self._read_call(node, scope)) is not None:
                    found.append(replace(site, fails=id(node) in failing))
        return iter(sorted(found, key=lambda site: site.call.lineno))

    def _read_call(self, call: ast.Call, scope: Scope) -> EvaluationCall | None:
        name = called_name(call)
        here = ScopedExpression(call, scope)
        if name == "assert_test":
            cases = argument_of(call, "test_case", 0)
            if cases is None and argument_of(call, "golden", None) is None:
                return None
            return _new_call(call, scope, here, cases, argument_of(call, "metrics", 1))
        if name == "evaluate" and isinstance(call.func, ast.Attribute) and self._is_dataset(call.func.value, scope):
            return _new_call(call, scope, here, call.func.value, argument_of(call, "metrics", 0))
        if name == "evaluate":
            return _new_call(call, scope, here, argument_of(call, "test_cases", 0), argument_of(call, "metrics", 1))
        if name in ("measure", "a_measure") and isinstance(call.func, ast.Attribute):
            return _new_call(call, scope, here, argument_of(call, "test_case", 0), call.func.value)
        return None

    def _is_dataset(self, node: ast.expr, scope: Scope) -> bool:
        if not isinstance(node, ast.Name):
            return False
        values = (
            getattr(each, "value", None)
            for place in (scope, self.tree)
            for each in self._content(place).targets.get(node.id, ())
        )
        return any(isinstance(value, ast.Call) and called_name(value) in _DATASETS for value in values)

    def constructor_calls(self, names: Sequence[str]) -> list[ast.Call]:
        """Return all calls of functions or classes with these names, in the order of their lines."""
        calls = [call for call in self.calls if called_name(call) in names]
        return sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    def evaluated_cases(self, call: ast.Call, cases: ScopedExpression) -> list[ScopedExpression]:
        """Return the cases that a call evaluates, for all values of the loop variables and test parameters in `cases`.

        Raises:
            UnfitError: the cases are known only when the code runs.
        """
        loops = [loop for loop, inside in self._content(cases.scope).loops if id(call) in inside]
        tables = parameters_of(cases.scope) if isinstance(cases.scope, FUNCTIONS) else ()
        variables = {name for loop in loops for name in target_names(loop)}
        variables.update(name for names, _ in tables for name in names)
        named = variables & {node.id for node in ast.walk(cases.node) if isinstance(node, ast.Name)}
        if not named or isinstance(cases.node, ast.Name):
            return self.values(cases)
        rounds = {
            tuple(id(names[name].node) for name in sorted(named)): {name: names[name] for name in named}
            for names in self._loop_rounds(call, cases.scope, cases, 0)
        }
        return [
            value
            for names in rounds.values()
            for value in self.values(ScopedExpression(cases.node, cases.scope, names))
        ]

    def values(self, bound: ScopedExpression, depth: int = 0) -> list[ScopedExpression]:
        """Return the elements of a list or dataset; any other expression is returned as the only element.

        Raises:
            UnfitError: the elements are known only when the code runs.
        """
        found: list[ScopedExpression] = []
        for value in self._resolve(bound, depth):
            found.append(value)
            if len(found) > MOST_CASES:
                raise UnfitError(f"its lists have more than {MOST_CASES:,} items")
        return found

    def _resolve(self, bound: ScopedExpression, depth: int) -> Iterable[ScopedExpression]:
        node = bound.node
        self._step(depth)
        if isinstance(node, ast.List | ast.Tuple):
            return (value for item in node.elts for value in self.values(bound.with_node(item), depth + 1))
        if isinstance(node, ast.Starred | ast.Await):
            return self.values(bound.with_node(node.value), depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = (node.left, node.right)
            return (found for side in sides for found in self.values(bound.with_node(side), depth + 1))
        if isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            loop = node.generators[0]
            return (
                value
                for name in self._variable_rounds(bound, loop.target, loop.iter, depth)
                for value in self.values(ScopedExpression(node.elt, bound.scope, {**bound.names, **name}), depth + 1)
            )
        if isinstance(node, ast.Attribute) and node.attr in ("test_cases", "goldens"):
            return self.values(bound.with_node(node.value), depth + 1)
        if isinstance(node, ast.Call) and called_name(node) in _DATASETS:
            return [
                value
                for name, at in (("goldens", 0), ("test_cases", None))
                if (inner := argument_of(node, name, at)) is not None
                for value in self.values(bound.with_node(inner), depth + 1)
            ]
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            return [self._list_item(bound.with_node(node.value), node.slice.value, depth)]
        if isinstance(node, ast.Name):
            return self._values_of_name(node.id, bound, depth)
        return [bound]

    def _list_item(self, bound: ScopedExpression, index: int, depth: int) -> ScopedExpression:
        found = self.values(bound, depth + 1)
        try:
            return found[index]
        except IndexError:
            raise UnfitError(f"the list has no item at index {index}") from None

    def _values_of_name(self, name: str, bound: ScopedExpression, depth: int) -> list[ScopedExpression]:
        if name in bound.names:
            return self.values(bound.names[name], depth + 1)
        for scope in dict.fromkeys((bound.scope, self.tree)):
            found = [
                value
                for node, names in self._assigned_values(name, scope, bound, depth)
                for value in self.values(ScopedExpression(node, scope, names), depth + 1)
            ]
            if found or self._is_assigned(name, scope):
                return [*found, *self._appended_items(name, bound, depth)]
        raise UnfitError(f"{name} gets its value only at run time")

    def _expression_of_name(self, name: str, bound: ScopedExpression, depth: int) -> ScopedExpression:
        """Return the expression that is assigned to a variable, without splitting a list into elements.

        Raises:
            UnfitError: there is no single expression, so the value is known only when the code runs.
        """
        if name in bound.names:
            return bound.names[name]
        for scope in dict.fromkeys((bound.scope, self.tree)):
            found = list(self._assigned_values(name, scope, bound, depth))
            if found:
                if len(found) > 1 or list(self._appended_items(name, bound, depth)):
                    break
                [(node, names)] = found
                return ScopedExpression(node, scope, names)
        raise UnfitError(f"{name} gets its value only at run time")

    def _is_assigned(self, name: str, scope: Scope) -> bool:
        return name in self._content(scope).targets

    def _assigned_values(
        self, name: str, scope: Scope, bound: ScopedExpression, depth: int
    ) -> Iterator[tuple[ast.expr, Mapping[str, ScopedExpression]]]:
        """Yield the expressions that a scope assigns to a variable, each with the values of the surrounding loop
        variables.

        There is one expression for an assignment, and one per value for a loop variable or test parameter.
        """
        assignments = self._content(scope).targets.get(name, [])
        if len(assignments) > 1:
            raise UnfitError(f"{name} is assigned {len(assignments)} times")
        for node in assignments:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and value is not None:
                names = self._loop_rounds(node, scope, bound, depth)
                yield from ((value, each) for each in names)
            elif isinstance(node, ast.For | ast.AsyncFor):
                yield from (
                    (each[name].node, each[name].names)
                    for each in self._variable_rounds(bound, node.target, node.iter, depth)
                )
            else:
                raise UnfitError(f"{name} gets its value only at run time")
        if not assignments and isinstance(scope, FUNCTIONS):
            for names_of_row, values in parameters_of(scope):
                if name in names_of_row:
                    for row in self._loop_iterations(ScopedExpression(values, self.tree), names_of_row, depth):
                        yield row[name].node, row[name].names

    def _loop_rounds(
        self, node: ast.AST, scope: Scope, bound: ScopedExpression, depth: int
    ) -> list[Mapping[str, ScopedExpression]]:
        """Return the values of the loop variables around a statement, one mapping for each iteration."""
        loops = [loop for loop, inside in self._content(scope).loops if id(node) in inside]
        rounds: list[Mapping[str, ScopedExpression]] = [bound.names]
        for loop in loops:
            if set(target_names(loop)) <= bound.names.keys():
                continue
            rounds = _nested_rounds(rounds, self._variable_rounds(bound, loop.target, loop.iter, depth))
        if not loops and isinstance(scope, FUNCTIONS):
            for parameters, values in parameters_of(scope):
                if not bound.names.keys() & set(parameters):
                    rounds = _nested_rounds(
                        rounds, self._loop_iterations(ScopedExpression(values, self.tree), parameters, depth)
                    )
        return rounds

    def _variable_rounds(
        self, bound: ScopedExpression, target: ast.expr, values: ast.expr, depth: int
    ) -> list[dict[str, ScopedExpression]]:
        names = loop_names(target)
        if not names:
            raise UnfitError("its loop assigns to something other than variables")
        return self._loop_iterations(bound.with_node(values), names, depth)

    def _loop_iterations(
        self, bound: ScopedExpression, names: Sequence[str], depth: int
    ) -> list[dict[str, ScopedExpression]]:
        """Return the values of loop variables or test parameters, one mapping for each element of an expression."""
        if len(names) == 1:
            found = self.values(bound, depth + 1)
            return [{names[0]: value.with_node(_only_item(row_of(value.node), value.node))} for value in found]
        rounds = []
        for row in self._rows(bound, depth + 1):
            items = row_of(row.node)
            if len(items) != len(names) or any(isinstance(item, ast.Starred) for item in items):
                raise UnfitError(f"{', '.join(names)} get their values only at run time")
            rounds.append({name: row.with_node(item) for name, item in zip(names, items, strict=True)})
        return rounds

    def _rows(self, bound: ScopedExpression, depth: int) -> list[ScopedExpression]:
        """Return the elements of a list, which may be lists themselves."""
        self._step(depth)
        if isinstance(bound.node, ast.Name):
            return self._rows(self._expression_of_name(bound.node.id, bound, depth), depth + 1)
        if not isinstance(bound.node, ast.List | ast.Tuple) or len(bound.node.elts) > MOST_CASES:
            raise UnfitError("its rows are known only at run time")
        return [bound.with_node(item) for item in bound.node.elts]

    def _appended_items(self, name: str, bound: ScopedExpression, depth: int) -> Iterator[ScopedExpression]:
        """Yield the items that calls such as `dataset.add_golden(…)` and `cases.append(…)` add to a variable."""
        for scope in dict.fromkeys((bound.scope, self.tree)):
            for node, method in self._content(scope).added.get(name, ()):
                if method in ("add_golden", "add_test_case", "append"):
                    for names in self._loop_rounds(node, scope, bound, depth):
                        yield from self.values(ScopedExpression(node.args[0], scope, names), depth + 1)
                elif method.startswith(("add_", "pull", "extend")):
                    raise UnfitError(f"{name}.{method} adds cases only at run time")

    def literal(self, bound: ScopedExpression, depth: int = 0) -> Any:
        """Return the value of an expression: a literal, a variable that is assigned a literal, or a field of a golden.

        Raises:
            UnfitError: the value is known only when the code runs.
        """
        node = bound.node
        self._step(depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owners = self.values(bound.with_node(node.value))
            owner = owners[0] if len(owners) == 1 else bound
            if isinstance(owner.node, ast.Call) and called_name(owner.node) in _CASES:
                inner = argument_of(owner.node, node.attr, 0 if node.attr == "input" else None)
                return None if inner is None else self.literal(owner.with_node(inner), depth + 1)
        if isinstance(node, ast.Name):
            return self.literal(self._expression_of_name(node.id, bound, depth), depth + 1)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.literal(bound.with_node(item), depth + 1) for item in node.elts]
        if isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                text += self._formatted_part(bound, part, depth)
                if len(text) > _MAX_TEXT:
                    raise UnfitError(f"line {node.lineno}: a text has more than {_MAX_TEXT:,} characters")
            return text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = (self.literal(bound.with_node(side), depth + 1) for side in (node.left, node.right))
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise UnfitError(f"line {node.lineno}: an expression whose value is known only at run time") from None
        problem = json_problem(value)
        if problem:
            raise UnfitError(f"line {node.lineno}: the expression {problem}")
        return value

    def _formatted_part(self, bound: ScopedExpression, node: ast.expr, depth: int) -> str:
        """Return the text of a part of an f-string."""
        if not isinstance(node, ast.FormattedValue):
            return str(self.literal(bound.with_node(node), depth + 1))
        value = self.literal(bound.with_node(node.value), depth + 1)
        if node.format_spec is not None or node.conversion != -1 or not isinstance(value, str | int):
            raise UnfitError(f"line {node.lineno}: a format whose value is known only at run time")
        return str(value)


def _new_call(
    call: ast.Call, scope: Scope, current: ScopedExpression, cases: ast.expr | None, metrics: ast.expr | None
) -> EvaluationCall:
    function = scope.name if isinstance(scope, FUNCTIONS) else ""
    return EvaluationCall(
        call,
        function,
        None if cases is None else current.with_node(cases),
        None if metrics is None else current.with_node(metrics),
    )


def _nested_rounds(
    iterations: Sequence[Mapping[str, ScopedExpression]], values: Sequence[Mapping[str, ScopedExpression]]
) -> list[Mapping[str, ScopedExpression]]:
    """Return the iterations of nested loops: each outer iteration combined with each inner one."""
    if len(iterations) * len(values) > MOST_CASES:
        raise UnfitError(f"its loops have more than {MOST_CASES:,} iterations")
    return [{**names, **each} for names in iterations for each in values]


def _only_item(nodes: Sequence[ast.expr], fallback: ast.expr) -> ast.expr:
    return nodes[0] if len(nodes) == 1 else fallback
