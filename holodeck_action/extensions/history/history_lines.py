"""Defines `HistoryLine`, the summary of one run of one suite in a history, and reads and writes such lines as JSON.

`holodeck_action.extensions.history.history_layout` defines the paths. All functions are pure.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError
from msgspec.structs import replace

from holodeck_action.decide.consumption import Consumption, KnownTotal, Timings
from holodeck_action.decide.statistics import (
    MIN_SAMPLE,
    effective_sample_size,
    mean_lower_bound,
    mean_upper_bound,
    wilson_lower_bound,
)
from holodeck_action.decide.summaries import MetricTally, case_means
from holodeck_action.decide.verdict import CaseVerdict, MetricSummary, Outcome, Verdict, VerdictOutcome
from holodeck_action.extensions.history.history_layout import commits_to_keep, job_variant, record_path, suite_key
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.record.serialization import decode_problem, from_json, to_plain
from holodeck_action.record.workflow_job import WorkflowJob
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line

MOST_IDS = 200
"""Maximum number of case ids in each list of a line."""
MOST_METRICS = 200
MOST_LINE_BYTES = 1024 * 1024
_ID_LENGTH = 200
_TEXT_LENGTH = 1000
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
_MOST_BROKEN_NAMED = 10

_Amount = Annotated[float, Meta(ge=0.0)]
_Count = Annotated[int, Meta(ge=0)]
# Python's `$` alone would allow a line feed at the end.
_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
_Commit = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)")]
_Text = Annotated[str, Meta(max_length=_TEXT_LENGTH)]
_Id = Annotated[str, Meta(max_length=_ID_LENGTH)]
_Ids = Annotated[tuple[_Id, ...], Meta(max_length=MOST_IDS)]


class HistoryPoint(Struct, frozen=True):
    """A rate or a mean of one run, with the ends of its 95 % confidence interval.

    Attributes:
        value: the rate or mean.
        low: lower end of the interval; None if there are fewer than 10 cases.
        high: upper end of the interval; None if there are fewer than 10 cases.
        cases: number of cases from which the value is computed.
    """

    value: float
    low: float | None
    high: float | None
    cases: _Count


class MetricPoint(Struct, frozen=True):
    """One metric of one run.

    Attributes:
        mean: weighted mean of the scores over cases.
        polarity: whether high or low scores are good.
        judges: the judge models, as `provider/name`; empty if the metric has no judge.
        configuration: SHA-256 of the judges' `Configuration`; None if the metric has no judge.
    """

    mean: HistoryPoint
    polarity: Polarity = "maximize"
    judges: tuple[_Text, ...] = ()
    configuration: _Digest | None = None


class HistoryLine(Struct, frozen=True, omit_defaults=True):
    """One run of one suite.

    Attributes:
        version: version of this format.
        suite: folder and file of the suite in its repository, such as `agents/shop/agent.yaml`.
        commit: the commit that was checked out; None if unknown.
        time: when the run started, ISO 8601 with an offset.
        outcome: outcome of the verdict.
        complete: whether the run has as many evaluations as the gates require and was not stopped. Trends omit
            incomplete runs, even if their verdict is a failure.
        partial: whether filters selected only some of the cases. Trends omit partial runs.
        target: the evaluated target.
        pass_rate: weighted pass rate of the cases, with Wilson's interval; None if no case passed or failed.
        metrics: results of the metrics, by name.
        flaky: ids of at most 200 cases in which some trials passed and others failed.
        failing: ids of at most 200 failed cases, including quarantined cases.
        quarantined: outcomes, by id, of at most 200 quarantined cases, as if they were not quarantined.
        cost_usd: list price of all model calls in US dollars; None if a price is unknown.
        tokens: number of tokens of all model calls; None if the number is unknown for a call.
        p95_latency_ms: 95th percentile of the time to answer a turn, in milliseconds; None if there are no answers.
        suite_digest: SHA-256 of the suite.
        measure: SHA-256 of the cases, number of trials, metrics with their settings, thresholds and judges: together
            with the answers, these determine the scores.
        record_digest: SHA-256 of the canonical record.
        tool_version: version of holodeck-action.
        variant: key that distinguishes results of jobs and targets; empty if the job is unknown.
    """

    version: Literal[1]
    suite: _Text
    commit: _Commit | None
    time: _Text
    outcome: VerdictOutcome
    complete: bool
    partial: bool
    target: _Text
    pass_rate: HistoryPoint | None
    metrics: Annotated[Mapping[_Text, MetricPoint], Meta(max_length=MOST_METRICS)]
    flaky: _Ids
    failing: _Ids
    quarantined: Annotated[Mapping[_Id, Outcome], Meta(max_length=MOST_IDS)]
    cost_usd: _Amount | None
    tokens: _Count | None
    p95_latency_ms: _Amount | None
    suite_digest: _Text
    measure: _Digest
    record_digest: _Digest
    tool_version: _Text
    variant: Annotated[str, Meta(pattern=r"^([0-9a-f]{8})?$")] = ""

    @property
    def moment(self) -> datetime:
        """Start time of the run."""
        return datetime.fromisoformat(self.time)

    @property
    def is_counted(self) -> bool:
        """Whether the run is complete and not partial, so that it counts in trends and its results are kept."""
        return self.complete and not self.partial

    @property
    def results_folder(self) -> str:
        """Name of the folder with the run's results: the commit; if it is unknown, an id derived from the record."""
        return self.commit or f"run-{self.record_digest[:16]}"

    @property
    def record_path(self) -> str:
        """Path of the run's results, relative to the history."""
        return record_path(self.results_folder, suite_key(None, self.suite), self.variant)


