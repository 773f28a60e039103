"""What tests of gllm-evals' Python names share: models on loopback, a judge, items, and the names."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest

import holodeck_action.compat
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.suite.model.providers import ProviderEnum
from tests.extensions.presets.preset_judge import PresetJudge, Truth
from tests.llm.models import KEY, FakeModels

assert holodeck_action.compat
GOOD = {"completeness": 3, "groundedness": 3, "redundancy": 1}
SUMMED = {"coherence": 3, "consistency": 3, "fluency": 2, "relevance": 3}
ANSWER = {"input": "Where [a]?", "actual_output": "Here [a].", "expected_output": "Here [a]."}
ITEM = {
    **ANSWER,
    "retrieved_context": ["one [a]", "two [a]"],
    "agent_trajectory": ["search"],
    "expected_agent_trajectory": ["search"],
}


@pytest.fixture
def judge() -> PresetJudge:
    return PresetJudge({"a": Truth({**GOOD, **SUMMED}, chunks=("no", "yes"), sentences=("yes", "no"), trajectory="no")})


@pytest.fixture
def models(models: FakeModels, judge: PresetJudge, monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    """The shared server with the test's judge, found by its variable, too."""
    models.answer(judge)
    monkeypatch.setenv("OLLAMA_BASE_URL", models.ollama_url)
    return models


@pytest.fixture
def model(models: FakeModels) -> DeepEvalModelConfig:
    return DeepEvalModelConfig(
        provider=ProviderEnum.OPENAI, model_name="judge", api_key=KEY, endpoint=models.openai_url
    )


def named(name: str, module: str = "gllm_evals.evaluator") -> Any:
    return getattr(importlib.import_module(module), name)


def metric(name: str) -> Any:
    return named(name, "gllm_evals.metrics")


def evaluated(evaluator: Any, data: Any) -> Any:
    return asyncio.run(evaluator.evaluate(data))
