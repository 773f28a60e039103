"""Presets for answers, transformed queries and summaries (evaluators reference §8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult
from holodeck_action.metrics.params import EvalParam
from holodeck_action.metrics.presets.preset import Member, PresetEvaluator, PresetResult
from holodeck_action.metrics.presets.refusal import told


class TextEvaluator(PresetEvaluator):
    """A text by several metrics; an empty one gets a 0, and nobody is asked: no statement of it could be wrong."""

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if not str(kwargs[EvalParam.ACTUAL_OUTPUT.value]).strip():
            return PresetResult(0.0, False, "the answer is empty", self.metric_name)
        return await super()._evaluate_impl(**kwargs)


class GenerationEvaluator(TextEvaluator):
    """An answer by completeness, groundedness and redundancy, unless it refuses.

    An answer that refuses is right (1) when the expected output refuses, too, and wrong (0) otherwise; the metrics are
    not asked then. The metadata says in `refused` whether it does.
    """

    def __init__(
        self, name: str, members: Sequence[Member], *, refusal: BaseEvaluator | None = None, **kwargs: Any
    ) -> None:
        """Configure.

        Args:
            name: the evaluator's name.
            members: the metrics.
            refusal: fails an answer that refuses, such as `RefusalEvaluator()`; None when refusals are graded like
                other answers.
            **kwargs: see `PresetEvaluator`.
        """
        super().__init__(name, members, **kwargs)
        self._refusal = refusal
        if refusal is not None:
            spec = self.PARAM_SPEC
            compared = frozenset({EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT, EvalParam.EXPECTED_OUTPUT})
            self.PARAM_SPEC = spec._replace(required=spec.required | compared, optional=spec.optional - compared)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if self._refusal is None or not str(kwargs["actual_output"]).strip():
            return await super()._evaluate_impl(**kwargs)
        asked = {"input": kwargs["input"], "actual_output": kwargs["actual_output"]}
        refusal = await self._outcome(Member("refusal", self._refusal), asked)
        found = refusal.result
        if found is None:
            return self._whole([refusal])
        shown = {"explanation": found.reasoning, **found.metadata}
        if found.passed:
            facts = {"refused": False, **({"refusal": shown} if "panel" in found.metadata else {})}
            return self._whole(await self._outcomes(kwargs), facts)
        should = False
        if str(kwargs["expected_output"]).strip():
            compared = await self._refusal.evaluate(input=kwargs["input"], actual_output=kwargs["expected_output"])
            should = not compared.passed
        judge = found.metadata.get("judge")
        return PresetResult(
            score=float(should),
            passed=should,
            reasoning=told(True, should, found.reasoning.partition(": ")[2] or found.reasoning),
            metric_name=self.metric_name,
            metadata={
                **({} if judge is None else {"judge": judge}),
                "refused": True,
                "should_refuse": should,
                "refusal": shown,
            },
        )
