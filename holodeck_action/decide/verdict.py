"""`Verdict`: the judgement of a record, with an actionable reason at every level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.serialization import always_written
from holodeck_action.suite.errors import SourceMark

Outcome = Literal["passed", "failed", "error", "skipped", "informational", "quarantined"]
VerdictOutcome = Literal["passed", "failed", "incomplete", "stopped"]
GateState = Literal["passed", "failed", "undetermined", "skipped"]


class MetricVerdict(Struct, frozen=True, gc=False, omit_defaults=True):
    """The verdict on one metric of one turn. `score` is the score if it is a number, `category` if it is a word; the
    other is None.

    For a failed metric or an error, `reason` is a complete message that names the metric. `title` is the metric's name
    in this message; None if it is `name`.
    """

    name: str
    outcome: Outcome
    reason: str
    score: float | None
    threshold: float | None
    source: SourceMark | None
    polarity: Polarity = always_written("maximize")
    category: str | None = always_written(None)
    title: str | None = None


class TurnVerdict(Struct, frozen=True, gc=False):
    """The verdict on one turn: on its metrics, and on its tool assertions (None if there are no tool assertions)."""

    index: int
    outcome: Outcome
    reason: str
    metrics: tuple[MetricVerdict, ...]
    tools: Outcome | None


class TrialVerdict(Struct, frozen=True, gc=False, omit_defaults=True):
    """The verdict on one trial of a case.

    `conversation` is the verdict on the metrics of the whole conversation, with the index of the last turn; None if
    there are no such metrics.
    """

    index: int
    outcome: Outcome
    reason: str
    turns: tuple[TurnVerdict, ...]
    conversation: TurnVerdict | None = None

    @property
    def parts(self) -> tuple[TurnVerdict, ...]:
        """The turns, then the conversation."""
        return self.turns if self.conversation is None else (*self.turns, self.conversation)


class CaseVerdict(Struct, frozen=True, gc=False):
    """The verdict on one case over its trials.

    `outcome` is `quarantined` for a quarantined case; `judged` is its outcome without quarantine. A case is `flaky` if
    some trials passed and some failed. `passes`, `failures` and `errors` count trials.
    """

    id: str
    outcome: Outcome
    judged: Outcome
    reason: str
    flaky: bool
    passes: int
    failures: int
    errors: int
    trials: tuple[TrialVerdict, ...]

    @property
    def parts(self) -> Iterator[TurnVerdict]:
        """The turns and conversations of all counted trials, one after another."""
        return (part for trial in self.trials for part in trial.parts)

    @property
    def metrics(self) -> Iterator[MetricVerdict]:
        """The metrics of all turns and conversations, one after another."""
        return (metric for part in self.parts for metric in part.metrics)


def explaining_trial(trials: Sequence[TrialVerdict]) -> TrialVerdict | None:
    """Return the trial that explains the outcome of a case: the first with the worst outcome; None if there are no
    trials."""
    for outcome in ("failed", "error", "skipped"):
        for trial in trials:
            if trial.outcome == outcome:
                return trial
    return next(iter(trials), None)


class GateVerdict(Struct, frozen=True):
    """The verdict on one gate.

    `state` is `undetermined` if missing evaluations could still change it, and `skipped` if the gate does not apply for
    a reason that the settings accept, such as a missing base. `actual` is None if the number is unknown.
    """

    name: str
    state: GateState
    actual: float | None
    required: float
    reason: str


class MetricSummary(Struct, frozen=True):
    """The summary of one metric over the suite.

    `mean` is the weighted mean over cases of the case's mean over turns and trials, zeros included; None if there is no
    numeric score. `cases` is the number of cases with a score; the other counts are numbers of evaluations. `threshold`
    is None if the metric has no threshold or several; `polarity` is `neutral` if evaluations have different polarities.
    """

    mean: float | None
    cases: int
    threshold: float | None
    passed: int
    failed: int
    errors: int
    skipped: int
    informational: int
    polarity: Polarity = "maximize"


class PanelSummary(Struct, frozen=True):
    """The agreement of a panel's judges on one metric over the suite.

    Attributes:
        metric: name of the metric.
        judges: number of judges of the panel; None if it differs between evaluations.
        evaluations: number of evaluated answers, including those with too few verdicts.
        verdicts: number of verdicts.
        fallbacks: number of verdicts by a fallback model.
        missing: number of missing verdicts.
        alpha: Krippendorff's α for interval data of the scores, without fallback verdicts; 1 is perfect agreement, 0
            agreement by chance. None if undefined: no two judges scored the same answer, or all scores are equal.
        mean_spread: mean difference between the highest and the lowest score of an answer; None if there are no scores.
        agreement: mean proportion of judges whose verdict equals the panel's; None if there are no verdicts.
    """

    metric: str
    judges: int | None
    evaluations: int
    verdicts: int
    fallbacks: int
    missing: int
    alpha: float | None
    mean_spread: float | None
    agreement: float | None


class ContradictionSummary(Struct, frozen=True):
    """How often the judge of a metric contradicted itself.

    Attributes:
        metric: name of the metric.
        contradicted: number of repeated prompts to which the judge gave opposite verdicts.
        repeated: number of prompts that the judge got in several trials of a case.
    """

    metric: str
    contradicted: int
    repeated: int


class Counts(Struct, frozen=True):
    """Numbers of cases by outcome, and of planned and completed evaluations of the cases that are not quarantined."""

    passed: int
    failed: int
    error: int
    skipped: int
    informational: int
    quarantined: int
    planned_evaluations: int
    completed_evaluations: int


class Verdict(Struct, frozen=True):
    """The verdict on a whole run.

    `record_digest` is the sha256 of the canonical record. `results_digest` is the digest of the record's file; None if
    there is no file. `comparison` is None if there is no base. `warnings` are about changes for which the settings only
    warn, one sentence each.
    """

    outcome: VerdictOutcome
    exit_code: int
    reason: str
    record_digest: str
    counts: Counts
    pass_rate: float | None
    completeness: float
    gates: tuple[GateVerdict, ...]
    metrics: Mapping[str, MetricSummary]
    cases: tuple[CaseVerdict, ...]
    panels: tuple[PanelSummary, ...] = ()
    results_digest: str | None = None
    comparison: Comparison | None = None
    warnings: tuple[str, ...] = ()
    contradictions: tuple[ContradictionSummary, ...] = ()


class SuiteVerdict(Struct, frozen=True):
    """One suite's entry in the combined verdict of several suites; `folder` is the name of the subfolder with its
    results, None if there is no subfolder."""

    suite: str
    folder: str | None
    outcome: VerdictOutcome
    exit_code: int
    reason: str


class CombinedVerdict(Struct, frozen=True):
    """The verdict on several suites in one run; `not_run` names the suites that did not run because of an
    interruption."""

    exit_code: int
    suites: tuple[SuiteVerdict, ...]
    not_run: tuple[str, ...]
