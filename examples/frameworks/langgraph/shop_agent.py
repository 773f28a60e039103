"""A graph of LangGraph that calls a tool, and keeps each conversation in its checkpointer."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

ORDERS = {"A-17": {"place": "Leeds", "arrives": "tomorrow"}, "B-4": {"place": "York", "arrives": "on Monday"}}


@tool
def find_order(id: str) -> dict:
    """Find an order by its number."""
    return ORDERS.get(id, {})


INSTRUCTIONS = ("system", "You answer customers of a shop, which opens at nine. Look orders up.")
# Chat Completions accepts tools without reasoning only. Without these two settings LangChain calls the Responses API.
model = ChatOpenAI(model="gpt-6-luna", use_responses_api=False, reasoning_effort="none").bind_tools([find_order])


async def answer(state: MessagesState) -> dict:
    return {"messages": [await model.ainvoke([INSTRUCTIONS, *state["messages"]])]}


builder = StateGraph(MessagesState).add_node("answer", answer).add_node("tools", ToolNode([find_order]))
builder.add_edge(START, "answer").add_conditional_edges("answer", tools_condition).add_edge("tools", "answer")
graph = builder.compile(checkpointer=InMemorySaver())
