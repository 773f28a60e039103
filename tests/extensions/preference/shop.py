"""A suite with the metric preference, two transcripts of its answers, and a judge on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Request

FENCED = re.compile(r"(First|Second) answer:\n(~{8,})\n(.*?)\n\2", re.DOTALL)
Judge = Callable[[str, str], str]
"""The verdict on a first and a second answer."""


def answers_in(request: Request) -> tuple[str, str]:
    """The two answers that a question to the judge shows, in its order."""
    found = FENCED.findall(request.text)
    assert [name for name, _, _ in found] == ["First", "Second"], request.text
    return found[0][2], found[1][2]


def judged_by(judge: Judge) -> Callable[[Request], Answer]:
    """A rule of the server: every question goes to this judge."""

    def answer(request: Request) -> Answer:
        return Answer(json.dumps({"reason": "so it is", "verdict": judge(*answers_in(request))}))

    return answer


def first(one: str, other: str) -> str:
    """Prefers the first answer."""
    return "first"


def longer(one: str, other: str) -> str:
    """Prefers the longer answer."""
    return "first" if len(one) > len(other) else "second"


def by_word(one: str, other: str) -> str:
    """Prefers the answer that says `good`; ties if both or none do."""
    scores = ["good" in text for text in (one, other)]
    return "tie" if scores[0] == scores[1] else "first" if scores[0] else "second"


class Shop:
    """A project whose answers are recorded; the base's are in `base`, this run's in `out`."""

    def __init__(self, project: Project, models: FakeModels, judge: Judge = by_word) -> None:
        self.project, self.models = project, models
        models.answer(judged_by(judge))

    def suite(self, count: int, *, repeat: int = 1, policy: dict[str, Any] | None = None, **metric: Any) -> None:
        model = {"provider": "openai", "name": "judge", "endpoint": self.models.openai_url}
        self.project.suite(
            [{"name": f"case {n}", "input": f"question {n}", "ground_truth": f"truth {n}"} for n in range(count)],
            [{"type": "length", "max_words": 1000}, {"type": "preference", "model": model, **metric}],
        )
        self.project.policy(trials={"repeat": repeat, "stop_when_decided": False}, **(policy or {}))

    def answers(self, name: str, texts: list[Any]) -> None:
        """Write a transcript: a text for each case; a list for trials; None for an answer in error."""
        rows = []
        for at, text in enumerate(texts):
            for trial, said in enumerate(text if isinstance(text, list) else [text]):
                answer = {"error": "it broke"} if said is None else {"response": said}
                rows.append({"case": f"case {at}", "trial": trial, **answer})
        self.project.answers(rows, name)

    def run(self, *arguments: str) -> Finished:
        return self.project.run(*arguments, OPENAI_API_KEY=KEY)

    def base(self, texts: list[Any]) -> None:
        """Run the base, without a judge."""
        self.answers("base.jsonl", texts)
        finished = self.run("run", "--target", "recorded:base.jsonl", "-o", "base")
        assert finished.code in (0, 3), finished.stdout + finished.stderr

    def head(self, texts: list[Any], *arguments: str) -> Finished:
        """Run the head with the base's results as base."""
        self.answers("head.jsonl", texts)
        against = ("--target", "recorded:head.jsonl", "--baseline", "file:base", "-o", "out")
        return self.run("run", *against, *arguments)
