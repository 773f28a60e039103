"""Builds docs/metric-catalogue.md from the classes of the metrics: one row for each.

python -m scripts.build_metric_catalogue
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.schema_marks import METRICS
from scripts.build_field_reference import cells, schema_of

PAGE = Path(__file__).parents[1] / "docs" / "metric-catalogue.md"
INTRO = """# All metrics

Every metric under its name in a suite. This page is generated from the classes of the metrics; `make fields` renews it.
[Choosing metrics](choosing-metrics.md) says which one answers your question. [Metrics](metrics.md) describes each in
full.

Scores are from 0 to 1. *Needs* are the facts about a turn without which the metric does not apply, besides question and
answer. *Calls* are those of one judge for one answer, with the examples of the [field reference](fields.md). A class of
DeepEval or Azure AI Evaluation has the name of its class, its own needs and its own calls: see
[DeepEval](deepeval-metrics.md) and [Azure](azure-metrics.md). `toxicity` is better when low, and so is the part
`redundancy` of presets; DeepEval's `ToxicityMetric` is better when high.

| metric | entry | what it grades | needs | better when | calls |
|---|---|---|---|---|---|"""
_CLASSES = ("deepeval", "azure")
"""Types whose metrics are classes of an installed library, which may be missing where this page is built."""


def build_page() -> str:
    """Return the text of docs/metric-catalogue.md."""
    return "\n".join([INTRO, *_rows(), ""])


def _rows() -> Iterator[str]:
    for kind, metric in built_in().classes.items():
        examples = {
            name: found["examples"][0]
            for name, found in schema_of(metric)["properties"].items()
            if found.get("examples") and name not in ("name", "model", "judges", "probe", "scope")
        }
        if built_in().written(kind) == "text" and metric.SHORT in examples:
            examples[metric.SHORT] = str(examples[metric.SHORT])
        key = next((name for name in ("metric", "metric_type") if _choices(metric, name)), "")
        for choice in _choices(metric, key) if key else [""]:
            entry = {"type": kind, **({key: choice} if key else {})}
            config = None if kind in _CLASSES else _example(metric, entry, examples)
            yield _row(metric.of(entry), config, choice or kind, entry)


def _choices(metric: type[Metric], name: str) -> tuple[Any, ...]:
    """Return the names of metrics that a setting can have; empty if it has no fixed ones."""
    annotation = metric.model_fields[name].annotation if name in metric.model_fields else None
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def _example(metric: type[Metric], entry: dict[str, Any], examples: dict[str, Any]) -> Metric:
    """Return a metric with the examples of its required settings, and of others as far as it needs one."""
    required = {name: value for name, value in examples.items() if metric.model_fields[name].is_required()}
    written = required | ({"name": "example"} if metric.model_fields["name"].is_required() else {}) | entry
    for more in ({}, *({name: value} for name, value in examples.items())):
        try:
            return metric.of(entry).model_validate({**more, **written}, context={METRICS: built_in()})
        except ValidationError as error:
            problem = error
    raise problem


def _row(metric: type[Metric], config: Metric | None, name: str, entry: dict[str, Any]) -> str:
    written = ", ".join(f"{key}: {value}" for key, value in entry.items())
    about = _about(metric, name)
    if config is None:
        other = "those of the class"
        return cells(f"`{name}`", f"`{{{written}, metric: …}}`", about, other, "", other)
    needs: list[str] = sorted(config.needs) + (["tool calls"] if config.reads_tool_calls else [])
    needs += ["the base's answer"] if config.OF_PAIR else []
    calls: int | str = sum(each.calls + each.writes_steps for each in config.judge_calls())
    better = "low" if config.polarity == "minimize" else "high"
    if config.HAS_MEMBERS:
        needs, calls = ["what its metrics need"], "those of its metrics"
    return cells(f"`{name}`", f"`{{{written}}}`", about, ", ".join(needs), better, str(calls or ""))


def _about(metric: type[Metric], name: str) -> str:
    """Return the first sentence about a metric, from the docstring of the class or formula that computes it."""
    from holodeck_action.extensions.azure.metrics import EVALUATORS
    from holodeck_action.extensions.azure.standard import AzureMetric
    from holodeck_action.extensions.deepeval import rag
    from holodeck_action.metrics.retrieval import FORMULAS

    named: dict[str, Any] = {str(formula): function for formula, function in FORMULAS.items()}
    described = getattr(rag, f"{name.title().replace('_', '')}Evaluator", None) or named.get(name, metric)
    described = EVALUATORS[name] if issubclass(metric, AzureMetric) else described
    text = " ".join((described.__doc__ or "").partition("\n\n")[0].split())
    text = (text.partition("`: ")[2] or text).removeprefix("Return ")
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
