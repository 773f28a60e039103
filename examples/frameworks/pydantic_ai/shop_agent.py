"""An agent of pydantic-ai that calls a tool."""

from pydantic_ai import Agent

ORDERS = {"A-17": {"place": "Leeds", "arrives": "tomorrow"}, "B-4": {"place": "York", "arrives": "on Monday"}}

agent = Agent(
    "openai-chat:gpt-6-luna",
    model_settings={"openai_reasoning_effort": "none"},  # with which Chat Completions accepts tools
    instructions="You answer customers of a shop, which opens at nine. Look orders up.",
)


@agent.tool_plain
def find_order(id: str) -> dict:
    """Find an order by its number."""
    return ORDERS.get(id, {})
