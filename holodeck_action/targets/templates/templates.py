"""Jinja templates of a suite, in a sandbox: the `request` mapping of an HTTP target, and `prompt` tools.

Compiling computes nothing, so that it can be done anywhere; rendering belongs into a process with limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.text.json_values import unknown_key
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.code_errors import SENT_WORDS

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = ("turn", "case", "session", "history")

_WHITE_SPACE_CONTROL = re.compile(r"^[-+]|[-+]$")
"""The signs of `{{- expression -}}`."""

_Evaluate = Callable[..., Any]
_Render = Callable[[Mapping[str, Any]], Any]


class RequestTemplate:
    """A request body with open places, compiled once.

    A text that is one `{{ expression }}` and nothing else keeps the expression's JSON type; any other text renders to
    text, with null as nothing and lists, objects and booleans as their JSON.
    """

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        """Compile all texts.

        Raises:
            TargetError: a text is no template, or uses a variable there is none of.
        """
        self._render = _compile(mapping, "request")

    def render(self, variables: Mapping[str, Any]) -> bytes:
        """Return the body as UTF-8 JSON.

        Args:
            variables: `turn`, `case`, `session`, `history`, plain JSON values.

        Raises:
            AgentError: `bad_request`, an expression has no value for this turn, or one that JSON does not have.
        """
        value = self._render(variables)
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentError(f"target request is no JSON: {str(error)[:SENT_WORDS]}", "bad_request") from None


def _compile(value: Any, path: str) -> _Render:
    if isinstance(value, str):
        return _compile_text(value, path)
    if isinstance(value, Mapping):
        entries = {key: _compile(item, f"{path}.{key}") for key, item in value.items()}
        return lambda variables: {key: render(variables) for key, render in entries.items()}
    if isinstance(value, list | tuple):
        items = [_compile(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return lambda variables: [render(variables) for render in items]
    return lambda variables: value


def _compile_text(text: str, path: str) -> _Render:
    from jinja2 import TemplateSyntaxError, Undefined, nodes

    environment = _request_environment()
    try:
        tree = environment.parse(text)
        unknown = sorted(undeclared(tree) - set(VARIABLES) - set(environment.globals))
        if unknown:
            problem = unknown_key(unknown[0], VARIABLES).replace("key", "variable", 1)
            raise TargetError(f"{path}: {problem}")
        match tree.body:
            case []:
                return lambda variables: ""
            case [nodes.Output(nodes=[nodes.TemplateData(data=constant)])]:
                return lambda variables: constant
            case [nodes.Output(nodes=[_])] if text.startswith("{{") and text.endswith("}}"):
                expression = _WHITE_SPACE_CONTROL.sub("", text[2:-2])
                evaluate: _Evaluate = environment.compile_expression(expression, undefined_to_none=False)
            case _:
                evaluate = environment.from_string(text).render
    except TemplateSyntaxError as error:
        raise TargetError(f"{path} is no template: {excerpt(error.message or 'syntax error')}") from None
    except (SyntaxError, RecursionError) as error:  # what Jinja accepts and Python does not
        raise TargetError(f"{path} is no template: {type(error).__name__}") from None

    def render(variables: Mapping[str, Any]) -> Any:
        try:
            value = evaluate(**variables)
            # Looking at an undefined value raises the error that tells what is undefined.
            return str(value) if isinstance(value, Undefined) else value
        except Exception as error:  # noqa: BLE001 - an expression can raise anything
            raise AgentError(f"target {path} cannot be rendered: {_reason(error)}", "bad_request") from None

    return render


@cache
def _request_environment() -> ImmutableSandboxedEnvironment:
    return lazy_environment(_as_request_text)


def lazy_environment(show: Callable[[Any], Any]) -> ImmutableSandboxedEnvironment:
    """Return an environment of Jinja that computes nothing while it compiles, not even `{{ 9 ** 9 ** 9 }}`."""
    from jinja2 import StrictUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # What needs the context of a rendering cannot be done before.
    @pass_context
    def finalize(_: object, value: Any) -> Any:
        return show(value)

    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True, finalize=finalize, autoescape=False, optimized=False
    )


def undeclared(tree: nodes.Template) -> set[str]:
    """Return the names that a template looks up from outside; nothing is computed.

    Raises:
        TemplateSyntaxError: it holds `autoescape`, whose setting would be computed, or what cannot be compiled.
    """
    from jinja2 import TemplateSyntaxError, meta, nodes

    for found in tree.find_all((nodes.EvalContextModifier, nodes.ScopedEvalContextModifier)):
        raise TemplateSyntaxError("autoescape cannot be used here", found.lineno)
    generator = meta.TrackingCodeGenerator(tree.environment)  # type: ignore[arg-type]
    generator.optimizer = None
    generator.visit(tree)
    return generator.undeclared_identifiers


def _as_request_text(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else value


_DOLLAR = re.compile(r"\{\{(-?\s*)\$([A-Za-z_][A-Za-z0-9_]*)(\s*-?)\}\}")
_FILTERS = (
    *("capitalize", "default", "first", "int", "join", "last", "length", "list", "lower", "replace", "reverse"),
    *("round", "sort", "title", "tojson", "trim", "upper", "wordcount"),
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""What differs between two runs in the text of an error."""


class PromptTemplate:
    """The template of a `prompt` tool, of which only what ends by itself is taken; compiled once.

    `{{ name }}` is replaced by the value, `{{$name}}` (Semantic Kernel's way of writing) too. Texts stand as they are,
    other values as JSON.
    """

    def __init__(self, text: str, parameters: Sequence[str]) -> None:
        """Compile the template.

        Raises:
            ValueError: it is no template, uses a name there is none of, or what may not end; one clause says which.
        """
        from jinja2 import TemplateSyntaxError

        environment = _prompt_environment()
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
            raise ValueError(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Say why an expression has no value, without what differs between two runs."""
    reason = "it needs more memory than it may have" if isinstance(error, MemoryError) else str(error)
    return _ADDRESS.sub("", reason)[:SENT_WORDS]


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
def _prompt_environment() -> ImmutableSandboxedEnvironment:
    environment = lazy_environment(_as_prompt_text)
    environment.globals.clear()
    # Jinja's own would escape characters of HTML.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment


def _as_prompt_text(value: Any) -> Any:
    if isinstance(value, bool | int | float | list | dict) or value is None:
        return json.dumps(value, ensure_ascii=False)
    return value
