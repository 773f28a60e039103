"""Converts assertions that need a judge or a text score to the most similar metric, and notes the differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.importers.promptfoo.providers import model_of
from holodeck_action.extensions.importers.promptfoo.templates import script_text
from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion
from holodeck_action.extensions.importers.source import UnfitError
from holodeck_action.text.lazy_patterns import lazy_pattern

_PROMPT_NOTE = "prompts its judge in another way: check its verdicts with calibrate"
_RAG = {
    "answer-relevance": "answer_relevancy",
    "context-faithfulness": "faithfulness",
    "context-recall": "contextual_recall",
    "context-relevance": "contextual_relevancy",
}
_TEXT_SCORES = {"rouge-n": ({"metric": "rouge", "variant": "rouge1"}, 0.75), "meteor": ({"metric": "meteor"}, 0.5)}
_CRITERIA = {
    "llm-rubric": ("{}", 0.5, ["actual_output"]),
    "g-eval": ("{}", 0.7, ["actual_output", "input"]),
    "model-graded-closedqa": ("The answer meets this criterion: {}", 0.5, ["actual_output", "input"]),
    **dict.fromkeys(
        ("factuality", "model-graded-factuality"),
        (
            "The actual output does not contradict this in any fact, and may say less or more: {}",
            0.5,
            ["actual_output", "input"],
        ),
    ),
}
_COSINE = ("similar", "similar:cosine")
_EMBEDDING = lazy_pattern(r"openai:embeddings?:(.+)")
_WINDOW = 5
"""Default number of turns in promptfoo's sliding window over a conversation."""
_DEFAULT_EMBEDDING = "text-embedding-3-large"
"""promptfoo's default embedding model."""
RELEVANCE = "conversation-relevance"
TYPES = (*_RAG, *_TEXT_SCORES, *_CRITERIA, *_COSINE, "is-refusal", RELEVANCE)


class GradedAssertion(Struct, frozen=True):
    """An assertion that needs a judge or a text score; the templates in its `value` are rendered."""

    kind: str
    value: Any
    threshold: float | None
    negated: bool
    test: Test
    written: WrittenAssertion


