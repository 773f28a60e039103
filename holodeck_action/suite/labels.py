"""Labels of metrics: equal for metrics with equal settings, different otherwise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretStr

from holodeck_action.suite.errors import Problem, SourceMark, quoted
from holodeck_action.suite.model.metric_base import Metric, Role

# The use of a score does not change the measure.
_NOT_MEASURED = (Role.NAME, Role.PASS_MARK, Role.SCALE, Role.HANDLING, Role.EFFORT)
_LONGEST_VALUE = 40

Settings = tuple[tuple[str, Any], ...]
MetricKey = tuple[str | None, str, str, Settings]
"""(explicit name, type, base name, settings that differ from their defaults) of a metric."""


def metric_key(config: Metric, k: int | None) -> MetricKey:
    """Return the name, type and settings that distinguish a metric from others; `k` is its cut-off rank."""
    skipped = config.settings_for(*_NOT_MEASURED)
    settings = []
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if name not in skipped and value != field.get_default(call_default_factory=True):
            settings.append((name, freeze(value)))
    if k is not None:
        settings = [(name, value) for name, value in settings if name != "k"]
        if config.name is not None:
            settings.append(("k", k))
    return config.name, config.type, config.base_name(k), tuple(settings)


def freeze(value: Any) -> Any:
    """Return a hashable form of a setting's value; forms of equal values are equal."""
    if isinstance(value, SecretStr):
        return hashlib.sha256(value.get_secret_value().encode("utf-8", "surrogatepass")).hexdigest()
    if isinstance(value, BaseModel):
        return tuple((name, freeze(getattr(value, name))) for name in sorted(type(value).model_fields))
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((name, freeze(item)) for name, item in value.items()))
    return value


def label_metrics(
    metrics: Mapping[MetricKey, SourceMark],
) -> tuple[dict[MetricKey, str], list[Problem]]:
    """Choose a label for every metric of a suite.

    Args:
        metrics: the distinct metrics, each with its first position, in the order of the files.

    Returns:
        The labels, unique and independent of the order, and a problem for each name that two distinct metrics have.
    """
    labels: dict[MetricKey, str] = {}
    problems: list[Problem] = []
    explicit: dict[str, list[MetricKey]] = {}
    derived: dict[str, list[MetricKey]] = {}
    for key in metrics:
        name, _, base, _ = key
        (derived.setdefault(base, []) if name is None else explicit.setdefault(name, [])).append(key)
    for name, keys in explicit.items():
        by_rank = len({_without_rank(key) for key in keys}) == 1
        if not by_rank:
            first = metrics[keys[0]]
            problems += (
                Problem(
                    metrics[key],
                    "name",
                    f"{quoted(name)} already names a metric with other settings ({first}): give each its own name",
                )
                for key in keys[1:]
            )
        for key in keys:
            rank = dict(key[3]).get("k")
            labels[key] = name if rank is None or len(keys) == 1 else f"{name} (k={rank})"
    for base, keys in derived.items():
        found = [base] if len(keys) == 1 else _add_settings(keys, _setting_text)
        if len(set(found)) < len(keys):
            found = _add_settings(keys, _digest)
        if len({key[1] for key in keys}) > 1:
            # A gate on the bare name must not change from one type's metric to the other's.
            found = [f"{text} ({key[1]})" if text == base else text for key, text in zip(keys, found, strict=True)]
        labels.update(
            (key, f"{text} ({key[1]})" if text in explicit else text) for key, text in zip(keys, found, strict=True)
        )
    return labels, problems


def _without_rank(key: MetricKey) -> tuple[str, Settings]:
    return key[1], tuple(setting for setting in key[3] if setting[0] != "k")


def _add_settings(keys: Sequence[MetricKey], show_value: Callable[[Any], str]) -> list[str]:
    """Return a name for each metric: its base name, followed by the settings that are neither defaults nor common to
    all of these metrics."""
    group = [dict(key[3]) for key in keys]
    found = []
    for key in keys:
        own = [
            f"{name}={show_value(value)}" for name, value in key[3] if any(other.get(name) != value for other in group)
        ]
        found.append(f"{key[2]} ({', '.join(own)})" if own else key[2])
    return found


def _setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        pairs = {item[0]: item[1] for item in value if isinstance(item, tuple)}
        if "provider" in pairs:
            return f"{pairs['provider']}/{pairs['name']}"
        text = " ".join(_setting_text(item) for item in (pairs.values() if pairs else value))
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE and text.isprintable() else f"{text[:_LONGEST_VALUE].split()[0]}…"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
