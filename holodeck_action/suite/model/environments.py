"""The source of the Python packages for a suite's own code: `environment` of the policy file, and `--requirements`."""

import re
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import FormatModel, NonBlank, with_values
from holodeck_action.text.lazy_patterns import lazy_pattern

_PACKAGE = r"^[A-Za-z0-9][^\r\n]*$"
"""Start of a package requirement; options of the installer begin differently."""
_INTERPRETER = lazy_pattern(r".*/python[0-9.]*")
FORMS = "a requirements .txt, a pyproject.toml or uv.lock, the path of a Python, or packages"
_KEYS = ("requirements", "project", "packages", "interpreter")


class Environment(FormatModel):
    """`environment`: the Python in which targets, graders and function tools of the suite run. One of these keys."""

    requirements: NonBlank | None = None
    """A requirements file, relative to agent.yaml, whose packages are installed. Example: `requirements.txt`."""
    project: NonBlank | None = None
    """A pyproject.toml, relative to agent.yaml, whose dependencies are installed, in the versions of the uv.lock next
    to it, if there is one. Example: `pyproject.toml`."""
    packages: Annotated[list[Annotated[str, Field(pattern=_PACKAGE)]], Field(min_length=1)] | None = None
    """Packages that are installed. Example: `[langgraph==1.2.0, httpx]`."""
    interpreter: NonBlank | None = None
    """An installed Python, 3.9 or newer; its path is relative to agent.yaml. Example: `.venv/bin/python`."""

    SCHEMA_RULES = ({"oneOf": [with_values(way) for way in _KEYS]},)

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        named = [way for way in _KEYS if getattr(self, way) is not None]
        if len(named) != 1:
            what = f"has {' and '.join(named)}" if named else "is empty"
            raise PydanticCustomError("environment", "{what}: give one of {ways}", {"what": what, "ways": _KEY_LIST})
        return self

    @property
    def given_key(self) -> str:
        """The key that has a value."""
        return next(way for way in _KEYS if getattr(self, way) is not None)


_KEY_LIST = f"{', '.join(_KEYS[:-1])} or {_KEYS[-1]}"


def environment_from(lines: Sequence[str]) -> Environment:
    """Parse the value of `--requirements`.

    Args:
        lines: path of a requirements file (`*.txt`, `*.in`), a `pyproject.toml`, a `uv.lock` or a Python interpreter,
            or one or more package requirements.

    Raises:
        ValueError: the value has another form; the message is one sentence.
    """
    first = lines[0]
    name = first.rpartition("/")[2]
    if len(lines) == 1 and name in ("pyproject.toml", "uv.lock"):
        return Environment(project=f"{first.removesuffix(name)}pyproject.toml")
    if len(lines) == 1 and name.endswith((".txt", ".in")):
        return Environment(requirements=first)
    if len(lines) == 1 and _INTERPRETER.fullmatch(first):
        return Environment(interpreter=first)
    wrong = next((line for line in lines if not re.fullmatch(_PACKAGE, line)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is not allowed (allowed: {FORMS})")
    return Environment(packages=list(lines))