def graded_metric(assertion: GradedAssertion) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return the metric's entry in `evaluations`, the fields to add to the turn, and a note about differences.

    Raises:
        UnfitError: there is no similar metric.
    """
    if assertion.kind == "is-refusal":
        expect = "answer" if assertion.negated else "refusal"
        return {"type": "refusal", "expect": expect}, {}, "a judge decides instead of a list of phrases"
    if assertion.negated:
        raise UnfitError("a judged assertion cannot be negated; write what the answer must be")
    if assertion.threshold is not None and not 0 <= assertion.threshold <= 1:
        raise UnfitError("its threshold is not from 0 to 1")
    if assertion.kind in _COSINE:
        return _similar_metric(assertion), {}, "an empty text scores 0 without a call"
    if assertion.kind in _TEXT_SCORES:
        settings, default = _TEXT_SCORES[assertion.kind]
        turn = {"ground_truth": _required_text(assertion)}
        threshold = default if assertion.threshold is None else assertion.threshold
        note = "splits texts into words in another way, so scores differ slightly"
        return {"type": "standard", **settings, "threshold": threshold}, turn, note
    if assertion.kind == RELEVANCE:
        return _relevance_metric(assertion), {}, "DeepEval's metric, which it is adapted from, grades all turns"
    if assertion.kind in _RAG:
        return _rag_metric(assertion)
    return _geval_metric(assertion)


def _relevance_metric(assertion: GradedAssertion) -> dict[str, Any]:
    config = assertion.written.data.get("config")
    window = (config.get("windowSize") if isinstance(config, dict) else None) or _WINDOW
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise UnfitError("its windowSize is not a whole number above 0")
    if assertion.written.data.get("rubricPrompt"):
        raise UnfitError("its rubricPrompt has the criteria; write a geval metric with scope: conversation")
    made = {"type": "deepeval", "metric": "TurnRelevancyMetric", "threshold": _threshold(assertion, 0.5)}
    return {**made, "options": {"window_size": window}, **_judge(assertion)}


def _rag_metric(assertion: GradedAssertion) -> tuple[dict[str, Any], dict[str, Any], str]:
    kind, threshold = _RAG[assertion.kind], _threshold(assertion, 0.5)
    made = {"type": "rag", "metric_type": kind, "threshold": threshold, **_judge(assertion)}
    turn: dict[str, Any] = {}
    if assertion.kind != "answer-relevance":
        context = assertion.test.variables.get("context")
        texts = [context] if isinstance(context, str) else context
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise UnfitError("the case has no variable context; let the agent report what it retrieved")
        turn["retrieval_context"] = texts
    if assertion.kind == "context-recall":
        turn["ground_truth"] = _required_text(assertion)
    return made, turn, _PROMPT_NOTE


def _geval_metric(assertion: GradedAssertion) -> tuple[dict[str, Any], dict[str, Any], str]:
    template, default, params = _CRITERIA[assertion.kind]
    several = assertion.value if isinstance(assertion.value, list) and assertion.kind == "g-eval" else []
    texts = [script_text(text) for text in several]
    rubric = assertion.test.options.get("rubricPrompt") or assertion.written.data.get("rubricPrompt")
    if assertion.value is None and rubric:
        raise UnfitError("its rubricPrompt has the criteria; write them as those of a geval metric")
    criteria = template.replace("{}", "\n".join(texts) if texts else _required_text(assertion, objects=True))
    line = assertion.written.place.line
    made = {
        "type": "geval",
        "name": str(assertion.written.data.get("metric") or f"{assertion.kind} (line {line})"),
        "criteria": criteria,
        "evaluation_params": params,
        "threshold": _threshold(assertion, default),
        **_judge(assertion),
    }
    note = "its criteria are graded together" if texts[1:] else ""
    if rubric:
        note = f"{note}; rubricPrompt is not used".lstrip("; ")
    return made, {}, "; ".join(part for part in (_PROMPT_NOTE, note) if part)


def _similar_metric(assertion: GradedAssertion) -> dict[str, Any]:
    model = _embedding_model(assertion.written.data.get("provider") or assertion.test.options.get("provider"))
    return {
        "type": "similar",
        "value": _required_text(assertion),
        "embedding_model": model,
        "threshold": _threshold(assertion, 0.75),
    }


def _embedding_model(value: Any) -> str:
    """Return the OpenAI embedding model that a provider names; the default model if it names none."""
    if isinstance(value, dict) and "id" not in value:
        value = value.get("embedding")
    if isinstance(value, str) and (model := _EMBEDDING.fullmatch(value)):
        return model[1]
    if value and "embedding" in str(value):
        raise UnfitError("its embeddings are not those of OpenAI; write a similar metric, and embedding_provider")
    return _DEFAULT_EMBEDDING


def embedding_provider(metrics: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the value of `embedding_provider` in agent.yaml; None if no metric of the suite needs it."""
    for metric in metrics:
        if metric["type"] == "similar":
            return {"provider": "openai", "name": metric["embedding_model"]}
    return None


def _judge(assertion: GradedAssertion) -> dict[str, Any]:
    """Return the metric's `model` setting for the assertion's judge; empty if no supported judge is named."""
    named = assertion.written.data.get("provider")
    model = model_of(named) if named else None
    return {"model": model} if model else {}


def _threshold(assertion: GradedAssertion, default: float) -> float:
    return default if assertion.threshold is None else assertion.threshold


def _required_text(assertion: GradedAssertion, *, objects: bool = False) -> str:
    value = assertion.value
    if value is None or (isinstance(value, dict | list) and not objects) or not script_text(value).strip():
        raise UnfitError("it has nothing to compare with")
    return script_text(value)


def judge_of(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the model reference of the judge in `options`; None if `options` name no supported judge."""
    return model_of(options["provider"]) if options.get("provider") else None
