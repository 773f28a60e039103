"""The evaluator of `type: azure`, which runs any evaluator class of Azure AI Evaluation that uses a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holodeck_action.extensions.azure.base import ask_library, is_transient_cause, join_texts
from holodeck_action.extensions.azure.catalogue import AzureEntry, find_evaluator
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.metrics.judging.model_judged import ModelJudgedEvaluator
from holodeck_action.metrics.judging.own_judge import provide_judge
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import check_threshold
from holodeck_action.record.record import ToolInvocation

_PARAMS = {name: EvalParam(name) for name in ("query", "response", "ground_truth", "context")}


class AzureClassEvaluator(ModelJudgedEvaluator):
    """Grades an answer with an evaluator class of Azure AI Evaluation; an empty answer scores 0 without a judge call.

    Score = (raw - lowest) / (highest - lowest), with the raw score on the scale of the class: 1 to 5, or only 0 and 1.
    """

    def __init__(
        self,
        metric: str,
        options: Mapping[str, Any] | None = None,
        model_config: JudgeModelConfig | None = None,
        threshold: float | None = 0.5,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        *,
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure the evaluator; this imports nothing and calls no model.

        Args:
            metric: name of the class in `azure.ai.evaluation`.
            options: the mapping `{tool_definitions: …}` if the class accepts tool definitions, else empty or None.
            model_config: the model that grades.
            threshold: lowest passing score, 0..1; None to give no verdict.
            timeout: time limit of one evaluation, in seconds.
            retry_config: retries of transient failures.
            judge: a judge that uses the caller's connection; replaces `model_config`.

        Raises:
            EvaluationError: Azure AI Evaluation has no such evaluator, or it cannot use a judge (code
                `unsupported_metric`).
            ValueError: the threshold is outside 0..1.
        """
        super().__init__(model_config, timeout, retry_config, judge)
        found = find_evaluator(metric)
        if not isinstance(found, AzureEntry):
            reason = found or "the installed version has no such evaluator"
            raise EvaluationError(f"{metric} cannot be used: {reason}", code="unsupported_metric")
        self._entry = found
        self._options = dict(options or {})
        self._threshold = check_threshold(threshold)
        params = frozenset(_PARAMS[name] for name in found.inputs if name in _PARAMS)
        calls = frozenset({EvalParam.TOOL_INVOCATIONS}) if found.takes_calls else frozenset[EvalParam]()
        context = frozenset({EvalParam.CONTEXT}) & params
        self.PARAM_SPEC = ParamSpec(
            required=params | {EvalParam.RESPONSE} | (calls if found.reads_calls else frozenset()),
            optional=calls | (frozenset({EvalParam.RETRIEVAL_CONTEXT}) if context else frozenset()),
            uses_context=bool(context),
            uses_retrieval_context=bool(context),
        )

    @property
    def name(self) -> str:
        """Name of the class."""
        return self._entry.name

    def resolve(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Rename the inputs for Azure AI Evaluation; if a required context is missing, use the retrieved texts."""
        texts = inputs.get(EvalParam.RETRIEVAL_CONTEXT.value)
        if EvalParam.CONTEXT in self.PARAM_SPEC.required and not inputs.get(EvalParam.CONTEXT.value) and texts:
            inputs = {**inputs, EvalParam.CONTEXT.value: join_texts(texts)}
        return super().resolve(inputs)

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry may succeed after an error."""
        return is_transient_cause(error) or super().is_transient(error)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        self.check_judge()
        if not str(kwargs["response"]).strip():
            return self._result(float(self._entry.scale[0]), "the answer is empty", {})
        calls: Sequence[ToolInvocation] | None = kwargs.get(EvalParam.TOOL_INVOCATIONS.value)
        inputs: dict[str, Any] = {
            name: join_texts(kwargs[name]) for name in self._entry.inputs if name in _PARAMS and name in kwargs
        }
        if self._entry.takes_calls and calls is not None:
            inputs["response"] = agent_messages(calls, inputs.get("response", ""))
        request = {
            "evaluator": self._entry.name,
            "inputs": inputs | self._options,
            "scale": self._entry.scale,
        }
        async with provide_judge(self._judge, self._plan) as judge:
            found = await ask_library(self.name, request, judge)
            raw, (low, high) = found["score"], self._entry.scale
            if not isinstance(raw, int | float) or not low <= raw <= high:
                reason = f": {found['reason']}" if found["reason"] else ""
                raise EvaluationError(
                    f"{self.name} gave no score{reason}", code="bad_verdict", context={"judge": judge.label}
                )
            return self._result(float(raw), str(found["reason"] or ""), {"judge": judge.label})

    def _result(self, raw: float, reason: str, facts: Mapping[str, Any]) -> EvaluationResult:
        low, high = self._entry.scale
        return EvaluationResult(
            score=(raw - low) / (high - low),
            reasoning=reason or f"{self.name} gave the score {raw:g} (maximum {high}) without an explanation",
            metric_name=self.name,
            threshold=self._threshold,
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
