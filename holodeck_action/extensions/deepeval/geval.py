"""G-Eval: user-defined criteria, graded by a judge (Liu et al. 2023, arXiv:2303.16634, as DeepEval implements it)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.entities import GEvalConfig, check_criteria, check_params
from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.extensions.deepeval.rubric import RubricLevel, check_rubric, interpolate_score
from holodeck_action.llm.calls import Meter, judge_context, use_context
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import EvaluationResult, RetryConfig
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.metrics.judging.libraries import LibraryJudge, LocalJudge, evaluate_in_library
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.record.evaluation import Polarity

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.settings import Traces

_HIGHEST = 10


class GEvalEvaluator(DeepEvalBaseEvaluator):
    """Grades an answer from 0 to 10 by user-defined criteria; the score is scaled to 0..1.

    If the judge gives log probabilities, the score is the mean of the possible scores, weighted by their probabilities;
    in this case, `log_probability_weighted` in the metadata is true.
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
        rubric: Sequence[RubricLevel] | None = None,
        polarity: Polarity = "maximize",
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure the evaluator.

        Args:
            name: name of the metric.
            criteria: criteria for grading, in words.
            evaluation_params: inputs that the judge sees: actual_output, which is the default, and any of input,
                expected_output, context and retrieval_context.
            evaluation_steps: steps that the judge follows; if None, the judge writes them from the criteria, once for
                all evaluations.
            model_config: see the base class.
            threshold: lowest passing score, 0..1.
            strict_mode: whether the judge answers only 1 or 0.
            timeout: time limit of one evaluation, in seconds.
            retry_config: retries of transient failures.
            observability_config: see the base class.
            rubric: levels that the judge chooses from, instead of 0 to 10; cannot be combined with `strict_mode`.
            polarity: whether high or low scores are good. If low scores are good, `threshold` is the highest passing
                score.
            judge: see the base class.

        Raises:
            ValueError: the criteria are empty, a parameter is unknown, `actual_output` is missing, or the rubric is
                invalid.
        """
        super().__init__(model_config, threshold, timeout, retry_config, observability_config, judge=judge)
        check_criteria(criteria)
        shown = tuple(evaluation_params) if evaluation_params is not None else ("actual_output",)
        check_params(shown)
        if rubric is not None and strict_mode:
            raise ValueError("strict_mode grades with 1 or 0, a rubric with its levels; use one of them")
        self._rubric = None if rubric is None else check_rubric(rubric)
        self._polarity = polarity
        self._metric_name = name
        self._criteria = criteria
        self._evaluation_params = shown
        self._steps = None if evaluation_steps is None else tuple(evaluation_steps)
        self._evaluation_steps = self._steps
        self._strict_mode = strict_mode
        self._steps_lock = asyncio.Lock()
        self.PARAM_SPEC = ParamSpec(
            required=frozenset(EvalParam(param) for param in shown),
            optional=frozenset({EvalParam.INPUT}) - frozenset(EvalParam(param) for param in shown),
            uses_context="context" in shown,
            uses_retrieval_context="retrieval_context" in shown,
        )

    @classmethod
    def from_config(cls, config: GEvalConfig, **options: Any) -> Self:
        """Create an evaluator from a configuration; `options` are further constructor arguments."""
        return cls(
            name=config.name,
            criteria=config.criteria,
            evaluation_params=config.evaluation_params,
            evaluation_steps=config.evaluation_steps,
            threshold=config.threshold,
            strict_mode=config.strict_mode,
            **options,
        )

    def with_model(self, model_config: JudgeModelConfig, timeout: float | None) -> Self:
        """Return a copy of the evaluator for another model, which writes new steps unless the caller gave steps."""
        found = super().with_model(model_config, timeout)
        found._steps = self._evaluation_steps
        found._steps_lock = asyncio.Lock()
        return found

    @property
    def name(self) -> str:
        """The name given to the metric."""
        return self._metric_name

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps that the judge follows; None if they have not been written yet."""
        return self._steps

    def use_steps(self, steps: Sequence[str]) -> None:
        """Use steps that the judge wrote earlier; does nothing if the evaluator already has steps.

        Raises:
            ValueError: `steps` is empty.
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
        params = load_module("deepeval.test_case").SingleTurnParams
        return load_module("deepeval.metrics").GEval(
            name=self._metric_name,
            criteria=self._criteria,
            evaluation_steps=None if self._steps is None else list(self._steps),
            evaluation_params=[params(param) for param in self._evaluation_params],
            model=self._model,
            threshold=self._threshold,
            strict_mode=self._strict_mode,
            rubric=self._deepeval_rubric(),
        )

    def _deepeval_rubric(self) -> list[Any] | None:
        """Return the rubric in DeepEval's form; None if there is no rubric."""
        if self._rubric is None:
            return None
        rubric = load_module("deepeval.metrics.g_eval").Rubric
        return [rubric(score_range=(item.level, item.level), expected_outcome=item.outcome) for item in self._rubric]

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        if self._rubric is None:
            return super()._result(metric, test_case, judge)
        low, high = metric.score_range
        # Undo DeepEval's scaling; rounding keeps whole levels whole.
        raw = round(low + float(metric.score) * (high - low), 9)
        metric.score = interpolate_score(self._rubric, raw)
        return replace(super()._result(metric, test_case, judge), raw_score=raw)

    def _worker_arguments(self) -> dict[str, Any]:
        return {**super()._worker_arguments(), "steps": self._steps}

    async def _prepare_steps(self, judge: JudgeModel) -> None:
        """Let the judge write the steps if none are given, once for all trials and cases."""
        if self._steps is not None:
            return
        async with self._steps_lock:
            if self._steps is None:
                # The cost belongs to no single evaluation.
                with use_context(structs.replace(judge_context(), repeat=0, sample=0, meter=Meter())):
                    if self._is_built_in:
                        self._steps = tuple(await evaluate_in_library("deepeval", self._worker_arguments(), judge))
                    else:
                        self._steps = tuple(await self.write_steps(LocalJudge(judge)))

    async def write_steps(self, judge: LibraryJudge) -> list[str]:
        """Let a judge write the steps, using DeepEval in this process, and return them."""
        with self.use_judge(judge, {}):
            return [*map(str, await self._create_metric()._a_generate_evaluation_steps(False))]

    def _verdict_problem(self, verdict: Any) -> str | None:
        steps = getattr(verdict, "steps", None)
        if steps is not None:
            return None if any(step.strip() for step in steps) else "it lists no steps"
        score = verdict.score
        if self._strict_mode:
            return None if score in (0, 1) else f"the score {score:g} is neither 0 nor 1"
        if self._rubric is not None:
            levels = [item.level for item in self._rubric]
            return None if score in levels else f"the score {score:g} is not one of {', '.join(map(str, levels))}"
        return None if 0 <= score <= _HIGHEST else f"the score {score:g} is not from 0 to {_HIGHEST}"

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        return {
            "criteria": self._criteria,
            "auto_generated_steps": self._evaluation_steps is None,
            "strict_mode": self._strict_mode,
            "log_probability_weighted": bool(metric.model.weighted) and not self._strict_mode,
        }
