"""The one embedding model that all tools of a suite share which search documents."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from holodeck_action.llm.clients import Clients
from holodeck_action.llm.embeddings import Embedder, resolve_embedding
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.results.agent_errors import TargetError
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.tools import HierarchicalDocumentTool, VectorstoreTool
from holodeck_action.suite.values import Suite


def at_tool(suite: Suite, tool: str, field: str, message: str) -> TargetError:
    """Return the error about a field of a tool, with the tool's line where it is known."""
    mark = suite.tool_marks.get(tool)
    place = "" if mark is None else f"{mark}: "
    return TargetError(f"{place}tools.{tool}.{field}: {message}")


def suite_embedder(suite: Suite, environ: Mapping[str, str], clients: Clients) -> Embedder:
    """Return what embeds for the tools of a suite; nothing is asked yet.

    Args:
        suite: the suite; it has a tool that searches documents.
        environ: the job's environment: keys and addresses.
        clients: the wire.

    Raises:
        TargetError: tools that want different models, no key, or a package that is missing.
    """
    if importlib.util.find_spec("numpy") is None:
        raise TargetError(
            "searching documents needs numpy, which is not installed; "
            "install it with: pip install 'holodeck-action[agents]'"
        )
    name, model = _common(suite, "embedding_model")
    sized, dimensions = _common(suite, "embedding_dimensions")
    try:
        plan = resolve_embedding(
            suite.agent, environ, model=model, dimensions=dimensions, where=f"tools.{sized or name or '*'}"
        )
    except ModelConfigError as error:
        raise TargetError(str(error)) from error
    return Embedder(plan, clients)


def _common(suite: Suite, field: str) -> tuple[str | None, Any]:
    """Return the first tool that gives a field, and the value that all of them give; None where none does.

    Raises:
        TargetError: two give different values.
    """
    first: tuple[str | None, Any] = (None, None)
    for tool in suite.agent.tools or ():
        if not isinstance(tool, VectorstoreTool | HierarchicalDocumentTool):
            continue
        value = getattr(tool, field, None)
        if value is None:
            continue
        if first[1] is None:
            first = tool.name, value
        elif value != first[1]:
            message = (
                f"{quoted(str(value))} differs from {quoted(str(first[1]))} of tools.{first[0]}: "
                "all tools that search documents share one embedding model"
            )
            raise at_tool(suite, tool.name, field, message)
    return first
