"""Builds the agent of a target, and finds its program, Git and the workspace."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from holodeck_action.extensions.agent_programs.adapters.catalogue import ADAPTERS
from holodeck_action.extensions.agent_programs.adapters.unknown import UnknownProgram
from holodeck_action.extensions.agent_programs.agent import AgentProgram
from holodeck_action.extensions.agent_programs.environment import chosen
from holodeck_action.extensions.agent_programs.exam_rules import check_suite
from holodeck_action.extensions.agent_programs.machine import Machine
from holodeck_action.extensions.agent_programs.recording import RecordedTurns
from holodeck_action.extensions.agent_programs.settings import AgentTarget
from holodeck_action.extensions.agent_programs.workspace import tree_digest
from holodeck_action.llm.cassette.recorded_calls import Recording
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.run.environments.packages import PackagesError, environments_folder
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.values import Suite
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.programs import program_outside


def build_agent(
    target: AgentTarget,
    *,
    suite: Suite,
    checkout: Checkout,
    environ: Mapping[str, str],
    max_bytes: int,
    code: CodeAllowed,
    redact: Redact,
    recording: Recording | None,
) -> AgentProgram:
    """Return the agent of a target; the arguments are those of `targets.factory.build_agent`.

    Raises:
        TargetError: the program is not installed, or the workspace cannot be read.
    """
    try:
        adapter = (
            UnknownProgram(target.command or "") if target.agent == UnknownProgram.name else ADAPTERS[target.agent]()
        )
    except ValueError:
        raise TargetError("agent: command needs command, the program and its arguments") from None
    replays = recording is not None and recording.replays
    program = adapter.program if replays else shutil.which(adapter.program, path=environ.get("PATH"))
    if program is None:
        way = f"; install it: {adapter.way}" if adapter.way else ""
        raise TargetError(f"the program {excerpt(adapter.program)} is not on the PATH{way}")
    fixture = None
    if target.workspace is not None:
        try:
            fixture = checkout.resolve(target.workspace)
        except OSError as error:
            raise TargetError(f"the workspace {excerpt(target.workspace)} cannot be used: {error.strerror}") from None
        if not fixture.is_dir():
            raise TargetError(f"the workspace {excerpt(target.workspace)} is not a folder")
    check_suite(adapter, suite.cases)
    git = program_outside("git", environ.get("PATH", ""), Path(checkout.root_paths[0]))
    machine = Machine(program, git, chosen(environ, *adapter.keys(target.model), *target.env), code)
    turns = None
    if recording is not None:
        turns = RecordedTurns(recording, target, "" if fixture is None else tree_digest(fixture))
    return AgentProgram(
        target, adapter, machine, fixture, suite, checkout, max_bytes, redact, turns, _cache_folder(environ), environ
    )


def _cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder for what later runs need again; None if the user has no cache folder."""
    try:
        return environments_folder(environ, Path(environ.get("HOME", ""))).with_name("agents")
    except PackagesError:
        return None
