"""What a Python file says of cases and metrics, found in its syntax: no code of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.extensions.importers.source import MOST_CASES, UnfitError, json_problem

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SINGLE = ("LLMTestCase", "MLLMTestCase", "Golden")
CONVERSATIONS = ("ConversationalTestCase", "ConversationalGolden")
_CASES = (*SINGLE, *CONVERSATIONS)
_DATASETS = ("EvaluationDataset",)
_DEPTH = 20
"""So many names may stand for each other."""
_STEPS = 500_000
"""Expressions that are looked at in one file, again where several names lead to one."""
_TEXT = 1_000_000
"""Characters of a text that is put together."""


class Bound(Struct, frozen=True):
    """An expression and where its names are looked up.

    Attributes:
        node: the expression.
        scope: the function, or the module, that it stands in.
        names: variables of loops and parameters, each with the one value that it has this time.
    """

    node: ast.expr
    scope: Scope
    names: Mapping[str, Bound] = field(default_factory=dict)

    def at(self, node: ast.expr) -> Bound:
        """Return another expression of the same place."""
        return Bound(node, self.scope, self.names)


class Site(Struct, frozen=True):
    """A call that evaluates cases by metrics; either can be None, where the call does not say.

    Attributes:
        call: the call.
        function: the function that it stands in; empty in none.
        cases: what it evaluates.
        metrics: by what.
        fails: whether the file expects that it fails.
    """

    call: ast.Call
    function: str
    cases: Bound | None
    metrics: Bound | None
    fails: bool = False


class _Content:
    """What stands in a scope, but not in the functions in it.

    Attributes:
        nodes: all of it, in the file's order.
        targets: the statements that assign a name.
        loops: each loop, and the ids of what stands in it.
        added: calls of methods of a name, such as `cases.append(…)`.
    """

    def __init__(self, scope: Scope) -> None:
        self.nodes = _own(scope)
        self.targets: dict[str, list[ast.AST]] = {}
        self.loops: list[tuple[ast.For | ast.AsyncFor, frozenset[int]]] = []
        self.added: dict[str, list[tuple[ast.Call, str]]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(_targets(node)):
                self.targets.setdefault(name, []).append(node)
            if isinstance(node, ast.For | ast.AsyncFor):
                self.loops.append((node, frozenset(map(id, ast.walk(node)))))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and node.args:
                    self.added.setdefault(owner.id, []).append((node, node.func.attr))


class PythonFile:
    """The syntax of a file.

    Attributes:
        tree: its module.
        calls: all calls in it.
        classes: names of the classes that it defines.
    """

    def __init__(self, tree: ast.Module) -> None:
        """Take a module."""
        self.tree = tree
        nodes = list(ast.walk(tree))
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
        self.classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        self._contents: dict[Scope, _Content] = {}
        self._steps = 0

    def _content(self, scope: Scope) -> _Content:
        if scope not in self._contents:
            self._contents[scope] = _Content(scope)
        return self._contents[scope]

    def _step(self, depth: int) -> None:
        self._steps += 1
        if depth > _DEPTH:
            raise UnfitError("its names stand for each other")
        if self._steps > _STEPS:
            raise UnfitError("its names lead to too many expressions")

    def sites(self) -> Iterator[Site]:
        """Yield the calls of `assert_test`, `evaluate` and `measure`, in the order of their lines."""
        found = []
        for scope in (self.tree, *self._functions):
            failing = _expected_to_fail(scope, self._content(scope).nodes)
            for node in self._content(scope).nodes:
                if isinstance(node, ast.Call) and (site := self._site(node, scope)) is not None:
                    found.append(replace(site, fails=id(node) in failing))
        return iter(sorted(found, key=lambda site: site.call.lineno))

    def _site(self, call: ast.Call, scope: Scope) -> Site | None:
        name = called(call)
        here = Bound(call, scope)
        if name == "assert_test":
            cases = argument(call, "test_case", 0)
            if cases is None and argument(call, "golden", None) is None:
                return None
            return _made(call, scope, here, cases, argument(call, "metrics", 1))
        if name == "evaluate" and isinstance(call.func, ast.Attribute) and self._is_dataset(call.func.value, scope):
            return _made(call, scope, here, call.func.value, argument(call, "metrics", 0))
        if name == "evaluate":
            return _made(call, scope, here, argument(call, "test_cases", 0), argument(call, "metrics", 1))
        if name in ("measure", "a_measure") and isinstance(call.func, ast.Attribute):
            return _made(call, scope, here, argument(call, "test_case", 0), call.func.value)
        return None

    def _is_dataset(self, node: ast.expr, scope: Scope) -> bool:
        if not isinstance(node, ast.Name):
            return False
        values = (
            getattr(each, "value", None)
            for place in (scope, self.tree)
            for each in self._content(place).targets.get(node.id, ())
        )
        return any(isinstance(value, ast.Call) and called(value) in _DATASETS for value in values)

    def constructed(self, names: Sequence[str]) -> list[ast.Call]:
        """Return all calls of these names, in the order of their lines."""
        calls = [call for call in self.calls if called(call) in names]
        return sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    def values(self, bound: Bound, depth: int = 0) -> list[Bound]:
        """Return what an expression stands for, element by element where it is a list or a dataset.

        Raises:
            UnfitError: only running the code tells.
        """
        found: list[Bound] = []
        for value in self._values(bound, depth):
            found.append(value)
            if len(found) > MOST_CASES:
                raise UnfitError(f"its lists have more than {MOST_CASES:,} items")
        return found

    def _values(self, bound: Bound, depth: int) -> Iterable[Bound]:
        node = bound.node
        self._step(depth)
        if isinstance(node, ast.List | ast.Tuple):
            return (value for item in node.elts for value in self.values(bound.at(item), depth + 1))
        if isinstance(node, ast.Starred | ast.Await):
            return self.values(bound.at(node.value), depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = (node.left, node.right)
            return (found for side in sides for found in self.values(bound.at(side), depth + 1))
        if isinstance(node, ast.ListComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            loop = node.generators[0]
            return (
                value
                for name in self._each(bound, loop.target, loop.iter, depth)
                for value in self.values(Bound(node.elt, bound.scope, {**bound.names, **name}), depth + 1)
            )
        if isinstance(node, ast.Attribute) and node.attr in ("test_cases", "goldens"):
            return self.values(bound.at(node.value), depth + 1)
        if isinstance(node, ast.Call) and called(node) in _DATASETS:
            return [
                value
                for name, at in (("goldens", 0), ("test_cases", None))
                if (inner := argument(node, name, at)) is not None
                for value in self.values(bound.at(inner), depth + 1)
            ]
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            return [self._item(bound.at(node.value), node.slice.value, depth)]
        if isinstance(node, ast.Name):
            return self._named(node.id, bound, depth)
        return [bound]

    def _item(self, bound: Bound, index: int, depth: int) -> Bound:
        found = self.values(bound, depth + 1)
        try:
            return found[index]
        except IndexError:
            raise UnfitError(f"its list has no item {index}") from None

    def _named(self, name: str, bound: Bound, depth: int) -> list[Bound]:
        if name in bound.names:
            return self.values(bound.names[name], depth + 1)
        for scope in dict.fromkeys((bound.scope, self.tree)):
            found = [
                value
                for node, names in self._assigned(name, scope, bound, depth)
                for value in self.values(Bound(node, scope, names), depth + 1)
            ]
            if found or self._is_assigned(name, scope):
                return [*found, *self._added(name, bound, depth)]
        raise UnfitError(f"{name} gets its value when the code runs")

    def _whole(self, name: str, bound: Bound, depth: int) -> Bound:
        """Return the one expression that a name stands for, a list as a whole."""
        if name in bound.names:
            return bound.names[name]
        for scope in dict.fromkeys((bound.scope, self.tree)):
            found = list(self._assigned(name, scope, bound, depth))
            if found:
                if len(found) > 1 or list(self._added(name, bound, depth)):
                    break
                [(node, names)] = found
                return Bound(node, scope, names)
        raise UnfitError(f"{name} gets its value when the code runs")

    def _is_assigned(self, name: str, scope: Scope) -> bool:
        return name in self._content(scope).targets

    def _assigned(
        self, name: str, scope: Scope, bound: Bound, depth: int
    ) -> Iterator[tuple[ast.expr, Mapping[str, Bound]]]:
        """Yield what a name is in a scope: the value of its one assignment, or each of a loop or of parameters."""
        assignments = self._content(scope).targets.get(name, [])
        if len(assignments) > 1:
            raise UnfitError(f"{name} is assigned {len(assignments)} times")
        for node in assignments:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and value is not None:
                names = self._around(node, scope, bound, depth)
                yield from ((value, each) for each in names)
            elif isinstance(node, ast.For | ast.AsyncFor):
                yield from (
                    (each[name].node, each[name].names) for each in self._each(bound, node.target, node.iter, depth)
                )
            else:
                raise UnfitError(f"{name} gets its value when the code runs")
        if not assignments and isinstance(scope, _FUNCTIONS):
            for parametrized in _parametrized(scope, name):
                for value in self.values(Bound(parametrized, self.tree), depth + 1):
                    yield value.node, value.names

    def _around(self, node: ast.AST, scope: Scope, bound: Bound, depth: int) -> list[Mapping[str, Bound]]:
        """Return the values of the loop around a statement: one mapping for each round."""
        loops = [loop for loop, inside in self._content(scope).loops if id(node) in inside]
        rounds: list[Mapping[str, Bound]] = [bound.names]
        for loop in loops:
            if set(_targets(loop)) <= bound.names.keys():
                continue
            rounds = _products(rounds, self._each(bound, loop.target, loop.iter, depth))
        if not loops and isinstance(scope, _FUNCTIONS):
            for parameter in scope.args.args:
                for values in _parametrized(scope, parameter.arg):
                    if parameter.arg not in bound.names:
                        found = self.values(Bound(values, self.tree), depth + 1)
                        rounds = _products(rounds, [{parameter.arg: value} for value in found])
        return rounds

    def _each(self, bound: Bound, target: ast.expr, values: ast.expr, depth: int) -> list[dict[str, Bound]]:
        if not isinstance(target, ast.Name):
            raise UnfitError("its loop has several variables")
        return [{target.id: value} for value in self.values(bound.at(values), depth + 1)]

    def _added(self, name: str, bound: Bound, depth: int) -> Iterator[Bound]:
        """Yield what calls such as `dataset.add_golden(…)` and `cases.append(…)` add to a name."""
        for scope in dict.fromkeys((bound.scope, self.tree)):
            for node, method in self._content(scope).added.get(name, ()):
                if method in ("add_golden", "add_test_case", "append"):
                    for names in self._around(node, scope, bound, depth):
                        yield from self.values(Bound(node.args[0], scope, names), depth + 1)
                elif method.startswith(("add_", "pull", "extend")):
                    raise UnfitError(f"{name}.{method} adds cases when the code runs")

    def literal(self, bound: Bound, depth: int = 0) -> Any:
        """Return the value of an expression that is written out, or that a name or a golden has.

        Raises:
            UnfitError: only running the code tells.
        """
        node = bound.node
        self._step(depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owners = self.values(bound.at(node.value))
            owner = owners[0] if len(owners) == 1 else bound
            if isinstance(owner.node, ast.Call) and called(owner.node) in _CASES:
                inner = argument(owner.node, node.attr, 0 if node.attr == "input" else None)
                return None if inner is None else self.literal(owner.at(inner), depth + 1)
        if isinstance(node, ast.Name):
            return self.literal(self._whole(node.id, bound, depth), depth + 1)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.literal(bound.at(item), depth + 1) for item in node.elts]
        if isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                text += self._part(bound, part, depth)
                if len(text) > _TEXT:
                    raise UnfitError(f"line {node.lineno}: a text of more than {_TEXT:,} characters")
            return text
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = (self.literal(bound.at(side), depth + 1) for side in (node.left, node.right))
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise UnfitError(f"line {node.lineno}: an expression that only running the code computes") from None
        problem = json_problem(value)
        if problem:
            raise UnfitError(f"line {node.lineno}: the expression {problem}")
        return value

    def _part(self, bound: Bound, part: ast.expr, depth: int) -> str:
        """Return a part of a formatted text."""
        if not isinstance(part, ast.FormattedValue):
            return str(self.literal(bound.at(part), depth + 1))
        value = self.literal(bound.at(part.value), depth + 1)
        if part.format_spec is not None or part.conversion != -1 or not isinstance(value, str | int):
            raise UnfitError(f"line {part.lineno}: a format that only running the code computes")
        return str(value)


def called(call: ast.Call) -> str:
    """Return the name of what is called, without the object or module that has it."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def argument(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """Return an argument of a call by its name, else by its position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def _made(call: ast.Call, scope: Scope, here: Bound, cases: ast.expr | None, metrics: ast.expr | None) -> Site:
    function = scope.name if isinstance(scope, _FUNCTIONS) else ""
    return Site(
        call, function, None if cases is None else here.at(cases), None if metrics is None else here.at(metrics)
    )


