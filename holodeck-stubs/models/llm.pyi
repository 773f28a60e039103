from holodeck_action.suite.model.providers import LLMProvider as LLMProvider
from holodeck_action.suite.model.providers import ProviderEnum as ProviderEnum
