"""The panel of judges of each metric: the policy file's panel with the metric's own settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from holodeck_action.suite.model.judging import Aggregation, Judges
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.values import MetricSpec


class Panel(Struct, frozen=True):
    """The panel of one metric.

    Attributes:
        models: one model for each judge; None stands for the model that would grade without a panel.
        fallbacks: models that replace a judge that returns no verdict, in this order.
        aggregation: how the verdicts are combined.
        min_successful: minimum number of verdicts; with fewer, the evaluation fails.
        second: the judge for answers on which the panel's verdict is doubtful; None if there is no such judge.
        max_concurrent: maximum number of concurrent calls for one answer; None if there is no limit.
        origin: `judges of the policy file` or `the metric's judges`, for messages.
    """

    models: tuple[LLMProvider | None, ...]
    fallbacks: tuple[LLMProvider, ...]
    aggregation: Aggregation
    min_successful: int
    second: LLMProvider | None
    max_concurrent: int | None
    origin: str

    @property
    def decision_rule(self) -> list[object]:
        """Values that identify how the panel decides, without the models."""
        found: list[object] = [len(self.models), self.aggregation, self.min_successful]
        return found if self.second is None else [*found, "escalate"]


def panel_of(defaults: Judges, config: Metric) -> Panel | None:
    """Return the panel of a metric; None if a single model grades.

    Args:
        defaults: `judges` of the policy file.
        config: the metric, whose own settings take precedence.
    """
    if not config.needs_judge or config.embedding is not None:
        return None
    own = config.own_judges
    settings = defaults
    if own is not None:
        settings = defaults.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
    alone = not settings.models and not settings.fallback_models and settings.min_successful_judges == 1
    if alone and settings.escalate is None:
        return None
    return Panel(
        models=settings.models or (config.own_model,),
        fallbacks=settings.fallback_models,
        aggregation=settings.aggregation,
        min_successful=settings.min_successful_judges,
        second=None if settings.escalate is None else settings.escalate.to,
        max_concurrent=settings.max_concurrent_judges,
        origin="judges of the policy file" if own is None else "the metric's judges",
    )


def replaced_model_notices(defaults: Judges, specs: Iterable[MetricSpec]) -> Iterator[str]:
    """Yield a notice for every metric whose `model` is replaced by the policy file's panel."""
    for spec in specs:
        if any(_is_replaced(defaults, metric) for metric in spec.config.leaf_metrics()):
            yield (
                f"{spec.mark}: model is not used: the panel of the policy file grades this metric; "
                "set `judges: {models: []}` to let its own model grade it"
            )


def _is_replaced(defaults: Judges, config: Metric) -> bool:
    model = config.own_model
    if not defaults.models or model is None or not config.needs_judge:
        return False
    panel = panel_of(defaults, config)
    return panel is not None and model not in panel.models
