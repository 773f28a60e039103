"""The names, arguments, defaults, fields and errors of HoloDeck's evaluation API, under its import names.

The rows of the marks are what the tests compare: a row that changes is another expectation.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import holodeck_action.compat

assert holodeck_action.compat

pytestmark = pytest.mark.needs()

MODULES = (
    "lib.evaluators.azure_ai",
    "lib.evaluators.base",
    "lib.evaluators.deepeval",
    "lib.evaluators.nlp_metrics",
    "lib.evaluators.param_spec",
    "models.evaluation",
    "models.llm",
)


def named(name: str) -> Any:
    """What a documented name is, whichever module has it."""
    served = (importlib.import_module(f"holodeck.{module}") for module in MODULES)
    return next(getattr(module, name) for module in served if name in dir(module))


def rows(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """Each heading of the marks on this test, with what its rows have in backquotes."""
    for mark in request.node.iter_markers("claims"):
        _, heading, *texts = mark.args
        yield heading, [found for text in texts for found in re.findall("`([^`]+)`", text)]


@pytest.mark.claims(
    "holodeck-evaluation-api", "BaseEvaluator", "argument `timeout=60.0`", "argument `retry_config=None`"
)
@pytest.mark.claims("holodeck-evaluation-api", "BLEUEvaluator", "argument `threshold=None`", "argument `timeout=60.0`")
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ROUGEEvaluator",
    "argument `threshold=None`",
    "argument `variant='rougeL'`",
    "argument `timeout=60.0`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "METEOREvaluator", "argument `threshold=None`", "argument `timeout=60.0`"
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "AzureAIEvaluator",
    "argument `model_config`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GroundednessEvaluator",
    "argument `model_config`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RelevanceEvaluator",
    "argument `model_config`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "CoherenceEvaluator",
    "argument `model_config`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "FluencyEvaluator",
    "argument `model_config`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "SimilarityEvaluator",
    "argument `model_config`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalBaseEvaluator",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalError",
    "argument `message`",
    "argument `metric_name`",
    "argument `original_error=None`",
    "argument `test_case_summary=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ProviderNotSupportedError",
    "argument `message`",
    "argument `evaluator_type`",
    "argument `configured_provider`",
    "argument `supported_providers`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GEvalEvaluator",
    "argument `name`",
    "argument `criteria`",
    "argument `evaluation_params=None`",
    "argument `evaluation_steps=None`",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `strict_mode=False`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "FaithfulnessEvaluator",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `include_reason=True`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "AnswerRelevancyEvaluator",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `include_reason=True`",
    "argument `strict_mode=False`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualRelevancyEvaluator",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `include_reason=True`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualPrecisionEvaluator",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `include_reason=True`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualRecallEvaluator",
    "argument `model_config=None`",
    "argument `threshold=0.5`",
    "argument `include_reason=True`",
    "argument `timeout=60.0`",
    "argument `retry_config=None`",
    "argument `observability_config=None`",
)
def test_arguments_and_their_defaults_in_order(request: pytest.FixtureRequest) -> None:
    for name, documented in rows(request):
        parameters = inspect.signature(named(name)).parameters.values()
        ours = [str(each.replace(annotation=each.empty)) for each in parameters]
        # The suite's judge may stand in for a configuration, so `model_config` has a default; the next test needs one.
        ours = ["model_config" if "model_config" in documented and "model_config=" in each else each for each in ours]
        assert ours[: len(documented)] == documented, name
