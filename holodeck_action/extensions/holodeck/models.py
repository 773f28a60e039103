"""The classes of HoloDeck's package `holodeck.models`, for Python code that creates cases and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError, PydanticKnownError

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.agent import EvaluationConfig as SuiteEvaluations
from holodeck_action.suite.model.base import ArgumentError
from holodeck_action.suite.model.cases import CaseEntry, TurnEntry
from holodeck_action.suite.model.expected_tools import ExpectedToolEntry, ExpectedToolsField, MatcherValue
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.validation import argument_errors


def _read_metric(value: Any) -> Metric:
    types = built_in()
    try:
        return types.read("suite", value)
    except PydanticKnownError:
        known = ", ".join(types.classes)
        raise PydanticCustomError("metric", "its type must be one of {types}", {"types": known}) from None
    except ValidationError as error:
        refused = argument_errors(types.classes[value["type"]].of(value), value, error)
        raise PydanticCustomError("metric", "{refused}", {"refused": refused}) from None


MetricType = Annotated[Metric, PlainValidator(_read_metric)]
"""An entry of `evaluations.metrics` (`holodeck.models.evaluation.MetricType`)."""


class EvaluationConfig(SuiteEvaluations):
    """`evaluations` of agent.yaml (`holodeck.models.evaluation.EvaluationConfig`)."""

    metrics: Annotated[list[MetricType], Field(min_length=1)]


class LiteralMatcher:
    """A matcher in `ExpectedTool.args` that accepts an argument equal to a value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def suite_value(self) -> Any:
        """The matcher as written in a suite file."""
        return self.value


class _PatternMatcher:
    KEY = ""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @property
    def suite_value(self) -> dict[str, str]:
        """The matcher as written in a suite file."""
        return {self.KEY: self.pattern}


class FuzzyMatcher(_PatternMatcher):
    """A matcher that accepts an argument equal to a string, ignoring case, white space and separators."""

    KEY = "fuzzy"


class RegexMatcher(_PatternMatcher):
    """A matcher that accepts an argument if a regular expression matches all of it."""

    KEY = "regex"


def _suite_values(args: Any) -> Any:
    if not isinstance(args, Mapping):
        return args
    matchers = (LiteralMatcher, _PatternMatcher)
    return {name: value.suite_value if isinstance(value, matchers) else value for name, value in args.items()}


class ExpectedTool(ExpectedToolEntry):
    """An expected tool call (`holodeck.models.test_case.ExpectedTool`); values in `args` may be matchers."""

    args: Annotated[dict[str, MatcherValue] | None, BeforeValidator(_suite_values)] = None


def _expected_tools(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [ExpectedTool(name=item) if isinstance(item, str) and item.strip() else item for item in value]


ExpectedTools = Annotated[ExpectedToolsField | None, BeforeValidator(_expected_tools)]


class Turn(TurnEntry):
    """A turn of a case (`holodeck.models.test_case.Turn`); a tool given by name becomes an `ExpectedTool`."""

    expected_tools: ExpectedTools = None


class TestCase(CaseEntry):
    """A case (`holodeck.models.test_case.TestCase`)."""

    __test__ = False

    expected_tools: ExpectedTools = None
    turns: Annotated[list[Turn], Field(min_length=1)] | None = None  # type: ignore[assignment] # a list of its subclass


class LogLevel(StrEnum):
    """The values of `level` in `LogsConfig`."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class OTLPProtocol(StrEnum):
    """The values of `protocol` in `OTLPExporterConfig`."""

    GRPC = "grpc"
    HTTP = "http"


class _Unsupported:
    REASON = ""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        raise ArgumentError(f"{type(self).__name__}({', '.join(settings)}) has no effect here: {self.REASON}")


class PrometheusExporterConfig(_Unsupported):
    """Raises on creation, because only spans are exported."""

    REASON = "only spans are exported, by otlp and console; leave prometheus out"


class AzureMonitorExporterConfig(_Unsupported):
    """Raises on creation: send spans to Azure Monitor over OTLP instead."""

    REASON = "send the spans by otlp to a collector that forwards them to Azure Monitor"
