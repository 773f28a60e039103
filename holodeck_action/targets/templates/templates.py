"""Sandboxed Jinja templates of a suite, in the `request` mapping of an HTTP target and in `prompt` tools.

Compiling a template evaluates nothing, so it is safe in any process. Rendering must run in a process with limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.text.json_values import unknown_key_clause
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.code_errors import MAX_SENT_CHARS

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = ("turn", "case", "session", "history")

_WHITE_SPACE_CONTROL = lazy_pattern(r"^[-+]|[-+]$")
"""The characters for white-space control in `{{- expression -}}`."""

_Evaluate = Callable[..., Any]
_Render = Callable[[Mapping[str, Any]], Any]


class RequestTemplate:
    """The compiled `request` mapping of an HTTP target, whose strings are templates.

    A string that is only one `{{ expression }}` becomes the expression's value, of any JSON type. Any other string is
    rendered to a string: null becomes empty, and lists, objects and booleans become JSON.
    """

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        """Compile all strings of the mapping.

        Raises:
            TargetError: a string is not a valid template, or uses an unknown variable.
        """
        self._render = _compile(mapping, "request")

    def render(self, variables: Mapping[str, Any]) -> bytes:
        """Return the body of a request as JSON in UTF-8.

        Args:
            variables: values of `VARIABLES`, plain JSON values.

        Raises:
            AgentError: `bad_request`: an expression has no value for this turn, or a value that JSON cannot represent.
        """
        value = self._render(variables)
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentError(f"target request is not JSON: {str(error)[:MAX_SENT_CHARS]}", "bad_request") from None


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
        unknown = sorted(undeclared_names(tree) - set(VARIABLES) - set(environment.globals))
        if unknown:
            problem = unknown_key_clause(unknown[0], VARIABLES).replace("key", "variable", 1)
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
        raise TargetError(f"{path} is not a template: {excerpt(error.message or 'syntax error')}") from None
    except (SyntaxError, RecursionError) as error:  # what Jinja accepts and Python does not
        raise TargetError(f"{path} is not a template: {type(error).__name__}") from None

    def render(variables: Mapping[str, Any]) -> Any:
        try:
            value = evaluate(**variables)
            # `str` of an undefined value raises an error that names it.
            return str(value) if isinstance(value, Undefined) else value
        except Exception as error:  # noqa: BLE001 - an expression can raise anything
            raise AgentError(f"target {path} cannot be rendered: {_explain(error)}", "bad_request") from None

    return render


@cache
def _request_environment() -> ImmutableSandboxedEnvironment:
    return lazy_environment(_as_request_text)


def lazy_environment(to_text: Callable[[Any], Any]) -> ImmutableSandboxedEnvironment:
    """Return a Jinja environment that evaluates nothing when it compiles a template, not even `{{ 9 ** 9 ** 9 }}`.

    Args:
        to_text: converts the value of an expression for the output.
    """
    from jinja2 import StrictUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Jinja cannot evaluate a function at compile time if it needs the rendering context.
    @pass_context
    def finalize(_: object, value: Any) -> Any:
        return to_text(value)

    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True, finalize=finalize, autoescape=False, optimized=False
    )


def undeclared_names(tree: nodes.Template) -> set[str]:
    """Return the names of the variables that a template expects, without evaluating anything.

    Raises:
        TemplateSyntaxError: the template cannot be compiled, or uses `autoescape`, which would evaluate its setting.
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


_DOLLAR_VARIABLE = lazy_pattern(r"\{\{(-?\s*)\$([A-Za-z_][A-Za-z0-9_]*)(\s*-?)\}\}")
_FILTERS = (
    *("capitalize", "default", "first", "int", "join", "last", "length", "list", "lower", "replace", "reverse"),
    *("round", "sort", "title", "tojson", "trim", "upper", "wordcount"),
)
_ADDRESS = lazy_pattern(r" at 0x[0-9a-fA-F]+")
"""Matches memory addresses in error messages, which differ between runs."""


class PromptTemplate:
    """The compiled template of a `prompt` tool. Constructs that may not terminate are forbidden.

    `{{ name }}` and `{{$name}}` (the syntax of Semantic Kernel) are replaced by the value of an argument: a string
    unchanged, any other value as JSON.

    Attributes:
        unused: names of the parameters that the template does not use.
    """

    def __init__(self, text: str, parameters: Sequence[str]) -> None:
        """Compile the template.

        Raises:
            ValueError: the template is invalid, or uses an unknown name or a forbidden construct; the message is a
                clause with the reason.
        """
        from jinja2 import TemplateSyntaxError

        environment = _prompt_environment()
        try:
            tree = environment.parse(_DOLLAR_VARIABLE.sub(r"{{\1\2\3}}", text))
            for problem in _forbidden_parts(tree):
                raise ValueError(problem)
            used = undeclared_names(tree)
            if unknown := sorted(used - {*parameters}):
                raise ValueError(unknown_key_clause(unknown[0], parameters).replace("key", "parameter", 1))
            self._render: Callable[..., str] = environment.from_string(tree).render
        except TemplateSyntaxError as error:
            raise ValueError(f"line {error.lineno}: {excerpt(error.message or 'syntax error')}") from None
        except (SyntaxError, RecursionError) as error:  # what Jinja accepts and Python does not
            raise ValueError(f"it cannot be compiled ({type(error).__name__})") from None
        self.unused = tuple(name for name in parameters if name not in used)

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template.

        Raises:
            ValueError: an expression has no value; the message is a clause with the reason.
        """
        try:
            return self._render(**values)
        except Exception as error:  # noqa: BLE001 - an expression can raise anything
            raise ValueError(_explain(error)) from None


def _explain(error: Exception) -> str:
    """Return the reason for a failed rendering, without parts that differ between runs."""
    reason = "it needs more memory than is allowed" if isinstance(error, MemoryError) else str(error)
    return _ADDRESS.sub("", reason)[:MAX_SENT_CHARS]


def _forbidden_parts(tree: nodes.Template) -> Iterator[str]:
    """Yield a message for each forbidden construct in a template.

    Templates must not read other files, or compute anything whose time or output the template's length does not limit.
    """
    from jinja2 import nodes

    others = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)
    for node in tree.find_all((*others, nodes.Macro, nodes.CallBlock, nodes.Call)):
        what = "other templates" if isinstance(node, others) else "macros or functions"
        yield f"line {node.lineno}: {what} cannot be used here"
    for node in tree.find_all((nodes.Mul, nodes.Pow)):
        yield f"line {node.lineno}: * and ** cannot be used here"
    for loop in tree.find_all(nodes.For):
        if any(True for part in (*loop.body, *loop.else_) for _ in _find_loops(part)):
            yield f"line {loop.lineno}: a loop inside a loop cannot be used here"
    for found in tree.find_all(nodes.Filter):
        if found.name not in _FILTERS:
            yield f"line {found.lineno}: unknown filter `{excerpt(found.name, 40)}` (allowed: {', '.join(_FILTERS)})"


def _find_loops(node: nodes.Node) -> Iterator[nodes.Node]:
    from jinja2 import nodes

    if isinstance(node, nodes.For):
        yield node
    yield from node.find_all(nodes.For)


@cache
def _prompt_environment() -> ImmutableSandboxedEnvironment:
    environment = lazy_environment(_as_prompt_text)
    environment.globals.clear()
    # Jinja's own filter escapes HTML characters.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment


def _as_prompt_text(value: Any) -> Any:
    if isinstance(value, bool | int | float | list | dict) or value is None:
        return json.dumps(value, ensure_ascii=False)
    return value
