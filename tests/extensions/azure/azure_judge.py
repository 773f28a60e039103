"""A judge of Azure AI metrics for the fake model server, and the evaluators that ask it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from holodeck_action.extensions.azure.base import AzureAIEvaluator, FivePointResult, ModelConfig
from tests.extensions.azure.native_azure import DEPLOYMENT, VERSION, score_of
from tests.llm.models import KEY, Answer, FakeModels, Request

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


def config(models: FakeModels) -> ModelConfig:
    return ModelConfig(azure_endpoint=models.azure_url, api_key=KEY, azure_deployment=DEPLOYMENT, api_version=VERSION)


def evaluated(evaluator: AzureAIEvaluator, **given: Any) -> FivePointResult:
    result = asyncio.run(evaluator.evaluate(**given))
    assert isinstance(result, FivePointResult)
    return result
