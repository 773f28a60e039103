"""The results of the judges' probes of a run, and which metrics they stop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.values import Case, MetricSpec

UNRELATED_ROLES = (Role.NAME, Role.PASS_MARK, Role.HANDLING, Role.EFFORT)
"""Roles of the settings that do not affect how a judge grades."""


class Exams(Struct, frozen=True):
    """The results of a run's probes.

    Attributes:
        probes: the results for the record.
        errors: the error of each metric with a judge that did not pass, by `exam_key`.
        notices: notices about the probes, one sentence each.
    """

    probes: tuple[JudgeProbe, ...] = ()
    errors: Mapping[str, ErrorInfo] = {}
    notices: tuple[str, ...] = ()

    def error_of(self, config: Metric) -> ErrorInfo | None:
        """Return the error of a metric, or of the first of its members, with a judge that did not pass; else None."""
        if not self.errors:
            return None
        found = (self.errors.get(exam_key(leaf)) for leaf in config.leaf_metrics())
        return next((error for error in found if error is not None), None)


NO_EXAMS = Exams()


def exam_key(config: Metric) -> str:
    """Return the digest of the settings that affect how a metric's judges grade, and of its judges."""
    settings = config.model_dump(mode="json", exclude=set(config.settings_for(*UNRELATED_ROLES)))
    return hashlib.sha256(canonical_json({"type": config.type, "settings": settings})).hexdigest()


def examined_metrics(cases: Iterable[Case]) -> Iterator[tuple[MetricSpec, Metric]]:
    """Yield each metric of the cases, or member of one, that has a probe; once for equal settings."""
    seen: set[str] = set()
    known: set[int] = set()
    for case in cases:
        for turn in case.turns:
            for spec in turn.metrics:
                if id(spec.config) in known or skip_reason(spec, turn) is not None:
                    continue
                known.add(id(spec.config))
                for config in spec.config.leaf_metrics():
                    if config.exam is not None and config.needs_judge and (key := exam_key(config)) not in seen:
                        seen.add(key)
                        yield spec, config
