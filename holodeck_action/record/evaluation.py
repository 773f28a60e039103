"""`Evaluation`: one metric's result on one turn, in the field names of the HoneyHive evaluation record.

Source: HoneyHive evaluation data models, `Evaluation`; docs/results.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from holodeck_action.record.facts import Amount
from holodeck_action.record.serialization import always_written
from holodeck_action.suite.errors import SourceMark, share_texts

Score = bool | Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)] | str | None
"""A verdict, a number from 0 to 1, a category, or None if there is only an explanation."""
Polarity = Literal["maximize", "minimize", "neutral"]
Status = Literal["completed", "failed", "skipped", "pending"]


PREFERENCE = "preference"
"""The kind of metrics that compare an answer with the base's. It is also the metadata key under which such an
evaluation stores its data."""
MISSING_INPUT = "missing_input"
"""Code of the error of a metric whose input was not reported."""
USER_ERROR = "UserError"
"""Type of the error of a simulated user, which the agent did not cause."""
OWN_CODE_ERROR = "UserCodeError"
"""Type of the error of a grader or a metric class of the suite."""
OWN_MODEL_FACT = "own_model"
"""Key of an error's context; true if the suite's own model exceeded a time limit."""


class ErrorInfo(Struct, frozen=True, gc=False):
    """The error of a trial, a turn or an evaluation.

    Attributes:
        type: class of the error, such as `AgentTimeout`.
        message: one sentence with the problem and a remedy.
        code: stable snake_case code, such as `missing_input`.
        context: further data (captured output, name of the missing field), JSON values only.
    """

    type: str
    message: str
    code: str
    context: Mapping[str, Any] = field(default_factory=dict)


class Criteria(Struct, frozen=True, gc=False, omit_defaults=True):
    """The criteria of a metric: everything besides the score that decides whether the metric passes.

    Attributes:
        kind: `type` of the metric in the suite.
        metric: name of the measure within that type, such as `rouge`, `faithfulness` or a grader's reference.
        threshold: threshold on the 0..1 scale of the score (code graders: on the grader's scale); None if there is
            none.
        asserts: False if the metric is informational: it is reported but cannot fail a case.
        polarity: whether high or low scores are good.
        fail_on_error: whether a failed evaluation fails the case.
        settings: the settings that differ from their defaults.
        pass_values: passing categories of a categorical score.
        source: position of the metric in the suite.
        title: name, such as `METEOR`, for messages with the score but no explanation; None if messages have the
            evaluator's name and the explanation instead.
    """

    kind: str
    metric: str
    threshold: float | None
    asserts: bool
    polarity: Polarity = always_written("maximize")
    fail_on_error: bool = always_written(False)
    settings: Mapping[str, Any] = always_written({})
    pass_values: tuple[str, ...] | None = always_written(None)
    source: SourceMark | None = always_written(None)
    title: str | None = None

    def __post_init__(self) -> None:
        share_texts(self, "kind", "metric", "title")


class Evaluation(Struct, frozen=True, gc=False):
    """One metric's result on one turn.

    `status` is `failed` if the evaluation failed (never because of a low score), `skipped` if the metric does not apply
    (`explanation` has the reason), and `pending` if a planned evaluation did not run. `metadata["passed"]` holds the
    evaluator's own verdict if it has one (code graders, equality, numeric).

    `cached` means that verdict, duration and cost are those of an earlier run on the same inputs.

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

    def __post_init__(self) -> None:
        share_texts(self, "evaluator_name", "evaluator_version")

    @property
    def lacks_fact(self) -> bool:
        """Whether an asserting metric could not be evaluated because an input is unknown."""
        missing = self.status == "failed" and self.error is not None and self.error.code == MISSING_INPUT
        return missing and self.criteria.asserts
