"""Templates of `prompt` tools: Jinja in a sandbox, of which only what ends by itself is taken.

The template is the repository's, the values are a model's. `{{ name }}` is replaced by the value, `{{$name}}` (Semantic
Kernel's way of writing) too. Texts stand as they are, other values as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from holodeck_action.text.json_values import unknown_key
from holodeck_action.text.plain import excerpt
from holodeck_action.tools.templates import lazy_environment, undeclared

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_DOLLAR = re.compile(r"\{\{(-?\s*)\$([A-Za-z_][A-Za-z0-9_]*)(\s*-?)\}\}")
_FILTERS = (
    *("capitalize", "default", "first", "int", "join", "last", "length", "list", "lower", "replace", "reverse"),
    *("round", "sort", "title", "tojson", "trim", "upper", "wordcount"),
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""What differs between two runs in the text of an error."""


class PromptTemplate:
    """A template, compiled once."""

    def __init__(self, text: str, parameters: Sequence[str]) -> None:
        """Compile the template.

        Args:
            text: the template.
            parameters: names that it may use.

        Raises:
            ValueError: it is no template, uses a name there is none of, or what may not end; one clause says which.
        """
        from jinja2 import TemplateSyntaxError

        environment = _environment()
        try:
            tree = environment.parse(_DOLLAR.sub(r"{{\1\2\3}}", text))
            for problem in _refused(tree):
                raise ValueError(problem)
            used = undeclared(tree)
            if unknown := sorted(used - {*parameters}):
                raise ValueError(unknown_key(unknown[0], parameters).replace("key", "parameter", 1))
            self._render: Callable[..., str] = environment.from_string(tree).render
        except TemplateSyntaxError as error:
            raise ValueError(f"line {error.lineno}: {excerpt(error.message or 'syntax error')}") from None
        except (SyntaxError, RecursionError) as error:  # what Jinja accepts and Python does not
            raise ValueError(f"it cannot be compiled ({type(error).__name__})") from None
        self.unused = tuple(name for name in parameters if name not in used)

    def render(self, values: Mapping[str, Any]) -> str:
        """Fill in values.

        Raises:
            ValueError: an expression has no value; one clause says why.
        """
        try:
            return self._render(**values)
        except Exception as error:  # noqa: BLE001 - an expression can raise anything
            reason = "it needs more memory than it may have" if isinstance(error, MemoryError) else str(error)
            raise ValueError(excerpt(_ADDRESS.sub("", reason))) from None


def _refused(tree: nodes.Template) -> Iterator[str]:
    """Yield what a template must not do: reach other files, or work without an end in sight."""
    from jinja2 import nodes

    others = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)
    for node in tree.find_all((*others, nodes.Macro, nodes.CallBlock, nodes.Call)):
        what = "other templates" if isinstance(node, others) else "macros or functions"
        yield f"line {node.lineno}: {what} cannot be used here"
    for node in tree.find_all((nodes.Mul, nodes.Pow)):
        yield f"line {node.lineno}: * and ** cannot be used here"
    for loop in tree.find_all(nodes.For):
        if any(True for part in (*loop.body, *loop.else_) for _ in _loops(part)):
            yield f"line {loop.lineno}: a loop inside a loop cannot be used here"
    for found in tree.find_all(nodes.Filter):
        if found.name not in _FILTERS:
            yield f"line {found.lineno}: unknown filter `{excerpt(found.name, 40)}` (allowed: {', '.join(_FILTERS)})"


def _loops(node: nodes.Node) -> Iterator[nodes.Node]:
    from jinja2 import nodes

    if isinstance(node, nodes.For):
        yield node
    yield from node.find_all(nodes.For)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = lazy_environment(_as_text)
    environment.globals.clear()
    # Jinja's own would escape characters of HTML.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment


def _as_text(value: Any) -> Any:
    if isinstance(value, bool | int | float | list | dict) or value is None:
        return json.dumps(value, ensure_ascii=False)
    return value
