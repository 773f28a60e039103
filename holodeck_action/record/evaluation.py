"""`Evaluation`: one metric's result on one turn, in the field names of the HoneyHive evaluation record.

Source: HoneyHive evaluation data models, `Evaluation`; docs/results.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from holodeck_action.record.facts import LARGEST, Amount, Rating
from holodeck_action.record.serialization import written
from holodeck_action.suite.errors import SourceMark

Score = bool | Annotated[int, Meta(ge=-LARGEST, le=LARGEST)] | Rating | str | None
Polarity = Literal["maximize", "minimize", "neutral"]
Status = Literal["completed", "failed", "skipped", "pending"]


MISSING_INPUT = "missing_input"
"""Code of the error of a metric that needs what nobody told."""


class ErrorInfo(Struct, frozen=True):
    """Why something could not be done.

    Attributes:
        type: class of the error, such as `AgentTimeout`.
        message: one sentence a person can act on.
        code: stable snake_case code, such as `missing_input`.
        context: further facts (captured output, the missing field's name), JSON values only.
    """

    type: str
    message: str
    code: str
    context: Mapping[str, Any] = field(default_factory=dict)


class Criteria(Struct, frozen=True, omit_defaults=True):
    """What was asked of the metric: everything a verdict needs besides the score.

    Attributes:
        kind: the metric's `type` in the suite.
        metric: the metric of that kind, such as `rouge`, `faithfulness` or a grader's reference.
        threshold: on the 0..1 scale of the score (code graders: on the grader's scale); None when none was given.
        asserts: False for an informational metric: shown, never failing.
        polarity: whether high or low scores are good.
        fail_on_error: whether a failed evaluation fails the case.
        settings: the settings that differ from their defaults.
        pass_values: passing categories of a categorical score.
        source: where the metric stands in the suite.
        title: what sentences call a metric whose number says all there is to say, such as `METEOR`; None: the name is
            used, and the explanation is told, too.
    """

    kind: str
    metric: str
    threshold: float | None
    asserts: bool
    polarity: Polarity = written("maximize")
    fail_on_error: bool = written(False)
    settings: Mapping[str, Any] = written({})
    pass_values: tuple[str, ...] | None = written(None)
    source: SourceMark | None = written(None)
    title: str | None = None


class Evaluation(Struct, frozen=True):
    """One metric's result on one turn.

    `status` `failed` means that the evaluation failed, never that the score was low; `skipped` says in `explanation`
    why the metric does not apply; `pending` is planned work that did not happen. `metadata["passed"]` holds the
    evaluator's own verdict where it has one (code graders, equality, numeric).

    `cached`: an earlier run got this verdict on the same inputs, and no model was called; duration and cost are its.

    Volatile fields: see `holodeck_action.record.canonical`.
    """

    evaluation_id: str
    target_event_id: str
    evaluator_name: str
    evaluator_version: str | None
    score: Score
    explanation: str | None
    criteria: Criteria
    metadata: Mapping[str, Any]
    timestamp: str
    duration_ms: Amount | None
    status: Status
    confidence: float | None = None
    cost_usd: Amount | None = None
    error: ErrorInfo | None = None
    cached: bool = False

    @property
    def lacks_fact(self) -> bool:
        """Whether it did not happen because a fact that it asserts something of is unknown."""
        missing = self.status == "failed" and self.error is not None and self.error.code == MISSING_INPUT
        return missing and self.criteria.asserts