def history_line(record: Record, verdict: Verdict) -> HistoryLine:
    """Return the history line of a run.

    Args:
        record: record of the run.
        verdict: verdict of the run by its own gates.

    Raises:
        ConfigurationError: the record contains a value that a run cannot write, such as an invalid commit.
    """
    try:
        return _parse(dump_line(_build_line(record, verdict)))
    except ValueError as error:
        raise ConfigurationError([f"the record {error}; use the results.json of a run"]) from error


class _Tally:
    """Accumulates the values of a history line case by case."""

    def __init__(self) -> None:
        self.metrics, self.measure = MetricTally(), _MeasureDigest()
        self.consumption, self.timings = Consumption(), Timings()
        self.weights = array("d")
        self.flaky: list[str] = []
        self.failing: list[str] = []
        self.quarantined: dict[str, Outcome] = {}

    def add(self, case: CaseRecord, verdict: CaseVerdict) -> None:
        gating = verdict.outcome != "quarantined"
        self.measure.add(case)
        for trial in case.all_trials:
            self.consumption.add_trial(trial)
        for turn in case.turns if gating else ():
            self.timings.add(turn)
        if verdict.flaky:
            self.flaky.append(case.id)
        if verdict.judged == "failed":
            self.failing.append(case.id)
        if not gating:
            self.quarantined[case.id] = verdict.judged
            return
        metrics = tuple(verdict.metrics)
        self.metrics.add(metrics, case.weight, case_means(metrics))
        if verdict.outcome in ("passed", "failed"):
            self.weights.append(case.weight)


def _build_line(record: Record, verdict: Verdict) -> HistoryLine:
    found = _Tally()
    for case, judged in zip(record.cases, verdict.cases, strict=True):
        found.add(case, judged)
    scores, latencies = found.metrics.scores, found.timings.answers
    cost, tokens = found.consumption.cost_usd, found.consumption.tokens
    kept = _limit_ids(found.quarantined)
    return HistoryLine(
        version=1,
        suite=suite_of(record),
        commit=record.provenance.commit,
        time=record.run.started_at,
        outcome=verdict.outcome,
        complete=_is_complete(record, verdict),
        partial=bool(record.provenance.filters),
        target=record.provenance.target[:_TEXT_LENGTH],
        pass_rate=_pass_rate(found.weights, verdict.pass_rate),
        metrics={
            name[:_TEXT_LENGTH]: _metric(summary, scores.get(name, ()), record.configurations.get(name))
            for name, summary in list(verdict.metrics.items())[:MOST_METRICS]
            if summary.mean is not None
        },
        flaky=_limit_ids(found.flaky),
        failing=_limit_ids(found.failing),
        quarantined={name: judged for name, judged in found.quarantined.items() if name in kept},
        cost_usd=_known_total(cost),
        tokens=None if tokens.unknown else int(tokens.known),
        p95_latency_ms=latencies.quantile(0.95),
        suite_digest=record.suite.digest[:_TEXT_LENGTH],
        measure=found.measure.hexdigest(record),
        record_digest=verdict.record_digest,
        tool_version=record.provenance.tool_version[:_TEXT_LENGTH],
        variant=job_variant(record.provenance.target, WorkflowJob(record.run.workflow, record.run.job)),
    )


