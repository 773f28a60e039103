"""Reads trials of Harbor (`result.json`), and trajectories in ATIF, which have no verdict."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, convert, field

from holodeck_action.extensions.results.stored import (
    Definition,
    FormatError,
    StoredCase,
    StoredCheck,
    StoredResults,
    StoredTrial,
    scored_check,
)
from holodeck_action.record.facts import Amount, Count
from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import one_line

VERSIONS = (1,)
"""The known versions of a trial."""
ATIF = tuple(f"ATIF-v1.{minor}" for minor in range(9))
"""The known versions of trajectories."""
TRAJECTORY = "agent/trajectory.json"
"""Where the trajectory of a trial is, from the folder of its result."""


class _Call(Struct, frozen=True):
    id: str = field(name="tool_call_id")
    function: str = field(name="function_name")
    arguments: Mapping[str, Any] = {}


class _Result(Struct, frozen=True):
    call: str | None = field(default=None, name="source_call_id")
    content: Any = None


class _Observation(Struct, frozen=True):
    results: Sequence[_Result] = ()


class _Step(Struct, frozen=True):
    source: str
    message: Any = ""
    timestamp: str | None = None
    calls: Sequence[_Call] | None = field(default=None, name="tool_calls")
    observation: _Observation | None = None
    copied: bool | None = field(default=None, name="is_copied_context")


class _Totals(Struct, frozen=True):
    prompt: Count | None = field(default=None, name="total_prompt_tokens")
    completion: Count | None = field(default=None, name="total_completion_tokens")
    cost: Amount | None = field(default=None, name="total_cost_usd")


class _Agent(Struct, frozen=True):
    name: str
    version: str = ""
    model: str | None = field(default=None, name="model_name")


class Trajectory(Struct, frozen=True):
    """What an agent did in one trial."""

    version: str = field(name="schema_version")
    agent: _Agent
    steps: Sequence[_Step]
    totals: _Totals | None = field(default=None, name="final_metrics")
    continued: str | None = field(default=None, name="continued_trajectory_ref")


class _Used(Struct, frozen=True):
    prompt: Count | None = field(default=None, name="n_input_tokens")
    completion: Count | None = field(default=None, name="n_output_tokens")
    cost: Amount | None = field(default=None, name="cost_usd")


class _Verified(Struct, frozen=True):
    rewards: Mapping[str, float] | None = None


class _Raised(Struct, frozen=True):
    type: str = field(name="exception_type")
    message: str = field(default="", name="exception_message")


class _StepResult(Struct, frozen=True):
    error: _Raised | None = field(default=None, name="exception_info")


class _Timing(Struct, frozen=True):
    started: str | None = field(default=None, name="started_at")
    finished: str | None = field(default=None, name="finished_at")


class _Model(Struct, frozen=True):
    name: str


class _AgentInfo(Struct, frozen=True):
    name: str
    version: str = ""
    model: _Model | None = field(default=None, name="model_info")


class Trial(Struct, frozen=True):
    """The result of a trial."""

    task: str = field(name="task_name")
    checksum: str = field(name="task_checksum")
    agent: _AgentInfo = field(name="agent_info")
    version: int = field(default=1, name="schema_version")
    task_id: Mapping[str, Any] = {}
    used: _Used | None = field(default=None, name="agent_result")
    verified: _Verified | None = field(default=None, name="verifier_result")
    error: _Raised | None = field(default=None, name="exception_info")
    steps: Sequence[_StepResult] | None = field(default=None, name="step_results")
    finished: str | None = field(default=None, name="finished_at")
    execution: _Timing | None = field(default=None, name="agent_execution")


def read_trial(
    trial: Trial, file: str, marks: Mapping[str, float], beside: Callable[[str], Any | None]
) -> StoredResults:
    """Return the results of a trial, which does not have how many tasks and attempts there should be.

    Args:
        trial: the trial.
        file: name of the file, for positions.
        marks: least passing score of a reward, by its name; under the empty name, of all others.
        beside: returns the JSON value of another file, by its path from the trial's folder; None if there is none.

    Raises:
        FormatError: the trial or its trajectory has an unknown version.
    """
    if trial.version not in VERSIONS:
        raise FormatError(f"is of version {trial.version} of Harbor's trials (known: 1); use another Harbor")
    agent = trial.agent
    model = agent.model.name if agent.model else None
    value = beside(TRAJECTORY)
    trajectory = None if value is None else convert(value, Trajectory)
    known = StoredTrial() if trajectory is None else _answered(trajectory)
    path = trial.task_id.get("path")
    return StoredResults(
        program="Harbor",
        suite="",
        target=" ".join(filter(None, (agent.name, agent.version, model))),
        cases=[
            StoredCase(
                name=trial.task,
                question=(trajectory and _question(trajectory)) or "(the instruction is not in the results)",
                asked=[trial.task, trial.checksum],
                source=SourceMark(file, 1, 0),
                trials=(_graded(trial, known, marks),),
                repeat=1,
                definition=Definition((f"{glob.escape(path)}/instruction.md",)) if isinstance(path, str) else None,
            )
        ],
        written=trial.finished or "",
        evenly=True,
    )


def _graded(trial: Trial, known: StoredTrial, marks: Mapping[str, float]) -> StoredTrial:
    raised = [each for each in (trial.error, *(step.error for step in trial.steps or ())) if each is not None]
    used, timing = trial.used or _Used(), trial.execution or _Timing()
    # Harbor verifies what an agent left that ran out of time: the error counts, not the reward.
    error = f"{raised[0].type}: {raised[0].message}" if raised else ""
    return StoredTrial(
        answer=None if error else known.answer,
        checks=() if error else tuple(_rewards(trial, marks)),
        error=error,
        calls=known.calls,
        usage=Usage(used.prompt, used.completion, used.cost),
        started=timing.started or "",
        duration_ms=_milliseconds(timing.started, timing.finished),
        model=trial.agent.model.name if trial.agent.model else None,
    )


def _rewards(trial: Trial, marks: Mapping[str, float]) -> Iterator[StoredCheck]:
    rewards = (trial.verified.rewards if trial.verified else None) or {}
    for name, reward in rewards.items():
        yield scored_check(name, "reward", reward, "", marks)
    if not rewards:
        yield StoredCheck("reward", "reward", error="Harbor has no reward of this trial")


def read_trajectory(trajectory: Trajectory, file: str) -> StoredResults:
    """Return the answer of a trajectory, which has no verdict.

    Args:
        trajectory: the trajectory.
        file: name of the file, for positions.

    Raises:
        FormatError: it has an unknown version or source of a step.
    """
    answered, question = _answered(trajectory), _question(trajectory)
    agent = trajectory.agent
    return StoredResults(
        program=trajectory.version.replace("-v", " "),
        suite="",
        target=" ".join(filter(None, (agent.name, agent.version, agent.model))),
        cases=[StoredCase(None, question, [question], SourceMark(file, 1, 0), (answered,), 1)],
        written=trajectory.steps[-1].timestamp or "" if trajectory.steps else "",
        notices=("a trajectory in ATIF has no verdict: give the result.json of its trial",),
    )


def _answered(trajectory: Trajectory) -> StoredTrial:
    """Return the answer of a trajectory: the last message of the agent, if the agent calls no tool in it."""
    if trajectory.version not in ATIF:
        version = one_line(trajectory.version, 60)
        raise FormatError(f"has a trajectory of the version {version!r} (known: {ATIF[0]} to {ATIF[-1]})")
    for step in trajectory.steps:
        if step.source not in ("system", "user", "agent"):
            raise FormatError(f"has a trajectory with a step of the unknown source {one_line(step.source, 60)!r}")
    # Steps that were copied from an earlier trajectory are not work of this one.
    steps = [step for step in trajectory.steps if not step.copied]
    agent = [step for step in steps if step.source == "agent"]
    whole = bool(agent) and not trajectory.continued and not agent[-1].calls
    totals = (None if trajectory.continued else trajectory.totals) or _Totals()
    times = [step.timestamp for step in steps if step.timestamp]
    return StoredTrial(
        answer=_text(agent[-1].message) if whole else None,
        calls=None if trajectory.continued else tuple(call for step in steps for call in _calls(step)),
        usage=Usage(totals.prompt, totals.completion, totals.cost),
        started=times[0] if times else "",
        duration_ms=_milliseconds(times[0], times[-1]) if times else None,
        model=trajectory.agent.model,
    )


def _question(trajectory: Trajectory) -> str:
    return next((_text(step.message) for step in trajectory.steps if step.source == "user"), "")


def _text(message: Any) -> str:
    parts = message if isinstance(message, list) else [{"text": message}]
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _calls(step: _Step) -> Iterator[ToolInvocation]:
    found = {each.call: each.content for each in (step.observation or _Observation()).results}
    for call in step.calls or ():
        content = found.get(call.id)
        yield ToolInvocation(call.function, call.arguments, None if content is None else _text(content))


def _milliseconds(started: str | None, finished: str | None) -> float | None:
    try:
        seconds = datetime.fromisoformat(finished or "") - datetime.fromisoformat(started or "")
    except (ValueError, TypeError):
        return None
    return max(0.0, 1000 * seconds.total_seconds())
