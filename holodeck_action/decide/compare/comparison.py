"""`Comparison`: what changed between the run of a base and the run of a head, case by case and metric by metric.

Differences follow the metric's polarity: above 0 is better, below 0 is worse. Rates and scores are 0..1.
`holodeck_action.decide.compare.comparing` makes it; docs/statistics.md explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.exam_changes import ExamChanges
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.sequences import Made, OneByOne
from holodeck_action.record.serialization import written
from holodeck_action.suite.errors import SourceMark

ChangeState = Literal["regressed", "non_inferior", "inconclusive"]
CaseChangeKind = Literal["regressed", "fixed"]
Why = Literal["added", "removed", "changed", "not evaluated"]


class ComparedRun(Struct, frozen=True):
    """One of the two runs.

    Attributes:
        source: where it comes from, as the reader would type it: a path, `artifact`, `branch:NAME`, `merge-base`.
        commit: what was checked out; None where it is not known.
        started_at: when it ran, ISO 8601 in UTC.
        record_digest: sha256 of the canonical record; empty where it was not asked for.
        distance: commits between it and the commit that was wanted; 0 for that commit itself, None where not known.
        name: what to call it, such as the base branch; empty where nothing is known.
    """

    source: str
    commit: str | None
    started_at: str
    record_digest: str
    distance: int | None = None
    name: str = ""


class Difference(Struct, frozen=True):
    """A paired difference over cases: head − base.

    Attributes:
        pairs: cases that both runs have with a value.
        base: the base's mean over the pairs, by weight.
        head: the head's.
        difference: after polarity: above 0 is better.
        low: lower end of the 95 % interval of the difference; None with fewer than 10 pairs.
        high: its upper end; None likewise.
        p_value: two-sided, of no difference; None with fewer than 10 pairs.
        p_gating: the same adjusted by Holm's method over all that gate; None likewise.
        p_shown: the same adjusted by Benjamini and Hochberg's method over all that is shown; None likewise.
        state: `regressed` (worse beyond chance), `non_inferior` (not worse by more than the margin), `inconclusive`.
        detectable: the smallest difference that 80 % of such comparisons would find; None likewise.
        settles: how many cases and trials would see the margin, as a sentence; empty where nothing needs settling.
    """

    pairs: int
    base: float
    head: float
    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    p_gating: float | None
    p_shown: float | None
    state: ChangeState
    detectable: float | None
    settles: str

    @property
    def moved(self) -> bool:
        """Whether it changed beyond noise."""
        return self.p_shown is not None and self.p_shown <= SIGNIFICANT

    @property
    def alone(self) -> bool:
        """Whether it changed by its own interval, and not among all that is compared."""
        if self.moved or self.state == "regressed" or self.low is None or self.high is None:
            return False
        return self.low > 0 or self.high < 0


SIGNIFICANT = 0.05
"""Level of the tests."""


class MetricComparison(Struct, frozen=True):
    """One metric in both runs.

    Attributes:
        name: the metric's.
        polarity: whether high or low scores are good.
        change: its mean, case by case; None where it cannot be compared.
        incomparable: why it cannot be compared; empty where it can.
        gates: whether a loss gates; one of a metric that cannot fail a case is only shown.
    """

    name: str
    polarity: Polarity
    change: Difference | None
    incomparable: str = ""
    gates: bool = True


class MetricStep(Struct, frozen=True):
    """A metric that fails on one side and passes on the other, on one turn.

    Attributes:
        name: the metric's, or `tools` for expected tool calls.
        turn: index of the turn.
        base: score on the base; None where it is not a number.
        head: score on the head; None where it is not a number.
        threshold: the head's; None without one.
        reason: why it fails, from the side on which it fails.
    """

    name: str
    turn: int
    base: float | None
    head: float | None
    threshold: float | None
    reason: str


class CaseChange(Struct, frozen=True):
    """A case that passes on one side and fails on the other.

    Attributes:
        id: the case's id.
        title: its name, or its id when it has none.
        source: where the head's suite asks it.
        kind: `regressed` for a case that passed on the base and fails now, `fixed` for the reverse.
        quarantined: whether the case is quarantined: it is shown and gates nothing.
        steps: the metrics behind the change, the largest first.
        turn: index of the turn that explains the change.
        turns: how many turns the case has.
        trial: index of the trial that explains it, on the side that fails; None where the case was asked once.
        question: what is asked in that turn.
        before: the base's answer; None where there is none.
        after: the head's answer; None where there is none.
    """

    id: str
    title: str
    source: SourceMark
    kind: CaseChangeKind
    quarantined: bool
    steps: tuple[MetricStep, ...]
    turn: int
    turns: int
    trial: int | None
    question: str
    before: str | None
    after: str | None


class ChangedCases(Made[CaseChange]):
    """The changed cases of large runs, each made when it is asked for.

    `ids` are theirs; `gating` is how many of them are not in quarantine.
    """

    def __init__(self, ids: Sequence[str], gating: int, make: Callable[[int], CaseChange]) -> None:
        super().__init__(len(ids), make)
        self.ids, self.gating = ids, gating


def gating(cases: Sequence[CaseChange]) -> int:
    """Return how many changed cases are not in quarantine: these come first."""
    return cases.gating if isinstance(cases, ChangedCases) else sum(not case.quarantined for case in cases)


def changed_ids(cases: Sequence[CaseChange]) -> Iterable[str]:
    """Return the ids of changed cases, without making these."""
    return cases.ids if isinstance(cases, ChangedCases) else [case.id for case in cases]


class UnpairedCase(Struct, frozen=True, omit_defaults=True):
    """A case that takes no part, by its id and title.

    `why` is `added`, `removed`, `changed` (other questions or expectations), or `not evaluated` on one side. `failing`
    tells whether it fails now, outside of quarantine, and `quarantined` whether it is there now.
    """

    id: str
    title: str
    why: Why
    reason: str
    failing: bool = False
    quarantined: bool = False


class Consumed(Struct, frozen=True, omit_defaults=True):
    """What one run took: US dollars, tokens, and milliseconds of latency; None where it is not known.

    `p95_first_token_ms` is the time within which 95 % of the answers that tell it had begun.
    """

    cost_usd: float | None
    tokens: int | None
    p50_latency_ms: float | None
    p95_latency_ms: float | None
    p95_first_token_ms: float | None = None


class Unknown(Struct, frozen=True):
    """Cases of which one side is not known: in error, not run, or not evaluated by a metric that gates.

    `worse` is how many of these `cases` could have got worse, whatever is known of the other side.
    """

    cases: int = 0
    worse: int = 0


class Comparison(Struct, frozen=True, omit_defaults=True):
    """What changed between two runs.

    Attributes:
        base: the run that is compared with.
        head: the run that is judged.
        margin: the largest loss that counts as none, 0..1.
        paired: cases that both runs have with the same questions and expectations, and that both could judge.
        pass_rate: share of passing cases, judged by the head's criteria on metrics that both have; None without pairs.
        metrics: every metric that one of the runs has, in order of name.
        regressed: cases that passed on the base and fail now, worst first, those in quarantine last.
        fixed: cases that failed on the base and pass now, likewise.
        unpaired: cases that take no part.
        base_consumed: what the base took.
        head_consumed: what the head took.
        notices: what the reader should know, each one sentence.
        unknown_now: what this run leaves unknown of cases that the base knows.
        unknown_base: what the base leaves unknown.
        exam: how the terms of the head differ from the base's; None where none is less strict, other or unknown.
        targets: what the base's cases were asked through and what the head's; None where it is the same.
    """

    base: ComparedRun
    head: ComparedRun
    margin: float
    paired: int
    pass_rate: Difference | None
    metrics: tuple[MetricComparison, ...]
    regressed: OneByOne[CaseChange]
    fixed: OneByOne[CaseChange]
    unpaired: tuple[UnpairedCase, ...]
    base_consumed: Consumed
    head_consumed: Consumed
    notices: tuple[str, ...] = written(())
    exam: ExamChanges | None = None
    unknown_now: Unknown = Unknown()
    unknown_base: Unknown = Unknown()
    targets: tuple[str, str] | None = None

    def measures(self, *, gating: bool = False) -> Iterator[tuple[str, Difference]]:
        """Yield the pass rate and every metric that can be compared, by name; with `gating` those alone that gate."""
        if self.pass_rate is not None:
            yield "pass rate", self.pass_rate
        for metric in self.metrics:
            if metric.change is not None and (metric.gates or not gating):
                yield metric.name, metric.change

    @property
    def left_out(self) -> tuple[UnpairedCase, ...]:
        """The run's cases that are not compared, without those in quarantine."""
        return tuple(case for case in self.unpaired if case.why != "removed" and not case.quarantined)

    @property
    def failing_unseen(self) -> int:
        """How many cases fail now and are not compared."""
        return sum(case.failing for case in self.left_out)

    @property
    def complete(self) -> bool:
        """Whether no case could have got worse unseen: none fails uncompared, or is unknown on one side."""
        unknown = self.unknown_now.cases or self.unknown_base.cases
        return not unknown and not any(case.failing or case.why == "not evaluated" for case in self.left_out)

    @property
    def part(self) -> str:
        """How many of the run's cases are compared, such as `1 of 12 cases`."""
        cases = self.paired + len(self.left_out)
        return f"{self.paired:,} of {cases:,} {'case' if cases == 1 else 'cases'}"

    def without_times(self) -> Comparison:
        """Return it without what differs between two runs that answer the same."""
        return replace(
            self,
            base=replace(self.base, started_at=""),
            head=replace(self.head, started_at=""),
            base_consumed=Consumed(self.base_consumed.cost_usd, self.base_consumed.tokens, None, None),
            head_consumed=Consumed(self.head_consumed.cost_usd, self.head_consumed.tokens, None, None),
        )
