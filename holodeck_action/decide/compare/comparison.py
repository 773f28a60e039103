"""`Comparison`: the changes between a base's run and a head's run, by case and by metric.

Differences above 0 are improvements, whether high or low scores of the metric are good. Rates and scores are 0..1.
`holodeck_action.decide.compare.comparing` creates comparisons; docs/statistics.md explains them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.terms_changes import TermsChanges
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.serialization import always_written
from holodeck_action.suite.errors import SourceMark

ChangeState = Literal["regressed", "non_inferior", "inconclusive"]
CaseChangeKind = Literal["regressed", "fixed", "flaky", "undecided"]
Why = Literal["added", "removed", "changed", "not evaluated"]


class ComparedRun(Struct, frozen=True):
    """One of the two compared runs.

    Attributes:
        source: the run's origin, as the user would type it: a path, `artifact`, `branch:NAME`, `merge-base`.
        commit: the commit that was checked out; None if unknown.
        started_at: start of the run, ISO 8601 in UTC.
        record_digest: sha256 of the canonical record; empty if not requested.
        distance: number of commits between the run's commit and the requested one; None if unknown.
        name: the run's name in messages, such as the base branch; empty if unknown.
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
        pairs: number of cases with a value in both runs.
        base: the base's weighted mean over the pairs.
        head: the head's weighted mean over the pairs.
        difference: mean difference; above 0 is an improvement, even if low scores are good.
        low: lower end of the 95 % interval of the difference; None if there are fewer than 10 pairs.
        high: upper end of this interval; None if there are fewer than 10 pairs.
        p_value: two-sided p-value of the hypothesis of no difference; None if there are fewer than 10 pairs.
        p_gating: p-value adjusted by Holm's method over all gating differences; None if there are fewer than 10 pairs
            or the difference does not gate.
        p_shown: p-value adjusted by Benjamini and Hochberg's method over all reported differences; None if there are
            fewer than 10 pairs.
        state: `regressed` (worse beyond chance), `non_inferior` (not worse by more than the margin), `inconclusive`.
        detectable: the smallest difference that is detected with 80 % power; None if there are fewer than 10 pairs or
            no difference can be detected.
        settles: a clause with the number of cases and trials that would detect a change as large as the margin, or a
            smaller one that would decide the state; empty if the state is not inconclusive.
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
    def significant(self) -> bool:
        """Whether the difference is significant after adjustment for all reported differences."""
        return self.p_shown is not None and self.p_shown <= SIGNIFICANT

    @property
    def significant_alone(self) -> bool:
        """Whether the difference is significant by its own 95 % interval, but not after adjustment."""
        if self.significant or self.state == "regressed" or self.low is None or self.high is None:
            return False
        return self.low > 0 or self.high < 0


SIGNIFICANT = 0.05
"""Significance level of the tests."""


class MetricComparison(Struct, frozen=True):
    """One metric in both runs.

    Attributes:
        name: name of the metric.
        polarity: whether high or low scores are good.
        change: difference of its means, paired by case; None if the metric cannot be compared.
        incomparable: why the metric cannot be compared; empty if the metric is compared.
        gates: whether a regression can fail the run; False for a metric that cannot fail a case.
    """

    name: str
    polarity: Polarity
    change: Difference | None
    incomparable: str = ""
    gates: bool = True


class Preference(Struct, frozen=True):
    """The verdicts on pairs of answers to the same questions: the head's and the base's, judged side by side.

    Attributes:
        metric: name of the metric.
        cases: number of cases with a judged pair; a case's value is the mean of its trials' +1, 0 and −1.
        pairs: number of judged pairs, one for each trial.
        wins: pairs in which the head's answer is better.
        ties: pairs in which neither answer is better; `flipped` and `identical` pairs are included.
        losses: pairs in which the base's answer is better.
        identical: pairs with identical answers, which no judge saw.
        flipped: pairs whose verdict depended on the order of the answers.
        missing: pairs that could not be judged.
        win_rate: (1 + weighted mean of the cases' values)/2, which is (wins + ½ ties)/n without trials and weights.
        low: lower end of the win rate's 95 % interval; None if there are fewer than 10 cases.
        high: upper end of this interval; None if there are fewer than 10 cases.
        p_value: two-sided p-value of the hypothesis that wins and losses are equally likely; None if there are fewer
            than 10 cases.
        unequal: decided pairs whose answers differ in length.
        longer: pairs among `unequal` in which the longer answer is better.
        longer_low: lower end of the 95 % interval of the share `longer`/`unequal`; None if fewer than 10 cases have
            such a pair.
        longer_high: upper end of this interval; None likewise.
        notices: notices for the reader, one sentence each.
    """

    metric: str
    cases: int
    pairs: int
    wins: int
    ties: int
    losses: int
    identical: int
    flipped: int
    missing: int
    win_rate: float
    low: float | None
    high: float | None
    p_value: float | None
    unequal: int
    longer: int
    longer_low: float | None
    longer_high: float | None
    notices: tuple[str, ...] = ()


