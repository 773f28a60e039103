"""Messages for validation errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.base_sources import SOURCE_PATTERN
from holodeck_action.suite.model.patterns import RESPONSE_PATH
from holodeck_action.suite.model.schema_marks import KnownMetrics
from holodeck_action.suite.synonyms import field_meant_by
from holodeck_action.text.plain import cut


class Finding(Struct, frozen=True):
    """One validation error.

    Attributes:
        kind: pydantic's type of the error.
        text: pydantic's message, or this package's message if the error is custom.
        context: values for the message.
        path: path of the invalid value in the data.
        schema: core schema of the expected value.
        value: the actual value.
        hidden: whether the value is a secret and must not be shown.
        metrics: the available metrics.
    """

    kind: str
    text: str
    context: Mapping[str, Any]
    path: tuple[str | int, ...]
    schema: Mapping[str, Any]
    value: Any
    hidden: bool
    metrics: KnownMetrics | None = None


_PATTERNS = {
    r"\S": "must not be blank",
    r"^[0-9A-Za-z_]+$": "may hold only letters, digits and underscores",
    r"^[\w.]+:\w+$": "must be module.path:callable, such as graders.refunds:check",
    RESPONSE_PATH: "must be keys joined by dots with list positions in brackets, such as result.items[0].total",
    SOURCE_PATTERN: "must be file:PATH, artifact, artifact:NAME, branch:NAME or merge-base",
}
_MIGRATED_KEYS = {
    "organization": "the OpenAI client reads OPENAI_ORG_ID from the environment",
    "subagents": "it was renamed to agents",
    "tool_filtering": "it was removed from the format",
}

_OPTIONS_ONLY = frozenset(
    ("allow_empty", "allow_path", "allow_plain_http", "allow_unsafe_forks", "cluster_insecure", "env_file")
)
"""Options that lift a restriction. Files of the checkout must not set them."""

_TRAJECTORY = (
    'did you mean "expected_trajectory"? It belongs in holodeck-action.yaml, under cases.NAME; '
    "the target reports the calls that an agent makes"
)
# Names of case inputs in gllm-evals.
_ADDED_TO_CASES = ("tags", "weight", "repeat", "min_pass", "parameters", "retrieval", "expected_trajectory")
_KEYS_OF_CASES = {
    **dict.fromkeys(_ADDED_TO_CASES, "it goes to holodeck-action.yaml, `cases:`, under the name of the case"),
    "id": "a case has its id from its name; what is added to it goes to holodeck-action.yaml, `cases:`",
    "agent_trajectory": _TRAJECTORY,
    "expected_agent_trajectory": _TRAJECTORY,
}

_NO_BATCHES = "judges are called one by one, without batch jobs of providers: leave it out"
# Names of metric options in gllm-evals: the corresponding key here, and the hint.
_KEYS_OF_METRICS = {
    "batch": ("type", _NO_BATCHES),
    "batch_status_check_interval": ("type", _NO_BATCHES),
    "batch_max_iterations": ("type", _NO_BATCHES),
    "models": ("judges", "several grading models go under judges.models"),
    "aggregation_method": ("judges", "it belongs under judges.aggregation"),
    "max_concurrent_judges": ("judges", "it belongs under judges.max_concurrent_judges"),
    "fallback_models": ("judges", "they belong under judges.fallback_models"),
    "available_tools": (
        "should_exact_match",
        "they would need a judge, and this metric has none: type trajectory_accuracy has one",
    ),
    "run_parallel": ("parallel", "it is called parallel"),
    "enabled_metrics": ("metrics", "metrics.NAME.enabled: false leaves one out"),
    "generation_evaluator": ("metrics", "it belongs under metrics.generation"),
    "metrics_aggregator": (
        "metrics",
        "the way scores are combined is fixed; for your own code, use a metric of type code",
    ),
}


def sentence(finding: Finding) -> str:
    """Return a sentence with the defect, the allowed values and, unless it is secret, the actual value."""
    build = _SENTENCES.get(finding.kind)
    if build is not None:
        return build(finding)
    text = finding.text
    # A reason may quote the value.
    return text.partition(":")[0] if finding.hidden and "reason" in finding.context else text


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return `, did you mean "x"?` if an allowed word is similar, else an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(allowed), 1)
    return f", did you mean {quoted(close[0])}?" if close else ""


def _choice(finding: Finding, allowed: list[str]) -> str:
    options = f"(allowed: {', '.join(allowed)})"
    if finding.hidden or not isinstance(finding.value, str):
        return f"is not one of the allowed values {options}"
    return f"{quoted(finding.value)} is not allowed{did_you_mean(finding.value, allowed)} {options}"


def _literal(finding: Finding) -> str:
    if finding.value == "output" and finding.schema["expected"] == ["input_parameters"]:
        return "output cannot be compared: expected_tools do not describe results (allowed: input_parameters)"
    if finding.path[-1:] == ("args",) and finding.value == "matchers":
        return "matchers is now called subset: write `args: subset`, or leave it out (allowed: exact, subset, ignore)"
    if finding.path[-1:] == ("metric",) and not finding.hidden:
        name = finding.value
        if name == "safety":
            return (
                "safety is not supported: write `{type: deepeval, metric: ToxicityMetric}`, or `type: geval` with "
                "your own criteria"
            )
        if finding.metrics is not None and isinstance(name, str) and name in finding.metrics.classes:
            return f"{name} is a type: write `type: {name}`"
        for kind, key in finding.metrics.types_measuring(name) if finding.metrics is not None else ():
            return f"{name} is a {kind} metric: write `type: {kind}` and `{key}: {name}`"
    return _choice(finding, [str(value) for value in finding.schema["expected"]])


def _union_tag(finding: Finding) -> str:
    allowed = [str(tag) for tag in finding.schema["choices"]]
    if isinstance(finding.value, dict):
        if "type" in finding.value:
            return f"must be text (allowed: {', '.join(allowed)})"
        return f"type is missing: every entry needs a type (allowed: {', '.join(allowed)})"
    if isinstance(finding.value, str) and finding.path[-1:] == ("type",):
        if finding.value in _FOREIGN_CHECKS and not finding.hidden:
            return f"{finding.value} is not a type: write {_FOREIGN_CHECKS[finding.value]}"
        return _choice(finding, allowed)
    return "must be a mapping"


_FOREIGN_CHECKS = {
    "icontains": "`contains` with `case_insensitive: true`",
    "icontains-any": "`contains_any` with `case_insensitive: true`",
    "icontains-all": "`contains_all` with `case_insensitive: true`",
    "is-json": "`json`",
    "is_json": "`json`",
    "contains-json": "`json` with `fenced: true`",
    "equals": "`{type: standard, metric: equality}` among the metrics",
    "exact_match": "`{type: standard, metric: equality}` among the metrics",
    "llm-rubric": "`{type: geval, criteria: …}` among the metrics",
    "llm_rubric": "`{type: geval, criteria: …}` among the metrics",
    "model-graded-closedqa": "`{type: geval, criteria: …}` among the metrics",
    "python": "`{type: code, grader: module:function}` among the metrics",
    "javascript": "`{type: code, grader: module:function}`, in Python, among the metrics",
}
"""For each check of another program, by its name in that program, the equivalent check of this format."""


def _check(finding: Finding) -> str:
    allowed = [*(finding.metrics.allowed("expect") if finding.metrics is not None else ())]
    options = f"(allowed: {', '.join(allowed)})"
    if not isinstance(finding.value, Mapping) or not finding.value:
        return f"must be a mapping whose first key is the type of the check, such as `contains: Thursday` {options}"
    kind = str(next(iter(finding.value)))
    if kind in _FOREIGN_CHECKS:
        return f"{quoted(kind)} is not a check: write {_FOREIGN_CHECKS[kind]} {options}"
    if finding.metrics is not None and kind in finding.metrics.classes:
        return f"{quoted(kind)} cannot be in expect: write it as an entry of evaluations {options}"
    for entry, key in finding.metrics.types_measuring(kind) if finding.metrics is not None else ():
        return f"{quoted(kind)} cannot be in expect: write `{{type: {entry}, {key}: {kind}}}` in evaluations {options}"
    guess = did_you_mean(kind.replace("-", "_"), allowed)
    return f"{quoted(kind)} is not a check{guess} {options}"


def _unknown_key(finding: Finding) -> str:
    key = str(finding.path[-1])
    allowed = sorted(finding.schema["fields"])
    options = f"(allowed: {', '.join(allowed)})"
    if (option := key.replace("-", "_")) in _OPTIONS_ONLY:
        only = f"this setting exists only as the option --{option.replace('_', '-')}"
        return f"unknown key: {only}; in a workflow, add it as a line of the input `args` {options}"
    if key in _MIGRATED_KEYS:
        return f"unknown key: {_MIGRATED_KEYS[key]} {options}"
    if (told := _foreign_option_hint(key, allowed)) is not None:
        return f"unknown key: {told} {options}"
    if key in _KEYS_OF_CASES and {"ground_truth", "expected_trajectory"} & {*allowed}:
        return f"unknown key: {_KEYS_OF_CASES[key]} {options}"
    if finding.path == ("evaluations", "summary"):
        return f"unknown key: a summary is a gate: write it in holodeck-action.yaml as gates.summary {options}"
    meant = field_meant_by(key) if {"input", "ground_truth"} <= {*allowed} else None
    return f"unknown key{did_you_mean(meant if meant and meant in allowed else key, allowed)} {options}"


def _foreign_option_hint(key: str, allowed: list[str]) -> str | None:
    """Return a hint about `key` and its place in this format if it is an option of other tools' metrics, else None."""
    if key.endswith("_metric"):
        place, told = "metrics", f"it belongs under metrics.{key.removesuffix('_metric')}"
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


def _fixed_sentence(text: str) -> Callable[[Finding], str]:
    return lambda finding: text


_mapping, _list = _fixed_sentence("must be a mapping"), _fixed_sentence("must be a list")
_number, _whole = _fixed_sentence("must be a number"), _fixed_sentence("must be a whole number")

_SENTENCES: dict[str, Callable[[Finding], str]] = {
    "missing": _fixed_sentence("is missing (required)"),
    "extra_forbidden": _unknown_key,
    "literal_error": _literal,
    "union_tag_invalid": _union_tag,
    "union_tag_not_found": _union_tag,
    "expect": _check,
    "model_type": _mapping,
    "model_attributes_type": _mapping,
    "dict_type": _mapping,
    "list_type": _list,
    "tuple_type": _list,
    "string_type": _text,
    "string_pattern_mismatch": _pattern,
    "string_too_short": _fixed_sentence("must not be empty"),
    "float_type": _number,
    "int_type": _whole,
    "int_from_float": _whole,
    "int_parsing_size": _whole,
    "finite_number": _fixed_sentence("must be a finite number"),
    **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), _range),
    "too_short": _fixed_sentence("must have at least one entry"),
    "too_long": _too_long,
}
