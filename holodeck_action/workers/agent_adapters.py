"""Turns agents of frameworks such as LangGraph into callables, inside the worker process."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from holodeck_action.seam import registry
from holodeck_action.workers.code_errors import CallError

REMEDY = "add the package to `environment` in the policy file, or to --requirements"


def check_packages(framework: str) -> None:
    """Check that the packages that a framework needs are installed, before a module of the suite imports them.

    Raises:
        CallError: a package is missing or too old (code `import_failed`).
    """
    for package, module, oldest in registry.frameworks()[framework].requires:
        wanted = f"{package} {oldest} or newer" if oldest else package
        needs = f"agents of {framework} need {wanted} in the environment of the suite, but"
        if find_spec(module) is None:
            raise CallError("import_failed", f"{needs} it is not installed there; {REMEDY}")
        # A package on the module path without being installed has no version.
        with suppress(PackageNotFoundError):
            found = version(package)
            if _release_numbers(found) < _release_numbers(oldest):
                raise CallError("import_failed", f"{needs} version {found} is installed there; {REMEDY}")


def _release_numbers(text: str) -> list[int]:
    """Return the numbers at the start of a version string: `[1, 2, 3]` for `1.2.3rc1`."""
    found = re.match(r"\d+(\.\d+)*", text)
    return [int(number) for number in found[0].split(".")] if found else []


def agent_factory(framework: str, value: Any, label: str) -> Callable[[], Any] | None:
    """Return a callable without parameters that creates the agent; None if `value` is not a function.

    Args:
        framework: name of the framework.
        value: the object that a target names in a module of the suite: an agent, or a function that creates an agent.
        label: name of the object in messages.

    Raises:
        CallError: the function requires arguments that cannot be supplied (code `not_callable`).
    """
    # Not `callable`: agents of some frameworks can be called, and a class would create an agent without tools.
    if not (inspect.isroutine(value) or isinstance(value, partial)):
        return None
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return value
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each for each in parameters if each.default is each.empty and each.kind not in optional]
    if not needed:
        return value
    config = getattr(importlib.import_module(registry.frameworks()[framework].adapter), "CONFIG", None)
    only = needed[0]
    if config is not None and len(needed) == 1 and (only.name == "config" or "RunnableConfig" in str(only.annotation)):
        return partial(value, **{only.name: config}) if only.kind is only.KEYWORD_ONLY else partial(value, config)
    names = " and ".join(each.name for each in needed)
    alone = "" if config is None else ", except for a single RunnableConfig"
    raise CallError(
        "not_callable",
        f"{label} needs {names}, but a function that creates an agent is called without arguments{alone}; "
        "give these parameters defaults, or name a function without parameters",
    )


def adapt(framework: str, agent: Any, label: str) -> Callable[..., Any]:
    """Return a callable that runs an agent of a framework: it takes messages and the request, and returns the reply.

    Args:
        framework: name of the framework.
        agent: the agent object from the suite's module.
        label: name of the agent in messages.

    Raises:
        CallError: the object is not an agent of the framework (code `not_callable`), or the installed version of the
            framework lacks something that the adapter uses (`import_failed`).
    """
    module = importlib.import_module(registry.frameworks()[framework].adapter)
    try:
        found: Callable[..., Any] = module.adapter(agent)
    except (ImportError, AttributeError) as error:
        raise CallError(
            "import_failed", f"{label}: the environment of the suite has no usable {framework} ({error}); {REMEDY}"
        ) from None
    except TypeError as error:
        raise CallError("not_callable", f"{label} is of type {type(agent).__name__}, not {error}") from None
    return found
