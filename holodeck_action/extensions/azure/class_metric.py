"""`type: azure`, which selects an evaluator of Azure AI Evaluation by the name of its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from holodeck_action.extensions.azure.base import ask_library, join_texts
from holodeck_action.extensions.azure.catalogue import AzureEntry, evaluator_names, find_evaluator
from holodeck_action.metrics.base import BaseEvaluator, BuildContext, EvaluationResult, Use
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.asking import GradingMetric
from holodeck_action.metrics.judging.class_metric import ClassMetric
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.model.probing import Exam

_PARAMS = {name: EvalParam(name) for name in ("query", "response", "ground_truth", "context")}


class AzureClassMetric(ClassMetric, GradingMetric):
    """`type: azure`: an evaluator of Azure AI Evaluation, by the name of its class.

    The option `tool_definitions` lists the tools available to the agent, each as `{name, description, parameters}`.
    """

    PLACE = 31
    TITLE = "Azure AI Evaluation"

    type: Annotated[Literal["azure"], Role.KIND] = "azure"

    @classmethod
    def class_names(cls) -> tuple[str, ...]:
        """Return the class names of all evaluators in Azure AI Evaluation."""
        return evaluator_names()

    @classmethod
    def exams(cls) -> Mapping[str, Exam]:
        """Return the pairs by which judges are probed, by name of the class."""
        from holodeck_action.extensions.azure.exams import EXAMS

        return EXAMS

    @classmethod
    def find_class(cls, name: str) -> AzureEntry | str | None:
        """Return the named evaluator, or the reason why a suite cannot use it; None if there is no such evaluator."""
        return find_evaluator(name)

    @property
    def library(self) -> str | None:
        """Name of the library that grades."""
        return "azure"

    @property
    def evaluator_name(self) -> str:
        """Name of the class."""
        return self.metric

    @property
    def mark(self) -> float | None:
        """The threshold."""
        return self.pass_mark

    @property
    def spec(self) -> ParamSpec:
        """The inputs that the class takes; the answer alone if the library is not installed."""
        inputs = () if self.ENTRY is None else self.ENTRY.inputs
        params = frozenset(_PARAMS[name] for name in inputs if name in _PARAMS)
        takes_calls = self.ENTRY is not None and self.ENTRY.takes_calls
        calls = frozenset({EvalParam.TOOL_INVOCATIONS}) if takes_calls else frozenset[EvalParam]()
        context = frozenset({EvalParam.CONTEXT}) & params
        return ParamSpec(
            required=params | {EvalParam.RESPONSE} | (calls if self.reads_tool_calls else frozenset()),
            optional=calls | (frozenset({EvalParam.RETRIEVAL_CONTEXT}) if context else frozenset()),
            uses_context=bool(context),
            uses_retrieval_context=bool(context),
        )

    def prepare(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs; if a required context is missing, it is the retrieved texts."""
        texts = inputs.get(EvalParam.RETRIEVAL_CONTEXT.value)
        if EvalParam.CONTEXT in self.spec.required and not inputs.get(EvalParam.CONTEXT.value) and texts:
            return {**inputs, EvalParam.CONTEXT.value: join_texts(texts)}
        return inputs

    def evaluator(self, building: BuildContext, judge_metric: Metric | None = None) -> BaseEvaluator:
        """Return the evaluator of the metric."""
        self.require_entry()
        return super().evaluator(building, judge_metric)

    async def grade(self, inputs: Mapping[str, Any], use: Use) -> EvaluationResult:
        """Grade an answer; an empty answer gets the lowest score without a judge call.

        Score = (raw - lowest) / (highest - lowest), with the raw score on the scale of the class: 1 to 5, or only 0
        and 1.
        """
        entry: AzureEntry = self.require_entry()
        low, high = entry.scale
        if not str(inputs["response"]).strip():
            return self._scaled(float(low), "the answer is empty", {})
        calls: Sequence[ToolInvocation] | None = inputs.get(EvalParam.TOOL_INVOCATIONS.value)
        texts: dict[str, Any] = {
            name: join_texts(inputs[name]) for name in entry.inputs if name in _PARAMS and name in inputs
        }
        if entry.takes_calls and calls is not None:
            texts["response"] = agent_messages(calls, texts.get("response", ""))
        request = {"evaluator": entry.name, "inputs": texts | dict(self.option_values), "scale": entry.scale}
        found = await ask_library(entry.name, request, use.judge)
        raw, facts = found["score"], {"judge": use.judge.label}
        if not isinstance(raw, int | float) or not low <= raw <= high:
            reason = f": {found['reason']}" if found["reason"] else ""
            raise EvaluationError(f"{entry.name} gave no score{reason}", code="bad_verdict", context=facts)
        return self._scaled(float(raw), str(found["reason"] or ""), facts)

    def _scaled(self, raw: float, reason: str, facts: Mapping[str, Any]) -> EvaluationResult:
        low, high = self.require_entry().scale
        return EvaluationResult(
            score=(raw - low) / (high - low),
            reasoning=reason or f"{self.metric} gave the score {raw:g} (maximum {high}) without an explanation",
            metric_name=self.metric,
            threshold=self.mark,
            raw_score=raw,
            metadata=dict(facts),
        )


def agent_messages(calls: Sequence[ToolInvocation], answer: str) -> list[dict[str, Any]]:
    """Return a turn as messages for Azure AI Evaluation: each tool call with its result, then the answer."""
    messages: list[dict[str, Any]] = []
    for number, call in enumerate(calls, 1):
        key = f"call_{number}"
        told = {"type": "tool_call", "tool_call_id": key, "name": call.name, "arguments": dict(call.args)}
        result = call.result if call.error is None else {"error": call.error}
        messages += [
            {"role": "assistant", "content": [told]},
            {"role": "tool", "tool_call_id": key, "content": [{"type": "tool_result", "tool_result": result}]},
        ]
    return [*messages, {"role": "assistant", "content": [{"type": "text", "text": answer}]}]
