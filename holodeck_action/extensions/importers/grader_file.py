"""The Python file with the graders of an imported suite, for assertions that become graders instead of metrics."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.import_report import Outcome
from holodeck_action.extensions.importers.unique_names import UniqueNames
from holodeck_action.text.foreign import read_file

MODULE = "imported_graders"
"""Name of the module with the graders, in the suite's folder."""
CHECK_MODULES = ("checks.py", "checks_code.py")
"""Modules of this package whose functions are copied to the file if its graders need them."""


class Check(Struct, frozen=True):
    """The check that a grader performs.

    Attributes:
        name: preferred name of the grader's function.
        title: position and type of the assertion, such as `promptfooconfig.yaml:12: contains`.
        function: name of the function in `checks.py` or `checks_code.py`.
        value: expected value, as JSON data.
        options: further keyword arguments of the function.
        threshold: lowest passing score; None if the check returns a boolean, or any score above 0 passes.
        negated: whether the verdict is inverted, so that the grader passes if the check fails.
        reported: whether the result is only reported, so that it cannot fail the case.
        code: body of a Python function with the parameters `output` and `context`, used instead of `function`.
        parts: checks with their weights, used instead of `function`; their weighted mean score is compared with the
            threshold.
    """

    name: str
    title: str
    function: str = ""
    value: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    negated: bool = False
    reported: bool = False
    code: str = ""
    parts: tuple[tuple[float, Check], ...] = ()

    def key(self) -> str:
        """Return a key of all fields except the value; checks with equal keys can share one function."""
        inner = [(weight, part.key(), part.value) for weight, part in self.parts]
        bare = (self.name, self.title, self.function, dict(self.options), self.threshold, self.negated, self.reported)
        return json.dumps([bare, self.code, inner], sort_keys=True)


class Counterpart(Struct, frozen=True):
    """The metric or grader that replaces an assertion or metric of another program.

    Attributes:
        outcome: how closely the counterpart matches the original.
        name: name of the metric or grader.
        metric: the metric's entry in `evaluations`; None if the counterpart is a grader.
        check: check of the grader; None if the counterpart is a metric.
        note: differences from the original and what to do about them.
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
    """Collects the graders of a suite and returns the content of their file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._entries: dict[str, _Entry] = {}
        self._names = UniqueNames("{}_{}")

    def add(self, check: Check, case: str) -> str:
        """Add a check for the case with this name; return the value of `grader` for agent.yaml."""
        return f"{MODULE}:{self._add_function(check, case)}"

    def _add_function(self, check: Check, case: str) -> str:
        key = check.key()
        while (entry := self._entries.get(key)) is not None and not _is_same(
            entry.values.get(case, check.value), check.value
        ):
            # Two assertions of one case need two functions, even if the checks are equal.
            key += "+"
        if entry is None:
            parts = tuple((weight, self._add_function(part, case)) for weight, part in check.parts)
            name = self._names.add(check.name)
            entry = self._entries[key] = _Entry(name, check, parts, {})
        else:
            for _, part in check.parts:
                self._add_function(part, case)
        entry.values[case] = check.value
        return entry.name

    def text(self) -> str:
        """Return the content of the file; empty if there are no graders."""
        if not self._entries:
            return ""
        graders = "\n\n\n".join(map(_function_text, self._entries.values()))
        head = f'"""Graders of assertions that were imported from {ascii(self._source)[1:-1]}.\n\n'
        head += 'Each one is named in agent.yaml. Change or replace them as you like.\n"""'
        made = f"{head}\n\n{library_code(CHECK_MODULES, graders)}\n\n\n{graders}\n"
        # Text copied from the imported file must not have closed a string or a function.
        ast.parse(made)
        return made


def _function_text(entry: _Entry) -> str:
    check, name = entry.check, entry.name
    lines = [f"def {name}(ctx):", f"    {check.title!a}"]
    value = _value_text(entry)
    table = ""
    if "\n" in value:
        table = f"{name.upper()} = {value}\n\n\n"
        value = f"{name.upper()}[ctx.test_case_name]"
    if check.function == "not_imported":
        lines.append(f"    return not_imported({check.title!a})")
        return "\n".join(lines)
    if check.parts:
        parts = ", ".join(f"({weight!r}, {part}(ctx))" for weight, part in entry.parts)
        found = f"grade_mean([{parts}], {check.threshold!r})"
    elif check.code:
        least = "" if check.threshold is None else f", {check.threshold!r}"
        given = "answer(ctx, {'json': True})" if check.value.get("json") else "ctx.agent_response"
        found = f"python_result({name}_code({given}, code_context(ctx, {value})){least})"
    else:
        options = "".join(f", {option}={given!a}" for option, given in check.options.items())
        found = f"{check.function}(ctx, {value}{options})"
    if not check.parts:
        threshold = "" if check.threshold is None else f", {check.threshold!r}"
        found = f"grade_result({found}{threshold}{', negated=True' if check.negated else ''})"
    lines.append(f"    return {f'report_only(lambda: {found})' if check.reported else found}")
    code = ""
    if check.code:
        # Split at line feeds only: strings in the code may contain other line breaks.
        body = "\n".join(f"    {line}" if line else line for line in check.code.split("\n"))
        code = f"def {name}_code(output, context):\n{body}\n\n\n"
    return table + code + "\n".join(lines)


def _value_text(entry: _Entry) -> str:
    """Return Python source: a check's expected value, or a mapping by case name if the value differs between cases."""
    values = list(entry.values.values())
    if all(_is_same(value, values[0]) for value in values):
        return ascii(values[0])
    rows = "".join(f"    {case!a}: {value!a},\n" for case, value in entry.values.items())
    return f"{{\n{rows}}}"


def _is_same(first: Any, second: Any) -> bool:
    # Equal values of different types, such as 1 and True, are not the same.
    return bool(first == second) and json.dumps(first) == json.dumps(second)


@cache
def _module_statements(module: str) -> Sequence[tuple[ast.stmt, str]]:
    source = read_file(Path(__file__).parent / module).text()
    return [(node, ast.get_source_segment(source, node) or "") for node in ast.parse(source).body]


def library_code(modules: Sequence[str], code: str) -> str:
    """Return the source that `code` needs from modules of this package: imports, constants and functions."""
    body = [each for module in modules for each in _module_statements(module)]
    defined = {name: node for node, _ in body for name in _defined_names(node)}
    needed: set[str] = set()
    left = _used_names(ast.parse(code))
    while left:
        name = left.pop()
        if name in defined and name not in needed:
            needed.add(name)
            left |= _used_names(defined[name])
    chosen = [(node, text) for node, text in body if needed & set(_defined_names(node))]
    typing = {text: node for node, text in body if isinstance(node, ast.If)}
    used = {name for node in (*(node for node, _ in chosen), *typing.values()) for name in _used_names(node)}
    imports = dict.fromkeys(kept for node, _ in body if (kept := _import_text(node, used)) is not None)
    future = sorted(imports, key=lambda line: not line.startswith("from __future__"))
    blocks = ["\n".join(future), *typing]
    return "\n\n".join(blocks) + "\n\n\n" + "\n\n\n".join(text for _, text in chosen)


def _defined_names(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _used_names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _import_text(node: ast.stmt, used_names: set[str]) -> str | None:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return ast.unparse(node)
    if isinstance(node, ast.Import | ast.ImportFrom):
        kept = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in used_names]
        if kept:
            part = ast.Import(kept) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, kept, node.level)
            return ast.unparse(part)
    return None
