"""The state of a run, hidden in the second line of its comment, and the changes since the previous one.

Only the next version of the same comment reads the state. Any line that this module would not write is ignored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from holodeck_action.decide.exit_codes import severity
from holodeck_action.decide.verdict import VerdictOutcome
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.serialization import from_json, to_json
from holodeck_action.reports.report_views import MetricView, Report
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.lazy_patterns import lazy_pattern

STATE_LIMIT = 6000
"""Maximum number of characters of the hidden line; a comment has up to 65,000."""
MOST_METRICS = 60
"""Maximum number of metrics per suite whose means are stored."""
MOST_FAILING = 500
"""Maximum number of failing cases to store per suite. If there are more, none is stored, and the next run cannot
determine which failures are new."""

_START, _END = "<!-- holodeck-action:state:", " -->"
# Without `-`, since an HTML comment must not contain `--`.
_ALTERNATIVES = b"._"
_MAX_JSON = 64 * 1024
"""Maximum size of the state as JSON, in bytes."""
_HASH = 8
_SAME_DIGITS = 4
_COMMIT = lazy_pattern(r"[0-9a-f]{40}([0-9a-f]{24})?")
_RUN = lazy_pattern(r"[0-9]{1,20}/[0-9]{1,10}")

# Python's `$` alone would allow a line feed at the end.
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}$(?!\n)")]
_Count = Annotated[int, Meta(ge=0, le=10**9)]
_Sha = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)")]


class SuiteState(Struct, frozen=True, forbid_unknown_fields=True):
    """The stored state of a suite.

    Attributes:
        key: hash of the suite's path, since its name may change.
        outcome: outcome of the suite.
        failed: number of cases that failed.
        unknown: number of cases in error or not run.
        pass_rate: 0 to 1; None if no case was decided.
        metrics: hash of the name and mean of each metric, at most `MOST_METRICS`.
        failing: sorted hashes of the failed cases, concatenated; None if there are too many.
    """

    key: _Hash
    outcome: VerdictOutcome
    failed: _Count
    unknown: _Count
    pass_rate: Annotated[float, Meta(ge=0.0, le=1.0)] | None
    metrics: Annotated[tuple[tuple[_Hash, float], ...], Meta(max_length=MOST_METRICS)]
    failing: Annotated[str, Meta(pattern=r"^([0-9a-f]{8})*$(?!\n)", max_length=_HASH * MOST_FAILING)] | None


class CommitState(Struct, frozen=True, forbid_unknown_fields=True):
    """The stored states of the suites at a commit; `sha` is None if the commit is unknown."""

    sha: _Sha | None
    suites: Annotated[tuple[SuiteState, ...], Meta(max_length=1000)]


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """The state that a comment stores.

    Attributes:
        version: version of this format.
        sha: the evaluated commit; None if it is unknown.
        run: run and attempt of the workflow, `ID/ATTEMPT`; empty outside a workflow.
        exit_code: exit code of the run.
        result: hash of verdict, counts, cases that need attention, gate states and metrics; equal for equal results.
        suites: state of each suite; empty if nothing was evaluated.
        before: the suites at the previous commit, for comparison; None if there is no previous commit.
    """

    version: Literal[1]
    sha: _Sha | None
    run: Annotated[str, Meta(pattern=r"^([0-9]{1,20}/[0-9]{1,10})?$(?!\n)")]
    exit_code: Annotated[int, Meta(ge=0, le=255)]
    result: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$(?!\n)")]
    suites: Annotated[tuple[SuiteState, ...], Meta(max_length=1000)]
    before: CommitState | None

    def encode(self) -> str:
        """Return the state as an HTML comment on one line of at most `STATE_LIMIT` characters.

        If the state is too long, data are omitted in this order: the previous commit, failing cases, means of metrics.
        """
        return _encode_line(_shrink_to_fit(self))

    @staticmethod
    def read(body: str) -> State | None:
        """Return the state in the second line of a comment; None if it contains no valid state."""
        lines = body[: 4 * STATE_LIMIT].replace("\r\n", "\n").split("\n", 2)
        line = lines[1].rstrip() if len(lines) > 1 else ""
        if len(line) > STATE_LIMIT or not (line.startswith(_START) and line.endswith(_END)):
            return None
        try:
            packed = base64.b64decode(line[len(_START) : -len(_END)], _ALTERNATIVES, validate=True)
            return Foreign(packed).unpack(_MAX_JSON).parse(partial(from_json, kind=State))
        except ValueError:
            return None

    def compared_with(self, earlier_state: State | None) -> State:
        """Return this state with `before` set to the results of the previous commit.

        A second run of the same commit is compared with the same results as the first, so that equal results give equal
        comments. Runs that evaluated nothing are skipped. If the state is too long for a comment, some of its data are
        omitted.
        """
        before = None
        if earlier_state is not None:
            earlier = earlier_state.suites and (earlier_state.sha is None or earlier_state.sha != self.sha)
            before = CommitState(earlier_state.sha, earlier_state.suites) if earlier else earlier_state.before
        return _shrink_to_fit(replace(self, before=before))


class Change(Struct, frozen=True):
    """The changes of a suite since the previous commit.

    Attributes:
        sha: the previous commit; None if it is unknown.
        outcome: the verdict at that commit.
        pass_rate: difference in percentage points; None if one of the rates is unknown.
        new: positions of the cases that fail now but did not before; None if unknown.
        fixed: number of cases that failed before and pass now; None if unknown.
        metrics: change of each metric's mean in a few words, in the order of the report.
    """

    sha: str | None
    outcome: VerdictOutcome
    pass_rate: float | None
    new: frozenset[int] | None
    fixed: int | None
    metrics: tuple[str, ...]


def state_of(
    reports: Sequence[Report], exit_code: int, sha: str | None, run: str, problems: Sequence[str] = ()
) -> State:
    """Return the state of an evaluation, not yet compared with a previous one.

    `run` is the workflow run and its attempt, as `ID/ATTEMPT`. If there are no reports, `problems` has the reasons.
    """
    named = tuple(zip(reports, suite_keys(reports), strict=True))
    result = [exit_code, *problems, *(_result_facts(report, key) for report, key in named)]
    return State(
        version=1,
        sha=sha if sha is not None and _COMMIT.fullmatch(sha) else None,
        run=run if _RUN.fullmatch(run) else "",
        exit_code=exit_code,
        result=_hash(json.dumps(result), 16),
        suites=tuple(_suite_state(report, key) for report, key in named),
        before=None,
    )


def compare(report: Report, key: str, earlier_state: CommitState | None) -> Change | None:
    """Return the changes of a suite since the previous commit; None if its state at that commit is unknown."""
    old = (
        next((suite for suite in earlier_state.suites if suite.key == key), None) if earlier_state is not None else None
    )
    if old is None or earlier_state is None:
        return None
    new: frozenset[int] | None = None
    fixed: int | None = None
    if old.failing is not None:
        failing = {old.failing[start : start + _HASH] for start in range(0, len(old.failing), _HASH)}
        failed = (case for case in report.attention if case.outcome == "failed")
        new = frozenset(case.position for case in failed if _hash(case.id) not in failing)
        fixed = sum(_hash(case.id) in failing for case in report.passing)
    rates = report.pass_rate, old.pass_rate
    return Change(
        sha=earlier_state.sha,
        outcome=old.outcome,
        pass_rate=None if rates[0] is None or rates[1] is None else 100 * (rates[0] - rates[1]),
        new=new,
        fixed=fixed,
        metrics=tuple(_difference_texts(report.metrics, dict(old.metrics))),
    )


def suite_keys(reports: Sequence[Report]) -> tuple[str, ...]:
    """Return a unique key for each suite, which is the same in every run on every machine."""
    seen: Counter[str] = Counter()
    made: list[str] = []
    for report in reports:
        folder = report.provenance.folder
        place = json.dumps([report.folder if folder is None else folder, report.file])
        seen[place] += 1
        made.append(_hash(f"{place}{seen[place]}"))
    return tuple(made)


def is_same_result(earlier_state: State | None, now: State) -> bool:
    """Return whether two runs have the same result; False if there is no previous run."""
    return earlier_state is not None and earlier_state.result == now.result


def is_same_run(earlier_state: State | None, now: State) -> bool:
    """Return whether both states are from the same run and attempt of a workflow; False if a state is from outside a
    workflow."""
    return earlier_state is not None and earlier_state.run != "" and earlier_state.run == now.run


def is_worse(earlier_state: State | None, now: State) -> bool:
    """Return whether the previous run was worse: by exit code, then failed cases, then cases in error or not run."""
    return earlier_state is not None and _severity_of(earlier_state) > _severity_of(now)


def _severity_of(state: State) -> tuple[int, int, int]:
    return (
        severity(state.exit_code),
        sum(suite.failed for suite in state.suites),
        sum(suite.unknown for suite in state.suites),
    )


def _suite_state(report: Report, key: str) -> SuiteState:
    failing = [case.id for case in report.attention if case.outcome == "failed"]
    means = ((_hash(metric.name), _round(metric.mean)) for metric in report.metrics[:MOST_METRICS])
    return SuiteState(
        key=key,
        outcome=report.outcome,
        failed=report.counts.failed,
        unknown=report.counts.error + report.counts.skipped,
        pass_rate=_round(report.pass_rate),
        metrics=tuple((name, mean) for name, mean in means if mean is not None),
        failing="".join(sorted(map(_hash, failing))) if len(failing) <= MOST_FAILING else None,
    )


def _result_facts(report: Report, key: str) -> list[object]:
    counts = report.counts
    return [
        key,
        report.outcome,
        [counts.passed, counts.failed, counts.error, counts.skipped, counts.informational, counts.quarantined],
        [[gate.name, gate.state] for gate in report.gates],
        sorted([case.id, case.judged] for case in report.attention),
        [
            [metric.name, _round(metric.mean), metric.passed, metric.failed, metric.errors, metric.skipped]
            for metric in report.metrics
        ],
    ]


def _difference_texts(metrics: Sequence[MetricView], base_scores: dict[str, float]) -> Iterator[str]:
    for metric in metrics:
        old = base_scores.get(_hash(metric.name))
        if metric.mean is None:
            yield "–"
        elif old is None:
            yield "new"
        else:
            yield _difference_text(metric.mean - old, metric.polarity)


def _difference_text(value: float, polarity: Polarity) -> str:
    if round(value, _SAME_DIGITS) == 0.0:
        return "="
    shown = f"{value:+.{_SAME_DIGITS}f}"
    if polarity == "neutral":
        return shown
    return f"{shown} {'better' if (value > 0.0) == (polarity == 'maximize') else 'worse'}"


def _round(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.12g}")


def _hash(text: str, length: int = _HASH) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _shrink_to_fit(state: State) -> State:
    """Return the state without the data that exceed the size limit (see `State.encode`); a state within the limit is
    unchanged."""
    return next(some for some in _smaller_states(state) if _fits(some))


def _fits(state: State) -> bool:
    return len(to_json(state)) <= _MAX_JSON and len(_encode_line(state)) <= STATE_LIMIT


def _smaller_states(state: State) -> Iterator[State]:
    yield state
    if state.before is not None:
        unnamed = tuple(replace(suite, failing=None) for suite in state.before.suites)
        yield replace(state, before=replace(state.before, suites=unnamed))
        yield replace(
            state,
            before=replace(state.before, suites=tuple(replace(suite, metrics=()) for suite in unnamed)),
        )
        state = replace(state, before=None)
        yield state
    unnamed = tuple(replace(suite, failing=None) for suite in state.suites)
    yield replace(state, suites=unnamed)
    yield replace(state, suites=tuple(replace(suite, metrics=()) for suite in unnamed))
    yield replace(state, suites=())


def _encode_line(state: State) -> str:
    packed = zlib.compress(to_json(state), 9)
    return f"{_START}{base64.b64encode(packed, _ALTERNATIVES).decode('ascii')}{_END}"
