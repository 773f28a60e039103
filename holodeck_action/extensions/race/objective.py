"""The objective that a race maximizes: the pass rate, or the (weighted) mean of metrics, from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from msgspec import Struct

from holodeck_action.decide.case_verdicts import judge_case
from holodeck_action.decide.faults import row_of_error
from holodeck_action.decide.statistics import weighted_mean
from holodeck_action.decide.summaries import case_means
from holodeck_action.decide.verdict import CaseVerdict
from holodeck_action.extensions.race.evidence import UNKNOWN, Bounds
from holodeck_action.record.record import CaseRecord
from holodeck_action.run.run import Run
from holodeck_action.suite.applicability import case_asserts, skip_reason
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case, MetricSpec
from holodeck_action.text.plain import one_line

RATE = "pass_rate"


class UnboundedScoreError(ConfigurationError):
    """A metric has a score outside of 0 to 1, so a race cannot use the metric."""


class Objective(Struct, frozen=True):
    """The objective that a race maximizes.

    Attributes:
        weights: the weight of each metric; empty for the pass rate.
        minimized: those metrics of which low scores are good.
        stop_when_decided: whether trials after the one that decides their case are ignored.
    """

    weights: Mapping[str, float]
    minimized: frozenset[str]
    stop_when_decided: bool

    def __str__(self) -> str:
        if len(self.weights) > 1:
            return f"the weighted mean {self.name}"
        return f"metric {self.name}" if self.weights else "the pass rate"

    @property
    def name(self) -> str:
        """The name of the metric, `pass_rate`, or the weights and names of several metrics."""
        if len(self.weights) > 1:
            return " + ".join(f"{weight:g} {metric}" for metric, weight in self.weights.items())
        return next(iter(self.weights), RATE)

    def applies_to(self, case: Case) -> bool:
        """Return whether the objective is defined for a case."""
        return {*self.weights} <= {spec.label for spec in _specs(case)} if self.weights else case_asserts(case)

    def value(self, case: CaseRecord) -> Bounds:
        """Return the value of a finished case: 0 after an agent error, unknown after an error of a service or judge.

        Raises:
            UnboundedScoreError: the score is not between 0 and 1.
        """
        verdict = judge_case(case, stop_when_decided=self.stop_when_decided)
        found = self._known_value(verdict)
        if found is None:
            found = 0.0 if _agent_failed(case) else None
        return UNKNOWN if found is None else Bounds(found, found)

    def _known_value(self, verdict: CaseVerdict) -> float | None:
        if not self.weights:
            return {"passed": 1.0, "failed": 0.0}.get(verdict.judged)
        if verdict.judged in ("error", "skipped"):
            # A case that is only partly scored would be compared with whole ones.
            return None
        means = case_means(verdict.metrics)
        values = [
            (self._value_of_score(verdict.id, metric, means.get(metric)), self.weights[metric])
            for metric in self.weights
        ]
        known = [(value, weight) for value, weight in values if value is not None]
        return weighted_mean(known) if len(known) == len(values) else None

    def _value_of_score(self, case: str, metric: str, score: float | None) -> float | None:
        if score is not None and not 0 <= score <= 1:
            raise UnboundedScoreError(
                [f"objective {metric}: case {case} scores {score:g}; a race takes scores from 0 to 1"]
            )
        return 1 - score if score is not None and metric in self.minimized else score


def objective_of(head: Run, weights: Mapping[str, float], place: str = "--objective") -> Objective:
    """Return the objective of a race.

    Args:
        head: the suite.
        weights: the weight of each metric; `pass_rate` alone, or no metric, for the pass rate.
        place: the option or key that names the metrics, for messages.

    Raises:
        ConfigurationError: no case has a metric, or its result is no score.
    """
    decided = head.settings.stop_when_decided
    if {*weights} <= {RATE}:
        return Objective({}, frozenset(), decided)
    specs = {spec.label: spec for case in head.cases for spec in _specs(case)}
    for metric in weights:
        _check_metric(metric, specs, place)
    # All trials have a score, so that all of them count.
    minimized = frozenset(metric for metric in weights if specs[metric].config.polarity == "minimize")
    return Objective(weights, minimized, decided)


def _check_metric(metric: str, specs: Mapping[str, MetricSpec], place: str) -> None:
    if metric not in specs:
        close = get_close_matches(metric, [RATE, *specs], n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join([RATE, *sorted(specs)])}"
        raise ConfigurationError([f"{place} {one_line(metric, 100)}: no case has this metric; {hint}"])
    config = specs[metric].config
    if config.OF_PAIR or config.passing_categories is not None:
        reason = "compares answers with a base, which a race does not have" if config.OF_PAIR else "gives no score"
        raise ConfigurationError([f"{place} {metric}: the metric {reason}; give another one, or {RATE}"])


def _specs(case: Case) -> Iterator[MetricSpec]:
    return (spec for turn in case.turns for spec in turn.metrics if skip_reason(spec, turn) is None)


def _agent_failed(case: CaseRecord) -> bool:
    """Return whether a case has no verdict because of errors that the agent caused, and of no other ones."""
    errors = [trial.error for trial in case.trials] + [turn.error for turn in case.turns]
    meanings = {row_of_error(error).meaning for error in errors if error is not None}
    return meanings == {"error of the target"}
