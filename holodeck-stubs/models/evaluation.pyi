from holodeck_action.metrics.code_grader import CodeMetric as CodeMetric
from holodeck_action.extensions.holodeck.models import EvaluationConfig as EvaluationConfig
from holodeck_action.metrics.standard import StandardMetric
EvaluationMetric = StandardMetric
from holodeck_action.extensions.deepeval.metrics_geval import GEvalMetric as GEvalMetric
from holodeck_action.extensions.holodeck.models import MetricType as MetricType
from holodeck_action.extensions.deepeval.metrics_rag import RagMetric
RAGMetric = RagMetric
from holodeck_action.suite.model.providers import RAGMetricType as RAGMetricType
from holodeck_action.suite.model.metric_base import VALID_EVALUATION_PARAMS as VALID_EVALUATION_PARAMS
