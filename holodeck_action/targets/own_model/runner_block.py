"""What the `claude` and `openai` blocks say about the suite's own model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, field

from holodeck_action.llm.providers import Reasoning
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.backends import ClaudeConfig, OpenAIConfig
from holodeck_action.suite.model.providers import runner_block
from holodeck_action.targets.own_model.toolbox import Tool

MOST_CALLS = 20
"""Calls of the model in one turn unless `max_turns` says otherwise: a model that goes round in circles is ended."""


class RunnerSettings(Struct, frozen=True):
    """How the suite's model is used.

    Attributes:
        block: the block that says so, `claude` or `openai`.
        max_calls: calls of the model in one turn, at most.
        allowed: patterns of tool names, one of which must fit; None allows every tool.
        disallowed: patterns of tool names, none of which may fit.
        budget_usd: list price at which a conversation is ended; None without a limit.
        fallback: name of the model that is asked where the suite's cannot answer; None for none.
        reasoning: how hard the model is asked to think.
    """

    block: str = "openai"
    max_calls: int = MOST_CALLS
    allowed: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    budget_usd: float | None = None
    fallback: str | None = None
    reasoning: Reasoning = field(default_factory=Reasoning)

    def permitted(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools that the model is given."""
        return tuple(
            tool
            for tool in tools
            if (self.allowed is None or any(_fits(tool, pattern) for pattern in self.allowed))
            and not any(_fits(tool, pattern) for pattern in self.disallowed)
        )

    def notices(self, tools: Sequence[Tool]) -> Iterator[str]:
        """Yield a sentence for every pattern that fits none of the suite's tools."""
        for pattern in dict.fromkeys((*(self.allowed or ()), *self.disallowed)):
            if not any(_fits(tool, pattern) for tool in tools):
                yield f"{self.block}: {quoted(pattern)} is no tool of this suite"


def runner_settings(agent: AgentConfig) -> RunnerSettings:
    """Read the block that belongs to the model's provider."""
    name, block = runner_block(agent.model.provider), agent.claude
    if name == "openai":
        return RunnerSettings() if agent.openai is None else _openai(agent.openai)
    return RunnerSettings("claude") if block is None else _claude(block)


def _openai(block: OpenAIConfig) -> RunnerSettings:
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
    )


def _claude(block: ClaudeConfig) -> RunnerSettings:
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


def _fits(tool: Tool, pattern: str) -> bool:
    """Whether a pattern names a tool: by its name here, or by the one it has in HoloDeck's Claude runner."""
    name = tool.definition.name
    names = (name, f"mcp__holodeck_tools__{name}", *getattr(tool, "other_names", ()))
    return any(fnmatchcase(each, pattern) for each in names)
