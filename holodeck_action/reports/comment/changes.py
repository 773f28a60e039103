"""What a comment remembers of a run, hidden in its second line, and what has changed since.

A comment is read by its own next version only: what is not exactly what this module writes counts as nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
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

STATE_LIMIT = 6000
"""Characters of the hidden line: what a comment of 65,000 can spare."""
MOST_METRICS = 60
"""Metrics of a suite whose means are kept."""
MOST_FAILING = 500
"""Failing cases of a suite that are kept; of more nobody can say which ones are new."""

_START, _END = "<!-- holodeck-action:state:", " -->"
# Without `-`, two of which must not stand in an HTML comment.
_ALTERNATIVES = b"._"
_MOST_JSON = 64 * 1024
"""Bytes before compression, so that no comment unpacks to more."""
_HASH = 8
_SAME_DIGITS = 4
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_RUN = re.compile(r"[0-9]{1,20}/[0-9]{1,10}")

# Python's `$` alone would allow a line feed at the end.
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}$(?!\n)")]
_Count = Annotated[int, Meta(ge=0, le=10**9)]
_Sha = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)")]


class SuiteNumbers(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a suite.

    Attributes:
        key: hash of where the suite is; names of the suite may change.
        outcome: its verdict.
        failed: number of cases that failed.
        unknown: number of cases in error or not run.
        pass_rate: 0 to 1; None when no case was decided.
        metrics: hash of the name and mean of at most `MOST_METRICS` metrics.
        failing: hashes of the failed cases, one behind the other in order; None where there are too many.
    """

    key: _Hash
    outcome: VerdictOutcome
    failed: _Count
    unknown: _Count
    pass_rate: Annotated[float, Meta(ge=0.0, le=1.0)] | None
    metrics: Annotated[tuple[tuple[_Hash, float], ...], Meta(max_length=MOST_METRICS)]
    failing: Annotated[str, Meta(pattern=r"^([0-9a-f]{8})*$(?!\n)", max_length=_HASH * MOST_FAILING)] | None


class Numbers(Struct, frozen=True, forbid_unknown_fields=True):
    """The suites as they were at a commit (None: unknown)."""

    sha: _Sha | None
    suites: Annotated[tuple[SuiteNumbers, ...], Meta(max_length=1000)]


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """What a comment remembers.

    Attributes:
        version: of this form.
        sha: the commit it is about; None where it is not known.
        run: run and attempt of the workflow that wrote it, `ID/ATTEMPT`; empty for none.
        exit_code: of the run.
        result: hash of all that makes two results the same.
        suites: what is kept of each suite; empty when nothing was evaluated.
        before: the suites as they were at the commit before, which they are compared with; None for none.
    """

    version: Literal[1]
    sha: _Sha | None
    run: Annotated[str, Meta(pattern=r"^([0-9]{1,20}/[0-9]{1,10})?$(?!\n)")]
    exit_code: Annotated[int, Meta(ge=0, le=255)]
    result: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$(?!\n)")]
    suites: Annotated[tuple[SuiteNumbers, ...], Meta(max_length=1000)]
    before: Numbers | None

    def encode(self) -> str:
        """Return the state as an HTML comment of one line, at most `STATE_LIMIT` characters.

        What does not fit is left out: what it is compared with first, then which cases fail, then the means.
        """
        return _line(_fitting(self))

    @staticmethod
    def read(body: str) -> State | None:
        """Return the state in the second line of a comment; None where there is none that we could have written."""
        lines = body[: 4 * STATE_LIMIT].replace("\r\n", "\n").split("\n", 2)
        line = lines[1].rstrip() if len(lines) > 1 else ""
        if len(line) > STATE_LIMIT or not (line.startswith(_START) and line.endswith(_END)):
            return None
        try:
            packed = base64.b64decode(line[len(_START) : -len(_END)], _ALTERNATIVES, validate=True)
            return Foreign(packed).unpacked(_MOST_JSON).parse(partial(from_json, kind=State))
        except ValueError:
            return None

    def following(self, previous: State | None) -> State:
        """Return this state with what it is compared with: the results of the commit before.

        A second run of the same commit is compared with what the first one was, so that the same results give the same
        comment; what nothing was evaluated in is passed over. It holds no more than can be encoded.
        """
        before = None
        if previous is not None:
            earlier = previous.suites and (previous.sha is None or previous.sha != self.sha)
            before = Numbers(previous.sha, previous.suites) if earlier else previous.before
        return _fitting(replace(self, before=before))


