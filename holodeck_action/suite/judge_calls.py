"""How often models are asked to grade, before anything is known of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holodeck_action.suite.applicability import needs_judge
from holodeck_action.suite.metric_base import JudgedMetric, MetricModel
from holodeck_action.suite.metrics import CompositeMetric, GEvalMetric, RagMetric, RagName
from holodeck_action.suite.preset_metrics import (
    CriterionPart,
    LmRetrievalMetric,
    PresetMetric,
    PresetPart,
    RefusalMetric,
)
from holodeck_action.suite.presets import graded_part, judged_members, members_of

_RAG: dict[RagName, int] = {
    "answer_relevancy": 2,
    "faithfulness": 3,
    # One for each retrieved text, of which nobody knows the number.
    "contextual_relevancy": 1,
    "contextual_precision": 1,
    "contextual_recall": 1,
}
"""Calls of one evaluation without the one that explains the score."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What is asked of every judge of a metric, or of a part of one.

    Attributes:
        config: has the model or panel that is asked.
        calls: of one evaluation of an answer that is not empty, nothing asked again.
        writes_steps: whether the judge is asked once in a run, besides, to write the steps.
    """

    config: JudgedMetric
    calls: int
    writes_steps: bool = False


def asked_for(config: MetricModel) -> Iterator[AskedFor]:
    """Yield what is asked of judges for one evaluation of a metric; nothing where it needs none.

    A metric of retrieved texts is taken to find one text, a generation to find an answer that does not refuse.
    """
    if isinstance(config, CompositeMetric):
        for member in members_of(config):
            yield from asked_for(member.config)
    elif isinstance(config, PresetMetric):
        for part in judged_members(config).values():
            yield _of_part(config, part)
    elif isinstance(config, RagMetric):
        yield AskedFor(config, _RAG[config.metric_type] + config.include_reason)
    elif isinstance(config, GEvalMetric):
        yield AskedFor(config, 1, writes_steps=config.evaluation_steps is None)
    elif isinstance(config, RefusalMetric):
        yield AskedFor(config, 2 if config.expect == "as_expected_output" else 1)
    elif isinstance(config, JudgedMetric) and needs_judge(config):
        yield AskedFor(config, 1)


def _of_part(config: PresetMetric, part: PresetPart) -> AskedFor:
    explained = isinstance(config, LmRetrievalMetric) and config.include_reason
    own = isinstance(part, CriterionPart) and part.criteria is not None and part.evaluation_steps is None
    return AskedFor(graded_part(config, part), 2 if explained else 1, writes_steps=own)