def _products(
    rounds: Sequence[Mapping[str, Bound]], values: Sequence[Mapping[str, Bound]]
) -> list[Mapping[str, Bound]]:
    """Return the rounds of a loop inside of others."""
    if len(rounds) * len(values) > MOST_CASES:
        raise UnfitError(f"its loops have more than {MOST_CASES:,} rounds")
    return [{**names, **each} for names in rounds for each in values]


def _own(scope: Scope) -> list[ast.AST]:
    """Return all nodes of a scope but those of the functions in it."""
    found: list[ast.AST] = []
    left: list[ast.AST] = list(reversed(scope.body))
    while left:
        node = left.pop()
        found.append(node)
        if not isinstance(node, _FUNCTIONS):
            left += reversed(list(ast.iter_child_nodes(node)))
    return found


def _expected_to_fail(scope: Scope, nodes: Sequence[ast.AST]) -> set[int]:
    """Return the ids of nodes of a scope below `pytest.raises`, or all if it is marked `pytest.mark.xfail`."""
    marks = scope.decorator_list if isinstance(scope, _FUNCTIONS) else []
    names = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    if any(isinstance(name, ast.Attribute) and name.attr == "xfail" for name in names):
        return {id(node) for node in nodes}
    return {
        id(inner)
        for node in nodes
        if isinstance(node, ast.With | ast.AsyncWith)
        if any(isinstance(item.context_expr, ast.Call) and called(item.context_expr) == "raises" for item in node.items)
        for inner in ast.walk(node)
    }


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor | ast.NamedExpr):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return []


def _parametrized(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[ast.expr]:
    """Yield the values that pytest gives to a parameter of this name."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and called(decorator) == "parametrize":
            names = argument(decorator, "argnames", 0)
            values = argument(decorator, "argvalues", 1)
            if isinstance(names, ast.Constant) and names.value == name and values is not None:
                yield values
