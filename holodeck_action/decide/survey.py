"""Computes all counts, sums and means for the verdict and the reports in one pass over the cases of a record."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date

from msgspec.structs import replace

from holodeck_action.decide.agreement import PanelTally
from holodeck_action.decide.case_verdicts import judge_case
from holodeck_action.decide.certainty import UncountedCases
from holodeck_action.decide.consumption import Consumption, Timings
from holodeck_action.decide.contradictions import ContradictionTally
from holodeck_action.decide.gates import MAX_LOST_NAMED, GateInputs
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.simulated_users import UsersTally
from holodeck_action.decide.summaries import EvaluationTally, MetricTally, case_means
from holodeck_action.decide.trials import TrialTally
from holodeck_action.decide.verdict import CaseVerdict, Counts, Outcome
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.record import CaseRecord, CertainEnd, Record, TurnRecord
from holodeck_action.suite.model.policy import QuarantineEntry

OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "error", "skipped", "informational", "quarantined")


class RecordTotals:
    """The outcomes, counts and sums over all cases of a record.

    Attributes:
        verdicts: verdicts on the cases, in order.
        digest: SHA-256 of the canonical record.
        inputs: the inputs of gates.
        counts: number of cases by outcome.
        metrics: totals of every metric, over the cases that are not quarantined.
        consumption: usage of tokens and dollars.
        panels: agreement of judges.
        contradictions: opposite verdicts of a judge on equal prompts.
        evaluations: totals of all evaluations.
        trials: totals of the cases with several trials.
        names: names of the metrics.
        asserting: number of cases with an assertion.
        repeated: number of cases with several trials.
        skipped: number of evaluations that did not apply, by metric and reason.
        users: usage of the models that played users.
        remaining: the cases that do not count because the exit code was certain; None if all count.
    """

    def __init__(self, record: Record, digest: str | None = None) -> None:
        """Compute the totals in one pass over the cases.

        Args:
            record: the record of a run.
            digest: digest of the canonical record; None to compute the digest, which takes as long as all other totals
                together.
        """
        self.metrics, self.consumption = MetricTally(), Consumption()
        self.panels, self.evaluations = PanelTally(), EvaluationTally()
        self.contradictions = ContradictionTally()
        self.trials = TrialTally(stop_when_decided=record.stop_when_decided)
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.users = UsersTally()
        self._record = record
        self._timings = Timings()
        self._weights = {outcome: array("d") for outcome in OUTCOMES}
        self._minimized: set[str] = set()
        self._lost: list[str] = []
        self._planned = self._completed = self._losses = self._flaky = self._not_run = 0
        self._unreported = self._undecided = self._unseen = 0
        self.asserting = self.repeated = 0
        self.names: set[str] = set()
        self._counted = None if record.certain is None else frozenset(record.certain.counted)
        self._left: list[tuple[CaseRecord, CaseVerdict]] = []
        self.digest = digest or record_digest(record)
        self.verdicts = judge_cases(record)
        for case, verdict in zip(record.cases, self.verdicts, strict=True):
            self._add(case, verdict)
        self.remaining = None if self._counted is None else _uncounted_cases(self._left)
        self.inputs = self._gate_inputs()
        outcomes = Counter(verdict.outcome for verdict in self.verdicts)
        self.counts = Counts(
            **{outcome: outcomes[outcome] for outcome in OUTCOMES},
            planned_evaluations=self.inputs.planned,
            completed_evaluations=self.inputs.completed,
        )

    def _add(self, case: CaseRecord, verdict: CaseVerdict) -> None:
        self.asserting += case.asserting
        self.repeated += case.repeat > 1
        if self._counted is not None and case.id not in self._counted:
            self._left.append((replace(case, trials=()), verdict))
            return
        self._weights[verdict.outcome].append(case.weight)
        self._not_run += verdict.judged == "skipped"
        turns, metrics = [*case.turns], [*verdict.metrics]
        self.users.add(case)
        means = case_means(metrics)
        for trial in case.all_trials:
            self.consumption.add_trial(trial)
        for each in case.evaluations:
            self.names.add(each.evaluator_name)
            if each.criteria.polarity == "minimize":
                self._minimized.add(each.evaluator_name)
        self.evaluations.add(case.evaluations, verdict, means)
        for metric in metrics:
            if metric.outcome == "skipped":
                self.skipped[metric.name, metric.reason] += 1
        if verdict.outcome != "quarantined":
            self._add_gating(case, turns, verdict)
            self.metrics.add(metrics, case.weight, means)

    def _add_gating(self, case: CaseRecord, turns: Sequence[TurnRecord], verdict: CaseVerdict) -> None:
        for turn in turns:
            self._timings.add(turn)
        self.panels.add(case, verdict)
        self.contradictions.add(case)
        self.trials.add(case, verdict)
        self._flaky += verdict.flaky
        unreported = sum(each.lacks_fact for each in case.evaluations)
        unreported += sum(any(each.matched is None for each in turn.tool_assertions) for turn in turns)
        self._unreported += unreported
        # With fail_on_error a trial with an unknown input counts as failed, though it could have passed.
        unjudged = verdict.passes + verdict.failures < case.repeat or unreported > 0
        if case.asserting and case.repeat > 1 and not verdict.flaky and unjudged:
            decided = self._record.stop_when_decided and verdict.judged in ("passed", "failed")
            self._undecided += not decided
            self._unseen += decided
        self._count_evaluations(case, verdict)
        if verdict.outcome == "passed":
            for metric in verdict.metrics:
                if metric.outcome == "error":
                    self._losses += 1
                    if len(self._lost) < MAX_LOST_NAMED:
                        self._lost.append(f"{case.name or case.id} ({case.source}): {metric.reason[:200]}")

    def _count_evaluations(self, case: CaseRecord, verdict: CaseVerdict) -> None:
        """Add the planned and the completed evaluations of the trials in `verdict`.

        A metric that did not apply was not planned. All metrics of a trial that was not run were planned.
        """
        decided = self._record.stop_when_decided and verdict.judged in ("passed", "failed")
        if not decided:
            self._planned += max(0, case.repeat - len(verdict.trials)) * case.planned_evaluations
        for trial in verdict.trials:
            metrics = [metric.outcome for part in trial.parts for metric in part.metrics]
            self._planned += case.planned_evaluations - max(0, metrics.count("skipped") - case.not_applicable)
            self._completed += len(metrics) - metrics.count("skipped") - metrics.count("error")
            self._completed += len([1 for turn in trial.turns if turn.tools in ("passed", "failed")])

    def _gate_inputs(self) -> GateInputs:
        weights = self._weights
        return GateInputs(
            passed=weights["passed"],
            failed=weights["failed"],
            missing=weights["error"] + weights["skipped"],
            errors=len(weights["error"]),
            flaky=self._flaky,
            planned=self._planned,
            completed=self._completed,
            metrics=self.metrics.summaries,
            minimized=frozenset(self._minimized),
            lost=self._losses,
            lost_first=tuple(self._lost),
            scores=self.metrics.scores,
            tokens=self.consumption.tokens,
            cost_usd=self.consumption.cost_usd,
            latencies=self._timings.answers,
            first_tokens=self._timings.first_tokens,
            unrun=self._not_run,
            unreported=self._unreported,
            unseen=self._unseen,
            undecided=self._undecided,
            summary=self._record.summary,
            asserting=not self.verdicts or self.asserting > 0,
        )


def judge_cases(record: Record) -> tuple[CaseVerdict, ...]:
    """Return the verdicts on the cases of a record, in order."""
    return tuple(map(case_judge(record), record.cases))


def case_judge(record: Record) -> Callable[[CaseRecord], CaseVerdict]:
    """Return a function that judges a case of the record."""
    quarantine, stop, certain = _active_entries(record), record.stop_when_decided, record.certain
    counted = None if certain is None else frozenset(certain.counted)
    end = "" if certain is None else stop_text(certain, len(record.cases))

    def judge(case: CaseRecord) -> CaseVerdict:
        reason = _quarantine_reason(case, quarantine)
        if counted is None or case.id in counted:
            return judge_case(case, stop_when_decided=stop, quarantine_reason=reason)
        why = f"not counted: the run {end}"
        outcome: Outcome = "skipped" if reason is None else "quarantined"
        said = why if reason is None else f"{reason}; {why}"
        return CaseVerdict(case.id, outcome, "skipped", said, False, 0, 0, 0, ())

    return judge


def stop_text(end: CertainEnd, case_count: int) -> str:
    """Return a phrase such as `stopped after 12 of 200 cases`."""
    return f"stopped after {len(end.counted):,} of {count_phrase(case_count, 'case')}"


def _uncounted_cases(unfinished: Sequence[tuple[CaseRecord, CaseVerdict]]) -> UncountedCases:
    gating = [case for case, verdict in unfinished if verdict.outcome != "quarantined"]
    return UncountedCases(
        weights=[case.weight for case in gating if case.asserting],
        silent=[case.weight for case in gating if not case.asserting],
        repeated=sum(case.repeat > 1 and case.asserting for case in gating),
        evaluations=sum(case.repeat * (case.planned_evaluations + case.not_applicable) for case in gating),
        quarantined=len(unfinished) - len(gating),
    )


def minimized_metrics(record: Record) -> frozenset[str]:
    """Return the names of the metrics whose low scores are good."""
    return frozenset(each.evaluator_name for each in record.evaluations if each.criteria.polarity == "minimize")


def is_expired(entry: QuarantineEntry, today: date) -> bool:
    """Return whether a quarantine entry has expired; `expires` is its last day."""
    return today > entry.expires


def _active_entries(record: Record) -> list[tuple[str, str]]:
    """Return the case (an id or a name) and the reason of each quarantine entry that had not expired when the run
    started.
    """
    today = date.fromisoformat(record.run.started_at[:10])
    return [
        (entry.case, f"quarantined until {entry.expires}: {entry.reason}")
        for entry in record.quarantine
        if not is_expired(entry, today)
    ]


def _quarantine_reason(case: CaseRecord, entries: Sequence[tuple[str, str]]) -> str | None:
    found = [reason for asked, reason in entries if asked in (case.id, case.name)]
    return found[-1] if found else None
