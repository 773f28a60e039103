"""Converts DeepEval's metrics to metrics of this package, many of which run DeepEval itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holodeck_action.extensions.importers.deepeval.recording import Constructed, Member
from holodeck_action.extensions.importers.grader_file import Check, Counterpart
from holodeck_action.extensions.importers.import_report import Outcome
from holodeck_action.extensions.importers.source import UnfitError
from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.base import ArgumentError
from holodeck_action.text.lazy_patterns import lazy_pattern

_RAG = {
    "AnswerRelevancyMetric": "answer_relevancy",
    "FaithfulnessMetric": "faithfulness",
    "ContextualPrecisionMetric": "contextual_precision",
    "ContextualRecallMetric": "contextual_recall",
    "ContextualRelevancyMetric": "contextual_relevancy",
}
_PARAMS = {
    "INPUT": "input",
    "ACTUAL_OUTPUT": "actual_output",
    "EXPECTED_OUTPUT": "expected_output",
    "RETRIEVAL_CONTEXT": "retrieval_context",
}
_IGNORED_ARGUMENTS = frozenset(("async_mode", "verbose_mode", "flaky", "include_reason", "truths_extraction_limit"))
"""Arguments with little or no effect on the verdict."""
HINTS: Mapping[str, str] = {
    "HallucinationMetric": "it needs a context: use type deepeval with files on the case, or faithfulness",
    "RoleAdherenceMetric": "write {type: deepeval, metric: RoleAdherenceMetric, options: {chatbot_role: …}}",
    "ConversationalDAGMetric": "decide in a code grader",
    "DAGMetric": "decide in a code grader",
    "RagasMetric": "list the metrics of retrieved texts one by one",
}
_INVERTED = frozenset(("BiasMetric", "MisuseMetric", "ToxicityMetric"))
"""Metrics for which low scores were good before DeepEval 4.3."""
_METRIC_NAMES = lazy_pattern("[A-Z][A-Za-z]*Metric|ConversationalGEval")


class MetricCounterpart(Counterpart, frozen=True):
    """The metric that replaces a metric of DeepEval, and the case fields that the replacement requires."""

    needs: frozenset[str] = frozenset()


def convert_metric(value: Any, title: str, stem: str, expected: Any) -> MetricCounterpart:
    """Convert a metric.

    Args:
        value: the metric as recorded.
        title: position and name of the metric, for the grader's docstring.
        stem: name of the grader, if the metric becomes a grader.
        expected: expected output of the case, or None.
    """
    if not isinstance(value, Constructed):
        return MetricCounterpart(
            Outcome.MISSING, note="an expression whose value is known only at run time; write its metric"
        )
    name = value.kind
    try:
        if value.own:
            raise UnfitError("a custom metric; write a code grader that does the same")
        given = _arguments(value)
        if name == "GEval":
            return _convert_geval(given)
        if name in _RAG:
            made = {"type": "rag", "metric_type": _RAG[name], "threshold": _threshold(given, 0.5), **_judge(given)}
            return _same_metric(_RAG[name], made, given)
        if name == "ToolCorrectnessMetric":
            return _convert_tools(given)
        if name == "ExactMatchMetric":
            if not isinstance(expected, str):
                raise UnfitError("the case has no expected_output")
            return MetricCounterpart(Outcome.GRADER, check=Check(stem, title, "equals_trimmed", expected.strip()))
        if name == "PatternMatchMetric":
            return _convert_pattern(given, title, stem)
        if name not in HINTS and _METRIC_NAMES.fullmatch(name):
            return _convert_class(name, given)
        raise UnfitError(HINTS.get(name, f"{name} is not known; use geval, or write a code grader"))
    except UnfitError as error:
        return MetricCounterpart(Outcome.MISSING, note=str(error))


def _arguments(value: Constructed) -> dict[str, Any]:
    """Return the arguments of a metric by name. A model that is not a text has the value None.

    Raises:
        UnfitError: the value of a relevant argument is known only at run time.
    """
    given: dict[str, Any] = {}
    for name, argument in value.given.items():
        if name == "evaluation_params":
            if not isinstance(argument, list) or not all(isinstance(each, Member) for each in argument):
                raise UnfitError("its evaluation_params are known only at run time")
            given[name] = [each.name for each in argument]
        elif name == "model":
            given[name] = argument if isinstance(argument, str) else None
        elif name not in _IGNORED_ARGUMENTS and argument is not None:
            given[name] = value.known(name)
    return given


def _threshold(arguments: Mapping[str, Any], default: float, strict: float = 1.0) -> float:
    threshold = arguments.get("threshold", default)
    if arguments.get("strict_mode") is True:
        return strict
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise UnfitError("its threshold is not a number from 0 to 1")
    return float(threshold)


def _judge(arguments: Mapping[str, Any]) -> dict[str, Any]:
    model = arguments.get("model")
    known = isinstance(model, str) and re.match(r"(gpt-|o\d|chatgpt-)", model)
    return {"model": {"provider": "openai", "name": model}} if known else {}


def _judge_note(arguments: Mapping[str, Any]) -> str:
    return "the suite's own model judges" if "model" in arguments and not _judge(arguments) else ""


def _check_arguments(arguments: Mapping[str, Any], *allowed: str) -> None:
    foreign = sorted(set(arguments) - {"threshold", "strict_mode", "model", *allowed})
    if foreign:
        raise UnfitError(f"its argument {foreign[0]} has no equivalent")


def _same_metric(
    name: str, current: Mapping[str, Any], arguments: Mapping[str, Any], *allowed: str
) -> MetricCounterpart:
    _check_arguments(arguments, *allowed)
    return MetricCounterpart(Outcome.METRIC, name, current, note=_judge_note(arguments))


def _convert_class(name: str, arguments: Mapping[str, Any]) -> MetricCounterpart:
    """Return the metric of `type: deepeval` for a class.

    Raises:
        UnfitError: a suite cannot use the class with these arguments.
    """
    options = {key: value for key, value in arguments.items() if key not in ("threshold", "model")}
    made: dict[str, Any] = {"type": "deepeval", "metric": name}
    if "threshold" in arguments:
        made["threshold"] = _threshold({"threshold": arguments["threshold"]}, 0.5)
    if options:
        made["options"] = options
    made |= _judge(arguments)
    if (kind := built_in().classes.get("deepeval")) is not None:
        try:
            kind(**made)
        except ArgumentError as error:
            # The class reads what a suite does not have, such as recorded speech, or an argument is missing.
            raise UnfitError(str(error)) from None
    notes = [_judge_note(arguments)]
    if name in _INVERTED and "threshold" in arguments:
        notes.append("since DeepEval 4.3 high scores are good: check the threshold")
    return MetricCounterpart(Outcome.METRIC, name, made, note="; ".join(filter(None, notes)))


def _convert_geval(arguments: Mapping[str, Any]) -> MetricCounterpart:
    params = arguments.get("evaluation_params") or []
    foreign = [name for name in params if name not in _PARAMS]
    if foreign:
        raise UnfitError(f"its evaluation_params name {foreign[0]}, which an imported judge does not receive")
    if "ACTUAL_OUTPUT" not in params:
        raise UnfitError("its judge does not see the answer")
    if "rubric" in arguments:
        raise UnfitError("it has a rubric; write the levels into evaluation_steps, or use a preset")
    steps = arguments.get("evaluation_steps")
    if steps is not None and not (isinstance(steps, list) and all(isinstance(step, str) for step in steps)):
        raise UnfitError("its evaluation_steps are not a list of strings")
    criteria = arguments.get("criteria") or " ".join(steps or ())
    if not criteria or not isinstance(arguments.get("name"), str):
        raise UnfitError("it has no name, or neither criteria nor steps")
    made: dict[str, Any] = {"type": "geval", "name": arguments["name"], "criteria": criteria}
    if steps:
        made["evaluation_steps"] = steps
    made["evaluation_params"] = [_PARAMS[name] for name in params]
    made["threshold"] = _threshold(arguments, 0.5)
    if arguments.get("strict_mode") is True:
        made["strict_mode"] = True
    return _same_metric(
        "geval", {**made, **_judge(arguments)}, arguments, "name", "criteria", "evaluation_steps", "evaluation_params"
    )


def _convert_tools(arguments: Mapping[str, Any]) -> MetricCounterpart:
    if "available_tools" in arguments:
        raise UnfitError("its argument available_tools has no equivalent")
    made: dict[str, Any] = {"type": "deepeval_tool_correctness", "threshold": _threshold(arguments, 0.5)}
    params = arguments.get("evaluation_params") or []
    if "OUTPUT" in params:
        raise UnfitError("results of calls are not compared")
    if "INPUT_PARAMETERS" in params:
        made["evaluation_params"] = ["input_parameters"]
    for key in ("should_exact_match", "should_consider_ordering"):
        if arguments.get(key) is True:
            made[key] = True
    allowed = ("evaluation_params", "should_exact_match", "should_consider_ordering")
    became = _same_metric("deepeval_tool_correctness", made, arguments, *allowed)
    return MetricCounterpart(became.outcome, became.name, became.metric, needs=frozenset(("expected_tools",)))


def _convert_pattern(arguments: Mapping[str, Any], title: str, stem: str) -> MetricCounterpart:
    pattern = arguments.get("pattern")
    _check_arguments(arguments, "pattern", "ignore_case")
    try:
        re.compile(str(pattern).strip())
    except re.error as error:
        raise UnfitError(f"its pattern does not compile: {error}") from None
    options = {"ignore_case": True} if arguments.get("ignore_case") is True else {}
    return MetricCounterpart(Outcome.GRADER, check=Check(stem, title, "full_match", str(pattern).strip(), options))
