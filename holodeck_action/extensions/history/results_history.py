"""`HistoryLine`: what a history keeps of one run of one suite, as one line of JSON; and how lines are read.

`holodeck_action.extensions.history.history_layout` says where lines and results are. Everything here is pure.
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

from holodeck_action.decide.consumption import Consumption, Timings, Total
from holodeck_action.decide.statistics import (
    MANY_ENOUGH,
    effective_sample_size,
    mean_lower_bound,
    mean_upper_bound,
    wilson_lower_bound,
)
from holodeck_action.decide.summaries import MetricTally, case_means
from holodeck_action.decide.verdict import CaseVerdict, MetricSummary, Outcome, Verdict, VerdictOutcome
from holodeck_action.extensions.history.history_layout import kept_commits, record_path, suite_key, variant_of
from holodeck_action.record.asker import Asker
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.record.serialization import from_json, problem_of, to_plain
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.plain import one_line

MOST_IDS = 200
"""Ids of cases of each kind that a line has room for."""
MOST_METRICS = 200
MOST_LINE_BYTES = 1024 * 1024
_ID_LENGTH = 200
_TEXT_LENGTH = 1000
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
_BROKEN_NAMED = 10

_Amount = Annotated[float, Meta(ge=0.0)]
_Count = Annotated[int, Meta(ge=0)]
# Python's `$` alone would allow a line feed at the end.
_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
_Commit = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)")]
_Text = Annotated[str, Meta(max_length=_TEXT_LENGTH)]
_Id = Annotated[str, Meta(max_length=_ID_LENGTH)]
_Ids = Annotated[tuple[_Id, ...], Meta(max_length=MOST_IDS)]


class HistoryPoint(Struct, frozen=True):
    """A rate or a mean of one run, with the ends of its 95 % interval.

    Attributes:
        value: of the run.
        low: lower end; None with fewer than 10 cases.
        high: upper end; None likewise.
        cases: number of cases behind it.
    """

    value: float
    low: float | None
    high: float | None
    cases: _Count


class MetricPoint(Struct, frozen=True):
    """One metric of one run.

    Attributes:
        mean: over cases, by weight.
        polarity: whether high or low scores are good.
        judges: the models that graded, as `provider/name`; empty where none did.
        configuration: SHA-256 of what decided the judges' scores (`Configuration`); None without judges.
    """

    mean: HistoryPoint
    polarity: Polarity = "maximize"
    judges: tuple[_Text, ...] = ()
    configuration: _Digest | None = None


class HistoryLine(Struct, frozen=True, omit_defaults=True):
    """One run of one suite.

    Attributes:
        version: of this form.
        suite: folder and file of the suite in its repository, such as `agents/shop/agent.yaml`.
        commit: what was checked out; None where it is not known.
        time: when the run started, ISO 8601 with an offset.
        outcome: of the verdict.
        complete: whether as many evaluations happened as the gates require, and nothing stopped the run. Trends omit
            other runs, those that failed for another reason included.
        partial: whether filters chose some cases of the suite; trends omit such runs, too.
        target: who answered.
        pass_rate: by weight, with Wilson's interval; None when no case was decided.
        metrics: by name.
        flaky: ids of cases that both passed and failed over their trials, at most 200.
        failing: ids of cases that failed, quarantined ones included, at most 200.
        quarantined: what the quarantined cases would have been, by id, at most 200.
        cost_usd: list price of all calls; None when one price is not known.
        tokens: of all calls; None when those of one call are not known.
        p95_latency_ms: the time within which 95 % of the turns were answered; None without an answer.
        suite_digest: SHA-256 of the suite.
        measure: SHA-256 of what decides the numbers besides the answers: cases and trials, metrics with their settings,
            thresholds and judges.
        record_digest: SHA-256 of the canonical record.
        tool_version: version of holodeck-action.
        variant: what tells the results from those of other jobs and targets; empty where no job is known.
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
        """When the run started."""
        return datetime.fromisoformat(self.time)

    @property
    def counts(self) -> bool:
        """Whether the run takes part in trends, and its results are kept: it is whole and of all cases."""
        return self.complete and not self.partial

    @property
    def place(self) -> str:
        """The name of the folder of its results: the commit, or one made of the record where there is none."""
        return self.commit or f"run-{self.record_digest[:16]}"

    @property
    def record_path(self) -> str:
        """Where its results are in the history."""
        return record_path(self.place, suite_key(None, self.suite), self.variant)


def history_line(record: Record, verdict: Verdict) -> HistoryLine:
    """Return what a history keeps of a run.

    Args:
        record: the run.
        verdict: what it was judged to be, by the gates that it was run with.

    Raises:
        ConfigurationError: the record holds what no run writes, such as a commit that is none.
    """
    try:
        return _parse(dump_line(_line(record, verdict)))
    except ValueError as error:
        raise ConfigurationError([f"the record {error}; use the results.json of a run"]) from error


