"""Records the configurations of metrics with judges, so that judge cards and base runs can be compared with a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.decide.verdict import Outcome
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.judge_card import Configuration, JudgeCard
from holodeck_action.record.record import Record
from holodeck_action.scoring.judges import plans_of
from holodeck_action.scoring.reuse import digest_of, judge_identity, library_of
from holodeck_action.seam import registry
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.panels import panel_of
from holodeck_action.suite.values import MetricSpec, Suite
from holodeck_action.text.redaction import Redactor

_EXCLUDED_ROLES = (Role.HANDLING, Role.EFFORT, Role.PASS_MARK, Role.JUDGES)
"""Roles of the settings that are not part of a metric's configuration. Such settings do not affect scores, are compared
separately, or are recorded with the judges.
"""


class AppliedEvaluations:
    """A summary of a metric's evaluations that were not skipped.

    Attributes:
        version: version of the metric's formula; None if no evaluation contains a version.
        thresholds: thresholds of the judged evaluations.
        outcomes: number of judged evaluations by outcome.
    """

    def __init__(self) -> None:
        self.version: str | None = None
        self.thresholds: set[float | None] = set()
        self.outcomes: Counter[Outcome] = Counter()

    def add(self, evaluation: Evaluation, *, judge: bool) -> None:
        """Add an evaluation; with `judge`, also its threshold and outcome, which a judge card needs."""
        if self.version is None:
            self.version = evaluation.evaluator_version
        if judge:
            self.thresholds.add(evaluation.criteria.threshold)
            self.outcomes[judge_evaluation(evaluation).outcome] += 1


def configuration_of(
    suite: Suite, spec: MetricSpec, version: str | None, environ: Mapping[str, str], redactor: Redactor
) -> Configuration | None:
    """Return the settings and judges that affect a metric's scores; None if no model grades the metric, or no judge is
    usable.

    Args:
        suite: the suite.
        spec: one entry of the metric in the suite; entries with the same name differ only in the threshold.
        version: version of the metric's formula; None if it is unknown.
        environ: environment variables, with keys and URLs that model references omit.
        redactor: masks secrets before a digest is made.
    """
    try:
        parts = [(name, part, plans_of(suite, part, environ)) for name, part in spec.config.judged_parts()]
    except ModelConfigError:
        return None
    if not parts:
        return None
    judges = [judge_identity(plan) for _, _, plans in parts for plan in plans]
    panels = []
    for name, part, plans in parts:
        panel = panel_of(suite.policy.judges, part)
        how = None if panel is None else panel.decision_rule
        panels.append([name, len(plans), how])
    config = spec.config
    settings = config.model_dump(mode="json", exclude=set(config.settings_for(*_EXCLUDED_ROLES)))

    def digest(value: object) -> str:
        return digest_of(redactor.declared.value(value))

    return Configuration(
        judges=tuple(redactor.text(f"{judge['provider']}/{judge['model']}") for judge in judges),
        addresses=digest([[judge["endpoint"], judge["api_version"]] for judge in judges]),
        model_settings=digest([[judge["settings"], judge["reasoning"]] for judge in judges]),
        panel=digest(panels),
        metric=digest({"type": config.type, "config": settings}),
        version=f"{version or 'unknown'}, {library_of(config)}",
    )


def add_configurations(
    record: Record, suite: Suite, cards: Mapping[str, JudgeCard], environ: Mapping[str, str], redactor: Redactor
) -> Record:
    """Add the configurations of metrics with judges, and the summaries of their judge cards, to a record.

    If the suite has judge cards, a notice names the metrics with judges but without a card.

    Args:
        record: the record of the whole run.
        suite: the suite.
        cards: the suite's judge cards by metric.
        environ: environment variables, with keys and URLs that model references omit.
        redactor: masks secrets.
    """
    applied: dict[str, AppliedEvaluations] = {}
    names_with_card = {redactor.text(label) for label in cards}
    for evaluation in record.evaluations:
        if evaluation.status != "skipped":
            name = evaluation.evaluator_name
            applied.setdefault(name, AppliedEvaluations()).add(evaluation, judge=name in names_with_card)
    extension = registry.cards()
    specs = {spec.label: spec for case in suite.cases for turn in case.turns for spec in turn.metrics}
    configurations: dict[str, Configuration] = {}
    summaries = []
    names_without_card = []
    for label in sorted(specs):
        name = redactor.text(label)
        found = applied.get(name)
        if found is None:
            continue
        configuration = configuration_of(suite, specs[label], found.version, environ, redactor)
        if configuration is None:
            continue
        configurations[name] = configuration
        if label in cards and extension is not None:
            summary = registry.resolve(extension.summarise)(cards[label], name, configuration, found)
            summaries.append(redactor.value(summary))
        else:
            names_without_card.append(name)
    notices = record.notices
    if cards and names_without_card:
        notices = (*notices, f"no judge card measures the judges of these metrics: {', '.join(names_without_card)}")
    return replace(record, configurations=configurations, cards=tuple(summaries), notices=notices)


def version_of(evaluations: Sequence[Evaluation]) -> str | None:
    """Return the version of a metric's formula from its evaluations; None if no evaluation contains a version."""
    return next((found.evaluator_version for found in evaluations if found.evaluator_version is not None), None)
