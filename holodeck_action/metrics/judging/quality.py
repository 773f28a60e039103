"""`type: quality`: an answer along five dimensions, graded by a judge in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from holodeck_action.metrics.base import EvalParam, ParamSpec
from holodeck_action.metrics.judging.dimensions import (
    DimensionMetric,
    DimensionVerdict,
    Share,
    mean,
)
from holodeck_action.suite.model.metric_base import Role

_QUALITY = """\
Grade the quality of an assistant's answer to a request along five dimensions, each by itself, with a number from 0 for
the worst to 1 for the best:

relevance: it speaks about what was asked and about nothing else.
coherence: its parts belong together, follow one another and do not contradict each other.
clarity: it can be understood at first reading.
completeness: nothing that the request asks for is missing.
accuracy: what it says is right; where an expected answer stands below, agreement with it decides.

{material}

{texts}

Answer with a JSON object of three fields: "reason", one or two sentences that name what decided the grades;
"dimensions", an object of the five numbers under the names above; and {confidence}."""


class QualityDimensions(BaseModel):
    """Grades from 0 to 1."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    relevance: Share
    coherence: Share
    clarity: Share
    completeness: Share
    accuracy: Share


class QualityVerdict(DimensionVerdict):
    """The quality of an answer."""

    dimensions: QualityDimensions

    @property
    def score(self) -> float:
        """The mean of the five dimensions."""
        return mean(self.dimensions.model_dump().values())

    def facts(self) -> dict[str, Any]:
        """Return `dimensions`, a mapping from dimension to grade, each from 0 to 1."""
        return {"dimensions": self.dimensions.model_dump()}


class QualityMetric(DimensionMetric):
    """`type: quality`: the answer by relevance, coherence, clarity, completeness and accuracy."""

    PLACE = 17
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT}), optional=frozenset({EvalParam.EXPECTED_OUTPUT})
    )
    QUESTION = _QUALITY
    VERDICT = QualityVerdict
    EMPTY: ClassVar[Mapping[str, Any]] = {"dimensions": dict.fromkeys(QualityDimensions.model_fields, 0)}

    type: Annotated[Literal["quality"], Role.KIND] = "quality"
