"""The policy file holodeck-action.yaml: what HoloDeck's schema does not know (policy file reference)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import (
    Flag,
    FormatModel,
    Integer,
    NonBlank,
    NoneAs,
    Number,
    UnitInterval,
    WrittenId,
    WrittenText,
)
from holodeck_action.suite.cases import TrajectoryEntry
from holodeck_action.suite.judging import SuiteJudges
from holodeck_action.suite.metrics import CaseMetric, SuiteMetric
from holodeck_action.suite.targets import Target

Count = Annotated[Integer, Field(ge=0)]
AtLeastOne = Annotated[Integer, Field(ge=1)]
Positive = Annotated[Number, Field(gt=0.0)]
Weight = Annotated[Number, Field(ge=0.001, le=1000.0)]
"""Nothing weighs more than a million times something else: a failure beside it would be lost in rounding."""
NotNegative = Annotated[Number, Field(ge=0.0)]
Reaction = Literal["fail", "warn", "ignore"]


class RetrievalOverlay(FormatModel):
    """What retrieval should have found for a case."""

    ground_truth_chunk_ids: Annotated[
        Annotated[list[WrittenId], Field(min_length=1), Tag("list")]
        | Annotated[dict[WrittenId, Weight], Field(min_length=1), Tag("mapping")],
        Discriminator(lambda value: "mapping" if isinstance(value, dict) else "list"),
    ]
    """Ids of the relevant chunks, or id → gain."""


class CaseOverlay(FormatModel):
    """What the policy file adds to one case."""

    evaluations: list[CaseMetric] | None = None
    """Added to whatever the case resolves to."""
    retrieval: RetrievalOverlay | None = None
    expected_trajectory: Annotated[list[TrajectoryEntry], Field(min_length=1)] | None = None
    tags: list[NonBlank] | None = None
    weight: Weight | None = None
    repeat: AtLeastOne | None = None
    min_pass: AtLeastOne | None = None


class Trials(FormatModel):
    """How often each case is asked and how often it must pass."""

    repeat: AtLeastOne = 1
    min_pass: AtLeastOne = 1
    stop_when_decided: Flag = True


BOUNDS_OF_METRICS = (("min_mean", "max_mean"), ("min_lower_bound", "max_upper_bound"), ("min_p10", "max_p90"))
"""On mean, interval of the mean, worst tenth: where high scores are good, and the mirror image where low ones are."""


class GateMetric(FormatModel):
    """Bounds on one metric over the whole suite: from below where high scores are good, from above where low ones are.

    Which of both a metric is, is checked where the metrics are known.
    """

    min_mean: UnitInterval | None = None
    min_lower_bound: UnitInterval | None = None
    min_p10: UnitInterval | None = None
    max_mean: UnitInterval | None = None
    max_upper_bound: UnitInterval | None = None
    max_p90: UnitInterval | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> GateMetric:
        if all(getattr(self, key) is None for pair in BOUNDS_OF_METRICS for key in pair):
            raise PydanticCustomError("min_mean", "is missing: give at least one bound, such as min_mean: 0.8")
        return self


class GateSummary(FormatModel):
    """A bound on one number for the suite (evaluators reference §10)."""

    method: Literal["simple_average", "weighted_average", "minimum", "custom"]
    weights: dict[str, Weight] | None = None
    """Weight per metric label, for weighted_average."""
    function: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module.path:callable`, importable from the suite's folder, for custom: takes `means`, gives a number 0..1."""
    min: UnitInterval

    @model_validator(mode="after")
    def _function_fits_the_method(self) -> GateSummary:
        if (self.method == "custom") != (self.function is not None):
            raise PydanticCustomError("function", "belongs to method custom, which needs it, and to no other")
        return self

    @model_validator(mode="after")
    def _weights_fit_the_method(self) -> GateSummary:
        if (self.method == "weighted_average") != (self.weights is not None):
            raise PydanticCustomError("weights", "belongs to method weighted_average, which needs it, and to no other")
        return self


class Gates(FormatModel):
    """What the suite must reach; None means that the gate is off."""

    min_pass_rate: UnitInterval | None = 1.0
    min_pass_rate_lower_bound: UnitInterval | None = None
    min_completeness: UnitInterval | None = 1.0
    max_errors: Count | None = None
    max_flaky: Count | None = None
    max_regressions: Count | None = None
    max_cost_usd: NotNegative | None = None
    max_total_tokens: Count | None = None
    p95_latency_ms: Positive | None = None
    metrics: Annotated[dict[str, GateMetric], NoneAs({})] = Field(default_factory=dict)
    summary: GateSummary | None = None


class Baseline(FormatModel):
    """What results are compared with."""

    source: Annotated[str, Field(pattern=r"^(file:.+|artifact|history|branch:.+)$")] | None = None
    margin: UnitInterval = 0.10
    on_regressed: Reaction = "fail"
    on_inconclusive: Reaction = "warn"
    on_case_regression: Reaction = "fail"


def _date(value: Any) -> date:
    if isinstance(value, date):
        return value
    try:
        # The reader keeps dates as they are written.
        return date.fromisoformat(value) if len(value) == len("2027-01-31") else date.fromisoformat("")
    except (TypeError, ValueError):
        raise PydanticCustomError("date", "must be a date such as 2027-01-31") from None


class QuarantineEntry(FormatModel):
    """A case whose failure does not fail the suite until a date."""

    case: NonBlank
    reason: NonBlank
    owner: NonBlank
    expires: Annotated[date, BeforeValidator(_date)]


class Budget(FormatModel):
    """What a run may spend."""

    max_cost_usd: NotNegative | None = None
    max_tokens: Count | None = None
    max_minutes: Positive | None = None


