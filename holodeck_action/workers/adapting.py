"""Adapts agents of frameworks to callables, inside the worker process."""

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

_WAY_OUT = "install it there: `environment` of the policy file or --requirements lists the packages"


def check_packages(framework: str) -> None:
    """Check that the packages of a framework are installed, before a module of the suite imports them.

    Raises:
        CallError: a package is missing or too old (code `import_failed`).
    """
    for package, module, oldest in registry.frameworks()[framework].requires:
        wanted = f"{package} {oldest} or newer" if oldest else package
        needs = f"agents of {framework} need {wanted} in the environment of the suite, but it has"
        if find_spec(module) is None:
            raise CallError("import_failed", f"{needs} none; {_WAY_OUT}")
        # A package on the module path without being installed has no version.
        with suppress(PackageNotFoundError):
            found = version(package)
            if _release_numbers(found) < _release_numbers(oldest):
                raise CallError("import_failed", f"{needs} {found}; {_WAY_OUT}")


def _release_numbers(text: str) -> list[int]:
    """Return the numbers at the start of a version string."""
    found = re.match(r"\d+(\.\d+)*", text)
    return [int(number) for number in found[0].split(".")] if found else []


def factory_of(framework: str, found: Any, shown: str) -> Callable[[], Any] | None:
    """Return a call, without arguments, of a function that makes an agent; None if the object is no function.

    Args:
        framework: name of the framework.
        found: the object in the suite's module.
        shown: its name in messages.

    Raises:
        CallError: the function needs arguments that it cannot have (code `not_callable`).
    """
    # Agents of some frameworks can be called, too, and a class makes an agent without tools.
    if not (inspect.isroutine(found) or isinstance(found, partial)):
        return None
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return found
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each for each in parameters if each.default is each.empty and each.kind not in optional]
    if not needed:
        return found
    config = getattr(importlib.import_module(registry.frameworks()[framework].adapter), "CONFIG", None)
    only = needed[0]
    if config is not None and len(needed) == 1 and (only.name == "config" or "RunnableConfig" in str(only.annotation)):
        return partial(found, **{only.name: config}) if only.kind is only.KEYWORD_ONLY else partial(found, config)
    names = " and ".join(each.name for each in needed)
    alone = "" if config is None else ", except for a single RunnableConfig"
    raise CallError(
        "not_callable",
        f"{shown} needs {names}, but a function that makes an agent is called without arguments{alone}: "
        "give defaults, or name a function that calls it",
    )


def adapt(framework: str, agent: Any, shown: str) -> Callable[..., Any]:
    """Return a callable for a framework's agent: it takes messages and the request, and returns the reply.

    Args:
        framework: name of the framework.
        agent: the agent object from the suite's module.
        shown: name of the agent in messages.

    Raises:
        CallError: the object is not an agent of the framework (code `not_callable`), or the framework lacks a name that
            the adapter uses (`import_failed`).
    """
    module = importlib.import_module(registry.frameworks()[framework].adapter)
    try:
        found: Callable[..., Any] = module.adapter(agent)
    except (ImportError, AttributeError) as error:
        raise CallError(
            "import_failed", f"{shown}: the environment of the suite has no usable {framework} ({error}); {_WAY_OUT}"
        ) from None
    except TypeError as error:
        raise CallError("not_callable", f"{shown} is of type {type(agent).__name__}, not {error}") from None
    return found
