"""A judge with its own wire, for an evaluator that is used outside a run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from holodeck_action.llm.judge import JudgeModel
from holodeck_action.llm.providers import ModelConfigError, ModelPlan
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.suite.model.named_models import LARGE

TRANSIENT = frozenset(("rate_limited", "overloaded", "server_error", "timeout", "connect", "disconnected", "bad_reply"))
"""Error codes of model calls for which a retry may help."""


def require_model(name: str, model: JudgeModelConfig | None) -> JudgeModelConfig:
    """Return the judge model of an evaluator.

    Raises:
        EvaluationError: there is none (code `no_judge`).
    """
    if model is None:
        raise EvaluationError(
            f"{name} has no model: give it a model_config, such as "
            f"DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name='{LARGE}')",
            code="no_judge",
        )
    return model


@asynccontextmanager
async def provide_judge(
    judge: JudgeModel | None, build_plan: Callable[[Mapping[str, str]], ModelPlan]
) -> AsyncIterator[JudgeModel]:
    """Provide the judge of an evaluation: the given one, or a new one with its own wire.

    A new wire does not retry, because the evaluator retries according to its `retry_config`.

    Args:
        judge: a judge whose wire the caller closes; None to create a judge.
        build_plan: called with the environment; returns the resolved model for a new judge.

    Raises:
        EvaluationError: the model's configuration is invalid (code `no_judge`).
    """
    if judge is not None:
        yield judge
        return
    # Imported here, because it imports the HTTP library.
    from holodeck_action.llm.wire import Wire, WireSettings

    try:
        plan = build_plan(os.environ)
    except ModelConfigError as error:
        raise EvaluationError(str(error), code="no_judge") from error
    wire = Wire(WireSettings(max_retries=0))
    try:
        yield JudgeModel(plan, wire)
    finally:
        await wire.close()
