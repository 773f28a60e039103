"""A judge with a wire of its own, for an evaluator that is used by itself and not in a run."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holodeck_action.llm.judge import JudgeModel
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.llm.wire import Wire, WireSettings

TRANSIENT = frozenset(("rate_limited", "overloaded", "server_error", "timeout", "connect", "disconnected", "bad_reply"))
"""Codes of failed calls that a provider may get over."""


@asynccontextmanager
async def own_judge(plan: ModelPlan) -> AsyncIterator[JudgeModel]:
    """Give a judge, and close its connections at the end.

    Args:
        plan: the model that grades. A failed call is not tried again here: that is the evaluator's to decide.
    """
    wire = Wire(WireSettings(max_retries=0), monotonic=time.monotonic, pause=asyncio.sleep, uniform=random.uniform)
    try:
        yield JudgeModel(plan, wire)
    finally:
        await wire.close()
