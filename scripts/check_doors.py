"""Checks that only the listed modules open files, archives, sockets and programs; `make lint` runs it.

It also refuses patterns that are compiled when a module is imported, which each start of the program would pay for.

`banned-api` in `pyproject.toml` lists the names that ruff refuses (TID251). This script adds what ruff does not see:
the builtin `open`, and methods of paths and event loops. Both have one list of exceptions: the lines with `TID251` in
`per-file-ignores`. Each must have a reason after `#`, and must be needed.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("holodeck_action", "runner")
CODE = "TID251"
EXTENSIONS = PurePath("holodeck_action/extensions")
_READ = "read with `text/foreign.py` or a `Checkout`"
_WRITE = "write with `record/disk.py`"
_METHODS = {
    "read_text": _READ,
    "read_bytes": _READ,
    "write_text": _WRITE,
    "write_bytes": _WRITE,
    "create_connection": "connections are made by `llm/connections.py`",
    "create_server": "`extensions/frameworks/spans/receiver.py` serves",
    "subprocess_exec": "start programs with `workers/processes.py`",
    "subprocess_shell": "start programs with `workers/processes.py`",
}
_PATTERN = "compile a pattern at its first use with `text/lazy_patterns.py`"
_MODE = re.compile(r"[rwxabt+]{1,4}")
_EXCEPTION = re.compile(rf'^"([^"]+)" = \["{CODE}"\][ \t]*(?:#[ \t]*(\S.*))?$', re.MULTILINE)


class Use(NamedTuple):
    """A line that opens something directly."""

    file: str
    line: int
    words: str


def _is_deleted(root: Path, name: str) -> bool:
    """Return whether a file belongs to an extension whose folder was deleted."""
    folder = (
        EXTENSIONS / PurePath(name).relative_to(EXTENSIONS).parts[0] if EXTENSIONS in PurePath(name).parents else "."
    )
    return not (root / folder).exists()


def exceptions(settings: str) -> dict[str, str]:
    """Return the reason of each exception by file or pattern; empty without a reason."""
    found = {name: reason or "" for name, reason in _EXCEPTION.findall(settings)}
    return {name: reason for name, reason in found.items() if PurePath(name).parts[0] in FOLDERS}


def unlisted_uses(source: str, file: str) -> Iterator[Use]:
    """Yield the uses that ruff does not find."""
    tree = ast.parse(source, file)
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="open", ctx=ast.Load()):
                yield Use(file, node.lineno, f"`open`: {_READ}, {_WRITE}")
            case ast.Call(func=ast.Attribute(attr="open")) if id(node) not in awaited and _opens_path(node):
                yield Use(file, node.lineno, f"`.open(…)` of a path: {_READ}, {_WRITE}")
            case ast.Attribute(attr=name) if name in _METHODS:
                yield Use(file, node.lineno, f"`.{name}`: {_METHODS[name]}")
    for node in _run_at_import(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re" | "regex"), attr="compile")):
                yield Use(file, node.lineno, f"`re.compile` at import: {_PATTERN}")
            case ast.Attribute(value=ast.Call(func=ast.Name(id="lazy_pattern")), attr=name):
                yield Use(file, node.lineno, f"`lazy_pattern(…).{name}` at import: {_PATTERN}")


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module outside of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _run_at_import(child)


def _opens_path(call: ast.Call) -> bool:
    """Return whether a method `open` is that of a path: it has no arguments, or a mode first."""
    if call.keywords:
        return {word.arg for word in call.keywords} <= {"mode", "buffering", "encoding", "errors", "newline"}
    match call.args:
        case []:
            return True
        case [ast.Constant(value=str(mode)), *_]:
            return _MODE.fullmatch(mode) is not None
        case [ast.IfExp(body=ast.Constant(value=str(mode))), *_]:
            return _MODE.fullmatch(mode) is not None
        case _:
            return False


def ruff_findings(root: Path) -> Iterator[Use]:
    """Yield the uses that ruff finds, including those in excepted files."""
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--quiet", "--output-format", "json"]
    # This replaces the per-file ignores of the settings.
    ruff += ["--select", CODE, "--per-file-ignores", f"none:{CODE}", "--ignore-noqa", "--no-cache", *FOLDERS]
    done = subprocess.run(ruff, cwd=root, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.decode())
    for found in json.loads(done.stdout):
        file = PurePath(found["filename"]).relative_to(root.resolve()).as_posix()
        yield Use(file, found["location"]["row"], found["message"])


def problems(root: Path) -> Iterator[str]:
    """Yield a line for each use without an exception, and for each exception without a reason or a use."""
    allowed = exceptions((root / "pyproject.toml").read_text(encoding="utf-8"))
    files = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    found = [
        use
        for file in files
        for use in unlisted_uses(file.read_text(encoding="utf-8"), file.relative_to(root).as_posix())
    ]
    found = sorted({*found, *ruff_findings(root)})
    for use in found:
        if not any(PurePath(use.file).match(name) for name in allowed):
            yield f"{use.file}:{use.line}: {use.words}"
    for name, reason in allowed.items():
        if not reason:
            yield f'pyproject.toml: the exception "{name}" needs a reason after `#`'
        if _is_deleted(root, name):
            continue
        if not any(PurePath(use.file).match(name) for use in found):
            yield f'pyproject.toml: the exception "{name}" is not needed any more: remove it'


def main(arguments: Sequence[str] = ()) -> int:
    """Print the problems of a repository; return 1 if there are any."""
    lines = list(problems(Path(arguments[0]) if arguments else ROOT))
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
