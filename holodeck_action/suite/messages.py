"""Sentences for what a model refuses."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.base_sources import SOURCES
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.suite.model.patterns import RESPONSE_PATH
from holodeck_action.text.plain import cut


class Finding(Struct, frozen=True):
    """One refusal.

    Attributes:
        kind: pydantic's type of the error.
        text: its message; ours for custom errors.
        context: its values.
        path: where it is, in the data.
        schema: core schema of what is expected there.
        value: what is there.
        hidden: the value is a secret and must not be shown.
        metrics: the metrics that there are.
    """

    kind: str
    text: str
    context: Mapping[str, Any]
    path: tuple[str | int, ...]
    schema: Mapping[str, Any]
    value: Any
    hidden: bool
    metrics: MetricTypes | None = None


_PATTERNS = {
    r"\S": "must not be blank",
    r"^[0-9A-Za-z_]+$": "may hold only letters, digits and underscores",
    r"^[\w.]+:\w+$": "must be module.path:callable, such as graders.refunds:check",
    RESPONSE_PATH: "must be keys joined by dots with list positions in brackets, such as result.items[0].total",
    SOURCES: "must be file:PATH, artifact, artifact:NAME, branch:NAME or merge-base",
}
_MIGRATED_KEYS = {
    "organization": "the OpenAI client reads OPENAI_ORG_ID from the environment",
    "subagents": "it was renamed to agents",
    "tool_filtering": "it was removed from the format",
}

_TRAJECTORY = (
    'did you mean "expected_trajectory"? It stands in holodeck-action.yaml, under cases.NAME; '
    "the calls that an agent makes are the target's to report"
)
# What gllm-evals calls inputs of cases.
_KEYS_OF_CASES = {"agent_trajectory": _TRAJECTORY, "expected_agent_trajectory": _TRAJECTORY}

_NO_BATCHES = "judges are asked one by one, batch jobs of providers are not used: leave it out"
# What gllm-evals calls options of metric entries: the key that has them here, and what to say.
_KEYS_OF_METRICS = {
    "batch": ("type", _NO_BATCHES),
    "batch_status_check_interval": ("type", _NO_BATCHES),
    "batch_max_iterations": ("type", _NO_BATCHES),
    "models": ("judges", "several models that grade stand under judges.models"),
    "aggregation_method": ("judges", "it stands under judges.aggregation"),
    "max_concurrent_judges": ("judges", "it stands under judges.max_concurrent_judges"),
    "fallback_models": ("judges", "they stand under judges.fallback_models"),
    "available_tools": (
        "should_exact_match",
        "a model would have to be asked about them, and here none is: type trajectory_accuracy asks one",
    ),
    "run_parallel": ("parallel", "it is called parallel"),
    "enabled_metrics": ("metrics", "metrics.NAME.enabled: false leaves one out"),
    "generation_evaluator": ("metrics", "it stands under metrics.generation"),
    "metrics_aggregator": ("metrics", "how scores become one is fixed; code of your own is a metric of type code"),
}


def sentence(finding: Finding) -> str:
    """What is wrong and what is allowed, without the value where it is hidden."""
    build = _SENTENCES.get(finding.kind)
    if build is not None:
        return build(finding)
    text = finding.text
    # A reason may quote the value.
    return text.partition(":")[0] if finding.hidden and "reason" in finding.context else text


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """`, did you mean "x"?` when one of the allowed words is close, else nothing."""
    close = difflib.get_close_matches(word, list(allowed), 1)
    return f", did you mean {quoted(close[0])}?" if close else ""


def _choice(finding: Finding, allowed: list[str]) -> str:
    options = f"(allowed: {', '.join(allowed)})"
    if finding.hidden or not isinstance(finding.value, str):
        return f"is not one of the allowed values {options}"
    return f"{quoted(finding.value)} is not allowed{did_you_mean(finding.value, allowed)} {options}"


def _literal(finding: Finding) -> str:
    if finding.value == "output" and finding.schema["expected"] == ["input_parameters"]:
        return "output cannot be compared: expected_tools say nothing about results (allowed: input_parameters)"
    if finding.path[-1:] == ("args",) and finding.value == "matchers":
        return "matchers is now called subset: write args: subset, or leave it out (allowed: exact, subset, ignore)"
    if finding.path[-1:] == ("metric",) and not finding.hidden:
        name = finding.value
        if name == "safety":
            return "safety is not supported: use type geval with criteria that say what a safe answer is"
        for kind, key in finding.metrics.measuring(name) if finding.metrics is not None else ():
            return f"{name} is a {kind} metric: write type: {kind} and {key}: {name}"
    return _choice(finding, [str(value) for value in finding.schema["expected"]])


def _union_tag(finding: Finding) -> str:
    allowed = [str(tag) for tag in finding.schema["choices"]]
    if isinstance(finding.value, dict):
        if "type" in finding.value:
            return f"must be text (allowed: {', '.join(allowed)})"
        return f"type is missing: every entry names its type (allowed: {', '.join(allowed)})"
    if isinstance(finding.value, str) and finding.path[-1:] == ("type",):
        return _choice(finding, allowed)
    return "must be a mapping"


def _unknown_key(finding: Finding) -> str:
    key = str(finding.path[-1])
    allowed = sorted(finding.schema["fields"])
    options = f"(allowed: {', '.join(allowed)})"
    if key in _MIGRATED_KEYS:
        return f"unknown key: {_MIGRATED_KEYS[key]} {options}"
    if (told := _place_in_metric(key, allowed)) is not None:
        return f"unknown key: {told} {options}"
    if key in _KEYS_OF_CASES and {"ground_truth", "expected_trajectory"} & {*allowed}:
        return f"unknown key: {_KEYS_OF_CASES[key]} {options}"
    if finding.path == ("evaluations", "summary"):
        return f"unknown key: a summary is a gate: write it in holodeck-action.yaml as gates.summary {options}"
    return f"unknown key{did_you_mean(key, allowed)} {options}"


def _place_in_metric(key: str, allowed: list[str]) -> str | None:
    """Say where a metric entry has an option that other tools call so; None when it has none like it."""
    if key.endswith("_metric"):
        place, told = "metrics", f"it stands under metrics.{key.removesuffix('_metric')}"
    else:
        place, told = _KEYS_OF_METRICS.get(key, ("", ""))
    return told if place in allowed and "retry_on_failure" in allowed else None


def _range(finding: Finding) -> str:
    schema = finding.schema
    low = f"{schema['ge']:g} or more" if "ge" in schema else f"above {schema['gt']:g}" if "gt" in schema else ""
    high = f"{schema['le']:g}" if "le" in schema else ""
    allowed = f"{schema['ge']:g} to {high}" if high and "ge" in schema else low or f"at most {high}"
    value = "the value" if finding.hidden else cut(f"{finding.value}", 40)
    return f"{value} is out of range (allowed: {allowed})"


def _pattern(finding: Finding) -> str:
    pattern = finding.context["pattern"]
    return _PATTERNS.get(pattern, f"must match {pattern}")


def _too_long(finding: Finding) -> str:
    return f"has too many entries (allowed: at most {finding.context['max_length']})"


def _text(finding: Finding) -> str:
    if finding.value is None:
        return "is empty (required: text)"
    if isinstance(finding.value, dict | list):
        return "must be text"
    return "must be text: put the value in quotes"


def _says(text: str) -> Callable[[Finding], str]:
    return lambda finding: text


_mapping, _list = _says("must be a mapping"), _says("must be a list")
_number, _whole = _says("must be a number"), _says("must be a whole number")

_SENTENCES: dict[str, Callable[[Finding], str]] = {
    "missing": _says("is missing (required)"),
    "extra_forbidden": _unknown_key,
    "literal_error": _literal,
    "union_tag_invalid": _union_tag,
    "union_tag_not_found": _union_tag,
    "model_type": _mapping,
    "model_attributes_type": _mapping,
    "dict_type": _mapping,
    "list_type": _list,
    "tuple_type": _list,
    "string_type": _text,
    "string_pattern_mismatch": _pattern,
    "string_too_short": _says("must not be empty"),
    "float_type": _number,
    "int_type": _whole,
    "int_from_float": _whole,
    "int_parsing_size": _whole,
    "finite_number": _says("must be a finite number"),
    **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), _range),
    "too_short": _says("must have at least one entry"),
    "too_long": _too_long,
}
