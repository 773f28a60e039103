"""Counts lines of code: lines that are not blank, a comment, a docstring, or part of an import."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _uncounted(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of docstrings, of strings below an attribute, and of imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                yield from _lines(node)


def code_lines(source: str) -> int:
    """Return the number of lines of code in the source of a Python module.

    Raises:
        SyntaxError: the source is not Python.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - {*_uncounted(ast.parse(source))})