def suite_of(record: Record) -> str:
    """Return the name of a record's suite in history lines: its folder and file."""
    return suite_name(record.provenance.folder, record.suite.file)


def suite_name(folder: str | None, file: str) -> str:
    """Return the name of a suite in history lines: its folder in the repository (None if there is none) and file."""
    return (f"{folder}/{file}" if folder else file)[:_TEXT_LENGTH]


def _is_complete(record: Record, verdict: Verdict) -> bool:
    # With a violated gate the outcome is `failed` even if evaluations are missing.
    missing = any(gate.name == "min_completeness" and gate.state != "passed" for gate in verdict.gates)
    return verdict.outcome in ("passed", "failed") and record.stopped is None and record.certain is None and not missing


def _limit_ids(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(case for case in ids if len(case) <= _ID_LENGTH)[:MOST_IDS])


def _known_total(total: KnownTotal) -> float | None:
    return None if total.unknown else total.known


def _pass_rate(weights: Sequence[float], rate: float | None) -> HistoryPoint | None:
    if rate is None or not weights:
        return None
    if len(weights) < MIN_SAMPLE:
        return HistoryPoint(rate, None, None, len(weights))
    size = effective_sample_size(weights)
    return HistoryPoint(rate, wilson_lower_bound(rate, size), 1 - wilson_lower_bound(1 - rate, size), len(weights))


def _metric(
    summary: MetricSummary, scores: Sequence[tuple[float, float]], configuration: Configuration | None
) -> MetricPoint:
    assert summary.mean is not None
    enough = len(scores) >= MIN_SAMPLE
    low, high = (mean_lower_bound(scores), mean_upper_bound(scores)) if enough else (None, None)
    mean = HistoryPoint(summary.mean, low, high, summary.cases)
    if configuration is None:
        return MetricPoint(mean, summary.polarity)
    return MetricPoint(mean, summary.polarity, configuration.judges, configuration_digest(configuration))


def configuration_digest(configuration: Configuration) -> str:
    """Return the hexadecimal SHA-256 of a metric's `Configuration`."""
    return _digest(to_plain(configuration))


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


class _MeasureDigest:
    """Computes `HistoryLine.measure`, a digest of a run's cases, metrics and judges."""

    def __init__(self) -> None:
        self._cases: list[tuple[str, str, int, int, float, tuple[str, ...]]] = []
        self._metric_settings: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, case: CaseRecord) -> None:
        """Add a case; cases may be added in any order."""
        settings = tuple(_metric_settings(case))
        # Most cases have the same metrics.
        settings = self._metric_settings.setdefault(settings, settings)
        self._cases.append((case.id, case.content_hash, case.repeat, case.min_pass, case.weight, settings))

    def hexdigest(self, record: Record) -> str:
        """Return the hexadecimal SHA-256 of the added cases, the judges and `stop_when_decided`, encoded as one JSON
        list.
        """
        hashed = hashlib.sha256(b"[[")
        for place, case in enumerate(sorted(self._cases)):
            hashed.update(f"{', ' if place else ''}{json.dumps(case)}".encode())
        judges = to_plain(record.configurations)
        rest = json.dumps([judges, record.stop_when_decided], sort_keys=True)
        hashed.update(f"], {rest[1:]}".encode())
        return hashed.hexdigest()


def _metric_settings(case: CaseRecord) -> list[str]:
    """Return the turn, name and settings of each metric of a case as sorted JSON, without line numbers."""
    return sorted(
        {
            json.dumps(
                [
                    turn,
                    each.evaluator_name,
                    to_plain(replace(each.criteria, source=None, title=None)),
                ],
                sort_keys=True,
            )
            for turn, each in case.graded
        }
    )


