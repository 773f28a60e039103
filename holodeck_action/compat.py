"""The import names of HoloDeck's and gllm-evals' documents, served from our own modules when these are not installed.

Code graders and evaluators written for them then work unchanged. Worker processes have the names from the start; a
plain script says `import holodeck_action.compat` first, which is all it takes. Nothing of ours is imported before a
name is used.

Sources of the names: HoloDeck's evaluations guide and evaluation API; gllm-evals' page of evaluators.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_ROOT = "holodeck"

_GLLM_ROOT = "gllm_evals"

_EVALUATORS = "holodeck_action.metrics"
_AZURE = "holodeck_action.extensions.azure"
_GLLM = "holodeck_action.extensions.gllm"
_DEEPEVAL = "holodeck_action.extensions.deepeval"

_GLLM_EVALUATORS = {
    "BaseEvaluator": f"{_GLLM}.base:BaseEvaluator",
    **{
        name: f"{_GLLM}.evaluators:{name}"
        for name in (
            "AgentEvaluator",
            "BaseGenerationEvaluator",
            "ClassicalRetrievalEvaluator",
            "CompositeEvaluator",
            "GEvalGenerationEvaluator",
            "LMBasedRetrievalEvaluator",
            "QTEvaluator",
            "SummarizationEvaluator",
        )
    },
}
_GLLM_METRICS = {"BaseMetric": f"{_GLLM}.graded:BaseMetric"} | {
    name: f"{_GLLM}.metrics:{name}"
    for name in (
        "ClassicalRetrievalMetric",
        "DeepEvalContextualPrecisionMetric",
        "DeepEvalContextualRecallMetric",
        "DeepEvalToolCorrectnessMetric",
        "GEvalCoherenceMetric",
        "GEvalCompletenessMetric",
        "GEvalConsistencyMetric",
        "GEvalFluencyMetric",
        "GEvalGroundednessMetric",
        "GEvalRedundancyMetric",
        "GEvalRefusalMetric",
        "GEvalRelevanceMetric",
        "LangChainAgentTrajectoryAccuracyMetric",
    )
}
_TOOL_USE = "gllm_evals.metrics.tool_use"

NAMES: Mapping[str, Mapping[str, str]] = {
    _GLLM_ROOT: {},
    "gllm_evals.constant": {name: f"{_GLLM}.judging:{name}" for name in ("AggregationMethod", "DefaultValues")},
    "gllm_evals.evaluator": _GLLM_EVALUATORS,
    "gllm_evals.metrics": {**_GLLM_METRICS, "MetricsAggregator": f"{_GLLM}.base:MetricsAggregator"},
    _TOOL_USE: {},
    f"{_TOOL_USE}.deepeval_tool_correctness": {
        "DeepEvalToolCorrectnessMetric": _GLLM_METRICS["DeepEvalToolCorrectnessMetric"]
    },
    f"{_TOOL_USE}.langchain_agent_trajectory_accuracy": {
        "LangChainAgentTrajectoryAccuracyMetric": _GLLM_METRICS["LangChainAgentTrajectoryAccuracyMetric"]
    },
    "gllm_evals.types": {
        name: f"{_GLLM}.inputs:{name}" for name in ("AgentData", "MetricInput", "RAGData", "RetrievalData")
    },
    _ROOT: {},
    "holodeck.lib": {},
    "holodeck.lib.evaluators": {},
    "holodeck.lib.evaluators.azure_ai": {
        "AzureAIEvaluator": f"{_AZURE}.base:AzureAIEvaluator",
        "CoherenceEvaluator": f"{_AZURE}.metrics:CoherenceEvaluator",
        "FluencyEvaluator": f"{_AZURE}.metrics:FluencyEvaluator",
        "GroundednessEvaluator": f"{_AZURE}.metrics:GroundednessEvaluator",
        "ModelConfig": f"{_AZURE}.base:ModelConfig",
        "RelevanceEvaluator": f"{_AZURE}.metrics:RelevanceEvaluator",
        "SimilarityEvaluator": f"{_AZURE}.metrics:SimilarityEvaluator",
    },
    "holodeck.lib.evaluators.base": {
        "BaseEvaluator": f"{_EVALUATORS}.base:BaseEvaluator",
        "EvaluationError": f"{_EVALUATORS}.errors:EvaluationError",
        "EvaluationResult": f"{_EVALUATORS}.result:EvaluationResult",
        "RetryConfig": f"{_EVALUATORS}.base:RetryConfig",
    },
    "holodeck.lib.evaluators.deepeval": {
        "AnswerRelevancyEvaluator": f"{_DEEPEVAL}.rag:AnswerRelevancyEvaluator",
        "ContextualPrecisionEvaluator": f"{_DEEPEVAL}.rag:ContextualPrecisionEvaluator",
        "ContextualRecallEvaluator": f"{_DEEPEVAL}.rag:ContextualRecallEvaluator",
        "ContextualRelevancyEvaluator": f"{_DEEPEVAL}.rag:ContextualRelevancyEvaluator",
        "DeepEvalBaseEvaluator": f"{_DEEPEVAL}.base:DeepEvalBaseEvaluator",
        "DeepEvalError": f"{_EVALUATORS}.errors:DeepEvalError",
        "DeepEvalModelConfig": f"{_DEEPEVAL}.config:DeepEvalModelConfig",
        "EvaluationInput": f"{_DEEPEVAL}.entities:EvaluationInput",
        "EvaluationResult": f"{_EVALUATORS}.result:EvaluationResult",
        "FaithfulnessEvaluator": f"{_DEEPEVAL}.rag:FaithfulnessEvaluator",
        "GEvalConfig": f"{_DEEPEVAL}.entities:GEvalConfig",
        "GEvalEvaluator": f"{_DEEPEVAL}.geval:GEvalEvaluator",
        "ProviderNotSupportedError": f"{_EVALUATORS}.errors:ProviderNotSupportedError",
        "RAGMetricConfig": f"{_DEEPEVAL}.entities:RAGMetricConfig",
        "VALID_EVALUATION_PARAMS": "holodeck_action.suite.model.metric_base:VALID_EVALUATION_PARAMS",
    },
    "holodeck.lib.evaluators.deepeval.answer_relevancy": {
        "AnswerRelevancyEvaluator": f"{_DEEPEVAL}.rag:AnswerRelevancyEvaluator"
    },
    "holodeck.lib.evaluators.deepeval.base": {"DeepEvalBaseEvaluator": f"{_DEEPEVAL}.base:DeepEvalBaseEvaluator"},
    "holodeck.lib.evaluators.deepeval.config": {
        "DeepEvalModelConfig": f"{_DEEPEVAL}.config:DeepEvalModelConfig",
        "GEvalConfig": f"{_DEEPEVAL}.entities:GEvalConfig",
        "RAGMetricConfig": f"{_DEEPEVAL}.entities:RAGMetricConfig",
    },
    "holodeck.lib.evaluators.deepeval.contextual_precision": {
        "ContextualPrecisionEvaluator": f"{_DEEPEVAL}.rag:ContextualPrecisionEvaluator"
    },
    "holodeck.lib.evaluators.deepeval.contextual_recall": {
        "ContextualRecallEvaluator": f"{_DEEPEVAL}.rag:ContextualRecallEvaluator"
    },
    "holodeck.lib.evaluators.deepeval.contextual_relevancy": {
        "ContextualRelevancyEvaluator": f"{_DEEPEVAL}.rag:ContextualRelevancyEvaluator"
    },
    "holodeck.lib.evaluators.deepeval.errors": {
        "DeepEvalError": f"{_EVALUATORS}.errors:DeepEvalError",
        "ProviderNotSupportedError": f"{_EVALUATORS}.errors:ProviderNotSupportedError",
    },
    "holodeck.lib.evaluators.deepeval.faithfulness": {
        "FaithfulnessEvaluator": f"{_DEEPEVAL}.rag:FaithfulnessEvaluator"
    },
    "holodeck.lib.evaluators.deepeval.geval": {
        "GEvalEvaluator": f"{_DEEPEVAL}.geval:GEvalEvaluator",
        "VALID_EVALUATION_PARAMS": "holodeck_action.suite.model.metric_base:VALID_EVALUATION_PARAMS",
    },
    "holodeck.lib.evaluators.deterministic": {
        "EqualityEvaluator": f"{_EVALUATORS}.deterministic:EqualityEvaluator",
        "NumericEvaluator": f"{_EVALUATORS}.deterministic:NumericEvaluator",
    },
    "holodeck.lib.evaluators.nlp_metrics": {
        "BLEUEvaluator": f"{_EVALUATORS}.standard:BLEUEvaluator",
        "METEOREvaluator": f"{_EVALUATORS}.standard:METEOREvaluator",
        "NLPMetricsError": f"{_EVALUATORS}.errors:NLPMetricsError",
        "ROUGEEvaluator": f"{_EVALUATORS}.standard:ROUGEEvaluator",
    },
    "holodeck.lib.evaluators.param_spec": {
        "DEEPEVAL_PARAMS": f"{_EVALUATORS}.params:DEEPEVAL_PARAMS",
        "EvalParam": f"{_EVALUATORS}.params:EvalParam",
        "ParamSpec": f"{_EVALUATORS}.params:ParamSpec",
    },
    "holodeck.lib.test_runner": {},
    "holodeck.lib.test_runner.code_grader": {
        "GraderContext": "holodeck_action.workers.grading:GraderContext",
        "GraderResult": "holodeck_action.workers.grading:GraderResult",
    },
    "holodeck.models": {},
    "holodeck.models.evaluation": {
        "CodeMetric": "holodeck_action.metrics.code_grader:CodeMetric",
        "EvaluationConfig": "holodeck_action.run.holodeck_models:EvaluationConfig",
        "EvaluationMetric": "holodeck_action.metrics.standard:StandardMetric",
        "GEvalMetric": "holodeck_action.extensions.deepeval.metrics_geval:GEvalMetric",
        "MetricType": "holodeck_action.run.holodeck_models:MetricType",
        "RAGMetric": "holodeck_action.extensions.deepeval.metrics_rag:RagMetric",
        "RAGMetricType": "holodeck_action.suite.model.providers:RAGMetricType",
        "VALID_EVALUATION_PARAMS": "holodeck_action.suite.model.metric_base:VALID_EVALUATION_PARAMS",
    },
    "holodeck.models.llm": {
        "LLMProvider": "holodeck_action.suite.model.providers:LLMProvider",
        "ProviderEnum": "holodeck_action.suite.model.providers:ProviderEnum",
    },
    "holodeck.models.observability": {
        "ObservabilityConfig": "holodeck_action.extensions.tracing.settings:Observability",
        "TracingConfig": "holodeck_action.extensions.tracing.settings:Traces",
    },
    "holodeck.models.test_case": {
        "ExpectedTool": "holodeck_action.suite.model.cases:ExpectedToolEntry",
        "FileInput": "holodeck_action.suite.model.cases:FileInput",
        "TestCase": "holodeck_action.suite.model.cases:CaseEntry",
        "Turn": "holodeck_action.suite.model.cases:TurnEntry",
    },
}
"""Per documented module its names, each with the module and name that implement it."""


class _Finder:
    """Finds the documented modules; first on `sys.meta_path`, so that a mere folder of their name cannot hide them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a documented module; None for all others, and for those of a package that is installed."""
        if name not in NAMES:
            return None
        folders: list[str] = []
        root = name.partition(".")[0]
        if name == root:
            other = self._other_root(root)
            if other is not None and other.origin is not None:
                return None
            if other is not None:
                # A folder of that name on the module path: its own modules stay importable.
                folders = list(other.submodule_search_locations or ())
        elif not isinstance(getattr(sys.modules.get(root), "__loader__", None), _Loader):
            return None
        loader = cast("Loader", _Loader())
        spec = ModuleSpec(name, loader, is_package=any(module.startswith(f"{name}.") for module in NAMES))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations += folders
        return spec

    def _other_root(self, root: str) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self:
                found = finder.find_spec(root, None)
                if found is not None:
                    return found
        return None


class _Loader:
    """Makes modules whose names are imported when they are used."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave the making of the module to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module."""
        names = NAMES[module.__name__]
        module.__doc__ = f"{module.__name__}, as far as holodeck-action implements it."
        module.__dict__.update(
            __all__=sorted(names),
            __dir__=lambda: sorted({*module.__dict__, *names}),
            __getattr__=_attribute_reader(module, names),
        )


def _attribute_reader(module: ModuleType, names: Mapping[str, str]) -> Callable[[str], Any]:
    def read(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        source_module, _, source_name = names[name].partition(":")
        try:
            value = getattr(importlib.import_module(source_module), source_name)
        except (ImportError, SyntaxError) as error:
            if (getattr(error, "name", None) or "").startswith("holodeck_action.extensions."):
                raise ImportError(f"{module.__name__}.{name} needs an extension that is not there ({error})") from error
            # The project's own Python has none of our packages, and may be too old for our modules.
            raise ImportError(
                f"{module.__name__}.{name} needs Python 3.11 or newer with the packages of holodeck-action ({error}); "
                "add holodeck-action to the environment of the suite"
            ) from error
        setattr(module, name, value)
        return value

    return read


def _install() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


_install()
