"""Places of the code that can be changed, and the code with chosen changes in it."""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

GUARD = "_mutant_is_on"
"""The name of `switch.is_on` in a changed module."""
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_LOGGING = re.compile(r"_?(log|logger|logging|warnings)", re.IGNORECASE)
_TEXTS = (ast.JoinedStr, ast.List, ast.Tuple)


@dataclass(frozen=True)
class Place:
    """A piece of code, and what it is replaced with.

    `file` is relative to the root. `start` and `end` are offsets in bytes. `key` decides whether the place is chosen.
    """

    file: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {_shorten(self.before)} → {_shorten(self.after)}"


@dataclass(frozen=True)
class _Change:
    """A changed node: its kind, and the code that replaces it."""

    node: ast.expr | ast.stmt
    kind: str
    after: str


class _Finder(ast.NodeVisitor):
    """Collects the changes of a module, each with the qualified name of its function."""

    def __init__(self) -> None:
        self.found: list[tuple[str, _Change]] = []
        self._names: list[str] = []
        self._inside = False

    def _add(self, node: ast.expr | ast.stmt, kind: str, after: str) -> None:
        if self._inside:
            self.found.append((".".join(self._names), _Change(node, kind, after)))

    def _visit_all(self, nodes: Sequence[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _visit_body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, inside: bool) -> None:
        """Visit statements only: decorators, defaults and annotations are no places."""
        before, self._inside = self._inside, inside
        self._names.append(node.name)
        self._visit_all(node.body)
        self._names.pop()
        self._inside = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name != "__repr__":
            self._visit_body(node, True)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_body(node, False)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nothing in the text of a message is a place."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Nothing in the text of an error is a place."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion is no behaviour."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([node.value])

    def visit_match_case(self, node: ast.match_case) -> None:
        self._visit_all([node.guard, *node.body])

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self._negate(node)

    def _negate(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self._add(node.test, "condition", f"not ({ast.unparse(node.test)})")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not _is_logging(node):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _is_logging(call):
            self._add(node, "call", "")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "assignment", "")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "loop", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "loop", "break")

    def visit_Return(self, node: ast.Return) -> None:
        # For `return False` there is the place of its constant: None mostly means the same.
        if node.value is not None and ast.unparse(node.value) not in ("None", "False"):
            self._add(node.value, "return", "None")
            self.generic_visit(node)
        elif node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        changed = copy.copy(node)
        changed.ops = [_OPPOSITES[type(node.ops[0])](), *node.ops[1:]]
        self._add(node, "comparison", ast.unparse(changed))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = copy.copy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, "boolean", ast.unparse(changed))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Sub) and not (_is_text(node.left) or _is_text(node.right)):
            changed = copy.copy(node)
            changed.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            self._add(node, "arithmetic", ast.unparse(changed))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, "constant", str(node.value + 1))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, _TEXTS) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_logging(call: ast.Call) -> bool:
    return any(_LOGGING.fullmatch(name) for name in ast.unparse(call.func).split("."))


def _shorten(code: str, limit: int = 90) -> str:
    line = " ".join(code.split()) or "(removed)"
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def find_places(source: bytes, file: str, seed: int) -> Iterator[Place]:
    """Yield the places of a module that `file` names, in the order of the code."""
    finder = _Finder()
    finder.visit(ast.parse(source))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    same = Counter[tuple[str, ...]]()
    for function, change in finder.found:
        node = change.node
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        # A statement behind a colon cannot be guarded.
        if isinstance(node, ast.stmt) and source[starts[node.lineno - 1] : start].strip():
            continue
        before = source[start:end].decode()
        named = (str(seed), file, function, change.kind, " ".join(before.split()))
        same[named] += 1
        key = hashlib.sha256("\0".join([*named, str(same[named])]).encode()).hexdigest()
        after = change.after
        # Integers become larger or smaller.
        if change.kind == "constant" and after not in ("True", "False") and int(key[-1], 16) % 2:
            after = f"({int(after) - 2})"
        yield Place(file, function, node.lineno, change.kind, before, after, start, end, key)


def choose(places: Sequence[Place], number: int) -> list[Place]:
    """Return a number of places that do not overlap, ordered by file and line."""
    chosen: list[Place] = []
    for place in sorted(places, key=lambda place: place.key):
        if len(chosen) == number:
            break
        if not any(other.file == place.file and _overlap(other, place) for other in chosen):
            chosen.append(place)
    return sorted(chosen, key=lambda place: (place.file, place.start))


def _overlap(first: Place, second: Place) -> bool:
    return first.start < second.end and second.start < first.end


def guard(source: bytes, places: Sequence[tuple[int, Place]], switch: str) -> bytes:
    """Return the code of a module with numbered changes in it; `switch` is the module that knows which is on."""
    for number, place in sorted(places, key=lambda pair: -pair[1].start):
        before = source[place.start : place.end]
        test = f"{GUARD}({number})"
        if place.kind in ("call", "assignment"):
            written = f"if not {test}: ".encode() + before
        elif place.kind == "loop":
            column = place.start - (source.rfind(b"\n", 0, place.start) + 1)
            written = f"if {test}: {place.after}\n{' ' * column}".encode() + before
        else:
            written = f"(({place.after}) if {test} else (".encode() + before + b"))"
        source = source[: place.start] + written + source[place.end :]
    return _import_guard(source, f"from {switch} import is_on as {GUARD}")


def _import_guard(source: bytes, statement: str) -> bytes:
    """Return code with one more import, in a line that is there already if it can be."""
    body = ast.parse(source).body
    lines = source.splitlines(keepends=True)
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            assert node.end_lineno is not None
            lines[node.end_lineno - 1] = lines[node.end_lineno - 1].rstrip() + f"; {statement}\n".encode()
            return b"".join(lines)
    has_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    lines.insert((body[0].end_lineno or 0) if has_docstring else 0, f"{statement}\n".encode())
    return b"".join(lines)


def write_mutants(root: Path, places: Sequence[Place], switch: str) -> None:
    """Write places into the files below a root, numbered from 1 in their order."""
    numbered = list(zip(count(1), places, strict=False))
    for file in {place.file for place in places}:
        path = root / file
        path.write_bytes(guard(path.read_bytes(), [pair for pair in numbered if pair[1].file == file], switch))