class HistoryLines(Struct, frozen=True):
    """The lines of a history from oldest to newest without duplicates, and notices about unreadable lines."""

    lines: tuple[HistoryLine, ...]
    notices: tuple[str, ...] = ()

    def of_suite(self, suite: str) -> tuple[HistoryLine, ...]:
        """Return the lines of one suite."""
        return tuple(line for line in self.lines if line.suite == suite)


NO_LINES = HistoryLines(())


def dump_line(line: HistoryLine) -> bytes:
    """Return a history line as JSON that ends with a line feed."""
    values = to_plain(line)
    return json.dumps(values, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def parse_lines(content: bytes, place: str) -> HistoryLines:
    """Parse the lines of a history, which may be in any order; unreadable lines are skipped.

    Args:
        content: content of the history file.
        place: name of the file for notices.

    Returns:
        The valid lines, and one notice if any line was skipped.
    """
    found: list[HistoryLine] = []
    broken: list[tuple[int, str]] = []
    for number, text in enumerate(content.split(b"\n"), start=1):
        if text.strip():
            try:
                found.append(_parse(text))
            except ValueError as error:
                broken.append((number, str(error)))
    if not broken:
        return HistoryLines(sort_lines(found))
    return HistoryLines(sort_lines(found), (f"{one_line(place)}: {_skipped_text(broken)}",))


def _skipped_text(skipped_lines: Sequence[tuple[int, str]]) -> str:
    """Return a notice with the numbers of the skipped lines and the reason for the first one."""
    (number, why), *others = skipped_lines
    if not others:
        return f"1 line is skipped: line {number} {why}"
    also = [str(number) for number, _ in others[:_MOST_BROKEN_NAMED]]
    if len(others) > len(also):
        also.append(f"{len(others) - len(also)} more")
    listed = also[0] if len(also) == 1 else f"{', '.join(also[:-1])} and {also[-1]}"
    word = "line" if len(others) == 1 else "lines"
    return f"{len(skipped_lines)} lines are skipped; the first: line {number} {why} (also {word} {listed})"


def sort_lines(lines: Iterable[HistoryLine]) -> tuple[HistoryLine, ...]:
    """Return lines sorted by time, without duplicates."""
    unique = {(line.suite, line.moment, line.record_digest): line for line in lines}
    return tuple(unique[key] for key in sorted(unique, key=lambda key: (key[1], key[0], key[2])))


def outdated_folders(lines: Iterable[HistoryLine]) -> frozenset[str]:
    """Return the folders whose results are outdated: a history keeps the runs' lines, but deletes the results."""
    times: dict[str, datetime] = {}
    for line in lines:
        times[line.results_folder] = max(line.moment, times.get(line.results_folder, line.moment))
    return frozenset(times.keys() - commits_to_keep(times))


def _parse(text: bytes) -> HistoryLine:
    """Read one line.

    Raises:
        ValueError: the line is invalid; the message continues a sentence that begins with the line's number.
    """
    if len(text) > MOST_LINE_BYTES:
        raise ValueError(f"has {len(text):,} bytes, more than {MOST_LINE_BYTES:,}")
    try:
        line = from_json(text, HistoryLine)
    except ValidationError as error:
        raise ValueError(one_line(f"is not a run: {decode_problem(error)}")) from None
    except (DecodeError, ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not _is_moment(line.time):
        raise ValueError("is not a run: `time` must be a time with an offset, such as 2026-01-31T12:00:00Z")
    if line.pass_rate is not None and not 0.0 <= line.pass_rate.value <= 1.0:
        raise ValueError("is not a run: `pass_rate.value` must be from 0 to 1")
    return line


def _is_moment(time: str) -> bool:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return False
    return moment.tzinfo is not None and _FIRST_YEAR <= moment.year <= _LAST_YEAR


def new_lines(lines: Sequence[HistoryLine], added_lines: Iterable[HistoryLine]) -> Iterator[HistoryLine]:
    """Return an iterator over those of `added_lines` that are not in `lines`, sorted by time."""
    known = {(line.suite, line.moment, line.record_digest) for line in lines}
    return (line for line in sort_lines(added_lines) if (line.suite, line.moment, line.record_digest) not in known)
