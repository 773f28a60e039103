from holodeck_action.metrics.params import DEEPEVAL_PARAMS as DEEPEVAL_PARAMS
from holodeck_action.metrics.params import EvalParam as EvalParam
from holodeck_action.metrics.params import ParamSpec as ParamSpec
