"""Finds agents of frameworks in the Python files of a repository, without importing them."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from holodeck_action.seam.manifest import Framework
from holodeck_action.text.foreign import read_file

_MOST_FILES = 20_000
_MOST_BYTES = 1_000_000
_EXCLUDED = frozenset({"node_modules", "site-packages", "build", "dist", "tests", "test", "__pycache__"})
"""Names of folders that are not searched for agents."""


class FoundAgent(Struct, frozen=True, order=True):
    """An agent that a module assigns to a name at its top level, or a function of the module that returns an agent.

    Attributes:
        depth: number of folders between the searched folder and the file.
        file: path of the Python file, relative to the searched folder.
        line: line number of the assignment or function, 1-based.
        name: name of the variable or function.
        module: name by which a target imports the file.
    """

    depth: int
    file: str
    line: int
    name: str
    module: str

    @property
    def reference(self) -> str:
        """The agent as `MODULE:NAME`, the form that targets use."""
        return f"{self.module}:{self.name}"

    @property
    def place(self) -> str:
        """Position of the assignment or function as `FILE:LINE`."""
        return f"{self.file}:{self.line}"


def find_agents(folder: Path, framework: Framework) -> list[FoundAgent]:
    """Return the agents of a framework in the files below a folder, sorted by depth; if there are none, the functions
    that return one.

    Reads up to 20,000 Python files that can be imported from the folder; tests, virtual environments, hidden folders
    and invalid Python are skipped.
    """
    assigned: list[FoundAgent] = []
    returned: list[FoundAgent] = []
    for path in python_files(folder):
        for statement, name in _agents_in(path, framework):
            found = returned if isinstance(statement, ast.FunctionDef) else assigned
            found.append(located(folder, path, statement, name))
    return sorted(assigned or returned)


def located(folder: Path, path: Path, statement: ast.stmt, name: str) -> FoundAgent:
    """Return the agent that a statement of a file below `folder` gives a name."""
    file = path.relative_to(folder).as_posix()
    # Workers import from `src`, too; a package of this name is imported as such.
    below = file if (folder / "src/__init__.py").exists() else file.removeprefix("src/")
    module = below.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return FoundAgent(file.count("/"), file, statement.lineno, name, module)


def python_files(folder: Path) -> Iterator[Path]:
    """Yield up to 20,000 Python files below a folder, except tests and what cannot be imported."""
    looked_at = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name.isidentifier() and not _is_excluded(Path(root, name)))
        for name in sorted(files):
            stem = name.removesuffix(".py")
            if stem == name or not stem.isidentifier() or stem == "conftest" or stem.startswith("test_"):
                continue
            looked_at += 1
            if looked_at > _MOST_FILES:
                return
            yield Path(root, name)


def _is_excluded(folder: Path) -> bool:
    return folder.name in _EXCLUDED or (folder / "pyvenv.cfg").exists()


def _agents_in(path: Path, framework: Framework) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each top-level statement of a file that assigns an agent, or that defines a function returning an agent,
    with the name of the variable or function."""
    tree = parse_module(path, framework.packages)
    if tree is None:
        return
    imports = _collect_imports(tree, framework)
    if not imports.framework:
        return
    for statement in tree.body:
        name = _assigned_name(statement, framework, imports)
        if isinstance(statement, ast.FunctionDef) and _returns_agent(statement, framework, imports):
            # What the module assigns from its call is an agent.
            imports.functions.add(statement.name)
            # Only an adapter calls a function for the agent.
            name = statement.name if framework.adapter and not _needs_arguments(statement) else None
        if name is not None:
            yield statement, name


def parse_module(path: Path, words: Iterable[str]) -> ast.Module | None:
    """Return the syntax tree of a Python file; None if it contains none of the words, or Python cannot parse it."""
    try:
        source = read_file(path, _MOST_BYTES).parse(bytes)
        if not any(word.encode() in source for word in words):
            return None
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            return ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _assigned_name(statement: ast.stmt, framework: Framework, imports: _Imports) -> str | None:
    """Return the variable to which a statement assigns an agent; None if it assigns none."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    return target.id if isinstance(target, ast.Name) and _creates_agent(value, framework, imports) else None


def _needs_arguments(function: ast.FunctionDef) -> bool:
    needed = function.args
    return len(needed.defaults) < len(needed.posonlyargs) + len(needed.args) or None in needed.kw_defaults


def _returns_agent(function: ast.FunctionDef, framework: Framework, imports: _Imports) -> bool:
    """Return whether the last statement of a function's body returns an agent."""
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return False
    names = {_assigned_name(statement, framework, imports) for statement in function.body}
    return (isinstance(last.value, ast.Name) and last.value.id in names) or _creates_agent(
        last.value, framework, imports
    )


class _Imports(Struct):
    """The names that a file imports: the framework's modules, its functions that create agents, and other modules.

    `framework` is whether the file imports anything from the framework.
    """

    modules: set[str]
    functions: set[str]
    others: set[str]
    framework: bool = False


def _collect_imports(tree: ast.Module, framework: Framework) -> _Imports:
    found = _Imports(set(), set(), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                ours = top in framework.packages
                found.framework |= ours
                (found.modules if ours else found.others).add(alias.asname or top)
        elif isinstance(node, ast.ImportFrom) and _imports_framework(node, framework):
            found.framework = True
            found.functions |= {alias.asname or alias.name for alias in node.names if alias.name in framework.functions}
    return found


def _imports_framework(node: ast.ImportFrom, framework: Framework) -> bool:
    return not node.level and node.module is not None and node.module.partition(".")[0] in framework.packages


def _creates_agent(value: ast.expr, framework: Framework, imports: _Imports) -> bool:
    """Return whether an expression creates an agent, by one call or a chain of calls."""
    node = value
    while True:
        if isinstance(node, ast.Call):
            # `Agent[Dependencies](...)` creates an agent, too.
            made = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if isinstance(made, ast.Name) and made.id in imports.functions:
                return True
            if isinstance(made, ast.Attribute):
                owner = made.value
                if made.attr in framework.functions and _root_name(owner) in imports.modules:
                    return True
                # `re.compile` does not create an agent.
                of_module = isinstance(owner, ast.Name) and owner.id in imports.others
                if made.attr in framework.methods and not of_module:
                    return True
            node = node.func
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        else:
            return False


def _root_name(node: ast.expr) -> str | None:
    """Return the first part of a dotted name; None if the expression is not a dotted name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
