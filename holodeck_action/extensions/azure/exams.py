"""The pairs by which Azure AI Evaluation's evaluators probe their judges, by name of the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holodeck_action.metrics.judging.probe_texts import (
    ANSWER,
    CONTRADICTION,
    FACT,
    GARBLED,
    LOOKUP,
    MISUSE,
    OFF_TOPIC,
    TOOLS,
    question_exam,
)
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.probing import Exam

_DEFINITIONS: Mapping[str, Any] = {"tool_definitions": [dict(tool) for tool in TOOLS]}
_CALLED: Mapping[str, Any] = {"tool_invocations": (LOOKUP,)}


def _of_tools(exam: Exam) -> Exam:
    return replace(exam, options=_DEFINITIONS)


EXAMS: Mapping[str, Exam] = {
    "CoherenceEvaluator": question_exam(GARBLED),
    "FluencyEvaluator": question_exam(GARBLED),
    "RelevanceEvaluator": question_exam(),
    "GroundednessEvaluator": question_exam(CONTRADICTION, {"context": (FACT,)}),
    "SimilarityEvaluator": question_exam(more={"ground_truth": ANSWER}),
    "ResponseCompletenessEvaluator": question_exam(more={"ground_truth": ANSWER}),
    "RetrievalEvaluator": question_exam(ANSWER, {"context": (FACT,)}).with_absurd(context=(OFF_TOPIC,)),
    "IntentResolutionEvaluator": _of_tools(question_exam(more=_CALLED).with_absurd(tool_invocations=(MISUSE,))),
    "TaskAdherenceEvaluator": _of_tools(question_exam(more=_CALLED).with_absurd(tool_invocations=(MISUSE,))),
    "ToolCallAccuracyEvaluator": _of_tools(question_exam(more=_CALLED).with_absurd(tool_invocations=(MISUSE,))),
    "_ToolOutputUtilizationEvaluator": _of_tools(question_exam(CONTRADICTION, _CALLED)),
    "_ToolCallSuccessEvaluator": _of_tools(
        question_exam(more=_CALLED).with_absurd(
            tool_invocations=(ToolInvocation(LOOKUP.name, LOOKUP.args, error="the service is down"),)
        )
    ),
}
