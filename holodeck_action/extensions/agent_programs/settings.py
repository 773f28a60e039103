"""The settings of the target `agent`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.agent_programs.adapters.catalogue import ADAPTERS
from holodeck_action.extensions.agent_programs.adapters.unknown import UnknownProgram
from holodeck_action.extensions.agent_programs.environment import refused
from holodeck_action.extensions.agent_programs.workspace import tree_digest
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.base import Flag, Integer, NonBlank
from holodeck_action.suite.model.targets import AddedTarget


class AgentTarget(AddedTarget):
    """`target: {agent: NAME}`: answers from a coding-agent program that works in a folder."""

    kind = "agent"
    recorded = True

    agent: NonBlank
    """The program: `claude`, `codex`, `copilot`, `gemini`, `opencode`, `pi` or `qwen`; `command`
    for another one. Example: `claude`."""
    command: NonBlank | None = None
    """With `agent: command`: the program and its arguments. Its output is the answer; its tool calls are unknown.
    Example: `my-agent --headless`."""
    model: NonBlank | None = None
    """The model, as the program names it; the program's own default when absent. Example: `claude-sonnet-5-5`."""
    workspace: NonBlank | None = None
    """The folder in which the agent works, relative to agent.yaml. Each trial gets a fresh copy of it, outside the
    checkout, which is its own Git repository. An empty folder when absent. Example: `fixtures/shop`."""
    setup: NonBlank | None = None
    """A shell command that runs in the workspace once before the first trial, without secrets; each trial gets a copy
    of the result. It is kept for the same workspace and command. If it fails, no trial runs. Example: `npm ci`."""
    options: dict[str, str | Flag | None] = Field(default_factory=dict)
    """Further options of the program, by name without dashes. Example: `{max-turns: "20"}`."""
    env: list[NonBlank] = Field(default_factory=list)
    """Names of variables of the job that the program gets, besides the key of its provider. Example: `[NPM_TOKEN]`."""
    max_calls: Annotated[Integer, Field(gt=0)] = 200
    """Most tool calls of one turn; the program is stopped after them. Example: `50`."""

    keep: Literal["failed"] | None = None
    """`failed`: keep the files that a trial changed in the run's folder, `workspaces`, if the trial does not pass."""
    confine: Literal["auto", "require", "none"] = "auto"
    """How the program is confined: `auto` by bubblewrap where it works, else by its own user where this program is
    root; `require` by bubblewrap, or no trial runs; `none` not at all. Example: `require`."""
    self_check: Flag = True
    """Whether the program must write a file, run a command and answer before the first case, with a scripted server on
    loopback in place of its model. Once passed, it is not repeated until the program is installed again."""

    @field_validator("env")
    @classmethod
    def _check_env(cls, value: list[str]) -> list[str]:
        if (name := refused(value)) is not None:
            message = "must not name {name}: no program gets variables of the runner"
            raise PydanticCustomError("agent_env", message, {"name": name})
        return value

    @field_validator("agent")
    @classmethod
    def _check_agent(cls, value: str) -> str:
        if value not in (*ADAPTERS, UnknownProgram.name):
            names = ", ".join((*ADAPTERS, UnknownProgram.name))
            raise PydanticCustomError("agent_program", "must be one of {names}", {"names": names})
        return value

    @model_validator(mode="after")
    def _check_command(self) -> Self:
        if (self.command is None) == (self.agent == UnknownProgram.name):
            message = "agent: command and the key command need each other; a program that is known by name has its own"
            raise PydanticCustomError("agent_command", message)
        return self

    @property
    def shown(self) -> str:
        """The program and its model."""
        return self.agent if self.model is None else f"{self.agent}:{self.model}"

    def digests(self, checkout: Checkout) -> dict[str, str]:
        """Return the digest of the workspace."""
        if self.workspace is None:
            return {}
        return {f"the workspace {self.workspace}": tree_digest(checkout.resolve(self.workspace))}