class _Tally:
    """What a line counts, case by case."""

    def __init__(self) -> None:
        self.metrics, self.measure = MetricTally(), _Measure()
        self.consumption, self.timings = Consumption(), Timings()
        self.weights = array("d")
        self.flaky: list[str] = []
        self.failing: list[str] = []
        self.quarantined: dict[str, Outcome] = {}

    def add(self, case: CaseRecord, verdict: CaseVerdict) -> None:
        gating = verdict.outcome != "quarantined"
        self.measure.add(case)
        for turn in case.turns:
            self.consumption.add(turn)
            if gating:
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


def _line(record: Record, verdict: Verdict) -> HistoryLine:
    found = _Tally()
    for case, judged in zip(record.cases, verdict.cases, strict=True):
        found.add(case, judged)
    scores, latencies = found.metrics.scores, found.timings.answers
    cost, tokens = found.consumption.cost_usd, found.consumption.tokens
    kept = _ids(found.quarantined)
    return HistoryLine(
        version=1,
        suite=suite_of(record),
        commit=record.provenance.commit,
        time=record.run.started_at,
        outcome=verdict.outcome,
        complete=_complete(record, verdict),
        partial=bool(record.provenance.filters),
        target=record.provenance.target[:_TEXT_LENGTH],
        pass_rate=_pass_rate(found.weights, verdict.pass_rate),
        metrics={
            name[:_TEXT_LENGTH]: _metric(summary, scores.get(name, ()), record.configurations.get(name))
            for name, summary in list(verdict.metrics.items())[:MOST_METRICS]
            if summary.mean is not None
        },
        flaky=_ids(found.flaky),
        failing=_ids(found.failing),
        quarantined={name: judged for name, judged in found.quarantined.items() if name in kept},
        cost_usd=_known(cost),
        tokens=None if tokens.unknown else int(tokens.known),
        p95_latency_ms=latencies.quantile(0.95),
        suite_digest=record.suite.digest[:_TEXT_LENGTH],
        measure=found.measure.hexdigest(record),
        record_digest=verdict.record_digest,
        tool_version=record.provenance.tool_version[:_TEXT_LENGTH],
        variant=variant_of(record.provenance.target, Asker(record.run.workflow, record.run.job)),
    )


def suite_of(record: Record) -> str:
    """Return which suite a record is of: folder and file."""
    return suite_name(record.provenance.folder, record.suite.file)


def suite_name(folder: str | None, file: str) -> str:
    """Return what lines call a suite, from its folder in the repository (None: in none) and the name of its file."""
    return (f"{folder}/{file}" if folder else file)[:_TEXT_LENGTH]


def _complete(record: Record, verdict: Verdict) -> bool:
    # A violated gate is a verdict, however much is missing.
    missing = any(gate.name == "min_completeness" and gate.state != "passed" for gate in verdict.gates)
    return verdict.outcome in ("passed", "failed") and record.stopped is None and not missing


def _ids(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(case for case in ids if len(case) <= _ID_LENGTH)[:MOST_IDS])


def _known(total: Total) -> float | None:
    return None if total.unknown else total.known


def _pass_rate(weights: Sequence[float], rate: float | None) -> HistoryPoint | None:
    if rate is None or not weights:
        return None
    if len(weights) < MANY_ENOUGH:
        return HistoryPoint(rate, None, None, len(weights))
    size = effective_sample_size(weights)
    return HistoryPoint(rate, wilson_lower_bound(rate, size), 1 - wilson_lower_bound(1 - rate, size), len(weights))


def _metric(
    summary: MetricSummary, scores: Sequence[tuple[float, float]], configuration: Configuration | None
) -> MetricPoint:
    assert summary.mean is not None
    enough = len(scores) >= MANY_ENOUGH
    low, high = (mean_lower_bound(scores), mean_upper_bound(scores)) if enough else (None, None)
    mean = HistoryPoint(summary.mean, low, high, summary.cases)
    if configuration is None:
        return MetricPoint(mean, summary.polarity)
    return MetricPoint(mean, summary.polarity, configuration.judges, configuration_digest(configuration))


def configuration_digest(configuration: Configuration) -> str:
    """Return the SHA-256 of what decided the scores of a metric."""
    return _digest(to_plain(configuration))


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


