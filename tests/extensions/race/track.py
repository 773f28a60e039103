"""A suite whose own model answers as well as its name says, and races of its variants."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Reply, Request

MODELS = ("best-100", "good-90", "poor-50", "poor-40")
"""Names of models; each answers about as many of 100 questions correctly as its name says."""


def answers_well(model: str, number: int) -> bool:
    """Whether a model answers a question correctly; better models answer what worse ones do."""
    return (number * 37) % 100 < int(model.rpartition("-")[2])


def answered(request: Request) -> Reply:
    number = int(request.text.rpartition(" ")[2])
    return Answer(f"yes {number}" if answers_well(request.model, number) else "no")


def asked(models: FakeModels, since: int = 0) -> Counter[str]:
    """How many questions each model was asked, since a number of requests."""
    return Counter(request.model for request in models.requests[since:])


def write(project: Project, models: FakeModels, count: int = 60, **top: Any) -> None:
    """Write a suite with a number of questions."""
    cases = [
        {"name": f"case {at}", "input": f"question {at}", "ground_truth": f"yes {at}", **top.pop(f"case_{at}", {})}
        for at in range(count)
    ]
    model = {"provider": "openai", "endpoint": models.openai_url, "name": "best-100", "max_tokens": 50}
    project.suite(cases, **{"model": model, **top})


def race(project: Project, *arguments: str, names: tuple[str, ...] = MODELS, **environ: str) -> Finished:
    axes = [text for name in names for text in ("--vary", f"model={name}")]
    return project.run("race", "-o", "out", *axes, *arguments, **{"OPENAI_API_KEY": KEY, **environ})


def outcome(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.out / "race.json").read_bytes())
    return found


def variants(project: Project) -> dict[str, dict[str, Any]]:
    """The variants of the outcome by name, without `model=`."""
    return {each["name"].removeprefix("model="): each for each in outcome(project)["variants"]}
