"""The `claude` and `openai` blocks of agent.yaml: settings of HoloDeck's runners for models of these providers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import Flag, FormatModel, Integer, MaybeText, NonBlank, Number
from holodeck_action.suite.model.providers import ApiName, Effort

ClaudeEffort = Literal["low", "medium", "high", "xhigh", "max"]
"""Levels of effort of Anthropic's API."""


class ExtendedThinking(FormatModel):
    """`claude.extended_thinking`: thinking before the answer."""

    enabled: Flag = False
    """Whether the model thinks."""
    budget_tokens: Annotated[Integer, Field(ge=1000, le=100_000)] = 10_000
    """Tokens for thinking, in addition to `max_tokens`."""


class BashAccess(FormatModel):
    """`claude.bash`: shell access of the agent. Checked, not used."""

    enabled: Flag = False
    """Whether the agent may use a shell."""
    excluded_commands: tuple[NonBlank, ...] = ()
    """Commands that the agent must not use. Example: `[rm]`."""
    allow_unsafe: Flag = False
    """Whether unsafe commands are allowed."""


class FileAccess(FormatModel):
    """`claude.file_system`: file access of the agent. Checked, not used."""

    read: Flag = False
    """Whether the agent may read files."""
    write: Flag = False
    """Whether the agent may write files."""
    edit: Flag = False
    """Whether the agent may edit files."""


class Subagent(FormatModel):
    """An entry of `claude.agents`: an agent that the main agent may call. Checked, not used."""

    description: NonBlank
    """When the main agent should call it. Example: `Reviews answers`."""
    prompt: NonBlank | None = None
    """Instructions of the subagent. Example: `Review the answer.`."""
    prompt_file: NonBlank | None = None
    """A file with instructions of the subagent. Example: `reviewer.md`."""
    tools: list[NonBlank] | None = None
    """Tools that the subagent may use. Example: `[Read]`."""
    model: Literal["sonnet", "opus", "haiku", "inherit"] | None = None
    """Model of the subagent."""

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        if (self.prompt is None) == (self.prompt_file is None):
            raise PydanticCustomError("subagent_prompt", "give exactly one of prompt and prompt_file")
        return self


class ClaudeConfig(FormatModel):
    """`claude`: settings for models of `anthropic` and `ollama`."""

    working_directory: MaybeText = None
    """Checked, not used. Example: `.`."""
    permission_mode: Literal["manual", "acceptEdits", "acceptAll"] = "manual"
    """Checked, not used."""
    max_turns: Annotated[Integer, Field(ge=1)] | None = None
    """Calls of the model in one turn; 20 when absent. Example: `10`."""
    max_concurrent_sessions: Annotated[Integer, Field(ge=1, le=500)] | None = None
    """Checked, not used. Example: `4`."""
    session_memory_estimate_mib: Annotated[Integer, Field(ge=50, le=2000)] = 500
    """Checked, not used."""
    extended_thinking: ExtendedThinking | None = None
    """Thinking before the answer."""
    web_search: Flag = False
    """Checked, not used."""
    bash: BashAccess | None = None
    """Checked, not used."""
    file_system: FileAccess | None = None
    """Checked, not used."""
    agents: dict[str, Subagent] | None = None
    """Checked, not used."""
    allowed_tools: list[NonBlank] | None = None
    """Tools that the model can use; all when absent. `*` is a wildcard. Example: `[find_order, mcp__orders]`."""
    disallowed_tools: list[NonBlank] | None = None
    """Tools that the model cannot use. `*` is a wildcard. Example: `[refund]`."""
    effort: ClaudeEffort | None = None
    """How hard the model thinks."""
    max_budget_usd: Annotated[Number, Field(gt=0.0)] | None = None
    """List price in US dollars after which a conversation makes no further call. Example: `0.5`."""
    fallback_model: MaybeText = None
    """Called when the model is overloaded, fails, exceeds its rate limit or is unknown. Example: `claude-haiku-5-5`."""
    setting_sources: list[Literal["user", "project", "local", "all"]] | None = None
    """Checked, not used. Example: `[project]`."""
    i_understand_this_is_unsafe: Flag = False
    """Checked, not used."""
    disable_default_hooks: Flag = False
    """Checked, not used."""
    disable_subprocess_env_scrub: Flag = False
    """Checked, not used."""


class ToolPermissions(FormatModel):
    """`openai.permissions`: the tools that the model can use."""

    allowed_tools: list[NonBlank] | None = None
    """Tools that the model can use; all when absent. `*` is a wildcard. Example: `[find_order]`."""
    disallowed_tools: list[NonBlank] | None = None
    """Tools that the model cannot use. `*` is a wildcard. Example: `[refund]`."""

    @model_validator(mode="after")
    def _check_tool_names(self) -> Self:
        if not set(self.allowed_tools or ()).isdisjoint(self.disallowed_tools or ()):
            raise PydanticCustomError("allowed_tools", "names a tool that disallowed_tools names too")
        return self


class OpenAIConfig(FormatModel):
    """`openai`: settings for models of `openai` and `azure_openai`."""

    api: ApiName | None = None
    """The API of OpenAI: `responses`, or `chat` for chat completions. When absent, `responses` at OpenAI's own address,
    `chat` at any other. Example: `responses`."""
    max_concurrent_sessions: Annotated[Integer, Field(ge=1, le=500)] | None = None
    """Checked, not used. Example: `4`."""
    session_memory_estimate_mib: Annotated[Integer, Field(ge=50, le=2000)] = 100
    """Checked, not used."""
    max_turns: Annotated[Integer, Field(ge=1)] | None = None
    """Calls of the model in one turn; 20 when absent. Example: `10`."""
    i_understand_this_is_unsafe: Flag = False
    """Checked, not used."""
    disable_default_hooks: Flag = False
    """Checked, not used."""
    disable_subprocess_env_scrub: Flag = False
    """Checked, not used."""
    permissions: ToolPermissions | None = None
    """The tools that the model can use."""
    effort: Effort | None = None
    """How hard a reasoning model thinks; `none` switches thinking off."""
    max_budget_usd: Annotated[Number, Field(gt=0.0)] | None = None
    """List price in US dollars after which a conversation makes no further call. Example: `0.5`."""
    fallback_model: MaybeText = None
    """Called when the model is overloaded, fails, exceeds its rate limit or is unknown. Example: `gpt-6-luna`."""
    disallowed_tools: list[NonBlank] | None = None
    """Tools that the model cannot use. `*` is a wildcard. Example: `[refund]`."""
