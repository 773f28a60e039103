"""The policy file holodeck-action.yaml: settings outside of HoloDeck's schema (docs/policy-file.md)."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from msgspec import Struct
from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.seam import registry
from holodeck_action.suite.model.base import (
    Flag,
    FormatModel,
    Integer,
    LazySection,
    LazyType,
    NonBlank,
    NoneAs,
    Number,
    UnitInterval,
    WrittenId,
    WrittenText,
    list_or_mapping,
)
from holodeck_action.suite.model.base_sources import SOURCE_PATTERN
from holodeck_action.suite.model.cases import SeveralAnswers, TableCase, Weight
from holodeck_action.suite.model.expected_tools import TrajectoryEntry
from holodeck_action.suite.model.judging import SuiteJudges
from holodeck_action.suite.model.metric_types import CaseMetric, CheckMetric, SuiteMetric
from holodeck_action.suite.model.targets import Target

if TYPE_CHECKING:
    from holodeck_action.suite.model.environments import Environment
else:
    # Most suites have no such section.
    Environment = LazyType("holodeck_action.suite.model.environments", "Environment")

Count = Annotated[Integer, Field(ge=0)]
AtLeastOne = Annotated[Integer, Field(ge=1)]
Positive = Annotated[Number, Field(gt=0.0)]
NotNegative = Annotated[Number, Field(ge=0.0)]
Parameter = str | Flag | Integer | Number
CaseField = Annotated[str, Field(pattern=rf"^({'|'.join(TableCase.model_fields)})(\.\w+)*$")]
"""A field of a case, or a key inside of one."""
Reaction = Literal["fail", "warn", "ignore"]
CaseReaction = Literal["fail", "confirm", "warn", "ignore"]


class RetrievalOverlay(FormatModel):
    """`retrieval` of an entry of `cases`."""

    ground_truth_chunk_ids: Annotated[
        Annotated[list[WrittenId], Field(min_length=1), Tag("list")]
        | Annotated[dict[WrittenId, Weight], Field(min_length=1), Tag("mapping")],
        Discriminator(list_or_mapping),
    ]
    """Ids of the relevant chunks: a list, or a mapping id → gain. Example: `[policy-3, policy-7]`."""


class CaseOverlay(FormatModel):
    """An entry of `cases`: additions to one case."""

    evaluations: list[CaseMetric] | None = None
    """Metrics in addition to those of the case."""
    expect: list[CheckMetric] | None = None
    """Checks of the answer (in a conversation, of the last answer), in addition to the metrics: `{TYPE: VALUE}`, with
    further settings next to it. Example: `[{contains: Thursday}]`."""
    ground_truths: SeveralAnswers | None = None
    """Several expected answers (in a conversation, of the last turn), of which the best match counts, in place of
    those of the case. Example: `[Leeds, in Leeds]`."""
    retrieval: RetrievalOverlay | None = None
    """The chunks that retrieval should find."""
    expected_trajectory: Annotated[list[TrajectoryEntry], Field(min_length=1)] | None = None
    """The expected calls of the whole conversation, in order. Example: `[{name: find_order}, {name: refund}]`."""
    tags: list[NonBlank] | None = None
    """Tags for `--tag`. Example: `[refunds, critical]`."""
    weight: Weight | None = None
    """Weight of the case in the pass rate and in means; 1 when absent. Example: `2`."""
    repeat: AtLeastOne | None = None
    """Trials of this case; `trials.repeat` when absent. Example: `5`."""
    min_pass: AtLeastOne | None = None
    """Trials of this case that must pass, at most `repeat`; `trials.min_pass` when absent. Example: `4`."""
    parameters: Annotated[list[dict[str, Parameter]], Field(min_length=1)] | None = None
    """Values for `${{NAME}}` in the texts of the case, which runs once for each row. The key of the entry is then
    the name of the case. Example: `[{order: A-17, city: Leeds}, {order: B-4, city: York}]`."""


class Trials(FormatModel):
    """`trials`: how often each case runs, and how often it must pass."""

    repeat: AtLeastOne = 1
    """Trials of each case. Example: `5`."""
    min_pass: AtLeastOne | None = None
    """Trials of each case that must pass, at most `repeat`; all of them when absent. Example: `4`."""
    stop_when_decided: Flag = True
    """Whether no trial runs after the one that decides the case."""


BOUNDS_OF_METRICS = (("min_mean", "max_mean"), ("min_lower_bound", "max_upper_bound"), ("min_p10", "max_p90"))
"""Keys of bounds on the mean, its interval and the worst tenth: (key if high scores are good, key if low are good)."""


class GateMetric(FormatModel):
    """An entry of `gates.metrics`: bounds on one metric. `min_…` if high scores are good, `max_…` if low scores are
    good."""

    min_mean: UnitInterval | None = None
    """Lowest mean score. Example: `0.7`."""
    min_lower_bound: UnitInterval | None = None
    """Lowest accepted lower end of the mean's 95 % interval. Needs 10 cases with a score. Example: `0.6`."""
    min_p10: UnitInterval | None = None
    """Lowest accepted 10th percentile of the scores. Example: `0.5`."""
    max_mean: UnitInterval | None = None
    """Highest mean score. Example: `0.1`."""
    max_upper_bound: UnitInterval | None = None
    """Highest accepted upper end of the mean's 95 % interval. Needs 10 cases with a score. Example: `0.2`."""
    max_p90: UnitInterval | None = None
    """Highest accepted 90th percentile of the scores. Example: `0.3`."""

    @model_validator(mode="after")
    def _require_bound(self) -> Self:
        if all(getattr(self, key) is None for pair in BOUNDS_OF_METRICS for key in pair):
            raise PydanticCustomError("min_mean", "is missing: give at least one bound, such as min_mean: 0.8")
        return self


