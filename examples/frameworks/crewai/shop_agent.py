"""A crew of CrewAI with a tool. It returns the answer alone; spans tell the rest."""

import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")  # which CrewAI reads when it is imported

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

ORDERS = {"A-17": {"place": "Leeds", "arrives": "tomorrow"}, "B-4": {"place": "York", "arrives": "on Monday"}}


@tool
def find_order(id: str) -> dict:
    """Find an order by its number."""
    return ORDERS.get(id, {})


ROLE = {"role": "clerk of a shop, which opens at nine", "backstory": "You are brief."}
GOAL = "Answer the last question of the customer. Look orders up."
MODEL = LLM("openai/gpt-6-luna", reasoning_effort="none")  # with which Chat Completions accepts tools
clerk = Agent(**ROLE, goal=GOAL, llm=MODEL, tools=[find_order])
task = Task(description="{conversation}", expected_output="One sentence.", agent=clerk)
crew = Crew(agents=[clerk], tasks=[task])


def answer(messages):
    conversation = "\n".join(f"{message['role']}: {message['content']}" for message in messages)
    return crew.kickoff(inputs={"conversation": conversation}).raw
