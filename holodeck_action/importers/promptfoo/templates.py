"""Templates of Nunjucks, rendered by Jinja where both agree; where they may not, they are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from holodeck_action.importers.source import UnfitError
from holodeck_action.importers.written import variable
from holodeck_action.text.plain import one_line

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment


def render(text: str, variables: Mapping[str, Any]) -> str:
    """Return a text with its placeholders filled; `{{ env.NAME }}` becomes a mark for the variable.

    Raises:
        UnfitError: it is not a template, or uses what only JavaScript has.
    """
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    from jinja2 import TemplateError

    try:
        return _environment().from_string(text).render({"env": _Variables(), **variables})
    except UnfitError:
        raise
    except (TemplateError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise UnfitError(f"the template cannot be rendered: {one_line(str(error), 150)}") from None


def rendered(value: Any, variables: Mapping[str, Any]) -> Any:
    """Render all texts of a value of JSON.

    Raises:
        UnfitError: one of them cannot be.
    """
    if isinstance(value, str):
        return render(value, variables)
    if isinstance(value, dict):
        return {key: rendered(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [rendered(item, variables) for item in value]
    return value


def script_text(value: Any) -> str:
    """Return a value as JavaScript's `String` writes it, objects and lists as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


_ABSENT: Any = object()


class _Variables:
    """Stands for the environment: every variable of it is a mark."""

    def __getitem__(self, name: str) -> str:
        return variable(name)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import Undefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Nothing(Undefined):
        """What is not there is empty, as in Nunjucks."""

        def __init__(self, hint: Any = None, obj: Any = _ABSENT, name: Any = None, exc: Any = UnfitError) -> None:
            super().__init__(hint, name=name)
            if obj is not _ABSENT and not isinstance(obj, dict | Undefined):
                # Such as the `length` of a text, which JavaScript has.
                raise UnfitError(f"the template asks for {one_line(str(name), 50)!r}, which only JavaScript may know")

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

        def __getitem__(self, name: Any) -> Any:
            return self

    class Nunjucks(ImmutableSandboxedEnvironment):
        """Finds the keys of a mapping before the methods that Python gives it."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            if isinstance(obj, dict | _Variables):
                return self.getitem(obj, attribute)
            return super().getattr(obj, attribute)

    # What needs the context of a rendering is not computed while the template is compiled.
    @pass_context
    def finalize(_: object, value: Any) -> Any:
        return value if isinstance(value, Undefined) else script_text(value)

    made = Nunjucks(undefined=Nothing, keep_trailing_newline=True, finalize=finalize, autoescape=False, optimized=False)
    made.filters["dump"] = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    made.filters["load"] = json.loads
    return made
