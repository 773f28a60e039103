"""Converts assertions that are code in JavaScript or Python; JavaScript needs Node.js."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.source import Source, UnfitError
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

_FOREIGN = lazy_pattern(r"""context\s*(?:\??\.\s*|\[\s*["']|\.get\(\s*["'])(?!vars\b|config\b|prompt\b)(\w+)""")
"""Matches keys of `context` that graders do not get."""
_NODE_NOTE = "runs in Node.js"


class Code(Struct, frozen=True):
    """A check that runs code: a function of `checks_code.py` and its value, or the body of a Python function."""

    function: str
    value: dict[str, Any]
    body: str = ""
    note: str = ""


def code_check(
    source: Source, templates: Templates, kind: str, value: Any, variables: Mapping[str, Any], config: Any
) -> Code:
    """Return the check that runs an assertion's code.

    Raises:
        UnfitError: the value is not valid code, or the code reads something that graders do not get.
    """
    if not isinstance(value, str) or not value.strip():
        raise UnfitError("its value is not code")
    context: dict[str, Any] = {"vars": dict(variables)}
    if config is not None:
        context["config"] = config
    if value.startswith("file://"):
        return _file_code(source, kind, value.removeprefix("file://"), context)
    text = templates.render(value, variables).rstrip()
    _check_context(text)
    if kind == "javascript":
        return Code("javascript", {"code": text, **context}, note=_NODE_NOTE)
    body = textwrap.dedent(text) if "\n" in text else f"return {text.strip()}"
    body = f"import json\n\n{body}" if re.search(r"\bjson\.", body) else body
    try:
        made = ast.parse(f"def code(output, context):\n{textwrap.indent(body, '    ')}\n")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = one_line(str(error), 100) or "it is nested too deeply"
        raise UnfitError(f"its code is not Python: {reason}") from None
    if len(made.body) != 1:
        raise UnfitError("its code closes the function that contains it")
    return Code("", context, body)


def _file_code(source: Source, kind: str, reference: str, context: Mapping[str, Any]) -> Code:
    found = re.fullmatch(r"(.+?\.(?:py|[cm]?js|ts))(?::(\w+))?", reference)
    if found is None or (found[1].endswith(".py") is not (kind == "python")):
        raise UnfitError(f"{reference} is not a file with {kind} code")
    if found[1].endswith(".ts"):
        raise UnfitError("TypeScript is not run; compile it, or write a code grader")
    path = source.file_named(found[1])
    _check_context(source.text(path))
    file = str(path)
    if kind == "python":
        return Code("python_file", {"file": file, "function": found[2] or "get_assert", **context})
    return Code("javascript", {"file": file, "name": found[2], **context}, note=_NODE_NOTE)


def _check_context(text: str) -> None:
    found = _FOREIGN.search(text)
    if found is not None:
        raise UnfitError(f"its code reads context.{found[1]}, which graders do not have")
    if re.search(r"\bprocess\.(?!env\b)|\brequire\(|\bimport\(", text) and "file:" in text:
        raise UnfitError("its code loads other files")
