"""`Report` and its parts: the view of a run that every channel shows.

A report is plain data: the JSON report and the variables of templates have the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.consumption import Spend
from holodeck_action.decide.faults import Fault
from holodeck_action.decide.simulated_users import UserSummary
from holodeck_action.decide.summaries import EvaluationSummary
from holodeck_action.decide.trials import CaseTrials, SuiteTrials
from holodeck_action.decide.verdict import (
    ContradictionSummary,
    Counts,
    GateVerdict,
    Outcome,
    PanelSummary,
    TrialVerdict,
    VerdictOutcome,
)
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.judge_card import CardSummary
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.record import ModelCalls
from holodeck_action.record.serialization import always_written, from_plain, to_plain
from holodeck_action.reports.history import History
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.simulation import Speaker

REPORT_VERSION = 1

_T = TypeVar("_T")


class ToolCallView(Struct, frozen=True):
    """One tool call.

    `arguments` is `name=value, …` with JSON values; `result` is text or JSON, None if there is no result.
    """

    name: str
    arguments: str
    result: str | None
    error: str | None
    duration_ms: float | None


class TurnView(Struct, frozen=True, gc=False, omit_defaults=True):
    """One turn of a case.

    `problems` has a message for each failed or unevaluated metric, tool assertion or error; `faults` has the errors,
    with the party that must act on each. `said_by` is the writer of a simulated user's input: `script` or `model`.
    """

    index: int
    source: SourceMark
    outcome: Outcome
    input: str
    response: str | None
    ground_truth: str | None
    tool_calls: tuple[ToolCallView, ...]
    problems: tuple[str, ...]
    faults: tuple[Fault, ...] = always_written(())
    said_by: Speaker = ""


class ConversationView(Struct, frozen=True):
    """The evaluations of a whole conversation.

    Attributes:
        outcome: outcome of these evaluations.
        problems: a message for each metric that failed or was not evaluated.
        faults: the errors, with the party that must act on each.
        named_turn: index of the turn that the judge of the first failed metric names; None if there is no such turn.
        graded: False if a turn is in error, so that the conversation was not graded.
    """

    outcome: Outcome
    problems: tuple[str, ...]
    faults: tuple[Fault, ...]
    named_turn: int | None
    graded: bool


class CaseScore(Struct, frozen=True, gc=False):
    """The mean of a metric over a case's counted trials and turns; None if no score is a number.

    `lowest` and `highest` are the lowest and highest mean of a trial; None if there are fewer than two trials.
    """

    metric: str
    mean: float | None
    lowest: float | None
    highest: float | None


class CaseSummary(Struct, frozen=True):
    """The scores of a case, combined into one number by the method of `gates.summary`.

    Attributes:
        method: `simple_average`, `weighted_average` or `minimum`.
        weights: weight by metric for `weighted_average`; None for other methods.
        score: 0 to 1, high is good; None if the case lacks the score of a counted metric.
    """

    method: str
    weights: Mapping[str, float] | None
    score: float | None


class CaseView(Struct, frozen=True, gc=False, omit_defaults=True):
    """One case.

    Attributes:
        position: index in the suite, from 0.
        id: id of the case.
        title: name of the case, or its id if it has no name.
        source: position of the case in the suite's files.
        last: position where the case's last value starts; None if it is unknown.
        outcome: outcome of the case; `quarantined` if the case cannot affect gates.
        judged: outcome of the case without quarantine.
        reason: reason for the outcome.
        repeats: a sentence with the number of passed and required trials; None if the case has a single trial.
        flaky: whether some trials passed and others failed.
        trial_rates: pass@k and pass^k; None if the case has a single trial, or if no trial passed or failed.
        tags: tags of the case.
        duration_ms: the agent's working time over all trials, without the start of its program; None if it is unknown
            or left out.
        scores: mean of each metric, sorted by name.
        summary: the scores combined into one number; None if `gates.summary` is missing or names a function.
        turns: turns of the trial that explains the outcome; empty for a case that needs no attention.
        trials: all counted trials with their metrics.
        user: sentences about the simulated user in the trial that explains the outcome; empty if there is none.
        conversation: the evaluations of the whole conversation in the trial that explains the outcome; None if there
            are none, or if the case needs no attention.
    """

    position: int
    id: str
    title: str
    source: SourceMark
    last: SourceMark | None
    outcome: Outcome
    judged: Outcome
    reason: str
    repeats: str | None
    flaky: bool
    trial_rates: CaseTrials | None
    tags: tuple[str, ...]
    duration_ms: float | None
    scores: tuple[CaseScore, ...]
    summary: CaseSummary | None
    turns: tuple[TurnView, ...]
    trials: tuple[TrialVerdict, ...]
    user: tuple[str, ...] = ()
    conversation: ConversationView | None = None

    @property
    def conversation_problems(self) -> tuple[str, ...]:
        """The problems of the whole conversation, as clauses; empty if they follow from a turn in error."""
        whole = self.conversation
        return () if whole is None or not whole.graded else whole.problems

    @property
    def turn_at_fault(self) -> TurnView | None:
        """The first turn with a problem, else the turn that the judge of the conversation names; None if there is
        neither."""
        first = next((turn for turn in self.turns if turn.problems), None)
        if first is not None or self.conversation is None:
            return first
        return next((turn for turn in self.turns if turn.index == self.conversation.named_turn), None)

    @property
    def shown_turn(self) -> TurnView | None:
        """The turn to show as an example: the one at fault, else the last turn of a conversation with problems, else
        the first; None if there are no turns."""
        if (turn := self.turn_at_fault) is not None or not self.turns:
            return turn
        return self.turns[-1 if self.conversation_problems else 0]


class MetricView(Struct, frozen=True):
    """One metric over the suite, based on `MetricSummary`.

    `margin` is mean − threshold, None unless both exist. `low` and `high` are the ends of the mean's 95 % interval over
    cases, None if there are fewer than 10 cases. `within_noise` is true if the mean is closer to the threshold than
    half of that interval; it is false for a threshold of 0 or 1, because no mean can be beyond that.
    """

    name: str
    mean: float | None
    threshold: float | None
    margin: float | None
    polarity: Polarity
    cases: int
    passed: int
    failed: int
    errors: int
    skipped: int
    informational: int
    low: float | None
    high: float | None
    within_noise: bool


class SkippedMetric(Struct, frozen=True):
    """A metric that was not applicable, the reason, and the number of turns with this reason."""

    metric: str
    reason: str
    count: int


class ReportProvenance(Struct, frozen=True):
    """The versions and digests that identify the subject of a report.

    Attributes:
        tool_version: version of holodeck-action that ran the suite.
        commit: the commit that was checked out; None if it is unknown.
        folder: the suite's folder in its repository, with `/`; empty for the root, None outside a repository.
        suite_digest: sha256 of the suite.
        record_digest: sha256 of the canonical record.
    """

    tool_version: str
    commit: str | None
    folder: str | None
    suite_digest: str
    record_digest: str


class RunView(Struct, frozen=True):
    """Data that differ between runs: start (ISO 8601, UTC), duration, and model calls (None if there were no calls)."""

    started_at: str
    duration_ms: float
    model_calls: ModelCalls | None = None


class Report(Struct, frozen=True, omit_defaults=True):
    """The view of a run.

    Each case is in at most one of `attention` (failed, in error, not run or quarantined; worst first, then in suite
    order), `passing` and `informational`. Cases of other shards, and cases left out because the exit code was already
    certain, are in none of them. `end` describes the end of a run whose exit code was certain early; else it is empty.
    `folder` is the suite's folder as the reader would type it, the prefix of source positions; it may be empty. `run`
    is None in a canonical report. `comparison` has the changes since the base; `base_missing` is the reason if the
    requested base is missing. Both are None if no comparison was requested. `history` is the trend of earlier runs and
    this one; None if there are no earlier runs, and in a canonical report. `trial_rates` is None if no case has several
    trials. `users` has the models that played users.
    """

    version: int
    suite: str
    file: str
    folder: str
    target: str
    outcome: VerdictOutcome
    exit_code: int
    reason: str
    counts: Counts
    pass_rate: float | None
    completeness: float
    gates: tuple[GateVerdict, ...]
    metrics: tuple[MetricView, ...]
    attention: tuple[CaseView, ...]
    passing: tuple[CaseView, ...]
    informational: tuple[CaseView, ...]
    skipped_metrics: tuple[SkippedMetric, ...]
    notices: tuple[str, ...]
    spend: Spend
    provenance: ReportProvenance
    run: RunView | None
    panels: tuple[PanelSummary, ...]
    contradictions: tuple[ContradictionSummary, ...]
    cards: tuple[CardSummary, ...]
    evaluations: EvaluationSummary
    comparison: Comparison | None
    base_missing: str | None
    history: History | None
    trial_rates: SuiteTrials | None
    users: tuple[UserSummary, ...] = ()
    end: str = ""
    probes: tuple[JudgeProbe, ...] = ()


def canonical_report(report: Report) -> Report:
    """Return the report without the data that differ between runs and machines.

    Times, durations and the folder are omitted, and floats are rounded to 12 significant digits (see
    `holodeck_action.record.canonical`), so that equal canonical records give equal reports.
    """
    comparison = None if report.comparison is None else report.comparison.without_times()
    head = replace(
        report, folder="", run=None, comparison=comparison, history=None, attention=(), passing=(), informational=()
    )
    return replace(
        _canonical_value(Report, head),
        attention=tuple(_canonical_value(CaseView, case) for case in report.attention),
        passing=tuple(_canonical_value(CaseView, case) for case in report.passing),
        informational=tuple(_canonical_value(CaseView, case) for case in report.informational),
    )


def _canonical_value(kind: type[_T], value: _T) -> _T:
    return from_plain(_canonical(to_plain(value)), kind)


def cases_in_suite_order(report: Report) -> list[CaseView]:
    """Return all cases of a report in the order of the suite."""
    return sorted((*report.attention, *report.passing, *report.informational), key=lambda case: case.position)


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, Mapping):
        return {key: None if key.endswith("duration_ms") else _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value
