"""A judge with a wire of its own, for an evaluator that is used by itself and not in a run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from holodeck_action.llm.judge import JudgeModel
from holodeck_action.llm.providers import ModelConfigError, ModelPlan
from holodeck_action.metrics.errors import EvaluationError

TRANSIENT = frozenset(("rate_limited", "overloaded", "server_error", "timeout", "connect", "disconnected", "bad_reply"))
"""Codes of failed calls that a provider may get over."""


@asynccontextmanager
async def own_judge(
    given: JudgeModel | None, planned: Callable[[Mapping[str, str]], ModelPlan]
) -> AsyncIterator[JudgeModel]:
    """Give the judge of an evaluation; where none is given, one with a wire for this evaluation.

    A failed call is not tried again on that wire: the evaluator's own `retry_config` decides.

    Args:
        given: a judge on a wire that somebody else holds.
        planned: decides how another one is reached, from the environment.

    Raises:
        EvaluationError: the model cannot be used as it is configured (code `no_judge`).
    """
    if given is not None:
        yield given
        return
    # With the HTTP library, which nobody else here needs.
    from holodeck_action.llm.wire import Wire, WireSettings

    try:
        plan = planned(os.environ)
    except ModelConfigError as error:
        raise EvaluationError(str(error), code="no_judge") from error
    wire = Wire(WireSettings(max_retries=0))
    try:
        yield JudgeModel(plan, wire)
    finally:
        await wire.close()
