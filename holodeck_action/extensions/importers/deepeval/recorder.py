"""Runs a test file of DeepEval with stand-ins for its library, and writes what it constructs and checks as JSON.

Only the standard library and modules of the checkout are imported. Everything of another package is unknown, so that no
service is called; a check that depends on one has a value that is known only at run time. The process that runs this
module has no packages.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import json
import os
import resource
import sys
import types
from collections.abc import Sequence
from typing import Any

from holodeck_action.extensions.importers.deepeval.pytest_runs import PYTEST, Tests, fixtures_of
from holodeck_action.extensions.importers.deepeval.stand_ins import (
    CHECKS,
    DEEPEVAL,
    RUN,
    UNKNOWN,
    Member,
    Names,
    Passed,
    stand_in_class,
)
from holodeck_action.extensions.importers.inspect_tasks.stand_ins import INSPECT
from holodeck_action.workers.limited_workers import MEMORY_BYTES


class StandIn(types.ModuleType):
    """A module of DeepEval or pytest, or one that is not of the checkout."""

    @property
    def __all__(self) -> Sequence[str]:
        return [name for name in RUN.names if name[:1].isupper() or name in DEEPEVAL]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        package = self.__name__.partition(".")[0]
        if package == "inspect_ai":
            return INSPECT.get(name) or stand_in_class(name)
        if package not in ("deepeval", "pytest"):
            return UNKNOWN
        if package == "pytest":
            return PYTEST.get(name, UNKNOWN)
        if name in DEEPEVAL:
            return DEEPEVAL[name]
        if name.endswith("Params"):
            return Names(Member)
        return stand_in_class(name) if name[0].isupper() else UNKNOWN


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each module of some packages, or of all."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return a specification of a stand-in; None for other packages."""
        if self._packages and name.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: a stand-in is complete."""


class _Asserts(ast.NodeTransformer):
    """Replaces each `assert` by a call, so that none is lost."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Replace a statement."""
        call = ast.Call(ast.Name("__check__", ast.Load()), [node.test], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.copy_location(call, node)), node))


def check(value: Any) -> None:
    """Record an `assert` of the file, unless it is the verdict of a metric."""
    if not isinstance(value, Passed):
        RUN.add_check("assert", None, None, "write a metric or a code grader that does the same")


class TestModule:
    """A module whose statements run one by one, so that one that fails does not end the others."""

    def __init__(self, file: str, package: str, name: str) -> None:
        with open(file, "rb") as opened:
            self.tree = ast.parse(opened.read())
        self.file = file
        self.names: dict[str, Any] = {
            "__name__": name,
            "__file__": file,
            "__package__": package,
            "__builtins__": __builtins__,
            "__check__": check,
        }

    def run(self) -> None:
        """Run all statements. Names that a failing one would bind are unknown; that it fails is recorded if it would
        check something, or binds nothing."""
        future = [node for node in self.tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        for statement in self.tree.body:
            if statement in future:
                continue
            code = compile(ast.Module([*future, _Asserts().visit(statement)], []), self.file, "exec")
            try:
                exec(code, self.names)  # noqa: S102 - what this process is for
            except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the file raises what it likes
                bound = _bound_names(statement)
                self.names.update(dict.fromkeys(bound - self.names.keys(), UNKNOWN))
                used = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(statement)}
                if not bound or used & CHECKS:
                    place = (RUN.shown(self.file), statement.lineno, statement.col_offset + 1)
                    RUN.stop(place, "code at the top level", error)


def _bound_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def record(checkout: str, file: str) -> dict[str, Any]:
    """Run a test file and return what it constructs and checks, as JSON data.

    Args:
        checkout: absolute path of the checkout.
        file: absolute path of the file.
    """
    RUN.folder = os.path.dirname(file)
    top, packages = RUN.folder, [os.path.splitext(os.path.basename(file))[0]]
    while os.path.exists(os.path.join(top, "__init__.py")):
        packages.insert(0, os.path.basename(top))
        top = os.path.dirname(top)
    sys.path[:0] = [top, checkout, os.path.join(checkout, "src")]
    os.chdir(checkout)
    sys.meta_path.insert(0, Finder("deepeval", "pytest", "inspect_ai"))
    sys.meta_path.append(Finder())
    fixtures: dict[str, Any] = {}
    folder = checkout
    for part in ("", *os.path.relpath(RUN.folder, checkout).split(os.sep)):
        folder = os.path.normpath(os.path.join(folder, part))
        shared = os.path.join(folder, "conftest.py")
        if part != "." and os.path.isfile(shared):
            module = TestModule(shared, "", "conftest")
            module.run()
            fixtures.update(fixtures_of(module.names))
    try:
        module = TestModule(file, ".".join(packages[:-1]), ".".join(packages))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return {"problem": [getattr(error, "lineno", None) or 1, str(error)]}
    if not any(getattr(node, "name", "").lower().startswith("test") for node in module.tree.body):
        module.names["__name__"] = "__main__"
    RUN.names = sorted({node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name)})
    module.run()
    Tests(module.names, fixtures).run()
    for each in RUN.objects:
        RUN.encoder.number(each)
    return {"checks": RUN.checks, "objects": RUN.encoder.objects}


def main() -> None:
    """Record a file."""
    output, checkout, file, packages = sys.argv[1:]
    # Only this module was to be found there.
    sys.path.remove(packages)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    made = json.dumps(record(checkout, file))
    with open(output, "w", encoding="utf-8") as opened:
        opened.write(made)
