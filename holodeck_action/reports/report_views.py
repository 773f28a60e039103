"""`Report` and its parts: a run made ready to show; every channel shows this one value.

Plain data: as JSON it is the JSON report, which is also what templates see.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.consumption import Spend
from holodeck_action.decide.faults import Fault
from holodeck_action.decide.summaries import EvaluationSummary
from holodeck_action.decide.trials import CaseTrials, SuiteTrials
from holodeck_action.decide.verdict import Counts, GateVerdict, Outcome, PanelSummary, TrialVerdict, VerdictOutcome
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.judge_card import CardSummary
from holodeck_action.record.record import ModelCalls
from holodeck_action.record.sequences import Made, OneByOne
from holodeck_action.record.serialization import from_plain, to_plain
from holodeck_action.reports.history import History
from holodeck_action.suite.errors import SourceMark

REPORT_VERSION = 1

_T = TypeVar("_T")


class ToolCallView(Struct, frozen=True):
    """One tool call.

    `arguments` is `name=value, …` with JSON values, `result` text or JSON text (None: none was given).
    """

    name: str
    arguments: str
    result: str | None
    error: str | None
    duration_ms: float | None


class TurnView(Struct, frozen=True):
    """One turn of a shown case.

    `problems` holds one text per failed or unevaluated metric, tool assertion or error, `faults` what could not be done
    and who has to act.
    """

    index: int
    source: SourceMark
    outcome: Outcome
    input: str
    response: str | None
    ground_truth: str | None
    tool_calls: tuple[ToolCallView, ...]
    problems: tuple[str, ...]
    faults: tuple[Fault, ...] = ()


class CaseScore(Struct, frozen=True):
    """One metric's mean over a case's counted trials and turns; None where it is not a number.

    `lowest` and `highest` are the scores of single trials, each a mean over turns; None with fewer than two.
    """

    metric: str
    mean: float | None
    lowest: float | None
    highest: float | None


class CaseSummary(Struct, frozen=True):
    """The scores of a case as one number, by the method of `gates.summary`.

    Attributes:
        method: `simple_average`, `weighted_average` or `minimum`.
        weights: weight per metric, for `weighted_average`; None for other methods.
        score: 0..1, high is good; None where the case has no score of a metric that counts.
    """

    method: str
    weights: Mapping[str, float] | None
    score: float | None


class CaseView(Struct, frozen=True):
    """One case.

    Attributes:
        position: 0-based place in the suite.
        id: the case's id.
        title: its name, or its id when it has none.
        source: where the suite asks it.
        last: where the last of its values begins; None where that is not known.
        outcome: `quarantined` for a case that runs without gating; `judged` is then what it would have been.
        judged: see `outcome`.
        reason: why it is what it is.
        repeats: how many trials passed and were needed, as a sentence; None for a single trial.
        flaky: whether it both passed and failed over its trials.
        trial_rates: pass@k and pass^k; None for a single trial, and where none passed or failed.
        tags: the case's tags.
        duration_ms: the agent's working time over all trials, the start of its program left out; None where it is not
            known or left out.
        scores: mean per metric, in order of name.
        summary: the scores as one number; None without `gates.summary`, or with a function of the suite there.
        turns: the turns of the trial that explains the outcome; empty for a case that needs no attention.
        trials: every counted trial with all its metrics.
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


