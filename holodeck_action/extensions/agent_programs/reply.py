"""A turn of a program as a reply, in the terms of the record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holodeck_action.extensions.agent_programs.settings import AgentTarget
from holodeck_action.extensions.agent_programs.trajectory import Call, Tokens, Trajectory
from holodeck_action.record.record import Step
from holodeck_action.targets.protocol import PartialTurn, Reply
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.plain import cut

_SHARE = 4
"""Which part of a reply the results of calls may take: a fourth, in characters of up to three bytes."""


def reply_of(
    trajectory: Trajectory,
    workspace: Path,
    target: AgentTarget,
    max_bytes: int,
    redact: Redact,
    confined: str,
) -> Reply:
    """Return the reply of a turn.

    Args:
        trajectory: the turn.
        workspace: absolute path of the workspace; paths in arguments become relative to it.
        target: the target.
        max_bytes: maximum bytes of the reply.
        redact: removes secrets from what is cut.
        confined: by what the program was confined; `no` if it was not.

    Raises:
        AgentError: the reply is too large, although results of calls were cut, or a value in it is not allowed.
    """
    trajectory = _with_short_results(trajectory, max_bytes // _SHARE, redact)
    about = _about(trajectory, target, trajectory.ended.how, confined)
    mapping = {**_facts(trajectory, workspace, target), "metadata": {"agent": about}}
    match trajectory.ended.how:
        case "completed":
            mapping["response"] = _relative(trajectory.text, workspace)
        case "cut_off":
            mapping |= {"response": _relative(trajectory.text, workspace), "finish_reason": "length"}
        case how:
            reason = Foreign.of_text(f"{target.agent} {trajectory.ended.reason}").short_line(redact)
            mapping["error"] = {"message": reason, "kind": how}
    return replace(reply_from_mapping(mapping, max_bytes=max_bytes), steps=_steps(trajectory))


def _with_short_results(trajectory: Trajectory, most_bytes: int, redact: Redact) -> Trajectory:
    """Return the trajectory with its longest results of calls cut if all together are larger than `most_bytes`."""
    calls = trajectory.calls or ()
    if sum(len(call.result or "") for call in calls) <= most_bytes:
        return trajectory
    most = most_bytes // len(calls)
    short = tuple(
        call if len(call.result or "") <= most else replace(call, result=cut(redact(call.result or ""), most))
        for call in calls
    )
    return replace(trajectory, calls=short)


def partial_of(
    trajectory: Trajectory, workspace: Path, target: AgentTarget, changes: Mapping[str, Any], confined: str
) -> PartialTurn:
    """Return the known calls, tokens and changes (see `workspace.changes`) of a turn that was stopped."""
    reply = reply_from_mapping({"response": "", **_facts(trajectory, workspace, target)}, max_bytes=10**9)
    about = {"agent": _about(trajectory, target, "stopped", confined), "workspace": changes}
    return PartialTurn(reply.tool_invocations, reply.usage, about, _steps(trajectory))


def _steps(trajectory: Trajectory) -> tuple[Step, ...]:
    """Return the calls with a known time in order, with milliseconds since the first of them."""
    started = sorted((call.start_ms, at) for at, call in enumerate(trajectory.calls or ()) if call.start_ms is not None)
    return tuple(Step(at, start_ms=round(start_ms - started[0][0], 1)) for start_ms, at in started)


def _about(trajectory: Trajectory, target: AgentTarget, ended: str, confined: str) -> dict[str, Any]:
    return {
        "program": target.agent,
        "version": trajectory.version,
        "ended": ended,
        "skills": None if trajectory.skills is None else list(trajectory.skills),
        "confined": confined,
    }


def _facts(trajectory: Trajectory, workspace: Path, target: AgentTarget) -> dict[str, Any]:
    calls = trajectory.calls
    return {
        "tool_invocations": None if calls is None else [_invocation(call, workspace) for call in calls],
        "usage": None if trajectory.tokens is None else _usage(trajectory.tokens, trajectory, target),
        "model": trajectory.model or None,
    }


def _usage(tokens: Tokens, trajectory: Trajectory, target: AgentTarget) -> dict[str, Any]:
    return {
        # The list price of this model is the cost if the program tells none.
        "model": trajectory.model or target.model,
        "prompt_tokens": tokens.prompt,
        "cached_tokens": tokens.cached,
        "completion_tokens": tokens.completion,
        "reasoning_tokens": tokens.reasoning,
        # Zero for a model whose price a program does not know.
        "cost_usd": trajectory.cost_usd or None,
    }


def _invocation(call: Call, workspace: Path) -> dict[str, Any]:
    args = dict(_relative(call.args, workspace))
    result: Any = None if call.result is None else _relative(call.result, workspace)
    if call.exit_code is not None:
        result = {"output": result or "", "exit_code": call.exit_code}
    took_ms = None if call.start_ms is None or call.end_ms is None else max(0.0, round(call.end_ms - call.start_ms, 1))
    return {
        "name": call.name or "unknown",
        "args": args,
        "result": result,
        "error": call.error,
        "duration_ms": took_ms,
    }


def _relative(value: Any, workspace: Path) -> Any:
    """Return a value with the paths of the workspace relative to it."""
    match value:
        case str():
            return value.replace(f"{workspace}/", "").replace(str(workspace), ".")
        case dict():
            return {key: _relative(child, workspace) for key, child in value.items()}
        case list():
            return [_relative(child, workspace) for child in value]
    return value
