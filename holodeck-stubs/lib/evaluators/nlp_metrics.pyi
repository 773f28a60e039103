from holodeck_action.metrics.standard import BLEUEvaluator as BLEUEvaluator
from holodeck_action.metrics.standard import METEOREvaluator as METEOREvaluator
from holodeck_action.metrics.errors import NLPMetricsError as NLPMetricsError
from holodeck_action.metrics.standard import ROUGEEvaluator as ROUGEEvaluator