class GateSummary(FormatModel):
    """`gates.summary`: a bound on one number from the means of all metrics."""

    method: Literal["simple_average", "weighted_average", "minimum", "custom"]
    """How the number is computed. Example: `weighted_average`."""
    weights: dict[str, Weight] | None = None
    """Weight per metric, for `weighted_average`. Example: `{rouge: 2, meteor: 1}`."""
    function: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module.path:callable` for `custom`. It receives `means` and returns a number from 0 to 1. Example:
    `summary:score`."""
    min: UnitInterval
    """Lowest accepted number. Example: `0.7`."""

    @model_validator(mode="after")
    def _check_function(self) -> Self:
        if (self.method == "custom") != (self.function is not None):
            raise PydanticCustomError("function", "is required with method custom, and allowed only with it")
        return self

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if (self.method == "weighted_average") != (self.weights is not None):
            raise PydanticCustomError("weights", "is required with method weighted_average, and allowed only with it")
        return self


class GatedCases(Struct, frozen=True):
    """The numbers of cases, of asserting cases and of repeated cases of a suite, and whether a regression can fail the
    run. These decide whether gates can fail.
    """

    cases: int
    asserting: int
    repeated: int
    compared: bool = False


class Gate(Struct, frozen=True):
    """The properties of a gate, declared once as an annotation of the gate's field in `Gates`.

    Attributes:
        stricter: whether higher or lower values are stricter.
        looks_at: the value that the gate bounds. `answers`: a pass rate; `cases`, `repeated`: a number of cases or of
            repeated cases; `run`: usage and times; `base`: the comparison; `missing`: missing evaluations.
        absent: the value that null means; None if null switches the gate off.
        reported: the value that every reply must report for this gate; None if the gate needs none.
    """

    stricter: Literal["higher", "lower"]
    looks_at: Literal["answers", "cases", "repeated", "run", "base", "missing"]
    absent: float | None = None
    reported: Literal["tokens", "cost", "time", "first token"] | None = None

    def can_fail(self, limit: float, gated: GatedCases) -> bool:
        """Return whether a run with these cases can fail the gate."""
        if self.looks_at in _COUNTED_CASES:
            return limit < int(getattr(gated, self.looks_at))
        return self.looks_at == "run" or (self.looks_at == "answers" and self.bounds_share(limit))

    def bounds_share(self, limit: float) -> bool:
        """Return whether a rate from 0 to 1 can violate the limit. Only for gates on rates."""
        return limit > 0 if self.stricter == "higher" else limit < 1


_COUNTED_CASES = {"cases": "case(s)", "repeated": "repeated case(s)"}
"""Words for the counted cases in messages, by `Gate.looks_at`."""


class Gates(FormatModel):
    """`gates`: requirements on the whole run. Null switches a gate off."""

    min_pass_rate: Annotated[UnitInterval | None, Gate("higher", "answers")] = 1.0
    """Share of the decided cases that must pass, by weight. Example: `0.9`."""
    min_pass_rate_lower_bound: Annotated[UnitInterval | None, Gate("higher", "answers")] = None
    """Lowest accepted lower end of the pass rate's 95 % Wilson interval. Example: `0.8`."""
    min_completeness: Annotated[UnitInterval | None, Gate("higher", "missing")] = 1.0
    """Share of the planned evaluations that must happen. Example: `0.95`."""
    max_errors: Annotated[Count | None, Gate("lower", "cases")] = None
    """Cases that may end in error. Example: `2`."""
    max_flaky: Annotated[Count | None, Gate("lower", "repeated")] = None
    """Cases that may have both passing and failing trials. Example: `1`."""
    max_regressions: Annotated[Count | None, Gate("lower", "base", absent=0)] = None
    """Cases that may fail though they passed on the base; none when absent. Needs `baseline.source`. Example: `2`."""
    min_win_rate_lower_bound: Annotated[UnitInterval | None, Gate("higher", "base")] = None
    """Lowest accepted lower end of the 95 % interval of the win rate against the base. Needs `baseline.source` and the
    metric `preference`. Example: `0.45`."""
    max_cost_usd: Annotated[NotNegative | None, Gate("lower", "run", reported="cost")] = None
    """US dollars that all model calls of the run may have cost. Example: `1.5`."""
    max_total_tokens: Annotated[Count | None, Gate("lower", "run", reported="tokens")] = None
    """Tokens that all model calls of the run may have used. Example: `200000`."""
    p95_latency_ms: Annotated[Positive | None, Gate("lower", "run", reported="time")] = None
    """Milliseconds in which 95 % of the turns must be answered. Example: `8000`."""
    p95_first_token_ms: Annotated[Positive | None, Gate("lower", "run", reported="first token")] = None
    """Milliseconds in which 95 % of the answers must have begun. Example: `1500`."""
    metrics: Annotated[dict[str, GateMetric], NoneAs({})] = Field(default_factory=dict)
    """Bounds on metrics, by name. Example: `{rouge: {min_mean: 0.6}}`."""
    summary: GateSummary | None = None
    """A bound on one number from the means of all metrics. Example: `{method: simple_average, min: 0.7}`."""

    OMITTED: ClassVar[frozenset[str]] = frozenset({"min_win_rate_lower_bound"})
    """Keys that records omit if they have their default, so that records keep the bytes of earlier versions."""


GATES: Mapping[str, Gate] = {
    name: note for name, field in Gates.model_fields.items() for note in field.metadata if isinstance(note, Gate)
}
"""All gates except those on scores, by key, in order."""


def active_gates(gates: Gates) -> Iterator[tuple[str, Gate, float]]:
    """Yield (key, gate, value) for each of `GATES` that has a value."""
    for name, gate in GATES.items():
        limit = getattr(gates, name)
        if limit is not None:
            yield name, gate, limit


class Confirmation(FormatModel):
    """`baseline.confirm`: how often cases that got worse run again with `on_case_regression: confirm`."""

    trials: Annotated[Integer, Field(ge=1, le=100)] = 4
    """Number of further trials of each of these cases in the same run. Example: `6`."""
    cases: Count = 20
    """The largest number of cases that run again; all others count as regressed. Example: `50`."""


class Baseline(FormatModel):
    """`baseline`: the base of the comparison, and the consequence of a loss."""

    source: Annotated[str, Field(pattern=SOURCE_PATTERN)] | None = None
    """Where the results to compare with come from: `file:PATH`, `artifact` (or `artifact:NAME`), `branch:NAME`, or
    `merge-base`. Null compares with nothing. Example: `artifact`."""
    on_missing: Literal["warn", "fail"] = "warn"
    """What happens when there is nothing to compare with. `fail` leaves the verdict incomplete, with exit code 3.
    Example: `fail`."""
    margin: Annotated[UnitInterval, Field(gt=0.0)] = 0.10
    """The largest loss of pass rate or mean score that is tolerated. Example: `0.05`."""
    on_regressed: Reaction = "fail"
    """What happens when the pass rate or a metric is worse beyond chance. Example: `warn`."""
    on_inconclusive: Reaction = "ignore"
    """What happens when there are too few cases to rule out a loss above the margin. Example: `fail`."""
    on_case_regression: CaseReaction = "confirm"
    """What happens when more cases than `gates.max_regressions` passed on the base and fail now. `confirm` fails the
    run too, but first runs each of these cases again, and counts it only if it fails in most of its trials now, and
    passed in most of those of the base. A recorded target cannot be called again: there `confirm` is `fail`. Example:
    `warn`."""
    confirm: Confirmation = Confirmation.model_construct()
    """How often a case that got worse runs again. Example: `{trials: 6}`."""
    on_loosened: Reaction = "warn"
    """What happens when the run has less strict or other gates, thresholds, cases, quarantine, judges or committed
    results than the base. The stricter value of this key in run and base counts. Example: `fail`."""

    OMITTED: ClassVar[frozenset[str]] = frozenset({"on_loosened", "confirm"})
    """Keys that records omit if they have their default, so that records keep the bytes of earlier versions."""

    @model_validator(mode="before")
    @classmethod
    def _check_form(cls, value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(SOURCE_PATTERN, value):
            raise PydanticCustomError("form", "must be a mapping: write source: {source} below it", {"source": value})
        return value


def _parse_date(value: Any) -> date:
    if isinstance(value, date):
        return value
    try:
        # The YAML reader returns dates as text.
        return date.fromisoformat(value) if len(value) == len("2027-01-31") else date.fromisoformat("")
    except (TypeError, ValueError):
        raise PydanticCustomError("date", "must be a date such as 2027-01-31") from None


class QuarantineEntry(FormatModel):
    """An entry of `quarantine`: a case that runs but counts in no gate until a date."""

    case: NonBlank
    """Name or id of the case. Example: `search is back`."""
    reason: NonBlank
    """Why. Example: `upstream search`."""
    owner: NonBlank
    """Who repairs it. Example: `"@team-search"`."""
    expires: Annotated[date, BeforeValidator(_parse_date)]
    """The last day of the quarantine, in UTC. Example: `"2027-01-31"`."""


class Budget(FormatModel):
    """`budget`: what a run may spend. At the limit it stops with a partial report."""

    max_cost_usd: NotNegative | None = None
    """US dollars that the model calls may cost. Example: `2.5`."""
    max_tokens: Count | None = None
    """Tokens of prompts and answers. Example: `500000`."""
    max_minutes: Positive | None = None
    """Minutes that the run may take. Example: `20`."""


class Limits(FormatModel):
    """`limits`: time limits in seconds, concurrency and sizes."""

    concurrency: AtLeastOne = 10
    """Number of conversations at the same time. Example: `4`."""
    turn_timeout_s: Positive = 60.0
    """Seconds that the agent may take for a turn. Example: `120`."""
    case_timeout_s: Positive = 600.0
    """Seconds that the agent may take for all turns of a trial. Example: `900`."""
    import_timeout_s: Positive = 300.0
    """Seconds that the import of an agent, a grader, a metric class or a function tool may take. Example: `600`."""
    rate_limit_wait_s: NotNegative = 300.0
    """Seconds that a model call may wait for its account's rate limit, besides the time of its turn. Example: `600`."""
    run_timeout_s: Positive | None = None
    """Seconds until the run stops with a partial report. Example: `1800`."""
    max_response_bytes: AtLeastOne = 1_000_000
    """Size limit of one answer with its tool calls and chunks, in bytes. Example: `200000`."""


class CacheSettings(FormatModel):
    """`cache`: how model calls are kept."""

    mode: Annotated[
        Literal["off", "record", "replay", "cache"], BeforeValidator(lambda v: "off" if v is False else v)
    ] = "off"
    """`record` keeps every call, `replay` answers from the folder only, `cache` calls models only for what is missing.
    """
    dir: NonBlank = ".holodeck/cache"
    """The folder, relative to agent.yaml. Example: `tape`."""
    ttl_days: Positive = 14.0
    """Days for which a cached answer is used. Example: `30`."""


class VectorstoreSettings(FormatModel):
    """`vectorstores`: whether the databases of agent.yaml are used."""

    external: Flag = False
    """Refused when true in this version."""


class Spans(FormatModel):
    """`spans`: the port that receives the spans of an HTTP target."""

    port: Annotated[Integer, Field(ge=1, le=65535)] = 4318
    """The port on this machine's loopback address that receives OTLP over HTTP. Example: `4400`."""


class Policy(FormatModel):
    """The top level of holodeck-action.yaml."""

    # Omitted sections are created without validation, which would take longer than the rest of the file.

    target: Target | None = None
    """What answers the cases; null is the suite's own model. Example: `recorded:answers.jsonl`."""
    environment: LazySection[Environment] | None = None
    """The Python in which targets, graders and function tools of the suite run; null is that of holodeck-action itself.
    """
    warm_up: NonBlank | None = None
    """An untimed input that a Python, command or HTTP target receives before its first turn. Example:
    `Hello`."""
    spans: Annotated[
        Annotated[Flag, Tag("flag")] | Annotated[Spans, Tag("mapping")],
        Discriminator(lambda value: "mapping" if isinstance(value, dict | Spans) else "flag"),
    ] = False
    """Whether the OpenTelemetry spans of a Python, command or HTTP target complete its replies. Example:
    `true`."""
    metrics: Annotated[tuple[SuiteMetric, ...], NoneAs([])] = ()
    """Metrics in addition to `evaluations.metrics`. Example: `[{type: length, max_words: 60}]`."""
    columns: Annotated[dict[str, CaseField | None], NoneAs({})] = Field(default_factory=dict)
    """Field of a case that a column of `test_cases_file` fills, by column; nested keys are joined by dots. Null leaves
    a column out, under `*` all columns that fill no field. Example: `{question: input, answer: ground_truth, row:
    null}`."""
    ground_truth: Literal["compared", "unused"] = "compared"
    """Whether a metric must compare the expected answers of cases. `unused`: they are notes for readers. Example:
    `unused`."""
    cases: Annotated[LazySection[dict[str, CaseOverlay]], NoneAs({})] = Field(default_factory=dict)
    """Additions to single cases, by name or id."""
    judges: Annotated[LazySection[SuiteJudges], NoneAs({})] = Field(default_factory=SuiteJudges.model_construct)
    """The panel of all judged metrics, and the judge cards."""
    trials: Annotated[LazySection[Trials], NoneAs({})] = Field(default_factory=Trials.model_construct)
    """How often each case runs, and how often it must pass."""
    gates: Annotated[LazySection[Gates], NoneAs({})] = Field(default_factory=Gates.model_construct)
    """Requirements on the whole run."""
    baseline: Annotated[LazySection[Baseline], NoneAs({})] = Field(default_factory=Baseline.model_construct)
    """What results are compared with, and what a loss does."""
    quarantine: Annotated[LazySection[tuple[QuarantineEntry, ...]], NoneAs([])] = ()
    """Cases that run but count in no gate until a date."""
    stop: Literal["never", "certain"] = "never"
    """Whether a run ends early. `certain`: when its exit code can no longer change. Example: `certain`."""
    budget: Annotated[LazySection[Budget], NoneAs({})] = Field(default_factory=Budget.model_construct)
    """What a run may spend."""
    limits: Annotated[LazySection[Limits], NoneAs({})] = Field(default_factory=Limits.model_construct)
    """Time limits, concurrency and sizes."""
    cache: Annotated[LazySection[CacheSettings], NoneAs({})] = Field(default_factory=CacheSettings.model_construct)
    """How model calls are kept."""
    vectorstores: Annotated[LazySection[VectorstoreSettings], NoneAs({})] = Field(
        default_factory=VectorstoreSettings.model_construct
    )
    """Whether the databases of agent.yaml are used."""
    secrets: Annotated[tuple[WrittenText, ...], NoneAs([])] = ()
    """Further values that are replaced by `***` everywhere, usually `${VAR}`. Example: `["${PARTNER_CODE}"]`."""

    @field_validator("spans")
    @classmethod
    def _check_spans(cls, value: bool | Spans) -> bool | Spans:
        if value and registry.observer() is None:
            raise PydanticCustomError("spans", "{unknown}", {"unknown": registry.unknown_phrase()})
        return value


_LEAST = 1e-9
"""Smallest effective distance of a bound from the end of the scale; a smaller one is lost when means are rounded."""


def fails_on_loss(baseline: Baseline) -> bool:
    """Return whether a regression against the base can fail a run."""
    return "fail" in (baseline.on_regressed, baseline.on_inconclusive) or fails_on_case_regression(baseline)


def fails_on_case_regression(baseline: Baseline) -> bool:
    """Return whether a case that got worse can fail a run."""
    return baseline.on_case_regression in ("fail", "confirm")


def why_no_gate_fails(gates: Gates, gated: GatedCases) -> str | None:
    """Return why no gate can fail, and a remedy; None if a gate can fail.

    If no case asserts anything, only gates on scores count, because answers cannot fail the other gates.
    """
    if (
        has_score_gate(gates)
        or gated.compared
        or (gated.asserting and any(gate.can_fail(limit, gated) for _, gate, limit in active_gates(gates)))
    ):
        return None
    if not gated.asserting:
        return "no gate can fail: no case asserts anything; give gates.metrics a bound on scores, such as min_mean"
    reasons = "; ".join(_reasons(gates, gated))
    return f"no gate can fail: {reasons}; set min_pass_rate above 0 or give another gate, such as gates.metrics"


def has_score_gate(gates: Gates) -> bool:
    """Return whether a gate on scores of metrics can fail."""
    if gates.summary is not None and gates.summary.min > _LEAST:
        return True
    return any(_can_fail(key, bound) for _, key, bound in _bounds(gates))


def has_answer_gate(gates: Gates) -> bool:
    """Return whether a gate on a pass rate or on scores can fail."""
    rates = any(gate.looks_at == "answers" and gate.bounds_share(limit) for _, gate, limit in active_gates(gates))
    return rates or has_score_gate(gates)


def _reasons(gates: Gates, gated: GatedCases) -> Iterator[str]:
    if gates.min_pass_rate is None:
        yield "min_pass_rate is off"
    for name, gate, limit in active_gates(gates):
        if gate.looks_at == "answers":
            yield f"{name} {limit:g} is always reached"
        elif gate.looks_at in _COUNTED_CASES:
            yield f"{name} {limit} allows all of {getattr(gated, gate.looks_at)} {_COUNTED_CASES[gate.looks_at]}"
    for name, key, bound in _bounds(gates):
        yield f"metrics.{name}.{key} {bound:g} is always reached"
    if gates.summary is not None:
        yield f"summary.min {gates.summary.min:g} is always reached"


def _bounds(gates: Gates) -> Iterator[tuple[str, str, float]]:
    """Yield (metric, key, value) for each bound on a metric."""
    for name, bounds in sorted(gates.metrics.items()):
        for key in (key for pair in BOUNDS_OF_METRICS for key in pair):
            bound = getattr(bounds, key)
            if bound is not None:
                yield name, key, bound


def _can_fail(key: str, bound: float) -> bool:
    return bound > _LEAST if key.startswith("min_") else bound < 1.0 - _LEAST
