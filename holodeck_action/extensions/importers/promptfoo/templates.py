"""Renders Nunjucks templates with Jinja, and refuses templates that Nunjucks and Jinja might render differently."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from holodeck_action.extensions.importers.converted_suite import variable
from holodeck_action.extensions.importers.source import UnfitError, json_problem
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import one_line
from holodeck_action.workers.limited_workers import OutOfTimeError, time_limit

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment


TEMPLATE_LIMIT_S = 5.0
"""Time limit of one template, in seconds."""
TOTAL_LIMIT_S = 30.0
"""Time limit of all templates of an import together, in seconds."""
MOST_CHARACTERS = 16_000_000
"""Most characters of a rendered text."""
_COMPILED = 1000
"""Number of compiled templates to cache."""


class Templates:
    """Renders the templates of one import. Use it only in the worker process with limits on time and memory."""

    def __init__(self, seconds: float = TEMPLATE_LIMIT_S, all_seconds: float = TOTAL_LIMIT_S) -> None:
        """Set the time limits in seconds: `seconds` for each template, `all_seconds` for all templates together."""
        self._seconds = seconds
        self._left = all_seconds
        self._compile = lru_cache(_COMPILED)(_environment().from_string)
        self._refused: dict[str, str] = {}

    def render(self, text: str, variables: Mapping[str, Any]) -> str:
        """Render a template; `{{ env.NAME }}` becomes the placeholder that `variable` returns.

        Raises:
            UnfitError: the template is invalid, uses features of JavaScript, or exceeds its limit of time or memory.
        """
        if "{{" not in text and "{%" not in text and "{#" not in text:
            return text
        if text in self._refused:
            # A template that failed is not rendered again for each case.
            raise UnfitError(self._refused[text])
        if self._left <= 0:
            raise UnfitError("the templates of the file take too long in total; make them simpler")
        begun = time.monotonic()
        try:
            with time_limit(min(self._seconds, self._left)):
                made = self._compile(text).render({"env": _Variables(), **variables})
                problem = json_problem(made)
        except UnfitError:
            raise
        except OutOfTimeError as error:
            reason = self._refused[text] = f"the template is not rendered: {error}; make it simpler"
            raise UnfitError(reason) from None
        except MemoryError:
            reason = self._refused[text] = "the template needs more memory than is allowed; make it smaller"
            raise UnfitError(reason) from None
        except Exception as error:  # noqa: BLE001 - an expression can raise anything
            reason = one_line(str(error), 150) or type(error).__name__
            raise UnfitError(f"the template cannot be rendered: {reason}") from None
        finally:
            self._left -= time.monotonic() - begun
        if problem:
            raise UnfitError(f"the template gives a text that {problem}")
        if len(made) > MOST_CHARACTERS:
            reason = self._refused[text] = f"the template gives more than {MOST_CHARACTERS:,} characters"
            raise UnfitError(reason)
        return made

    def render_value(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """Render all strings in JSON data as templates, except keys.

        Raises:
            UnfitError: one of them cannot be rendered.
        """
        if isinstance(value, str):
            return self.render(value, variables)
        if isinstance(value, dict):
            return {key: self.render_value(item, variables) for key, item in value.items()}
        if isinstance(value, list):
            return [self.render_value(item, variables) for item in value]
        return value


def script_text(value: Any) -> str:
    """Return a value as Nunjucks prints it: lists and objects as JSON, null as an empty string, and other values as
    JavaScript's `String` converts them.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, int | float):
        return _number_text(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def string_of(value: Any) -> str:
    """Return a value as JavaScript's `String` function converts it."""
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join("" if item is None else string_of(item) for item in value)
    return "null" if value is None else script_text(value)


def _number_text(value: float) -> str:
    """Return a number as JavaScript writes it: all digits from 1e-6 to below 1e21, whole numbers without a point."""
    number = float(value)
    if number == 0:
        return "0"
    if abs(number) >= 1e21 or abs(number) < 1e-6:
        digits, _, exponent = repr(number).partition("e")
        return f"{digits.removesuffix('.0')}e{int(exponent):+d}"
    if number.is_integer():
        digits = repr(number)
        return format(Decimal(digits), "f").removesuffix(".0")
    return format(Decimal(repr(number)), "f")


_ABSENT: Any = object()


class _Variables:
    """The value of `env` in templates, with a placeholder for each environment variable."""

    def __getitem__(self, name: Any) -> str:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UnfitError(f"there is no environment variable {one_line(str(name), 50)!r}")
        return variable(name)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import Undefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Nothing(Undefined):
        """An undefined value, which is empty, as in Nunjucks."""

        def __init__(self, hint: Any = None, obj: Any = _ABSENT, name: Any = None, exc: Any = UnfitError) -> None:
            super().__init__(hint, name=name)
            if obj is not _ABSENT and not isinstance(obj, dict | Undefined):
                # For example the `length` of a text, which exists in JavaScript.
                raise UnfitError(f"the template uses {one_line(str(name), 50)!r}, which may exist only in JavaScript")

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

        def __getitem__(self, name: Any) -> Any:
            return self

    class Nunjucks(ImmutableSandboxedEnvironment):
        """Reads `mapping.name` as a key of the mapping rather than as a method of Python."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            if isinstance(obj, dict | _Variables):
                return self.getitem(obj, attribute)
            return super().getattr(obj, attribute)

    # The context parameter prevents Jinja from calling this function while it compiles a template.
    @pass_context
    def finalize(_: object, value: Any) -> Any:
        if isinstance(value, Undefined):
            return value
        return "" if value is None else string_of(value)

    made = Nunjucks(undefined=Nothing, keep_trailing_newline=True, finalize=finalize, autoescape=False, optimized=False)
    made.filters["dump"] = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    made.filters["load"] = parse_json
    return made
