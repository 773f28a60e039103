"""Converts assertions about tool calls to checks of the grader file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.extensions.importers.source import UnfitError

TYPES = (
    "trajectory:tool-used",
    "trajectory:tool-sequence",
    "trajectory:tool-args-match",
    "trajectory:step-count",
    "tool-call-f1",
)


def tool_check(kind: str, value: Any, threshold: float | None, *, negated: bool) -> tuple[str, Any, float | None]:
    """Return the name of the function in `checks.py`, the expected value, and the threshold (None without a score).

    Raises:
        UnfitError: the value has the wrong form for the assertion type, or refers to steps other than tool calls.
    """
    if kind == "tool-call-f1":
        names = value.split(",") if isinstance(value, str) else value
        wanted = [str(name).strip() for name in (names if isinstance(names, list) else ()) if str(name).strip()]
        if not wanted:
            raise UnfitError("it names no tool")
        return "tool_call_f1", wanted, 1.0 if threshold is None else threshold
    return *_trajectory_check(kind, value, negated=negated), None


def _trajectory_check(kind: str, value: Any, *, negated: bool) -> tuple[str, Any]:
    if kind == "trajectory:tool-used" and not isinstance(value, dict):
        names = [value] if isinstance(value, str) else value
        if not names or not isinstance(names, list):
            raise UnfitError("it names no tool")
        return ("tools_unused" if negated else "tools_used"), [_tool_name(name) for name in names]
    if kind == "trajectory:tool-sequence":
        steps = value.get("steps") if isinstance(value, dict) else value
        if not isinstance(steps, list) or not steps:
            raise UnfitError("it names no step")
        exact = isinstance(value, dict) and value.get("mode") == "exact"
        return "tool_sequence", {"steps": [_tool_name(step) for step in steps], "exact": exact}
    if not isinstance(value, dict):
        raise UnfitError("its value is not a mapping")
    if kind == "trajectory:tool-args-match":
        if value.get("defaults") or value.get("ignore"):
            raise UnfitError("it ignores arguments; list the arguments that matter in expected_tools")
        args = value.get("args", value.get("arguments"))
        if args is None:
            raise UnfitError("it has no arguments")
        return "tool_args", {"name": _tool_name(value), "args": args, "exact": value.get("mode") == "exact"}
    bounds = {key: value[key] for key in ("min", "max") if isinstance(value.get(key), int | float)}
    if kind == "trajectory:step-count":
        if value.get("type") not in ("tool", ["tool"]):
            raise UnfitError("it counts steps other than tool calls, and such steps are not recorded")
        if not bounds:
            raise UnfitError("it has neither min nor max")
        name = _tool_name(value) if value.get("pattern") or value.get("name") else "*"
        return "tool_count", {"name": name, **bounds}
    return "tool_count", {"name": _tool_name(value), "min": 1, **bounds}


def _tool_name(step: Any) -> str:
    if isinstance(step, Mapping):
        if step.get("type") not in (None, "tool", ["tool"]):
            raise UnfitError("it names steps other than tool calls, and such steps are not recorded")
        step = step.get("pattern") or step.get("name")
    if not isinstance(step, str) or not step:
        raise UnfitError("it names no tool")
    return step
