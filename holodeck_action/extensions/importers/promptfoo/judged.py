"""Converts assertions that need a judge or a text score to the most similar metric, and notes the differences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.importers.promptfoo.providers import model_of
from holodeck_action.extensions.importers.promptfoo.templates import script_text
from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion
from holodeck_action.extensions.importers.source import UnfitError

_QUESTION = "prompts its judge in another way: check its verdicts with calibrate"
_RAG = {
    "answer-relevance": "answer_relevancy",
    "context-faithfulness": "faithfulness",
    "context-recall": "contextual_recall",
    "context-relevance": "contextual_relevancy",
}
_TEXT = {"rouge-n": ({"metric": "rouge", "variant": "rouge1"}, 0.75), "meteor": ({"metric": "meteor"}, 0.5)}
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
_EMBEDDING = re.compile(r"openai:embeddings?:(.+)")
_DEFAULT_EMBEDDING = "text-embedding-3-large"
"""The model that promptfoo calls if none is named."""
TYPES = (*_RAG, *_TEXT, *_CRITERIA, *_COSINE, "is-refusal")


class GradedAssertion(Struct, frozen=True):
    """An assertion that needs a judge or a text score; its `value` is rendered."""

    kind: str
    value: Any
    threshold: float | None
    negated: bool
    test: Test
    written: WrittenAssertion


def graded_metric(read: GradedAssertion) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return the metric's entry in `evaluations`, the fields to add to the turn, and a note about differences.

    Raises:
        UnfitError: there is no similar metric.
    """
    if read.kind == "is-refusal":
        expect = "answer" if read.negated else "refusal"
        return {"type": "refusal", "expect": expect}, {}, "a judge decides instead of a list of phrases"
    if read.negated:
        raise UnfitError("a negated judgement; word it as what the answer must be")
    if read.threshold is not None and not 0 <= read.threshold <= 1:
        raise UnfitError("its threshold is not from 0 to 1")
    if read.kind in _COSINE:
        return _similar_metric(read), {}, "an empty text scores 0 without a call"
    if read.kind in _TEXT:
        settings, default = _TEXT[read.kind]
        turn = {"ground_truth": _required_text(read)}
        threshold = default if read.threshold is None else read.threshold
        note = "splits texts into words in another way, so scores differ slightly"
        return {"type": "standard", **settings, "threshold": threshold}, turn, note
    if read.kind in _RAG:
        return _rag_metric(read)
    return _geval_metric(read)


def _rag_metric(read: GradedAssertion) -> tuple[dict[str, Any], dict[str, Any], str]:
    made = {"type": "rag", "metric_type": _RAG[read.kind], "threshold": _threshold(read, 0.5), **_judge(read)}
    turn: dict[str, Any] = {}
    if read.kind != "answer-relevance":
        context = read.test.variables.get("context")
        texts = [context] if isinstance(context, str) else context
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise UnfitError("the case has no variable context; let the agent report what it retrieved")
        turn["retrieval_context"] = texts
    if read.kind == "context-recall":
        turn["ground_truth"] = _required_text(read)
    return made, turn, _QUESTION


def _geval_metric(read: GradedAssertion) -> tuple[dict[str, Any], dict[str, Any], str]:
    template, default, params = _CRITERIA[read.kind]
    several = read.value if isinstance(read.value, list) and read.kind == "g-eval" else []
    texts = [script_text(text) for text in several]
    rubric = read.test.options.get("rubricPrompt") or read.written.data.get("rubricPrompt")
    if read.value is None and rubric:
        raise UnfitError("its rubricPrompt has the criteria; write them as those of a geval metric")
    criteria = template.replace("{}", "\n".join(texts) if texts else _required_text(read, objects=True))
    line = read.written.place.line
    made = {
        "type": "geval",
        "name": str(read.written.data.get("metric") or f"{read.kind} (line {line})"),
        "criteria": criteria,
        "evaluation_params": params,
        "threshold": _threshold(read, default),
        **_judge(read),
    }
    note = "its criteria are graded together" if texts[1:] else ""
    if rubric:
        note = f"{note}; rubricPrompt is not used".lstrip("; ")
    return made, {}, "; ".join(part for part in (_QUESTION, note) if part)


def _similar_metric(read: GradedAssertion) -> dict[str, Any]:
    model = _embedding_model(read.written.data.get("provider") or read.test.options.get("provider"))
    return {
        "type": "similar",
        "value": _required_text(read),
        "embedding_model": model,
        "threshold": _threshold(read, 0.75),
    }


def _embedding_model(named: Any) -> str:
    """Return the name of OpenAI's embedding model that a provider names, or of the default one if it names a judge."""
    if isinstance(named, dict) and "id" not in named:
        named = named.get("embedding")
    if isinstance(named, str) and (model := _EMBEDDING.fullmatch(named)):
        return model[1]
    if named and "embedding" in str(named):
        raise UnfitError("its embeddings are not those of OpenAI; write a similar metric, and embedding_provider")
    return _DEFAULT_EMBEDDING


def embedding_provider(metrics: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the value of `embedding_provider` in agent.yaml for a suite's metrics; None if none of them needs it."""
    for metric in metrics:
        if metric["type"] == "similar":
            return {"provider": "openai", "name": metric["embedding_model"]}
    return None


def _judge(read: GradedAssertion) -> dict[str, Any]:
    """Return the metric's `model` setting for the assertion's judge; empty if no judge is named that can be used."""
    named = read.written.data.get("provider")
    model = model_of(named) if named else None
    return {"model": model} if model else {}


def _threshold(read: GradedAssertion, default: float) -> float:
    return default if read.threshold is None else read.threshold


def _required_text(read: GradedAssertion, *, objects: bool = False) -> str:
    value = read.value
    if value is None or (isinstance(value, dict | list) and not objects) or not script_text(value).strip():
        raise UnfitError("it has nothing to compare with")
    return script_text(value)


def judge_of(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the model reference of the judge in `options`; None if they name no judge that can be used here."""
    return model_of(options["provider"]) if options.get("provider") else None
