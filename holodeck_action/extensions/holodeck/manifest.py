"""The manifest of the extension `holodeck`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

_HERE = "holodeck_action.extensions.holodeck"
_NAMES = {
    "holodeck.lib.evaluators.base": {
        "BaseEvaluator": "holodeck_action.metrics.base:BaseEvaluator",
        "RetryConfig": "holodeck_action.metrics.base:RetryConfig",
        "EvaluationError": "holodeck_action.metrics.errors:EvaluationError",
        "EvaluationResult": "holodeck_action.metrics.result:EvaluationResult",
    },
    "holodeck.lib.evaluators.deepeval": {
        "DeepEvalError": "holodeck_action.metrics.errors:DeepEvalError",
        "ProviderNotSupportedError": "holodeck_action.metrics.errors:ProviderNotSupportedError",
        "EvaluationResult": "holodeck_action.metrics.result:EvaluationResult",
        "VALID_EVALUATION_PARAMS": "holodeck_action.suite.model.metric_base:VALID_EVALUATION_PARAMS",
    },
    "holodeck.lib.evaluators.deepeval.errors": {
        "DeepEvalError": "holodeck_action.metrics.errors:DeepEvalError",
        "ProviderNotSupportedError": "holodeck_action.metrics.errors:ProviderNotSupportedError",
    },
    "holodeck.lib.evaluators.deepeval.geval": {
        "VALID_EVALUATION_PARAMS": "holodeck_action.suite.model.metric_base:VALID_EVALUATION_PARAMS",
    },
    "holodeck.lib.evaluators.deterministic": {
        "EqualityEvaluator": "holodeck_action.metrics.deterministic:EqualityEvaluator",
        "NumericEvaluator": "holodeck_action.metrics.deterministic:NumericEvaluator",
    },
    "holodeck.lib.evaluators.nlp_metrics": {
        **{
            name: f"holodeck_action.metrics.text_similarity:{name}"
            for name in ("BLEUEvaluator", "METEOREvaluator", "ROUGEEvaluator")
        },
        "NLPMetricsError": "holodeck_action.metrics.errors:NLPMetricsError",
    },
    "holodeck.lib.evaluators.param_spec": {
        name: f"holodeck_action.metrics.params:{name}" for name in ("DEEPEVAL_PARAMS", "EvalParam", "ParamSpec")
    },
    "holodeck.models.evaluation": {
        "CodeMetric": "holodeck_action.metrics.code_grader:CodeMetric",
        "EvaluationConfig": f"{_HERE}.models:EvaluationConfig",
        "MetricType": f"{_HERE}.models:MetricType",
        "EvaluationMetric": "holodeck_action.metrics.standard:StandardMetric",
        "RAGMetricType": "holodeck_action.suite.model.providers:RAGMetricType",
        "VALID_EVALUATION_PARAMS": "holodeck_action.suite.model.metric_base:VALID_EVALUATION_PARAMS",
    },
    "holodeck.models.llm": {
        "LLMProvider": "holodeck_action.suite.model.providers:LLMProvider",
        "ProviderEnum": "holodeck_action.suite.model.providers:ProviderEnum",
    },
    "holodeck.models.observability": {
        name: f"{_HERE}.models:{name}"
        for name in ("AzureMonitorExporterConfig", "LogLevel", "OTLPProtocol", "PrometheusExporterConfig")
    },
    "holodeck.models.test_case": {
        **{
            name: f"{_HERE}.models:{name}"
            for name in ("ExpectedTool", "FuzzyMatcher", "LiteralMatcher", "RegexMatcher", "TestCase", "Turn")
        },
        "TestCaseModel": f"{_HERE}.models:TestCase",
        "FileInput": "holodeck_action.suite.model.cases:FileInput",
    },
}

EXTENSION = Extension(
    name="holodeck",
    help="HoloDeck's import names and its command `test`.",
    commands=(
        Command(
            name="test",
            help="Run, validate, view or optimize SUITE (default: agent.yaml) with HoloDeck's command `test`.",
            to=f"{_HERE}.command:test",
            group="Run",
        ),
    ),
    names=_NAMES,
)
