"""Closed sets of the format as the enumerations that HoloDeck's documents use in Python.

The models themselves hold plain text, to which these members are equal.
"""

from __future__ import annotations

from enum import StrEnum


class ProviderEnum(StrEnum):
    """Model providers (`holodeck.models.llm.ProviderEnum`)."""

    OPENAI = "openai"
    AZURE_OPENAI = "azure_openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


class RAGMetricType(StrEnum):
    """Retrieval-augmented-generation metrics (`holodeck.models.evaluation.RAGMetricType`)."""

    FAITHFULNESS = "faithfulness"
    CONTEXTUAL_RELEVANCY = "contextual_relevancy"
    CONTEXTUAL_PRECISION = "contextual_precision"
    CONTEXTUAL_RECALL = "contextual_recall"
    ANSWER_RELEVANCY = "answer_relevancy"
