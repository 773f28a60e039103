"""What the adapters of frameworks share: loading, and values as JSON."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from holodeck_action.text.json_values import parse_json
from holodeck_action.workers.code_errors import CallError

MODULES = {"langgraph": "langgraph", "openai-agents": "openai_agents", "pydantic-ai": "pydantic_ai"}
"""Module of the adapter by the name of the framework in a target."""
_NEEDS = {
    "langgraph": (("langgraph", "langgraph", ""), ("langchain-core", "langchain_core", "0.3.49")),
    "openai-agents": (("openai-agents", "agents", "0.0.17"),),
    "pydantic-ai": (("pydantic-ai-slim", "pydantic_ai", "1.0"),),
}
"""By framework the packages that its adapter uses: name, module, and the oldest version; empty for any."""
_WAY_OUT = "install it there: `environment` of the policy file, or --requirements, names what is installed"


def check_packages(framework: str) -> None:
    """Check that the packages of a framework are there, before a module of the suite imports them.

    Raises:
        CallError: one is missing or too old (code `import_failed`).
    """
    for package, module, oldest in _NEEDS[framework]:
        wanted = f"{package} {oldest} or newer" if oldest else package
        needs = f"agents of {framework} need {wanted} in the environment of the suite, which has"
        if find_spec(module) is None:
            raise CallError("import_failed", f"{needs} none; {_WAY_OUT}")
        # What stands on the module path without being installed tells no version.
        with suppress(PackageNotFoundError):
            found = version(package)
            if _release(found) < _release(oldest):
                raise CallError("import_failed", f"{needs} {found}; {_WAY_OUT}")


def _release(text: str) -> list[int]:
    """Return the numbers that a version begins with."""
    found = re.match(r"\d+(\.\d+)*", text)
    return [int(number) for number in found[0].split(".")] if found else []


def adapted(framework: str, agent: Any, shown: str) -> Callable[..., Any]:
    """Return the callable of a framework's agent: it takes messages and the request, and gives the reply.

    Args:
        framework: name in the target.
        agent: what the module of the suite has.
        shown: how messages name it.

    Raises:
        CallError: it is no agent of the framework (code `not_callable`), or the framework lacks what is used of it.
    """
    module = importlib.import_module(f"holodeck_action.extensions.frameworks.adapters.{MODULES[framework]}")
    try:
        found: Callable[..., Any] = module.adapter(agent)
    except (ImportError, AttributeError) as error:
        raise CallError(
            "import_failed", f"{shown}: the environment of the suite has no usable {framework} ({error}); {_WAY_OUT}"
        ) from None
    except TypeError as error:
        raise CallError("not_callable", f"{shown} is of type {type(agent).__name__}, not {error}") from None
    return found


def jsonable(value: Any) -> Any:
    """Return a value as JSON can hold it; what it cannot hold becomes text."""
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return value.model_dump(mode="json")
    text = json.dumps(value, default=lambda other: jsonable(other) if _dumps(other) else str(other))
    return parse_json(text, constants=True)


def _dumps(value: Any) -> bool:
    return hasattr(type(value), "model_dump")


def arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a tool call, which models write as JSON; what is no object is kept as `arguments`."""
    if isinstance(given, str):
        with suppress(ValueError):
            given = parse_json(given, constants=True) if given else {}
    return dict(jsonable(given)) if isinstance(given, Mapping) else {"arguments": jsonable(given)}
