"""Templates of Nunjucks, rendered by Jinja where both agree; where they may not, they are refused."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from holodeck_action.extensions.importers.source import UnfitError, json_problem
from holodeck_action.extensions.importers.written import variable
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import one_line
from holodeck_action.workers.limited import OutOfTimeError, time_limit

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment


SECONDS = 5.0
"""Longest time that one template may take."""
ALL_SECONDS = 30.0
"""Longest time that all templates of an import may take."""
MOST_CHARACTERS = 16_000_000
"""Longest text that a template may give."""
_COMPILED = 1000
"""Templates that are kept compiled."""


class Templates:
    """Renders the templates of one import, in a process with limits only."""

    def __init__(self, seconds: float = SECONDS, all_seconds: float = ALL_SECONDS) -> None:
        """Give each template, and all of them together, so many seconds."""
        self._seconds = seconds
        self._left = all_seconds
        self._compile = lru_cache(_COMPILED)(_environment().from_string)
        self._refused: dict[str, str] = {}

    def render(self, text: str, variables: Mapping[str, Any]) -> str:
        """Return a text with its placeholders filled; `{{ env.NAME }}` becomes a mark for the variable.

        Raises:
            UnfitError: it is not a template, uses what only JavaScript has, or needs more time or memory than it may.
        """
        if "{{" not in text and "{%" not in text and "{#" not in text:
            return text
        if text in self._refused:
            # What took its time once is not tried again in every case.
            raise UnfitError(self._refused[text])
        if self._left <= 0:
            raise UnfitError("the templates of the file take too long together; make them simpler")
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
            reason = self._refused[text] = "the template needs more memory than it may have; make it smaller"
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

    def rendered(self, value: Any, variables: Mapping[str, Any]) -> Any:
        """Render all texts of a value of JSON.

        Raises:
            UnfitError: one of them cannot be.
        """
        if isinstance(value, str):
            return self.render(value, variables)
        if isinstance(value, dict):
            return {key: self.rendered(item, variables) for key, item in value.items()}
        if isinstance(value, list):
            return [self.rendered(item, variables) for item in value]
        return value


def script_text(value: Any) -> str:
    """Return a value as JavaScript's `String` writes it, objects and lists as JSON."""
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
    """Return a value as JavaScript's `String` writes it."""
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join("" if item is None else string_of(item) for item in value)
    return "null" if value is None else script_text(value)


def _number_text(value: float) -> str:
    """Write a number as JavaScript does: all of its digits below 1e21 and from 1e-6 on, whole ones without a point."""
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
    """Stands for the environment: every variable of it is a mark."""

    def __getitem__(self, name: Any) -> str:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UnfitError(f"no environment variable has the name {one_line(str(name), 50)!r}")
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
        if isinstance(value, Undefined):
            return value
        return "" if value is None else string_of(value)

    made = Nunjucks(undefined=Nothing, keep_trailing_newline=True, finalize=finalize, autoescape=False, optimized=False)
    made.filters["dump"] = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    made.filters["load"] = parse_json
    return made
