"""`type: relevance`: how well an answer fits the request, graded by a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from holodeck_action.metrics.judging.dimensions import (
    DimensionMetric,
    DimensionVerdict,
    Share,
    mean,
)
from holodeck_action.suite.model.metric_base import Role

_RELEVANCE = """\
Grade how well an assistant's answer fits the request along three dimensions, each by itself, with a number from 0 for
not at all to 1 for entirely:

query_intent_match: it does what whoever asks wants to achieve.
topic_alignment: it stays with the subject of the request.
information_completeness: it gives all the information that the request asks for.

Whether what it says is true is not asked here.

{material}

{texts}

Answer with a JSON object of five fields: "reason", one or two sentences that name what decided the grades;
"query_intent_match", "topic_alignment" and "information_completeness", the three numbers; and {confidence}."""


class RelevanceVerdict(DimensionVerdict):
    """How well an answer fits a request."""

    query_intent_match: Share
    topic_alignment: Share
    information_completeness: Share

    @property
    def score(self) -> float:
        """The mean of the three dimensions."""
        return mean(self.facts().values())

    def facts(self) -> dict[str, Any]:
        """Return `query_intent_match`, `topic_alignment` and `information_completeness`, each 0..1."""
        return self.model_dump(include={"query_intent_match", "topic_alignment", "information_completeness"})


class RelevanceMetric(DimensionMetric):
    """`type: relevance`: how well the answer fits the request. Azure AI's metric of this name is `type: standard`."""

    PLACE = 20
    QUESTION = _RELEVANCE
    VERDICT = RelevanceVerdict
    EMPTY: ClassVar[Mapping[str, Any]] = {"query_intent_match": 0, "topic_alignment": 0, "information_completeness": 0}

    type: Annotated[Literal["relevance"], Role.KIND] = "relevance"
