"""Azure AI metrics over our wire: the requests and scores of the library's own client, and what may go wrong."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.evaluators.azure.base import AzureAIEvaluator, FivePointResult
from holodeck_action.evaluators.azure.config import ModelConfig
from holodeck_action.evaluators.azure.metrics import (
    EVALUATORS,
)
from holodeck_action.llm.judge import JudgeModel
from tests.evaluators.judged.native_azure import DEPLOYMENT, INPUTS, VERSION, case, score_of
from tests.llm.models import Answer, FakeModels, Request
from tests.llm.wiring import opened

KEY = "sk-azure-judge-4711"
COUNT = 20
_OPENINGS = {
    "**Groundedness**": "groundedness",
    "Relevance Evaluator": "relevance",
    "**Coherence**": "coherence",
    "**Fluency**": "fluency",
    "Equivalence, as a metric": "similarity",
}


def verdict(score: Any, reason: str = "because", **more: Any) -> str:
    return json.dumps({"reason": reason, "score": score, "status": "completed", **more})


def metric_of(request: Request) -> str:
    return next(metric for opening, metric in _OPENINGS.items() if opening in request.text)


def judging(request: Request) -> Answer:
    """Answer by `score_of`."""
    number = int(re.findall(r"case-(\d+)", request.text)[-1])
    metric = metric_of(request)
    return Answer(verdict(score_of(number, metric), f"{metric} of case-{number}"))


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with FakeModels(keys=[KEY]) as models:
        models.answer(judging)
        yield models
        assert models.violations == []


def config(models: FakeModels) -> ModelConfig:
    return ModelConfig(azure_endpoint=models.azure_url, api_key=KEY, azure_deployment=DEPLOYMENT, api_version=VERSION)


def evaluated(evaluator: AzureAIEvaluator, **given: Any) -> FivePointResult:
    result = asyncio.run(evaluator.evaluate(**given))
    assert isinstance(result, FivePointResult)
    return result


# -- the library's own client is the reference


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[float]], list[Request]]:
    """What the library's own client gets, and what it asks."""
    with FakeModels(keys=[KEY]) as models:
        models.answer(judging)
        finished = subprocess.run(
            [sys.executable, "-m", "tests.evaluators.judged.native_azure", models.azure_url, KEY, str(COUNT)],
            cwd=tmp_path_factory.mktemp("native"),
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=110,
            check=True,
        )
        return json.loads(finished.stdout.splitlines()[-1]), list(models.requests)


def asked(requests: list[Request]) -> list[str]:
    """What was asked, in no order: messages, settings and the form of the answer."""
    shown = []
    for request in requests:
        # `stream: false` is said or not.
        body = {name: value for name, value in request.body.items() if name not in ("model", "stream")}
        shown.append(json.dumps({**body, "path": request.path, "query": request.query}, sort_keys=True))
    return sorted(shown)


def test_requests_and_scores_are_the_librarys_own(
    models: FakeModels, native: tuple[dict[str, list[float]], list[Request]]
) -> None:
    async def scores() -> dict[str, list[FivePointResult]]:
        found = {}
        async with opened() as wire:
            judge = JudgeModel(config(models).plan({}), wire)
            for name, inputs in INPUTS.items():
                metric = name.partition(" ")[0]
                evaluator = EVALUATORS[metric](judge=judge)
                # The evaluator insists on the documented inputs.
                wanted = [*inputs, "query"] if metric == "fluency" else inputs
                found[name] = await asyncio.gather(
                    *(evaluator.evaluate(**{each: case(number)[each] for each in wanted}) for number in range(COUNT))
                )
        return found

    raw, requests = native
    ours = asyncio.run(scores())
    assert {name: [result.raw_score for result in results] for name, results in ours.items()} == raw
    assert asked(models.requests) == asked(requests)
    for name, results in ours.items():
        metric = name.partition(" ")[0]
        for number, result in enumerate(results):
            assert result.score == (score_of(number, metric) - 1) / 4
            assert result[metric] == result.metadata[metric] == score_of(number, metric)
            assert result.reasoning == f"{metric} of case-{number}"
            assert result.metadata["judge"] == f"azure_openai/{DEPLOYMENT}"
    assert {result.raw_score for results in ours.values() for result in results} == {1, 2, 3, 4, 5}