class MetricStep(Struct, frozen=True, omit_defaults=True):
    """A metric that fails on one side and passes on the other, on one turn.

    Attributes:
        name: name of the metric, or `tools` for expected tool calls.
        turn: index of the turn, the last one for a metric of the whole conversation.
        base: score on the base; None if it is not a number.
        head: score on the head; None if it is not a number.
        threshold: threshold by which both sides are judged; None if the metric has no threshold.
        reason: why the metric fails, on the failing side.
        conversation: whether the metric grades the whole conversation.
        named_turn: index of the turn that its judge names on the failing side; None if it names none.
    """

    name: str
    turn: int
    base: float | None
    head: float | None
    threshold: float | None
    reason: str
    conversation: bool = False
    named_turn: int | None = None


class TrialCounts(Struct, frozen=True):
    """Counts of the trials of a case that got worse, each side's own, including further trials that check the
    regression. In the head, `failed` of `trials` trials failed; on the base, `base_passed` of `base_trials` trials
    passed.
    """

    failed: int
    trials: int
    base_passed: int
    base_trials: int

    @property
    def confirm_regression(self) -> bool:
        """Whether the case fails in most of its trials now, and passed in most trials of the base."""
        return 2 * self.failed > self.trials and 2 * self.base_passed > self.base_trials


