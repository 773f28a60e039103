# mypy: disable-error-code="union-attr,arg-type,no-untyped-call"
"""HoloDeck's models in Python code: cases, matchers and exporters, and what they refuse."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml

import holodeck_action.compat  # noqa: F401 - serves the names
from holodeck_action import read_record
from tests.commands.project import Project


def module(name: str) -> Any:
    """Return a module of models, for calls that a type checker refuses."""
    return importlib.import_module(f"holodeck.models.{name}")


pytestmark = pytest.mark.needs("holodeck", "tracing")


def test_a_case_made_with_matchers_is_judged_like_one_in_yaml(project: Project) -> None:
    from holodeck.models.test_case import ExpectedTool, FuzzyMatcher, LiteralMatcher, RegexMatcher, TestCase, Turn

    args = {"order": FuzzyMatcher(" a-17"), "count": LiteralMatcher(2), "day": RegexMatcher(pattern=r"\d+")}
    bought = ExpectedTool(name="buy", args=args)
    case = TestCase(name="a", turns=[Turn(input="Where?", ground_truth="done", expected_tools=["find", bought])])
    [turn] = case.turns or []
    assert [tool.name for tool in turn.expected_tools] == ["find", "buy"]
    project.suite([case.model_dump(mode="json", exclude_unset=True)])
    project.write(
        "shop.py",
        "def answer(messages):\n"
        "    calls = [{'name': 'find'}, {'name': 'buy', 'args': {'order': 'A-17', 'count': 2.0, 'day': '12'}}]\n"
        "    return {'response': 'done', 'tool_invocations': calls}\n",
    )
    finished = project.run("run", "agent.yaml", "--output-dir", "out", "--target", "python:shop:answer")
    assert finished.code == 0, finished.stderr
    record = read_record(project.folder / "out")
    assertions = record.cases[0].trials[0].turns[0].tool_assertions
    assert [found.matched for found in assertions] == [True, True]


def test_settings_of_exporters_are_those_of_a_suite() -> None:
    from holodeck.models.observability import (
        ExportersConfig,
        LogLevel,
        LogsConfig,
        ObservabilityConfig,
        OTLPExporterConfig,
        OTLPProtocol,
    )

    otlp = OTLPExporterConfig(endpoint="http://127.0.0.1:4318", protocol=OTLPProtocol.HTTP)
    found = ObservabilityConfig(
        enabled=True, exporters=ExportersConfig(otlp=otlp), logs=LogsConfig(level=LogLevel.WARNING)
    )
    written: dict[str, Any] = yaml.safe_load(
        "{enabled: true, exporters: {otlp: {endpoint: 'http://127.0.0.1:4318', protocol: http}}, "
        "logs: {level: WARNING}}"
    )
    assert found == ObservabilityConfig.model_validate(written)


def test_what_no_setting_stands_for_is_refused_with_the_reason() -> None:
    evaluation, observability, cases = (module(name) for name in ("evaluation", "observability", "test_case"))
    refusals = [
        (
            lambda: observability.PrometheusExporterConfig(port=8889),
            r"PrometheusExporterConfig\(port\)",
        ),
        (lambda: observability.AzureMonitorExporterConfig(), "send the spans by otlp"),
        (
            lambda: cases.ExpectedTool(name="a", args={"b": cases.RegexMatcher(pattern="(")}),
            "args.b: the pattern does not compile",
        ),
        (lambda: cases.Turn(input="x", expected_tools=[" "]), r"expected_tools\[0\]: must not be blank"),
        (
            lambda: evaluation.EvaluationConfig(metrics=[{"type": "standard", "metric": "blue"}]),
            r'metrics\[0\]: metric: "blue"',
        ),
        (
            lambda: evaluation.EvaluationConfig(metrics=[{"type": "standrad"}]),
            r"metrics\[0\]: its type must be one of standard, ",
        ),
    ]
    for work, sentence in refusals:
        with pytest.raises(ValueError, match=sentence):
            work()
