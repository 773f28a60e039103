"""`judges`: who grades together, in the policy file and on a metric (evaluators reference §9)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holodeck_action.suite.base import FormatModel, Integer, NonBlank
from holodeck_action.suite.providers import LLMProvider

Aggregation = Literal["majority_vote", "median", "mean", "min", "max"]

_AtLeastOne = Annotated[Integer, Field(ge=1)]


class Judges(FormatModel):
    """A panel: suite-wide in the policy file; what a metric's own says counts instead, setting by setting."""

    models: tuple[LLMProvider, ...] = ()
    """Each grades; the same model may be there several times. Empty: the one model that grades without a panel."""
    aggregation: Aggregation = "majority_vote"
    """How several verdicts become one; a tied vote fails."""
    min_successful_judges: _AtLeastOne = 1
    """Verdicts without which the evaluation has failed."""
    max_concurrent_judges: _AtLeastOne | None = None
    """Judges asked at once about one answer; all when absent."""
    fallback_models: tuple[LLMProvider, ...] = ()
    """Asked one after the other in the place of a judge that gives no verdict."""


class SuiteJudges(Judges):
    """`judges` of the policy file: the panel of all metrics, and what judges were measured to be worth."""

    cards: tuple[NonBlank, ...] = ()
    """Judge cards that `calibrate` made, one for a metric: paths inside the suite's folder."""