class Change(Struct, frozen=True):
    """What has changed in a suite.

    Attributes:
        sha: the commit that it is compared with; None where it is not known.
        outcome: the verdict there.
        pass_rate: difference in percentage points; None where one of them is not known.
        new: positions of the cases that fail now and did not; None where it cannot be told.
        fixed: number of cases that failed and pass now; None where it cannot be told.
        metrics: for each metric of the report, in its order, what has become of its mean, in a few words of ours.
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
    """Return what is to be remembered of a run, compared with nothing yet.

    `run` is run and attempt of the workflow, `ID/ATTEMPT`; `problems` say why there are no reports.
    """
    named = tuple(zip(reports, keys(reports), strict=True))
    result = [exit_code, *problems, *(_result(report, key) for report, key in named)]
    return State(
        version=1,
        sha=sha if sha is not None and _COMMIT.fullmatch(sha) else None,
        run=run if _RUN.fullmatch(run) else "",
        exit_code=exit_code,
        result=_hash(json.dumps(result), 16),
        suites=tuple(_numbers(report, key) for report, key in named),
        before=None,
    )


def compare(report: Report, key: str, before: Numbers | None) -> Change | None:
    """Return what has changed in a suite; None where it was not there before."""
    old = next((suite for suite in before.suites if suite.key == key), None) if before is not None else None
    if old is None or before is None:
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
        sha=before.sha,
        outcome=old.outcome,
        pass_rate=None if rates[0] is None or rates[1] is None else 100 * (rates[0] - rates[1]),
        new=new,
        fixed=fixed,
        metrics=tuple(_differences(report.metrics, dict(old.metrics))),
    )


def keys(reports: Sequence[Report]) -> tuple[str, ...]:
    """Return a key per suite: the same in every run, whatever machine it was on; no two are equal."""
    seen: Counter[str] = Counter()
    made: list[str] = []
    for report in reports:
        folder = report.provenance.folder
        place = json.dumps([report.folder if folder is None else folder, report.file])
        seen[place] += 1
        made.append(_hash(f"{place}{seen[place]}"))
    return tuple(made)


def same_result(previous: State | None, now: State) -> bool:
    """Tell whether two runs found the same: verdict, counts, failing cases, states of the gates, metrics."""
    return previous is not None and previous.result == now.result


def clash(previous: State | None, now: State) -> bool:
    """Tell whether a state was written by another step of the same run and attempt."""
    return previous is not None and previous.run != "" and previous.run == now.run


def worse(previous: State | None, now: State) -> bool:
    """Tell whether a state's verdict is worse than ours, or of equal verdicts, has more failed or unknown cases."""
    return previous is not None and _badness(previous) > _badness(now)


def _badness(of: State) -> tuple[int, int, int]:
    return severity(of.exit_code), sum(suite.failed for suite in of.suites), sum(suite.unknown for suite in of.suites)


def _numbers(report: Report, key: str) -> SuiteNumbers:
    failing = [case.id for case in report.attention if case.outcome == "failed"]
    means = ((_hash(metric.name), _rounded(metric.mean)) for metric in report.metrics[:MOST_METRICS])
    return SuiteNumbers(
        key=key,
        outcome=report.outcome,
        failed=report.counts.failed,
        unknown=report.counts.error + report.counts.skipped,
        pass_rate=_rounded(report.pass_rate),
        metrics=tuple((name, mean) for name, mean in means if mean is not None),
        failing="".join(sorted(map(_hash, failing))) if len(failing) <= MOST_FAILING else None,
    )


def _result(report: Report, key: str) -> list[object]:
    counts = report.counts
    return [
        key,
        report.outcome,
        [counts.passed, counts.failed, counts.error, counts.skipped, counts.informational, counts.quarantined],
        [[gate.name, gate.state] for gate in report.gates],
        sorted([case.id, case.judged] for case in report.attention),
        [
            [metric.name, _rounded(metric.mean), metric.passed, metric.failed, metric.errors, metric.skipped]
            for metric in report.metrics
        ],
    ]


def _differences(metrics: Sequence[MetricView], before: dict[str, float]) -> Iterator[str]:
    for metric in metrics:
        old = before.get(_hash(metric.name))
        if metric.mean is None:
            yield "–"
        elif old is None:
            yield "new"
        else:
            yield _difference(metric.mean - old, metric.polarity)


def _difference(value: float, polarity: Polarity) -> str:
    if round(value, _SAME_DIGITS) == 0.0:
        return "="
    shown = f"{value:+.{_SAME_DIGITS}f}"
    if polarity == "neutral":
        return shown
    return f"{shown} {'better' if (value > 0.0) == (polarity == 'maximize') else 'worse'}"


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.12g}")


def _hash(text: str, length: int = _HASH) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _fitting(whole: State) -> State:
    """Return the state with as much as can be encoded; doing it twice changes nothing."""
    return next(some for some in _smaller(whole) if _holds(some))


def _holds(some: State) -> bool:
    return len(to_json(some)) <= _MOST_JSON and len(_line(some)) <= STATE_LIMIT


def _smaller(whole: State) -> Iterator[State]:
    yield whole
    if whole.before is not None:
        unnamed = tuple(replace(suite, failing=None) for suite in whole.before.suites)
        yield replace(whole, before=replace(whole.before, suites=unnamed))
        yield replace(
            whole,
            before=replace(whole.before, suites=tuple(replace(suite, metrics=()) for suite in unnamed)),
        )
        whole = replace(whole, before=None)
        yield whole
    unnamed = tuple(replace(suite, failing=None) for suite in whole.suites)
    yield replace(whole, suites=unnamed)
    yield replace(whole, suites=tuple(replace(suite, metrics=()) for suite in unnamed))
    yield replace(whole, suites=())


def _line(of: State) -> str:
    packed = zlib.compress(to_json(of), 9)
    return f"{_START}{base64.b64encode(packed, _ALTERNATIVES).decode('ascii')}{_END}"
