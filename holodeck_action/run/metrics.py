"""The available metrics: those of this package and of other installed packages."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from holodeck_action.metrics.registry import built_in, metric_type, order_metrics
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.text.foreign import read_file
from holodeck_action.text.plain import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "holodeck_action.metrics"
"""Group of the entry points that name classes of metrics."""


def installed_metrics() -> MetricTypes:
    """Return the metrics of this package and of other installed packages.

    Raises:
        ConfigurationError: an entry point cannot be imported, is not a metric, or has a type that already exists.
    """
    own = built_in()
    if not _may_have_entry_points(tuple(sys.path)):
        return own
    from importlib.metadata import entry_points

    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    if not entries:
        return own
    found = dict(own.classes)
    problems: list[str] = []
    for entry in entries:
        metric = _load_metric(entry)
        if isinstance(metric, str):
            problems.append(metric)
        elif metric_type(metric) in found:
            problems.append(
                f"{_describe_entry(entry)} defines the type {metric_type(metric)}, which already exists: rename it"
            )
        else:
            found[metric_type(metric)] = metric
    if problems:
        raise ConfigurationError(problems)
    return order_metrics(found.values())


def _may_have_entry_points(folders: tuple[str, ...]) -> bool:
    """Return whether an installed package may have entry points for metrics, without parsing all entry points."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    return any(hasattr(finder, "find_distributions") for finder in others) or _mentions_group(folders)


@cache
def _mentions_group(folders: tuple[str, ...]) -> bool:
    """Return whether an entry_points.txt in these folders contains the group of metrics; True for any archive."""
    group = GROUP.encode()
    for folder in folders:
        try:
            entries = list(os.scandir(folder or "."))
        except NotADirectoryError:
            # An archive has metadata as well.
            return True
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith((".dist-info", ".egg-info", "EGG-INFO")):
                try:
                    if read_file(os.path.join(entry.path, "entry_points.txt")).parse(lambda data: group in data):
                        return True
                except OSError:
                    continue
    return False


def _load_metric(entry: EntryPoint) -> type[Metric] | str:
    """Return the class that an entry point names, or a sentence about its problem."""
    try:
        metric = entry.load()
    except Exception as error:  # noqa: BLE001 - code of another package
        reason = one_line(f"{type(error).__name__}: {error}", 300)
        return f"{_describe_entry(entry)} cannot be imported ({reason}): repair or uninstall the package"
    if not isinstance(metric, type) or not issubclass(metric, Metric):
        return f"{_describe_entry(entry)} is not a subclass of holodeck_action.suite.model.metric_base.Metric"
    if "type" not in metric.model_fields or not isinstance(metric.model_fields["type"].default, str):
        return f'{_describe_entry(entry)} needs the field `type: Literal["{entry.name}"] = "{entry.name}"`'
    return metric


def _describe_entry(entry: EntryPoint) -> str:
    package = f" of the package {entry.dist.name}" if entry.dist is not None else ""
    return f"the metric {entry.name}{package} (entry point {entry.value} of the group {GROUP})"
