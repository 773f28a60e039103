"""The evaluator of `type: deepeval`: any metric class of DeepEval, or of the suite, that grades one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import PydanticCustomError, ValidationError

from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.catalogue import FIXED, SCHEMA_OPTION, CatalogueEntry, find_metric
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.extensions.deepeval.model import Problem
from holodeck_action.extensions.deepeval.test_cases import build_metric, build_test_case
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.text.json_values import parse_json

if TYPE_CHECKING:
    from holodeck_action.extensions.deepeval.own_class import OwnClass

_PARAMS = {param.value: param for param in EvalParam} | {"tools_called": EvalParam.TOOL_INVOCATIONS}
_REPORTED = frozenset((EvalParam.TOOL_INVOCATIONS, EvalParam.RETRIEVAL_CONTEXT))
"""Inputs that a target may not report."""
_LISTS = (EvalParam.CONTEXT, EvalParam.RETRIEVAL_CONTEXT)


class ClassEvaluator(DeepEvalBaseEvaluator):
    """Grades an answer by a metric class of DeepEval.

    The score is 0 if the answer is empty, or if the class requires a context and all its texts are blank: in some of
    these cases, DeepEval would give the best score.
    """

    def __init__(
        self,
        metric: str,
        options: Mapping[str, Any] | None = None,
        model_config: DeepEvalModelConfig | None = None,
        threshold: float | None = 0.5,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        *,
        judge: JudgeModel | None = None,
        own: OwnClass | None = None,
    ) -> None:
        """Configure the evaluator; this imports nothing and calls no model.

        Args:
            metric: name of the class in `deepeval.metrics`, or `module:Class` of a suite.
            options: arguments of its constructor, except the model and the threshold.
            model_config: see the base class.
            threshold: lowest passing score, 0..1; None to give no verdict.
            timeout: time limit of one evaluation, in seconds.
            retry_config: retries of transient failures.
            judge: see the base class.
            own: the class of the suite; None for a class of DeepEval.

        Raises:
            EvaluationError: DeepEval has no metric of this name that grades a single answer (code
                `unsupported_metric`).
            ValueError: the threshold is outside 0..1.
        """
        super().__init__(model_config, threshold, timeout, retry_config, judge=judge)
        found = find_metric(metric) if own is None else own.entry
        if not isinstance(found, CatalogueEntry):
            reason = found or "the installed DeepEval has no such metric"
            raise EvaluationError(f"{metric} cannot be used: {reason}", code="unsupported_metric")
        self._entry = found
        self._own = own
        self._options = {**(options or {}), **FIXED.get(metric, {})}
        spec = self._spec(found)
        if own is not None and not found.of_conversation:
            # What it reads besides is given if it is known.
            spec = spec._replace(optional=spec.optional | (_REPORTED - spec.required))
        self.PARAM_SPEC = spec

    @staticmethod
    def _spec(entry: CatalogueEntry) -> ParamSpec:
        """Return the inputs that a class requires."""
        inputs = [_PARAMS[name] for name in entry.inputs]
        inputs += [EvalParam.TOOL_INVOCATIONS] if entry.is_traced else []
        return ParamSpec(
            required=frozenset(inputs),
            optional=frozenset((EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT)) - frozenset(inputs),
            uses_context=EvalParam.CONTEXT in inputs,
            uses_retrieval_context=EvalParam.RETRIEVAL_CONTEXT in inputs,
        )

    @property
    def name(self) -> str:
        """Name of the class."""
        return self._entry.name

    @property
    def metric_name(self) -> str:
        """Name of the class."""
        return self._entry.name

    @property
    def version(self) -> str:
        """Version of the evaluator; for a suite's class, with digest of its code and its version of DeepEval."""
        return super().version if self._own is None else f"{super().version}{self._own.version}"

    @property
    def uses_judge(self) -> bool:
        """Whether the class calls a model."""
        return self._entry.has_judge

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "metric": self._entry.name, "options": self._options}

    def _result_without_judge(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        required = self.PARAM_SPEC.required
        if EvalParam.ACTUAL_OUTPUT in required and not str(inputs[EvalParam.ACTUAL_OUTPUT.value]).strip():
            return self._zero_result("the answer is empty")
        for param in _LISTS:
            if param in required and not has_text(inputs[param.value]):
                return self._zero_result(f"{param.value} has no text")
        return None

    def _zero_result(self, reason: str) -> EvaluationResult:
        return EvaluationResult(score=0.0, reasoning=reason, metric_name=self.metric_name, threshold=self._threshold)

    def _case_fields(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        fields = super()._case_fields(inputs)
        calls: Sequence[ToolInvocation] | None = inputs.get(EvalParam.TOOL_INVOCATIONS.value)
        if EvalParam.TOOL_INVOCATIONS in self.PARAM_SPEC.required | self.PARAM_SPEC.optional and calls is not None:
            fields["calls"] = [call_data(call) for call in calls]
        return fields

    def _create_metric(self) -> Any:
        entry = self._entry
        options = {name: value for name, value in self._options.items() if name not in entry.case_options}
        if SCHEMA_OPTION in options:
            options[SCHEMA_OPTION] = _Schema(options[SCHEMA_OPTION])
        model = {entry.model_option: self._model} if entry.has_judge else {}
        kind = getattr(load_module("deepeval.metrics"), entry.name)
        return build_metric(kind, options, (SCHEMA_OPTION,), self._threshold, **model)

    def _build_test_case(self, case: Mapping[str, Any]) -> Any:
        return build_test_case(case, self._entry.is_traced)

    async def _evaluate_in_process(self, case: Mapping[str, Any], judge: JudgeModel | None) -> EvaluationResult:
        if self._own is None:
            return await super()._evaluate_in_process(case, judge)
        entry = self._entry
        options = {name: value for name, value in self._options.items() if name not in entry.case_options}
        payload = {"case": case, "traced": entry.is_traced, "options": options, "threshold": self._threshold}
        found, output = await self._own.measure(payload, judge)
        return EvaluationResult(
            score=found["score"],
            reasoning=found["reason"] or f"{entry.name} gave the score {found['score']:g} without an explanation",
            metric_name=self.metric_name,
            threshold=self._threshold,
            metadata={**({} if judge is None else {"judge": judge.label}), **({"output": output} if output else {})},
        )

    def _prepare(self, metric: Any, test_case: Any) -> None:
        if self._entry.has_judge:
            metric.model.problem = _count_check(self._entry, self._options, test_case)

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if not metric.reason:
            metric.reason = f"{self._entry.name} gave the score {float(metric.score):g} without an explanation"
        return super()._result(metric, test_case, judge)


def has_text(context: str | Sequence[object]) -> bool:
    """Return whether a text is not blank, or, for several texts, whether any of them is not blank."""
    return any(str(text).strip() for text in ([context] if isinstance(context, str) else context))


def call_data(call: ToolInvocation) -> dict[str, Any]:
    """Return a tool call as JSON values, to send it to the process for grading libraries."""
    return {"name": call.name, "args": dict(call.args), "result": call.result, "error": call.error}


class _Schema:
    """A JSON Schema in place of the pydantic model with which DeepEval validates an answer."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def model_json_schema(self) -> Mapping[str, Any]:
        """Return the JSON Schema, which DeepEval shows to the judge."""
        return self._schema

    def model_validate_json(self, answer: str) -> None:
        """Check an answer.

        Raises:
            ValidationError: the answer is not JSON, or violates the schema.
        """
        violations = JsonSchema(self._schema, is_user_supplied=True).violations(
            _parse(answer), label="the answer", max_violations=1
        )
        if violations:
            raise _schema_error(violations[0].problem)


def _parse(answer: str) -> Any:
    try:
        return parse_json(answer, unique_keys=True)
    except ValueError as error:
        raise _schema_error(f"the answer is not JSON: {error}") from None


def _schema_error(problem: str) -> ValidationError:
    """Return a pydantic `ValidationError`, after which DeepEval scores the answer as wrong."""
    error = PydanticCustomError("json", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("answer", [{"type": error, "loc": (), "input": None}])


def _count_check(entry: CatalogueEntry, options: Mapping[str, Any], test_case: Any) -> Problem:
    """Return a function that finds incomplete lists of verdicts, since DeepEval counts a missing verdict as good.

    Depending on the metric, the judge must give a verdict on each item of its own earlier list, on each text of the
    context, or on each item of the only list option. If the number is unknown, at least one verdict is required, unless
    the metric grades retrieved texts.
    """
    extracted: list[int] = []
    lists = [value for value in options.values() if isinstance(value, list)]

    def problem(verdict: BaseModel) -> str | None:
        names = [*type(verdict).model_fields]
        only = getattr(verdict, names[0]) if len(names) == 1 else None
        if not isinstance(only, list):
            return None
        if names != ["verdicts"]:
            extracted.append(len(only))
            return None
        if len(extracted) == 1:
            wanted = extracted[0]
        elif not extracted and "context" in entry.inputs:
            wanted = len(test_case.context)
        elif not extracted and len(lists) == 1 and "retrieval_context" not in entry.inputs:
            wanted = len(lists[0])
        else:
            # A retrieved text may hold no statement.
            return None if only or "retrieval_context" in entry.inputs else "it holds no verdicts"
        return None if len(only) == wanted else f"it holds {len(only)} verdicts, but there must be {wanted}"

    return problem