class _Measure:
    """The digest of what a run measures: its cases, metrics and judges."""

    def __init__(self) -> None:
        self._cases: list[tuple[str, str, int, int, float, tuple[str, ...]]] = []
        self._asked: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, case: CaseRecord) -> None:
        """Add a case, in whatever order."""
        asked = tuple(_asked(case))
        # Most cases are asked the same.
        asked = self._asked.setdefault(asked, asked)
        self._cases.append((case.id, case.content_hash, case.repeat, case.min_pass, case.weight, asked))

    def hexdigest(self, record: Record) -> str:
        """Return the SHA-256 of cases, judges and how trials end, as one JSON list."""
        hashed = hashlib.sha256(b"[[")
        for place, case in enumerate(sorted(self._cases)):
            hashed.update(f"{', ' if place else ''}{json.dumps(case)}".encode())
        judges = to_plain(record.configurations)
        rest = json.dumps([judges, record.stop_when_decided], sort_keys=True)
        hashed.update(f"], {rest[1:]}".encode())
        return hashed.hexdigest()


def _asked(case: CaseRecord) -> list[str]:
    """Return what the metrics of a case are, turn by turn; where they stand in the suite does not matter."""
    return sorted(
        {
            json.dumps(
                [
                    turn.index,
                    each.evaluator_name,
                    to_plain(replace(each.criteria, source=None, title=None)),
                ],
                sort_keys=True,
            )
            for turn in case.turns
            for each in turn.evaluations
        }
    )


class HistoryLines(Struct, frozen=True):
    """The lines of a history, oldest first and each once, and what is said of those that could not be read."""

    lines: tuple[HistoryLine, ...]
    notices: tuple[str, ...] = ()

    def of(self, suite: str) -> tuple[HistoryLine, ...]:
        """Return the lines of one suite."""
        return tuple(line for line in self.lines if line.suite == suite)


NO_LINES = HistoryLines(())


def dump_line(line: HistoryLine) -> bytes:
    """Return a line as JSON with the line feed that ends it."""
    values = to_plain(line)
    return json.dumps(values, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def parse_lines(content: bytes, place: str) -> HistoryLines:
    """Read the lines of a history, in whatever order; a line that cannot be read is skipped.

    Args:
        content: what the file holds.
        place: what to call it.

    Returns:
        The lines, and at most one notice.
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
        return HistoryLines(in_order(found))
    return HistoryLines(in_order(found), (f"{one_line(place)}: {_skipped(broken)}",))


def _skipped(broken: Sequence[tuple[int, str]]) -> str:
    """Say which lines are skipped, by number, and what is wrong with the first."""
    (number, why), *others = broken
    if not others:
        return f"1 line is skipped: line {number} {why}"
    also = [str(number) for number, _ in others[:_BROKEN_NAMED]]
    if len(others) > len(also):
        also.append(f"{len(others) - len(also)} more")
    listed = also[0] if len(also) == 1 else f"{', '.join(also[:-1])} and {also[-1]}"
    word = "line" if len(others) == 1 else "lines"
    return f"{len(broken)} lines are skipped; the first: line {number} {why} (also {word} {listed})"


def in_order(lines: Iterable[HistoryLine]) -> tuple[HistoryLine, ...]:
    """Return lines by time, each run once."""
    unique = {(line.suite, line.moment, line.record_digest): line for line in lines}
    return tuple(unique[key] for key in sorted(unique, key=lambda key: (key[1], key[0], key[2])))


def outdated_places(lines: Iterable[HistoryLine]) -> frozenset[str]:
    """Return the places of runs whose results are no longer kept; what no line names is not ours to delete."""
    times: dict[str, datetime] = {}
    for line in lines:
        times[line.place] = max(line.moment, times.get(line.place, line.moment))
    return frozenset(times.keys() - kept_commits(times))


def _parse(text: bytes) -> HistoryLine:
    """Read one line.

    Raises:
        ValueError: it is none; the message goes on from its number.
    """
    if len(text) > MOST_LINE_BYTES:
        raise ValueError(f"has {len(text):,} bytes, more than {MOST_LINE_BYTES:,}")
    try:
        line = from_json(text, HistoryLine)
    except ValidationError as error:
        raise ValueError(one_line(f"is not a run: {problem_of(error)}")) from None
    except (DecodeError, ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not _is_moment(line.time):
        raise ValueError("is not a run: time: not a time with an offset")
    if line.pass_rate is not None and not 0.0 <= line.pass_rate.value <= 1.0:
        raise ValueError("is not a run: pass_rate.value: not between 0 and 1")
    return line


def _is_moment(time: str) -> bool:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return False
    return moment.tzinfo is not None and _FIRST_YEAR <= moment.year <= _LAST_YEAR


def lines_after(lines: Sequence[HistoryLine], new: Iterable[HistoryLine]) -> Iterator[HistoryLine]:
    """Yield those of the new lines that a history does not have."""
    known = {(line.suite, line.moment, line.record_digest) for line in lines}
    return (line for line in in_order(new) if (line.suite, line.moment, line.record_digest) not in known)