class CaseChange(Struct, frozen=True, omit_defaults=True):
    """A case that passes on one side and fails on the other.

    Attributes:
        id: id of the case.
        title: name of the case, or its id if it has no name.
        source: position of this turn in the head's suite.
        kind: `regressed` for a case that passed on the base and fails now, `fixed` for the reverse, `flaky` for a case
            that got worse, but not in most of its trials, `undecided` for a case that fails only in trials that the
            base does not have.
        quarantined: whether the case is quarantined: it is reported but cannot fail a gate.
        steps: the metrics that explain the change, largest difference first.
        turn: index of the turn of the first step, or of the turn that its judge names.
        turns: number of turns of the case.
        trial: index of the failing trial with these steps; None if the case has one trial.
        question: the input of that turn.
        before: the base's answer; None if the base has no answer.
        after: the head's answer; None if the head has no answer.
        counts: the trials, including those that confirm a regression; None if the case had no further trials, and both
            sides have the same number of trials.
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
    counts: TrialCounts | None = None


def count_gating(cases: Sequence[CaseChange]) -> int:
    """Return the number of changed cases that are not quarantined."""
    return sum(not case.quarantined for case in cases)


class UnpairedCase(Struct, frozen=True, omit_defaults=True):
    """A case that is not compared, by its id and title.

    `why` is `added`, `removed`, `changed` (other questions or expectations), or `not evaluated` on one side. `failing`
    is true if the case fails in the head and is not quarantined; `quarantined` is true if the head quarantines it.
    """

    id: str
    title: str
    why: Why
    reason: str
    failing: bool = False
    quarantined: bool = False


class Consumed(Struct, frozen=True, omit_defaults=True):
    """The usage of one run: US dollars, tokens, milliseconds of latency, and tool calls; None if unknown.

    `p95_first_token_ms` is the 95 % quantile of the known times to an answer's first token.
    """

    cost_usd: float | None
    tokens: int | None
    p50_latency_ms: float | None
    p95_latency_ms: float | None
    p95_first_token_ms: float | None = None
    tool_calls: int | None = None

    def without_times(self) -> Consumed:
        """Return the usage without latencies."""
        return Consumed(self.cost_usd, self.tokens, None, None, tool_calls=self.tool_calls)


class UnknownCases(Struct, frozen=True):
    """The number of cases whose result is unknown on one side: in error, not run, or without a gating metric's result.

    `worse` is the number of these cases that may have got worse.
    """

    cases: int = 0
    worse: int = 0


class Comparison(Struct, frozen=True, omit_defaults=True):
    """The changes between two runs.

    Attributes:
        base: the run of the base.
        head: the run that is judged.
        margin: the largest tolerated regression, 0..1.
        paired: number of cases that both runs judged with the same questions and expectations.
        pass_rate: difference of the pass rates, by the head's criteria on the metrics of both runs; None if no pair is
            decided.
        metrics: every metric of either run, sorted by name.
        regressed: cases that passed on the base and fail now, worst first, quarantined ones last.
        fixed: cases that failed on the base and pass now, largest change first, quarantined ones last.
        unpaired: cases that are not compared.
        base_consumed: usage of the base.
        head_consumed: usage of the head.
        notices: notices for the reader, one sentence each.
        unknown_now: cases whose result is unknown only in this run.
        unknown_base: cases whose result is unknown on the base.
        terms: the changes of the terms since the base; None if no term is less strict, changed or unknown.
        targets: the targets of base and head; None if they are the same.
        flaky: cases that passed on the base and fail now, but not in most of their trials, worst first.
        preferences: the verdicts on pairs of answers, by metric.
        undecided: cases that passed on the base, and fail now only in trials that the base does not have, not in most.
        same_outcomes: whether each case of both runs has the outcome now that it had in the base's own report.
    """

    base: ComparedRun
    head: ComparedRun
    margin: float
    paired: int
    pass_rate: Difference | None
    metrics: tuple[MetricComparison, ...]
    regressed: tuple[CaseChange, ...]
    fixed: tuple[CaseChange, ...]
    unpaired: tuple[UnpairedCase, ...]
    base_consumed: Consumed
    head_consumed: Consumed
    notices: tuple[str, ...] = always_written(())
    terms: TermsChanges | None = None
    unknown_now: UnknownCases = UnknownCases()
    unknown_base: UnknownCases = UnknownCases()
    targets: tuple[str, str] | None = None
    flaky: tuple[CaseChange, ...] = ()
    preferences: tuple[Preference, ...] = ()
    undecided: tuple[CaseChange, ...] = ()
    same_outcomes: bool = True

    def measures(self, *, gating: bool = False) -> Iterator[tuple[str, Difference]]:
        """Yield the name and the difference of the pass rate and of each comparable metric; with `gating`, omit metrics
        that do not gate."""
        if self.pass_rate is not None:
            yield "pass rate", self.pass_rate
        for metric in self.metrics:
            if metric.change is not None and (metric.gates or not gating):
                yield metric.name, metric.change

    @property
    def left_out(self) -> tuple[UnpairedCase, ...]:
        """The head's cases that are not compared, except quarantined ones."""
        return tuple(case for case in self.unpaired if case.why != "removed" and not case.quarantined)

    @property
    def failing_unseen(self) -> int:
        """Number of cases that fail now and are not compared."""
        return sum(case.failing for case in self.left_out)

    @property
    def complete(self) -> bool:
        """Whether the comparison finds every case that got worse: all failing cases are compared, no case was skipped
        because it was not evaluated, all compared results are known in both runs, and none is undecided."""
        unknown = self.unknown_now.cases or self.unknown_base.cases or self.undecided
        return not unknown and not any(case.failing or case.why == "not evaluated" for case in self.left_out)

    @property
    def part(self) -> str:
        """The number of compared cases as a phrase, such as `1 of 12 cases`."""
        cases = self.paired + len(self.left_out)
        return f"{self.paired:,} of {cases:,} {'case' if cases == 1 else 'cases'}"

    def without_times(self) -> Comparison:
        """Return the comparison without start times and latencies, which differ even if all answers are equal."""
        return replace(
            self,
            base=replace(self.base, started_at=""),
            head=replace(self.head, started_at=""),
            base_consumed=self.base_consumed.without_times(),
            head_consumed=self.head_consumed.without_times(),
        )
