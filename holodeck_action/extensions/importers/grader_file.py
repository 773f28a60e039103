"""The Python file with the graders of an imported suite: one function for each assertion that is no metric of ours."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.accounting import Outcome
from holodeck_action.extensions.importers.names import Names
from holodeck_action.text.foreign import read_file

MODULE = "imported_graders"
"""Name of the module that the suite's folder gets."""
CHECKS = ("checks.py", "checks_code.py")
"""Our modules of which it takes what its graders need."""


class Check(Struct, frozen=True):
    """What one grader does.

    Attributes:
        name: the function's name, unless another assertion took it.
        told: where it comes from, such as `promptfooconfig.yaml:12: contains`.
        function: the check, a function of `checks.py`.
        value: what the check compares with: a value of JSON.
        options: further arguments of the check.
        threshold: lowest passing score; None where the check gives a boolean, or any score above 0 passes.
        negated: whether it passes when the check does not.
        reported: whether it can fail nothing.
        code: instead of a check, the body of a Python function of `output` and `context`.
        parts: instead of a check, other checks and their weights, whose mean is compared with the threshold.
    """

    name: str
    told: str
    function: str = ""
    value: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    negated: bool = False
    reported: bool = False
    code: str = ""
    parts: tuple[tuple[float, Check], ...] = ()

    def key(self) -> str:
        """Return what two checks have in common that are one function: all but the value."""
        inner = [(weight, part.key(), part.value) for weight, part in self.parts]
        bare = (self.name, self.told, self.function, dict(self.options), self.threshold, self.negated, self.reported)
        return json.dumps([bare, self.code, inner], sort_keys=True)


class Became(Struct, frozen=True):
    """What an assertion or metric of another program is here.

    Attributes:
        outcome: how near that is.
        name: what it is called.
        metric: an entry of `evaluations`; None where a check is one.
        check: a grader; None where a metric is one.
        note: what differs, and what to do.
    """

    outcome: Outcome
    name: str = ""
    metric: Mapping[str, Any] | None = None
    check: Check | None = None
    note: str = ""


class _Entry(Struct):
    name: str
    check: Check
    parts: tuple[tuple[float, str], ...]
    values: dict[str, Any]


class GraderFile:
    """Collects the graders of a suite."""

    def __init__(self, source: str) -> None:
        """Begin with none; `source` is the name of the imported file."""
        self._source = source
        self._entries: dict[str, _Entry] = {}
        self._names = Names("{}_{}")

    def add(self, check: Check, case: str) -> str:
        """Take a check of the case of this name; return its `grader` in agent.yaml."""
        return f"{MODULE}:{self._add(check, case)}"

    def _add(self, check: Check, case: str) -> str:
        key = check.key()
        while (entry := self._entries.get(key)) is not None and not _same(
            entry.values.get(case, check.value), check.value
        ):
            # Two assertions of one case are two functions, however alike their names are.
            key += "+"
        if entry is None:
            parts = tuple((weight, self._add(part, case)) for weight, part in check.parts)
            name = self._names.add(check.name)
            entry = self._entries[key] = _Entry(name, check, parts, {})
        else:
            for _, part in check.parts:
                self._add(part, case)
        entry.values[case] = check.value
        return entry.name

    def text(self) -> str:
        """Return the file; empty when no grader is in it."""
        if not self._entries:
            return ""
        graders = "\n\n\n".join(map(_function, self._entries.values()))
        head = f'"""Graders of assertions that were imported from {ascii(self._source)[1:-1]}.\n\n'
        head += 'Each one is named in agent.yaml. Change or replace them as you like.\n"""'
        made = f"{head}\n\n{library(CHECKS, graders)}\n\n\n{graders}\n"
        # What was copied from the imported file must not have ended a string or a function.
        ast.parse(made)
        return made


def _function(entry: _Entry) -> str:
    check, name = entry.check, entry.name
    lines = [f"def {name}(ctx):", f"    {check.told!a}"]
    value = _value(entry)
    table = ""
    if "\n" in value:
        table = f"{name.upper()} = {value}\n\n\n"
        value = f"{name.upper()}[ctx.test_case_name]"
    if check.function == "not_imported":
        lines.append(f"    return not_imported({check.told!a})")
        return "\n".join(lines)
    if check.parts:
        parts = ", ".join(f"({weight!r}, {part}(ctx))" for weight, part in entry.parts)
        found = f"weighted([{parts}], {check.threshold!r})"
    elif check.code:
        least = "" if check.threshold is None else f", {check.threshold!r}"
        given = "answer(ctx, {'json': True})" if check.value.get("json") else "ctx.agent_response"
        found = f"python_result({name}_code({given}, called_with(ctx, {value})){least})"
    else:
        options = "".join(f", {option}={given!a}" for option, given in check.options.items())
        found = f"{check.function}(ctx, {value}{options})"
    if not check.parts:
        threshold = "" if check.threshold is None else f", {check.threshold!r}"
        found = f"graded({found}{threshold}{', negated=True' if check.negated else ''})"
    lines.append(f"    return {f'only_reported(lambda: {found})' if check.reported else found}")
    code = ""
    if check.code:
        # Lines end at line feeds only: other breaks may stand in texts of the code.
        body = "\n".join(f"    {line}" if line else line for line in check.code.split("\n"))
        code = f"def {name}_code(output, context):\n{body}\n\n\n"
    return table + code + "\n".join(lines)


def _value(entry: _Entry) -> str:
    """Return a value as Python; of several lines where it differs between cases."""
    values = list(entry.values.values())
    if all(_same(value, values[0]) for value in values):
        return ascii(values[0])
    rows = "".join(f"    {case!a}: {value!a},\n" for case, value in entry.values.items())
    return f"{{\n{rows}}}"


def _same(one: Any, other: Any) -> bool:
    # Equal values of other types, such as 1 and true, are not the same.
    return bool(one == other) and json.dumps(one) == json.dumps(other)


@cache
def _shipped(module: str) -> Sequence[tuple[ast.stmt, str]]:
    source = read_file(Path(__file__).parent / module).text()
    return [(node, ast.get_source_segment(source, node) or "") for node in ast.parse(source).body]


def library(modules: Sequence[str], code: str) -> str:
    """Return imports, constants and functions of some of our modules that code needs."""
    body = [each for module in modules for each in _shipped(module)]
    defined = {name: node for node, _ in body for name in _defined(node)}
    needed: set[str] = set()
    left = _names(ast.parse(code))
    while left:
        name = left.pop()
        if name in defined and name not in needed:
            needed.add(name)
            left |= _names(defined[name])
    chosen = [(node, text) for node, text in body if needed & set(_defined(node))]
    typing = {text: node for node, text in body if isinstance(node, ast.If)}
    used = {name for node in (*(node for node, _ in chosen), *typing.values()) for name in _names(node)}
    imports = dict.fromkeys(kept for node, _ in body if (kept := _import(node, used)) is not None)
    future = sorted(imports, key=lambda line: not line.startswith("from __future__"))
    blocks = ["\n".join(future), *typing]
    return "\n\n".join(blocks) + "\n\n\n" + "\n\n\n".join(text for _, text in chosen)


def _defined(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _import(node: ast.stmt, used: set[str]) -> str | None:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return ast.unparse(node)
    if isinstance(node, ast.Import | ast.ImportFrom):
        kept = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in used]
        if kept:
            part = ast.Import(kept) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, kept, node.level)
            return ast.unparse(part)
    return None