class Limits(FormatModel):
    """What a run may take; seconds and bytes."""

    concurrency: AtLeastOne = 10
    turn_timeout_s: Positive = 60.0
    case_timeout_s: Positive = 600.0
    rate_limit_wait_s: NotNegative = 300.0
    """What a call may wait for its account's rate limit, beside the time of its turn."""
    run_timeout_s: Positive | None = None
    max_response_bytes: AtLeastOne = 1_000_000


class CacheSettings(FormatModel):
    """Recording and replaying of model calls."""

    mode: Annotated[
        Literal["off", "record", "replay", "cache"], BeforeValidator(lambda v: "off" if v is False else v)
    ] = "off"
    dir: NonBlank = ".holodeck/cache"
    ttl_days: Positive = 14.0


class VectorstoreSettings(FormatModel):
    """Whether the databases that agent.yaml names are used."""

    external: Flag = False


class Policy(FormatModel):
    """holodeck-action.yaml."""

    target: Target | None = None
    """Who answers; null is the suite's own model."""
    metrics: Annotated[tuple[SuiteMetric, ...], NoneAs([])] = ()
    """Added to `evaluations.metrics`."""
    cases: Annotated[dict[str, CaseOverlay], NoneAs({})] = Field(default_factory=dict)
    """Additions by case name or id."""
    judges: Annotated[SuiteJudges, NoneAs({})] = Field(default_factory=SuiteJudges)
    """Default panel of the metrics that a model grades, and the judge cards."""
    trials: Annotated[Trials, NoneAs({})] = Field(default_factory=Trials)
    gates: Annotated[Gates, NoneAs({})] = Field(default_factory=Gates)
    baseline: Annotated[Baseline, NoneAs({})] = Field(default_factory=Baseline)
    quarantine: Annotated[tuple[QuarantineEntry, ...], NoneAs([])] = ()
    budget: Annotated[Budget, NoneAs({})] = Field(default_factory=Budget)
    limits: Annotated[Limits, NoneAs({})] = Field(default_factory=Limits)
    cache: Annotated[CacheSettings, NoneAs({})] = Field(default_factory=CacheSettings)
    vectorstores: Annotated[VectorstoreSettings, NoneAs({})] = Field(default_factory=VectorstoreSettings)
    secrets: Annotated[tuple[WrittenText, ...], NoneAs([])] = ()
    """Further values to redact everywhere, usually ${VAR}."""


_LEAST = 1e-9
"""Bounds nearer to the end of the scale are lost in the rounding of means."""


@dataclass(frozen=True, slots=True)
class GatedCases:
    """What gates can fail on: how many cases there are, in how many something asserts, how many are repeated."""

    cases: int
    asserting: int
    repeated: int


def unable_to_fail(gates: Gates, found: GatedCases) -> str | None:
    """Return why no gate can fail, naming those that are given, with the way out; None when one can.

    Where nothing asserts, only gates on scores count: the others would be green whatever is answered.
    """
    if gates_scores(gates) or (found.asserting and _gates_cases(gates, found)):
        return None
    if not found.asserting:
        return "no gate can fail: nothing asserts; give gates.metrics a bound on scores, such as min_mean"
    reasons = "; ".join(_reasons(gates, found))
    return f"no gate can fail: {reasons}; ask for a min_pass_rate above 0 or give another gate, such as gates.metrics"


def gates_scores(gates: Gates) -> bool:
    """Tell whether a gate that can fail looks at the scores of metrics."""
    if gates.summary is not None and gates.summary.min > _LEAST:
        return True
    return any(_can_fail(key, bound) for _, key, bound in _bounds(gates))


def gates_answers(gates: Gates) -> bool:
    """Tell whether a gate that can fail looks at answers: at whether cases pass, or at scores."""
    return bool(gates.min_pass_rate or gates.min_pass_rate_lower_bound) or gates_scores(gates)


def _gates_cases(gates: Gates, found: GatedCases) -> bool:
    """Tell whether a gate that does not look at scores can fail."""
    return (
        bool(gates.min_pass_rate or gates.min_pass_rate_lower_bound)
        or (gates.max_errors is not None and gates.max_errors < found.cases)
        or (gates.max_flaky is not None and gates.max_flaky < found.repeated)
        or any(limit is not None for limit in (gates.max_cost_usd, gates.max_total_tokens, gates.p95_latency_ms))
    )


def _reasons(gates: Gates, found: GatedCases) -> Iterator[str]:
    yield "min_pass_rate is off" if gates.min_pass_rate is None else "min_pass_rate 0 is always reached"
    if gates.min_pass_rate_lower_bound is not None:
        yield "min_pass_rate_lower_bound 0 is always reached"
    if gates.max_errors is not None:
        yield f"max_errors {gates.max_errors} allows all of {found.cases} case(s)"
    if gates.max_flaky is not None:
        yield f"max_flaky {gates.max_flaky} allows all of {found.repeated} repeated case(s)"
    for name, key, bound in _bounds(gates):
        yield f"metrics.{name}.{key} {bound:g} is always reached"
    if gates.summary is not None:
        yield f"summary.min {gates.summary.min:g} is always reached"


def _bounds(gates: Gates) -> Iterator[tuple[str, str, float]]:
    """Yield every bound on a metric: the metric, the bound's key, its value."""
    for name, bounds in sorted(gates.metrics.items()):
        for key in (key for pair in BOUNDS_OF_METRICS for key in pair):
            bound = getattr(bounds, key)
            if bound is not None:
                yield name, key, bound


def _can_fail(key: str, bound: float) -> bool:
    return bound > _LEAST if key.startswith("min_") else bound < 1.0 - _LEAST
