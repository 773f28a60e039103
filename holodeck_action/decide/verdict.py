"""`Verdict`: what a record is judged to be, with a reason a person can act on at every level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.sequences import OneByOne
from holodeck_action.record.serialization import written
from holodeck_action.suite.errors import SourceMark

Outcome = Literal["passed", "failed", "error", "skipped", "informational", "quarantined"]
VerdictOutcome = Literal["passed", "failed", "incomplete", "stopped"]
GateState = Literal["passed", "failed", "undetermined", "skipped"]


class MetricVerdict(Struct, frozen=True, omit_defaults=True):
    """One metric on one turn; `score` is None where it is not a number, `category` the score where it is a word.

    `reason` of what failed or could not be evaluated is a whole sentence that names the metric. `title` is what it
    calls the metric, where that is not `name`.
    """

    name: str
    outcome: Outcome
    reason: str
    score: float | None
    threshold: float | None
    source: SourceMark | None
    polarity: Polarity = written("maximize")
    category: str | None = written(None)
    title: str | None = None


class TurnVerdict(Struct, frozen=True):
    """One turn: its metrics and its tool assertions (None: none were made)."""

    index: int
    outcome: Outcome
    reason: str
    metrics: tuple[MetricVerdict, ...]
    tools: Outcome | None


class TrialVerdict(Struct, frozen=True):
    """One repetition of a case."""

    index: int
    outcome: Outcome
    reason: str
    turns: tuple[TurnVerdict, ...]


class CaseVerdict(Struct, frozen=True):
    """One case over its trials.

    `outcome` is `quarantined` for a case that runs without gating; `judged` is then what it would have been.
    `flaky`: both outcomes were seen. `passes`, `failures` and `errors` count trials.
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
    def turns(self) -> Iterator[TurnVerdict]:
        """The turns of all counted trials."""
        return (turn for trial in self.trials for turn in trial.turns)

    @property
    def metrics(self) -> Iterator[MetricVerdict]:
        """The metrics of all turns."""
        return (metric for turn in self.turns for metric in turn.metrics)


def explaining_trial(trials: Sequence[TrialVerdict]) -> TrialVerdict | None:
    """Return the trial that explains the outcome of a case: the first of the worst ones; None for none."""
    for outcome in ("failed", "error", "skipped"):
        for trial in trials:
            if trial.outcome == outcome:
                return trial
    return next(iter(trials), None)


class GateVerdict(Struct, frozen=True):
    """One gate.

    `undetermined` when what is missing could still turn it either way; `skipped` when it does not apply for a
    reason that the settings accept, such as that there is no base.
    """

    name: str
    state: GateState
    actual: float | None
    required: float
    reason: str


class MetricSummary(Struct, frozen=True):
    """One metric over the suite.

    `mean` is the weighted mean over cases of the case's mean over turns and trials, zeros included; None without a
    numeric score. `cases` is the number of cases behind it; the other counts are evaluations. `threshold` is None when
    there is none or when entries differ; `polarity` is `neutral` when entries differ.
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
    """How the judges of a panel agreed on one metric over the suite.

    Attributes:
        metric: the metric's name.
        judges: how many judges the panel has; None when entries differ.
        evaluations: answers that the panel was asked about, those without enough verdicts included.
        verdicts: verdicts that judges gave.
        fallbacks: how many of these a fallback model gave in a judge's place.
        missing: verdicts that nobody gave.
        alpha: Krippendorff's α of the scores (interval metric), fallback verdicts left out; 1 is perfect agreement, 0
            that of chance. None where it is not defined: no two judges scored one answer, or all scores are equal.
        mean_spread: mean distance between the highest and the lowest score of an answer; None without.
        agreement: mean share of judges whose own verdict is the panel's; None without verdicts.
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


class Counts(Struct, frozen=True):
    """Cases by outcome, and evaluations planned and done (quarantined cases left out of the latter two)."""

    passed: int
    failed: int
    error: int
    skipped: int
    informational: int
    quarantined: int
    planned_evaluations: int
    completed_evaluations: int


class Verdict(Struct, frozen=True):
    """The whole judgement.

    `record_digest` is the sha256 of the canonical record it was computed from, `results_digest` the digest of the file
    that holds it; None where there is none. `comparison` is None where the run is compared with nothing;
    `warnings` are what the comparison shows and the settings only warn of, each one sentence.
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
    cases: OneByOne[CaseVerdict]
    panels: tuple[PanelSummary, ...] = ()
    results_digest: str | None = None
    comparison: Comparison | None = None
    warnings: tuple[str, ...] = ()


class SuiteVerdict(Struct, frozen=True):
    """One suite's line in the combined verdict of several; `folder` is where its own files are."""

    suite: str
    folder: str | None
    outcome: VerdictOutcome
    exit_code: int
    reason: str


class CombinedVerdict(Struct, frozen=True):
    """Several suites in one run; `not_run` names those an interruption left out."""

    exit_code: int
    suites: tuple[SuiteVerdict, ...]
    not_run: tuple[str, ...]
