"""Implements `drift`, which compares the latest conversations with earlier, different ones, without pairing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.gates import TOLERANCE
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.statistics import weighted_mean
from holodeck_action.decide.summaries import case_means
from holodeck_action.decide.survey import judge_cases
from holodeck_action.extensions.traces.two_samples import Difference, compare_samples
from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import BASE_FOLDER, read_record
from holodeck_action.record.results_search import find_results
from holodeck_action.record.serialization import to_plain
from holodeck_action.reports.history import align_columns
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.code_spans import cell
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

FEWEST = 50
"""Minimum number of conversations on each side."""
ERROR = 0.01
"""Probability that a comparison reports a drift of any number although nothing has changed."""
OVERALL = "pass rate"
State = Literal["worse", "better", "no drift", "too few", "not comparable"]
_SKIPPED = (PREVIOUS_FOLDER, BASE_FOLDER)
_HEADER = ("number", "before", "now", "difference", "interval", "result")


class Drift(Struct, frozen=True):
    """The change of one number, the pass rate or a metric's mean, between earlier and later conversations.

    Attributes:
        name: `pass_rate`, or the name of a metric.
        state: whether the confidence interval of the difference shows that the number is worse or better.
        before: number of earlier conversations with a score.
        now: number of later conversations with a score.
        mean_before: weighted mean of the earlier scores; None without scores.
        mean_now: weighted mean of the later scores; None without scores.
        difference: `mean_now` − `mean_before`; None if there are too few conversations, or the judges differ.
    """

    name: str
    state: State
    before: int
    now: int
    mean_before: float | None
    mean_now: float | None
    difference: Difference | None = None


class _Scores:
    """The scores of conversations, by metric name."""

    def __init__(self) -> None:
        self.pairs: dict[str, list[tuple[float, float]]] = {OVERALL: []}
        self.minimized: set[str] = set()
        self.judges: dict[str, set[object]] = {}
        self.ids: set[str] = set()

    def add(self, record: Record, known_ids: set[str]) -> None:
        """Add the scores of a record's cases; cases whose ids are in `known_ids` are skipped."""
        for name, configuration in record.configurations.items():
            self.judges.setdefault(name, set()).add(configuration)
        for case, verdict in zip(record.cases, judge_cases(record), strict=True):
            if case.id in known_ids or case.id in self.ids or verdict.outcome == "quarantined":
                continue
            self.ids.add(case.id)
            if verdict.outcome in ("passed", "failed"):
                self.pairs[OVERALL].append((float(verdict.outcome == "passed"), case.weight))
            metrics = [*verdict.metrics]
            self.minimized |= {metric.name for metric in metrics if metric.polarity == "minimize"}
            for name, mean in case_means(metrics).items():
                self.pairs.setdefault(name, []).append((mean, case.weight))


def find_drifts(earlier_records: Iterable[Record], later_records: Iterable[Record]) -> tuple[Drift, ...]:
    """Compare the pass rate and each metric between the conversations of two sets of runs.

    A conversation in both sets counts only as a later one.

    Returns:
        The changes of the pass rate and of each metric that both sets have, sorted by name.
    """
    later, earlier = _Scores(), _Scores()
    for record in later_records:
        later.add(record, set())
    for record in earlier_records:
        earlier.add(record, later.ids)
    names = [OVERALL, *sorted(later.pairs.keys() & earlier.pairs.keys() - {OVERALL})]
    return tuple(_compare(name, earlier, later, ERROR / len(names)) for name in names)


def _compare(name: str, earlier_scores: _Scores, later_scores: _Scores, error: float) -> Drift:
    first, second = earlier_scores.pairs[name], later_scores.pairs[name]
    sizes = (len(first), len(second), weighted_mean(first), weighted_mean(second))
    if len(earlier_scores.judges.get(name, set()) | later_scores.judges.get(name, set())) > 1:
        return Drift(name, "not comparable", *sizes)
    if min(len(first), len(second)) < FEWEST:
        return Drift(name, "too few", *sizes)
    found = compare_samples(first, second, error)
    if found.low <= TOLERANCE and found.high >= -TOLERANCE:
        return Drift(name, "no drift", *sizes, found)
    lower = found.high < 0.0
    return Drift(name, "worse" if lower != (name in later_scores.minimized) else "better", *sizes, found)


class Comparison(Struct, frozen=True):
    """The latest runs, and the changes of their numbers since the earlier ones."""

    latest: tuple[Record, ...]
    drifts: tuple[Drift, ...]

    @property
    def exit_code(self) -> ExitCode:
        """1 if a number is worse, 3 if no number could be compared, otherwise 0."""
        if self.worse:
            return ExitCode.VIOLATED
        unknown = all(each.state in ("too few", "not comparable") for each in self.drifts)
        return ExitCode.INCOMPLETE if unknown else ExitCode.PASSED

    @property
    def worse(self) -> list[str]:
        """Names of the numbers that are worse."""
        return [each.name for each in self.drifts if each.state == "worse"]

    def text(self, format_name: str) -> str:
        """Return the changes as `console`, `markdown` or `json`."""
        if format_name == "json":
            return json.dumps([to_plain(each) for each in self.drifts], indent=1) + "\n"
        return _markdown(self.drifts) if format_name == "markdown" else _console(self.drifts)


def compare_nights(later_results: GivenPath, earlier_results: Sequence[GivenPath]) -> Comparison:
    """Compare the latest conversations with earlier ones.

    Args:
        later_results: results of the latest conversations: a file, or a folder to search.
        earlier_results: results of earlier conversations: files, or folders to search. A folder may be without
            results, as before the first night.

    Raises:
        ConfigurationError: results are missing or invalid, or belong to another suite.
    """
    latest = [read_record(file) for file in find_results(later_results, _SKIPPED)]
    earlier = [read_record(file) for path in earlier_results for file in _earlier_results(path)]
    names = sorted({record.suite.name for record in (*latest, *earlier)})
    if len(names) > 1:
        listed = ", ".join(one_line(name, 100) for name in names)
        raise ConfigurationError(
            [f"drift compares runs of one suite, not of {listed}; give the runs of a single suite"]
        )
    return Comparison(tuple(latest), find_drifts(earlier, latest))


def _earlier_results(path: GivenPath) -> list[GivenPath]:
    try:
        return find_results(path, _SKIPPED)
    except ConfigurationError:
        return []


def _row(drift: Drift) -> tuple[str, ...]:
    means = [
        f"{_number(mean)} ({count_phrase(count, 'conversation')})"
        for mean, count in ((drift.mean_before, drift.before), (drift.mean_now, drift.now))
    ]
    found = drift.difference
    interval = "–" if found is None else f"[{found.low:+.3f}, {found.high:+.3f}]"
    state = f"too few: at least {FEWEST} on each side" if drift.state == "too few" else drift.state
    state = "not comparable: the judges differ" if drift.state == "not comparable" else state
    return drift.name, *means, "–" if found is None else f"{round(found.value, 3) + 0.0:+.3f}", interval, state


def _number(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.3f}"


def _console(drifts: Sequence[Drift]) -> str:
    rows = [_HEADER, *(tuple(one_line(text, 100) for text in _row(each)) for each in drifts)]
    return "".join(f"{line}\n" for line in align_columns(rows))


def _markdown(drifts: Sequence[Drift]) -> str:
    lines = ["| " + " | ".join(_HEADER) + " |", "|" + "---|" * len(_HEADER)]
    for each in drifts:
        name, *others = _row(each)
        lines.append("| " + " | ".join([cell(name), *others]) + " |")
    return "\n".join(lines) + "\n"
