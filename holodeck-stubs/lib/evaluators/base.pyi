from holodeck_action.metrics.base import BaseEvaluator as BaseEvaluator
from holodeck_action.metrics.errors import EvaluationError as EvaluationError
from holodeck_action.metrics.result import EvaluationResult as EvaluationResult
from holodeck_action.metrics.base import RetryConfig as RetryConfig
