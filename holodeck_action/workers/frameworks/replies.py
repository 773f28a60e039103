"""What the adapters of frameworks share: loading, and values as JSON."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from holodeck_action.workers.code_errors import CallError

MODULES = {"langgraph": "langgraph", "openai-agents": "openai_agents", "pydantic-ai": "pydantic_ai"}
"""Module of the adapter by the name of the framework in a target."""


def adapted(framework: str, agent: Any, shown: str) -> Callable[..., Any]:
    """Return the callable of a framework's agent: it takes messages and the request, and gives the reply.

    Args:
        framework: name in the target.
        agent: what the module of the suite has.
        shown: how messages name it.

    Raises:
        CallError: it is no agent of the framework (code `not_callable`), or the framework is too old.
    """
    module = importlib.import_module(f"holodeck_action.workers.frameworks.{MODULES[framework]}")
    try:
        found: Callable[..., Any] = module.adapter(agent)
    except (ImportError, AttributeError) as error:
        raise CallError(
            "import_failed", f"{shown}: {framework} is missing or too old in the environment of the suite ({error})"
        ) from None
    except TypeError as error:
        raise CallError("not_callable", f"{shown} is of type {type(agent).__name__}, not {error}") from None
    return found


def jsonable(value: Any) -> Any:
    """Return a value as JSON can hold it; what it cannot hold becomes text."""
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return value.model_dump(mode="json")
    return json.loads(json.dumps(value, default=lambda other: jsonable(other) if _dumps(other) else str(other)))


def _dumps(value: Any) -> bool:
    return hasattr(type(value), "model_dump")


def arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a tool call, which models write as JSON; what is no object is kept as `arguments`."""
    if isinstance(given, str):
        with suppress(ValueError):
            given = json.loads(given) if given else {}
    return dict(jsonable(given)) if isinstance(given, Mapping) else {"arguments": jsonable(given)}
