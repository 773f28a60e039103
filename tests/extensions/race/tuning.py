"""A suite whose own model answers better the nearer its settings are to the best ones, and its optimization."""

from __future__ import annotations

import json
from typing import Any

from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Reply, Request

SUITE = """\
# The suite of our shop.
name: tested
model:
  provider: openai
  endpoint: {endpoint}
  name: gpt-4o   # the cheap one later
  temperature: 0.7  # never tuned
  top_p: {top_p}
  max_tokens: 50
instructions: {{inline: Answer.}}
evaluations:
  metrics: [{{type: standard, metric: equality}}]
  optimizer:
    loss: {{equality: 1}}
    axes:
      numeric:
{axes}
    max_cycles: 2
test_cases:
{cases}
"""
TEMPERATURE = "- {path: model.temperature, type: float, range: [0, 1]}"
TOP_P = "- {path: model.top_p, type: categorical, range: [0.5, 1.0]}"


def answers_well(request: Request, number: int) -> bool:
    """Whether a question is answered correctly: of 100 questions, 90 with temperature 0.2, less further from it."""
    share: float = 90 - 80 * abs(request.body["temperature"] - 0.2) - 30 * abs(request.body.get("top_p", 0.5) - 0.5)
    return (number * 37) % 100 < share


def tuned(request: Request) -> Reply:
    number = int(request.text.rpartition(" ")[2])
    return Answer(f"yes {number}" if answers_well(request, number) else "no")


def write(
    project: Project, models: FakeModels, count: int = 100, axes: tuple[str, ...] = (TEMPERATURE,), **more: str
) -> str:
    """Write a suite with a number of questions, and return agent.yaml."""
    cases = [f"- {{name: case {at}, input: question {at}, ground_truth: 'yes {at}'}}" for at in range(count)]
    text = SUITE.format(
        endpoint=models.openai_url,
        top_p=more.pop("top_p", "0.5"),
        axes="\n".join(f"      {axis}" for axis in axes),
        cases="\n".join(cases),
    )
    for old, new in more.items():
        text = text.replace(f"{old}:", new)
    project.write("agent.yaml", text)
    return text


def optimize(project: Project, *arguments: str, **environ: str) -> Finished:
    return project.run("optimize", "-o", "out", *arguments, **{"OPENAI_API_KEY": KEY, **environ})


def outcome(project: Project, folder: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.folder / folder / "optimize.json").read_bytes())
    return found