class MetricView(Struct, frozen=True):
    """One metric over the suite, as `MetricSummary`.

    `margin` is mean − threshold (None without both), `low` and `high` are the ends of the mean's 95 % interval over
    cases (None with fewer than 10). `within_noise`: the mean is closer to the threshold than half of that interval. It
    is never said of a threshold at an end of the scale, beyond which no mean can be.
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
    """A metric that did not apply, why, and to how many turns."""

    metric: str
    reason: str
    count: int


class ReportProvenance(Struct, frozen=True):
    """What the report is about.

    Attributes:
        tool_version: version of holodeck-action that ran.
        commit: the commit that was checked out; None where it is not known.
        folder: the suite's folder in its repository, with `/`, empty for the root; None outside of a repository.
        suite_digest: sha256 of the suite.
        record_digest: sha256 of the canonical record.
    """

    tool_version: str
    commit: str | None
    folder: str | None
    suite_digest: str
    record_digest: str


class RunView(Struct, frozen=True):
    """When the run began (ISO 8601, UTC), how long it took, and its own model calls (None: it made none); volatile."""

    started_at: str
    duration_ms: float
    model_calls: ModelCalls | None = None


class Report(Struct, frozen=True):
    """What a run is shown as.

    Every case is in exactly one of `attention` (failed, in error, not run or quarantined; worst first, then in suite
    order), `passing` and `informational`, but those that another shard runs. `folder` is the suite's folder as the
    reader would type it, put before source positions; empty for none. `run` is None in a canonical report. `comparison`
    is what changed since the base; `base_missing` is why there is none although one is asked for. Both are None where
    nothing is compared with. `history` is what earlier runs and this one tell together; None without earlier runs, and
    in a canonical report. `trial_rates` is None where no case has several trials.
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
    attention: OneByOne[CaseView]
    passing: OneByOne[CaseView]
    informational: OneByOne[CaseView]
    skipped_metrics: tuple[SkippedMetric, ...]
    notices: tuple[str, ...]
    spend: Spend
    provenance: ReportProvenance
    run: RunView | None
    panels: tuple[PanelSummary, ...]
    cards: tuple[CardSummary, ...]
    evaluations: EvaluationSummary
    comparison: Comparison | None
    base_missing: str | None
    history: History | None
    trial_rates: SuiteTrials | None


def canonical_report(report: Report) -> Report:
    """Return the report without what differs between runs and machines.

    Times, durations and the folder are left out, and floats are rounded to 12 significant digits (see
    `holodeck_action.record.canonical`): the same canonical record gives the same report.
    """
    comparison = None if report.comparison is None else report.comparison.without_times()
    head = replace(
        report, folder="", run=None, comparison=comparison, history=None, attention=(), passing=(), informational=()
    )
    return replace(
        _rounded(Report, head),
        attention=_canonical_cases(report.attention),
        passing=_canonical_cases(report.passing),
        informational=_canonical_cases(report.informational),
    )


def _canonical_cases(cases: Sequence[CaseView]) -> Sequence[CaseView]:
    if isinstance(cases, CaseViews):
        return CaseViews(cases.positions, lambda position: _rounded(CaseView, cases.view(position)))
    return tuple(_rounded(CaseView, case) for case in cases)


def _rounded(kind: type[_T], value: _T) -> _T:
    return from_plain(_canonical(to_plain(value)), kind)


class CaseViews(Made[CaseView]):
    """Cases that are shown, each made when it is asked for.

    `positions` are their places in the suite, in the order in which they are shown; `view` makes one by that.
    """

    def __init__(self, positions: Sequence[int], view: Callable[[int], CaseView]) -> None:
        super().__init__(len(positions), lambda at: view(positions[at]))
        self.positions, self.view = positions, view


def in_suite_order(report: Report) -> Iterator[CaseView]:
    """Yield every case in the order of the suite."""
    return by_position(report.attention, report.passing, report.informational)


def by_position(*parts: Sequence[CaseView]) -> Iterator[CaseView]:
    """Yield the cases of parts of a report in the order of the suite."""
    return map(view_at(*parts), sorted(chain.from_iterable(map(positions_of, parts))))


def positions_of(part: Sequence[CaseView]) -> Sequence[int]:
    """Return the places in the suite of cases of a report, in its order, without making any."""
    return part.positions if isinstance(part, CaseViews) else array("I", (case.position for case in part))


def view_at(*parts: Sequence[CaseView]) -> Callable[[int], CaseView]:
    """Return what finds, or makes, the case of parts of a report by its place in the suite."""
    lazy = [part for part in parts if isinstance(part, CaseViews)]
    if len(lazy) == len(parts):
        return lazy[0].view
    return {case.position: case for case in chain.from_iterable(parts)}.__getitem__


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, Mapping):
        return {key: None if key.endswith("duration_ms") else _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value
