"""The metrics of this package: one for each module beside this one that defines one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from types import ModuleType

import holodeck_action.metrics
from holodeck_action.suite.metric_base import Metric
from holodeck_action.suite.metric_types import MetricTypes


@cache
def built_in() -> MetricTypes:
    """Return the metrics of this package.

    Every module beside this one is imported, so none of them may import anything heavy; what is heavy is imported where
    it is used, or is in a package of its own.
    """
    package = holodeck_action.metrics
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.ispkg)
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return in_order(metric for module in modules for metric in _defined_in(module))


def in_order(metrics: Iterable[type[Metric]]) -> MetricTypes:
    """Return metrics by type, in the order in which messages list them."""
    ordered = sorted(metrics, key=lambda metric: (metric.PLACE, type_of(metric)))
    return MetricTypes({type_of(metric): metric for metric in ordered})


def type_of(metric: type[Metric]) -> str:
    """Return the value of `type`."""
    return str(metric.model_fields["type"].default)


def _defined_in(module: ModuleType) -> Iterator[type[Metric]]:
    for found in vars(module).values():
        own = isinstance(found, type) and issubclass(found, Metric) and found.__module__ == module.__name__
        if own and "type" in found.model_fields:
            yield found
