"""An agent of the OpenAI Agents SDK that calls a tool."""

from agents import Agent, ModelSettings, function_tool, set_default_openai_api, set_tracing_disabled

set_default_openai_api("chat_completions")
set_tracing_disabled(True)  # else the SDK sends what is said to OpenAI's dashboard

ORDERS = {"A-17": {"place": "Leeds", "arrives": "tomorrow"}, "B-4": {"place": "York", "arrives": "on Monday"}}


@function_tool
def find_order(id: str) -> dict:
    """Find an order by its number."""
    return ORDERS.get(id, {})


agent = Agent(
    name="shop",
    model="gpt-6-luna",
    model_settings=ModelSettings(reasoning={"effort": "none"}),  # with which Chat Completions accepts tools
    instructions="You answer customers of a shop, which opens at nine. Look orders up.",
    tools=[find_order],
)
