"""G-Eval: criteria of one's own, graded by a judge (Liu et al. 2023, arXiv:2303.16634, as DeepEval implements it)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.entities import GEvalConfig, check_criteria, check_params
from holodeck_action.extensions.deepeval.library import module
from holodeck_action.extensions.deepeval.rubric import Level, check_rubric, score_at
from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult, RetryConfig
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.metrics.judging.libraries import AskedJudge, LocalJudge, evaluated
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.record.evaluation import Polarity

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.settings import Traces

_HIGHEST = 10


class GEvalEvaluator(DeepEvalBaseEvaluator):
    """Grades an answer from 0 to 10 by criteria, and scales it to 0..1.

    Where the judge gives log probabilities, the score is the mean of the possible scores weighted by how probable the
    judge found them; the metadata says whether it was.
    """

    METRIC = "GEval"

    def __init__(
        self,
        name: str,
        criteria: str,
        evaluation_params: Sequence[str] | None = None,
        evaluation_steps: Sequence[str] | None = None,
        model_config: DeepEvalModelConfig | None = None,
        threshold: float | None = 0.5,
        strict_mode: bool = False,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        observability_config: Traces | None = None,
        *,
        rubric: Sequence[Level] | None = None,
        polarity: Polarity = "maximize",
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure.

        Args:
            name: the metric's name.
            criteria: what is graded, in words.
            evaluation_params: what the judge sees: any of input, actual_output, expected_output, context and
                retrieval_context; by default only actual_output.
            evaluation_steps: how the judge proceeds; written by the judge from the criteria when absent, once for all
                evaluations.
            model_config: see the base class.
            threshold: lowest passing score, 0..1.
            strict_mode: the judge answers 1 or 0.
            timeout: seconds one evaluation may take.
            retry_config: retries of transient failures.
            observability_config: see the base class.
            rubric: the levels that the judge chooses from, instead of 0 to 10; not together with `strict_mode`.
            polarity: whether high or low scores are good; `threshold` is the highest passing score where low ones are.
            judge: see the base class.

        Raises:
            ValueError: no criteria, unknown parameters, parameters without actual_output, or a rubric that is none.
        """
        super().__init__(model_config, threshold, timeout, retry_config, observability_config, judge=judge)
        check_criteria(criteria)
        shown = tuple(evaluation_params) if evaluation_params is not None else ("actual_output",)
        check_params(shown)
        if rubric is not None and strict_mode:
            raise ValueError("strict_mode asks for 1 or 0, and a rubric for its levels: give one of them")
        self._rubric = None if rubric is None else check_rubric(rubric)
        self._polarity = polarity
        self._metric_name = name
        self._criteria = criteria
        self._evaluation_params = shown
        self._steps = None if evaluation_steps is None else tuple(evaluation_steps)
        self._evaluation_steps = self._steps
        self._strict_mode = strict_mode
        self._writing = asyncio.Lock()
        self.PARAM_SPEC = ParamSpec(
            required=frozenset(EvalParam(param) for param in shown),
            optional=frozenset({EvalParam.INPUT}) - frozenset(EvalParam(param) for param in shown),
            uses_context="context" in shown,
            uses_retrieval_context="retrieval_context" in shown,
        )

    @classmethod
    def from_config(cls, config: GEvalConfig, **options: Any) -> Self:
        """Return the evaluator of a configuration; `options` are the other arguments of the class."""
        return cls(
            name=config.name,
            criteria=config.criteria,
            evaluation_params=config.evaluation_params,
            evaluation_steps=config.evaluation_steps,
            threshold=config.threshold,
            strict_mode=config.strict_mode,
            **options,
        )

    def graded_by(self, model_config: JudgeModelConfig, timeout: float | None) -> Self:
        """Return a copy that another model grades; it writes its own steps unless they were given."""
        found = super().graded_by(model_config, timeout)
        found._steps = self._evaluation_steps
        found._writing = asyncio.Lock()
        return found

    @property
    def name(self) -> str:
        """The metric's own name."""
        return self._metric_name

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps that the judge follows; None as long as it has not written them."""
        return self._steps

    def follow(self, steps: Sequence[str]) -> None:
        """Take up steps that the judge wrote before; those that it has, given or written, stay.

        Raises:
            ValueError: there are none.
        """
        if not steps:
            raise ValueError("there must be at least one step")
        if self._steps is None:
            self._steps = tuple(steps)

    def _arguments(self) -> dict[str, Any]:
        return {
            **super()._arguments(),
            "name": self._metric_name,
            "criteria": self._criteria,
            "evaluation_params": self._evaluation_params,
            "evaluation_steps": self._evaluation_steps,
            "strict_mode": self._strict_mode,
            "rubric": self._rubric and [structs.asdict(level) for level in self._rubric],
            "polarity": self._polarity,
        }

    def _create_metric(self) -> Any:
        params = module("deepeval.test_case").SingleTurnParams
        return module("deepeval.metrics").GEval(
            name=self._metric_name,
            criteria=self._criteria,
            evaluation_steps=None if self._steps is None else list(self._steps),
            evaluation_params=[params(param) for param in self._evaluation_params],
            model=self._model,
            threshold=self._threshold,
            strict_mode=self._strict_mode,
            rubric=self._offered(),
        )

    def _offered(self) -> list[Any] | None:
        """Return the rubric as DeepEval takes it."""
        if self._rubric is None:
            return None
        rubric = module("deepeval.metrics.g_eval").Rubric
        return [rubric(score_range=(item.level, item.level), expected_outcome=item.outcome) for item in self._rubric]

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if self._rubric is None:
            return super()._result(metric, test_case, judge)
        low, high = metric.score_range
        # Undoes DeepEval's scaling, whose rounding must not move a whole level.
        raw = round(low + float(metric.score) * (high - low), 9)
        metric.score = score_at(self._rubric, raw)
        return replace(super()._result(metric, test_case, judge), raw_score=raw)

    def _request(self) -> dict[str, Any]:
        return {**super()._request(), "steps": self._steps}

    async def _begin(self, judge: JudgeModel) -> None:
        """Let the judge write the steps if nobody has; all trials of all cases follow the same ones."""
        if self._steps is not None:
            return
        async with self._writing:
            if self._steps is None:
                # Nobody's evaluation in particular pays for it.
                context = structs.replace(
                    CALL.get(CallContext("judge", 0, None, Meter())), repeat=0, sample=0, meter=Meter()
                )
                token = CALL.set(context)
                try:
                    if self._is_ours:
                        self._steps = tuple(await evaluated("deepeval", self._request(), judge))
                    else:
                        self._steps = tuple(await self.write_steps(LocalJudge(judge)))
                finally:
                    CALL.reset(token)

    async def write_steps(self, judge: AskedJudge) -> list[str]:
        """Let a judge write steps, in this process."""
        with self.asking(judge):
            return [*map(str, await self._create_metric()._a_generate_evaluation_steps(False))]

    def _problem(self, verdict: Any) -> str | None:
        steps = getattr(verdict, "steps", None)
        if steps is not None:
            return None if any(step.strip() for step in steps) else "it names no steps"
        score = verdict.score
        if self._strict_mode:
            return None if score in (0, 1) else f"the score {score:g} is neither 0 nor 1"
        if self._rubric is not None:
            levels = [item.level for item in self._rubric]
            return None if score in levels else f"the score {score:g} is none of {', '.join(map(str, levels))}"
        return None if 0 <= score <= _HIGHEST else f"the score {score:g} is not from 0 to {_HIGHEST}"

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        return {
            "criteria": self._criteria,
            "auto_generated_steps": self._evaluation_steps is None,
            "strict_mode": self._strict_mode,
            "log_probability_weighted": bool(metric.model.weighted) and not self._strict_mode,
        }
