# ruff: noqa: I001
from holodeck_action.extensions.azure.class_metric import AzureClassMetric
from holodeck_action.extensions.azure.standard import AzureMetric
from holodeck_action.extensions.deepeval.class_metric import DeepEvalClassMetric
from holodeck_action.extensions.deepeval.metrics_geval import GEvalMetric
from holodeck_action.extensions.deepeval.metrics_rag import RagMetric
from holodeck_action.extensions.deepeval.tool_correctness import DeepEvalToolCorrectnessMetric
from holodeck_action.extensions.presets.agent import AgentMetric
from holodeck_action.extensions.presets.generation import GenerationMetric
from holodeck_action.extensions.presets.lm_retrieval import LmRetrievalMetric
from holodeck_action.extensions.presets.query_transformation import QueryTransformationMetric
from holodeck_action.extensions.presets.summarization import SummarizationMetric
from holodeck_action.metrics.composite import CompositeMetric
from holodeck_action.metrics.deterministic import EqualityMetric
from holodeck_action.metrics.deterministic import NumericMetric
from holodeck_action.metrics.json_check import JsonMetric
from holodeck_action.metrics.judging.factual_accuracy import FactualAccuracyMetric
from holodeck_action.metrics.judging.quality import QualityMetric
from holodeck_action.metrics.judging.refusal import RefusalMetric
from holodeck_action.metrics.judging.relevance import RelevanceMetric
from holodeck_action.metrics.judging.toxicity import ToxicityMetric
from holodeck_action.metrics.judging.trajectory_accuracy import TrajectoryAccuracyMetric
from holodeck_action.metrics.length import LengthMetric
from holodeck_action.metrics.retrieval import RetrievalMetric
from holodeck_action.metrics.similar import SimilarMetric
from holodeck_action.metrics.text_checks import ContainsAllMetric
from holodeck_action.metrics.text_checks import ContainsAnyMetric
from holodeck_action.metrics.text_checks import ContainsMetric
from holodeck_action.metrics.text_checks import EndsWithMetric
from holodeck_action.metrics.text_checks import NotContainsMetric
from holodeck_action.metrics.text_checks import NotRegexMetric
from holodeck_action.metrics.text_checks import RegexMetric
from holodeck_action.metrics.text_checks import StartsWithMetric
from holodeck_action.metrics.text_similarity import BleuMetric
from holodeck_action.metrics.text_similarity import F1Metric
from holodeck_action.metrics.text_similarity import MeteorMetric
from holodeck_action.metrics.text_similarity import RougeMetric
from holodeck_action.metrics.tools.tool_correctness import ToolCorrectnessMetric
from holodeck_action.metrics.tools.trajectory import TrajectoryMetric

Agent = AgentMetric
Azure = AzureMetric
AzureEvaluator = AzureClassMetric
Bleu = BleuMetric
Composite = CompositeMetric
Contains = ContainsMetric
ContainsAll = ContainsAllMetric
ContainsAny = ContainsAnyMetric
DeepEval = DeepEvalClassMetric
DeepEvalToolCorrectness = DeepEvalToolCorrectnessMetric
EndsWith = EndsWithMetric
Equality = EqualityMetric
F1 = F1Metric
FactualAccuracy = FactualAccuracyMetric
GEval = GEvalMetric
Generation = GenerationMetric
Json = JsonMetric
Length = LengthMetric
LmRetrieval = LmRetrievalMetric
Meteor = MeteorMetric
NotContains = NotContainsMetric
NotRegex = NotRegexMetric
Numeric = NumericMetric
Quality = QualityMetric
QueryTransformation = QueryTransformationMetric
Rag = RagMetric
Refusal = RefusalMetric
Regex = RegexMetric
Relevance = RelevanceMetric
Retrieval = RetrievalMetric
Rouge = RougeMetric
Similar = SimilarMetric
StartsWith = StartsWithMetric
Summarization = SummarizationMetric
ToolCorrectness = ToolCorrectnessMetric
Toxicity = ToxicityMetric
Trajectory = TrajectoryMetric
TrajectoryAccuracy = TrajectoryAccuracyMetric

def public() -> dict[str, str]: ...
