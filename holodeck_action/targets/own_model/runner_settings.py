"""Settings of the suite's own model from the blocks `claude` and `openai` of agent.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct, field

from holodeck_action.llm.providers import Reasoning
from holodeck_action.llm.reasoning import answer_limit
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.providers import ApiName, runner_block

if TYPE_CHECKING:
    # Most suites have neither block.
    from holodeck_action.suite.model.backends import ClaudeConfig, OpenAIConfig
    from holodeck_action.targets.own_model.toolbox import Tool

MOST_CALLS = 20
"""Maximum model calls in one turn if `max_turns` is not set; without it, a model could call tools forever."""


class RunnerSettings(Struct, frozen=True):
    """Settings of the suite's model.

    Attributes:
        block: name of the block in agent.yaml with these settings, `claude` or `openai`.
        max_calls: maximum model calls in one turn.
        allowed: patterns of tool names. The model may call only tools that match one of them; None allows all tools.
        disallowed: patterns of tool names. The model may not call tools that match one of them.
        budget_usd: maximum cost of a conversation in US dollars, at list prices; None if there is no limit.
        fallback: name of the model that is called if the suite's model fails; None if there is no fallback.
        reasoning: the reasoning settings.
        api: the API of OpenAI that the suite sets; None if it sets none.
    """

    block: str = "openai"
    max_calls: int = MOST_CALLS
    allowed: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    budget_usd: float | None = None
    fallback: str | None = None
    reasoning: Reasoning = field(default_factory=Reasoning)
    api: ApiName | None = None

    def permitted_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools that the model may call."""
        return tuple(
            tool
            for tool in tools
            if (self.allowed is None or any(_is_named_by(tool, pattern) for pattern in self.allowed))
            and not any(_is_named_by(tool, pattern) for pattern in self.disallowed)
        )

    def notices(self, tools: Sequence[Tool]) -> Iterator[str]:
        """Yield a notice for each pattern that matches no tool of the suite."""
        for pattern in dict.fromkeys((*(self.allowed or ()), *self.disallowed)):
            if not any(_is_named_by(tool, pattern) for tool in tools):
                yield f"{self.block}: {quoted(pattern)} is not a tool of this suite"


def runner_settings(agent: AgentConfig) -> RunnerSettings:
    """Return the settings from the block that belongs to the model's provider."""
    name, block = runner_block(agent.model.provider), agent.claude
    if name == "openai":
        return RunnerSettings() if agent.openai is None else _openai_settings(agent.openai)
    return RunnerSettings("claude") if block is None else _claude_settings(block)


def longest_answer(agent: AgentConfig) -> int | None:
    """Return the maximum tokens of the model's answers without a thinking budget; None if no limit is sent."""
    return answer_limit(agent.model, runner_settings(agent).reasoning)


def _openai_settings(block: OpenAIConfig) -> RunnerSettings:
    permissions = block.permissions
    allowed = None if permissions is None else permissions.allowed_tools
    disallowed = (*(block.disallowed_tools or ()), *((permissions and permissions.disallowed_tools) or ()))
    return RunnerSettings(
        "openai",
        block.max_turns or MOST_CALLS,
        None if allowed is None else tuple(allowed),
        disallowed,
        block.max_budget_usd,
        block.fallback_model,
        Reasoning(block.effort, None, "openai"),
        block.api,
    )


def _claude_settings(block: ClaudeConfig) -> RunnerSettings:
    thinking = block.extended_thinking
    budget = thinking.budget_tokens if thinking is not None and thinking.enabled else None
    return RunnerSettings(
        "claude",
        block.max_turns or MOST_CALLS,
        None if block.allowed_tools is None else tuple(block.allowed_tools),
        tuple(block.disallowed_tools or ()),
        block.max_budget_usd,
        block.fallback_model,
        Reasoning(block.effort, budget, "claude"),
    )


def _is_named_by(tool: Tool, pattern: str) -> bool:
    """Return whether a pattern matches a tool's name, or one of its names in HoloDeck's Claude runner."""
    name = tool.definition.name
    names = (name, f"mcp__holodeck_tools__{name}", *getattr(tool, "other_names", ()))
    return any(fnmatchcase(each, pattern) for each in names)
