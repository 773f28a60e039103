"""The evaluator of DeepEval's metrics of whole conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holodeck_action.extensions.deepeval.base import neutralize_markers
from holodeck_action.extensions.deepeval.catalogue import CatalogueEntry
from holodeck_action.extensions.deepeval.class_evaluator import ClassEvaluator, call_data
from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.exchange import Exchange
from holodeck_action.metrics.params import REPORT_CALLS, EvalParam, ParamSpec
from holodeck_action.record.facts import Nothing, Unknown, items_or_none


class ConversationEvaluator(ClassEvaluator):
    """Grades a conversation with a metric class of DeepEval.

    `evaluate` takes `turns`, a sequence of `Exchange`, and the expected outcome as `expected_output`. A conversation
    with an empty answer scores 0.
    """

    @staticmethod
    def _spec(entry: CatalogueEntry) -> ParamSpec:
        expected = frozenset({EvalParam.EXPECTED_OUTPUT})
        needed = expected if "ground_truth" in entry.needs else frozenset[EvalParam]()
        return ParamSpec(required=needed | {EvalParam.TURNS}, optional=expected - needed)

    def _result_without_judge(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        turns: Sequence[Exchange] = inputs[EvalParam.TURNS.value]
        empty = next((number for number, turn in enumerate(turns) if not turn.response.strip()), None)
        if empty is not None:
            return self._zero_result(f"the answer of turn {empty} is empty")
        if "retrieval_context" in self._entry.needs and all(isinstance(turn.texts, Nothing) for turn in turns):
            return self._zero_result("nothing was retrieved in any turn")
        return None

    def _case_fields(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        turns: Sequence[Exchange] = inputs[EvalParam.TURNS.value]
        for number, turn in enumerate(turns):
            if self._entry.reads_calls and isinstance(turn.calls, Unknown):
                raise self._missing_input_error("tool calls", number, REPORT_CALLS)
            if "retrieval_context" in self._entry.needs and isinstance(turn.texts, Unknown):
                raise self._missing_input_error(
                    "retrieved texts", number, "give retrieval_context with the reply or the turn"
                )
        expected = inputs.get(EvalParam.EXPECTED_OUTPUT.value)
        fields = {"expected_outcome": expected} | {
            name: value for name, value in self._options.items() if name in self._entry.case_options
        }
        return {
            **{name: neutralize_markers(str(value)) for name, value in fields.items() if value is not None},
            "turns": [self._turn_fields(turn) for turn in turns],
        }

    def _missing_input_error(self, missing: str, number: int, remedy: str) -> EvaluationError:
        return EvaluationError(
            f"{self.name} needs the {missing} of turn {number}, which are unknown: {remedy}", code="missing_input"
        )

    def _turn_fields(self, turn: Exchange) -> dict[str, Any]:
        calls = items_or_none(turn.calls)
        is_read = self._own is not None or "retrieval_context" in self._entry.needs
        texts = items_or_none(turn.texts) if is_read else None
        return {
            "input": neutralize_markers(turn.input),
            "response": neutralize_markers(turn.response),
            "calls": None if calls is None else [call_data(call) for call in calls],
            "texts": None if texts is None else [neutralize_markers(text) for text in texts],
        }

    def _prepare(self, metric: Any, test_case: Any) -> None:
        """Leave the metric unchanged: an empty list of verdicts may be valid here."""
