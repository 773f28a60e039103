"""The `claude` and `openai` blocks: how HoloDeck's own runners behave (HoloDeck format reference §1.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import Flag, FormatModel, Integer, MaybeText, NonBlank, Number
from holodeck_action.suite.providers import ProviderName

Effort = Literal["low", "medium", "high", "max"]


class ExtendedThinking(FormatModel):
    """Thinking before the answer."""

    enabled: Flag = False
    budget_tokens: Annotated[Integer, Field(ge=1000, le=100_000)] = 10_000


class BashAccess(FormatModel):
    """Shell access of the agent."""

    enabled: Flag = False
    excluded_commands: tuple[NonBlank, ...] = ()
    allow_unsafe: Flag = False


class FileAccess(FormatModel):
    """File access of the agent."""

    read: Flag = False
    write: Flag = False
    edit: Flag = False


class Subagent(FormatModel):
    """An agent that the main agent may call."""

    description: NonBlank
    prompt: NonBlank | None = None
    prompt_file: NonBlank | None = None
    tools: list[NonBlank] | None = None
    model: Literal["sonnet", "opus", "haiku", "inherit"] | None = None

    @model_validator(mode="after")
    def _one_prompt(self) -> Subagent:
        if (self.prompt is None) == (self.prompt_file is None):
            raise PydanticCustomError("subagent_prompt", "give exactly one of prompt and prompt_file")
        return self


class ClaudeConfig(FormatModel):
    """Settings of the Claude runner; max_turns, the tool lists, effort, the cost cap and the fallback are honoured."""

    working_directory: MaybeText = None
    permission_mode: Literal["manual", "acceptEdits", "acceptAll"] = "manual"
    max_turns: Annotated[Integer, Field(ge=1)] | None = None
    max_concurrent_sessions: Annotated[Integer, Field(ge=1, le=500)] | None = None
    session_memory_estimate_mib: Annotated[Integer, Field(ge=50, le=2000)] = 500
    extended_thinking: ExtendedThinking | None = None
    web_search: Flag = False
    bash: BashAccess | None = None
    file_system: FileAccess | None = None
    agents: dict[str, Subagent] | None = None
    allowed_tools: list[NonBlank] | None = None
    disallowed_tools: list[NonBlank] | None = None
    effort: Effort | None = None
    max_budget_usd: Annotated[Number, Field(gt=0.0)] | None = None
    fallback_model: MaybeText = None
    setting_sources: list[Literal["user", "project", "local", "all"]] | None = None
    i_understand_this_is_unsafe: Flag = False
    disable_default_hooks: Flag = False
    disable_subprocess_env_scrub: Flag = False


class ToolPermissions(FormatModel):
    """Which tools the agent may call."""

    allowed_tools: list[NonBlank] | None = None
    disallowed_tools: list[NonBlank] | None = None

    @model_validator(mode="after")
    def _no_overlap(self) -> ToolPermissions:
        if not set(self.allowed_tools or ()).isdisjoint(self.disallowed_tools or ()):
            raise PydanticCustomError("allowed_tools", "names a tool that disallowed_tools names too")
        return self


class OpenAIConfig(FormatModel):
    """Settings of the OpenAI runner; max_turns, the tool lists, effort, the cost cap and the fallback are honoured."""

    max_concurrent_sessions: Annotated[Integer, Field(ge=1, le=500)] | None = None
    session_memory_estimate_mib: Annotated[Integer, Field(ge=50, le=2000)] = 100
    max_turns: Annotated[Integer, Field(ge=1)] | None = None
    i_understand_this_is_unsafe: Flag = False
    disable_default_hooks: Flag = False
    disable_subprocess_env_scrub: Flag = False
    permissions: ToolPermissions | None = None
    effort: Effort | None = None
    max_budget_usd: Annotated[Number, Field(gt=0.0)] | None = None
    fallback_model: MaybeText = None
    disallowed_tools: list[NonBlank] | None = None


def runner_block(provider: ProviderName) -> Literal["claude", "openai"]:
    """Return which block is about the models of a provider (format reference §1.4, routing)."""
    return "openai" if provider in ("openai", "azure_openai") else "claude"
