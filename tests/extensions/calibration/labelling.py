"""Labels of humans and a judge whose scores are scripted, beside a suite on disk."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Request

STEPS = ["Read the answer.", "Compare it with the criteria."]
GEVAL = {"type": "geval", "name": "quality", "criteria": "Is it good?", "evaluation_steps": STEPS}
QUESTIONED = {**GEVAL, "evaluation_params": ["input", "actual_output"]}
NUMBER = re.compile(r"answer-(\d+)-end")


class Bench:
    """A server whose judge gives every answer its scripted score (0 to 10), and labels beside it."""

    def __init__(self, models: FakeModels, project: Project) -> None:
        self.models = models
        self.project = project
        self.scores: dict[int, int] = {}
        models.answer(self)

    def __call__(self, request: Request) -> Any:
        number = int(NUMBER.findall(request.text)[-1])
        return Answer(json.dumps({"reason": "graded", "score": self.scores[number]}))

    def model(self, name: str = "judge") -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": self.models.openai_url}

    def suite(self, count: int, *metrics: dict[str, Any], **fields: Any) -> None:
        cases = [
            {"name": f"case {n}", "input": f"question {n}", "ground_truth": f"truth {n}", **fields}
            for n in range(count)
        ]
        self.project.suite(cases, [*metrics] or [GEVAL], model=self.model())
        self.project.answers([{"case": f"case {n}", "response": f"answer-{n}-end"} for n in range(count)])
        self.project.policy(target="recorded:answers.jsonl")

    def labels(self, rows: list[dict[str, Any]]) -> None:
        self.project.write("labels.csv", sheet(rows))

    def calibrate(self, *flags: str, **environ: str) -> Finished:
        finished = self.project.run("calibrate", "labels.csv", *flags, **{"OPENAI_API_KEY": KEY, **environ})
        assert KEY not in finished.stdout + finished.stderr
        return finished

    def card(self, *flags: str, code: int = 0, **environ: str) -> dict[str, Any]:
        finished = self.calibrate("--format", "json", *flags, **environ)
        assert finished.code == code, finished.stdout + finished.stderr
        loaded: dict[str, Any] = json.loads(finished.stdout)
        return loaded


def sheet(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
