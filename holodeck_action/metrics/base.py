"""The one interface of all evaluators: parameters by either name, deadline, retries of transient failures.

Source: HoloDeck evaluation API, Base Framework.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, final

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from holodeck_action.llm.limits.pauses import TimeLimit, is_late
from holodeck_action.metrics.errors import (
    DeepEvalError,
    EvaluationError,
    NLPMetricsError,
    ProviderNotSupportedError,
)
from holodeck_action.metrics.params import (
    DEEPEVAL_PARAMS,
    OTHER_NAME,
    REPORT_CALLS,
    EvalParam,
    ParamSpec,
    aggregate_fields,
    declared_names,
)
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.text.plain import whole
from holodeck_action.workers.threads import in_daemon_thread

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeModel
    from holodeck_action.workers.pool import WorkerPool

__all__ = [
    "DEEPEVAL_PARAMS",
    "BaseEvaluator",
    "DeepEvalError",
    "DeterministicEvaluator",
    "EvalParam",
    "EvaluationError",
    "EvaluationResult",
    "NLPMetricsError",
    "ParamSpec",
    "ProviderNotSupportedError",
    "RetryConfig",
]

# Repeating an operation on a file that is not there, or not allowed, changes nothing.
_LASTING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


class RetryConfig(BaseModel):
    """Retries of transient failures with exponential back-off.

    The defaults make at most three attempts, 2 and 4 seconds apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    max_retries: int = Field(default=3, ge=0)
    """Attempts in all, as HoloDeck counts them; 0 is one too."""
    base_delay: float = Field(default=2.0, gt=0)
    """Seconds before the first retry."""
    max_delay: float = Field(default=60.0, gt=0)
    """Longest wait in seconds."""
    exponential_base: float = Field(default=2.0, ge=1)
    """Factor from one wait to the next."""

    @property
    def attempts(self) -> int:
        """How often an evaluation is tried at most, the first time included."""
        return max(1, self.max_retries)

    def delays(self) -> Iterator[float]:
        """Yield the wait in seconds before each retry."""
        delay = self.base_delay
        for _ in range(self.attempts - 1):
            yield min(delay, self.max_delay)
            delay = min(delay * self.exponential_base, self.max_delay)


class BaseEvaluator(ABC):
    """An evaluator: a subclass declares `PARAM_SPEC` and implements `_evaluate_impl`.

    Attributes:
        timeout: seconds one `evaluate` may take, retries included; None for no limit.
        retry_config: retries of transient failures.
        PARAM_SPEC: the parameters it takes, in either naming convention.
        VERSION: changes whenever the same input may score differently.
    """

    PARAM_SPEC: ParamSpec = ParamSpec()
    VERSION: ClassVar[str] = "1.0.0"

    def __init__(self, timeout: float | None = 60.0, retry_config: RetryConfig | None = None) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds or None, not {timeout!r}")
        self.timeout = timeout
        self.retry_config = retry_config or RetryConfig()

    @property
    def name(self) -> str:
        """The evaluator's name: its class's, unless a subclass says otherwise."""
        return type(self).__name__

    @property
    def metric_name(self) -> str:
        """The key under which results hold the score."""
        return self.name

    @property
    def version(self) -> str:
        """What records keep as `evaluator_version`: `VERSION`, or what computes the score, with its settings."""
        return self.VERSION

    @classmethod
    def get_param_spec(cls) -> ParamSpec:
        """Return what the evaluator needs."""
        return cls.PARAM_SPEC

    @property
    def required_fields(self) -> set[str]:
        """The names of the inputs without which it cannot evaluate."""
        return {param.value for param in self.PARAM_SPEC.required}

    @classmethod
    def get_input_fields(cls) -> list[str]:
        """Return the names of all inputs, the required ones first, in the order of `EvalParam`."""
        return [entry["name"] for entry in cls.get_input_spec()]

    @classmethod
    def get_input_spec(cls) -> list[dict[str, Any]]:
        """Return `{name, required, also}` per input; `also` is its name in the other convention, None without one."""
        spec = cls.PARAM_SPEC
        declared = [param for param in EvalParam if param in spec.required]
        declared += [param for param in EvalParam if param in spec.optional - spec.required]
        return [
            {"name": param.value, "required": param in spec.required, "also": OTHER_NAME.get(param)}
            for param in declared
        ]

    @staticmethod
    def aggregate_required_fields(metrics: Iterable[BaseEvaluator], mode: str = "any") -> set[str]:
        """Combine the required fields of several evaluators; see `params.aggregate_fields` for the modes.

        Raises:
            ValueError: an unknown mode.
        """
        return aggregate_fields((metric.required_fields for metric in metrics), mode)

    @staticmethod
    def can_evaluate_any(metrics: Iterable[BaseEvaluator], data: Mapping[str, Any]) -> bool:
        """Tell whether at least one of the evaluators has all its required inputs in `data`, under either name."""
        given = {name for name, value in data.items() if value is not None}
        return any(
            all(
                param.value in given or OTHER_NAME.get(param, param).value in given
                for param in metric.PARAM_SPEC.required
            )
            for metric in metrics
        )

    async def evaluate(self, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item.

        Args:
            **kwargs: the parameters of `PARAM_SPEC`, under the name of either convention; None counts as not given.

        Raises:
            TimeoutError: it took longer than `timeout`.
            EvaluationError: a required parameter is missing (code `missing_input`), the score is no score (code
                `invalid_score`), transient failures outlasted the retries (code `retries_exhausted`), or the evaluator
                failed.
        """
        arguments = self.resolve(kwargs)
        try:
            async with TimeLimit(self.timeout):
                return await self._with_retries(arguments)
        except TimeoutError:
            limit = "it may" if self.timeout is None else f"{self.timeout:g} s"
            raise TimeoutError(f"{self.name} took longer than {limit}") from None

    def is_transient(self, error: Exception) -> bool:
        """Tell whether trying again may help: connection trouble and timeouts below the evaluator."""
        return isinstance(error, OSError) and not isinstance(error, _LASTING)

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Rename parameters to the names `PARAM_SPEC` declares; other names stay as they are.

        Raises:
            EvaluationError: a required parameter is missing (code `missing_input`, its name in the context), or one is
                given under both names with different values (code `ambiguous_input`).
        """
        names = declared_names(self.PARAM_SPEC)
        arguments: dict[str, Any] = {}
        for name, value in given.items():
            if value is None:
                continue
            declared = names.get(name, name)
            if declared in arguments and arguments[declared] != value:
                other = OTHER_NAME[EvalParam(declared)].value
                raise EvaluationError(
                    f"{self.name} got {declared} and {other} with different values: they are two names of one thing",
                    code="ambiguous_input",
                )
            arguments[declared] = value
        if not self.PARAM_SPEC.required <= arguments.keys():
            raise self._missing(
                next(param for param in EvalParam if param in self.PARAM_SPEC.required - arguments.keys())
            )
        return arguments

    def knows(self, given: Mapping[str, Any], trial: int) -> bool | None:
        """Tell whether all is known already for which somebody would be asked; None where nobody would be.

        Args:
            given: the inputs of an item.
            trial: index of the trial: every trial is judged anew.
        """
        return None

    def result_of(self, outcome: EvaluationResult | Mapping[str, Any]) -> EvaluationResult:
        """Return what `_evaluate_impl` gave as a checked result.

        A plain mapping may hold any field of `EvaluationResult`, the score under the metric's name instead, and extra
        keys, which become metadata.

        Raises:
            EvaluationError: the score is not a score (code `invalid_score`), or nothing in it is (code
                `invalid_result`).
        """
        if isinstance(outcome, EvaluationResult):
            return outcome
        if not isinstance(outcome, Mapping) or not ({"score", self.metric_name} & outcome.keys()):
            raise EvaluationError(
                f"{self.name} must return an EvaluationResult or a mapping with a score, "
                f"not {type(outcome).__name__}{' without one' if isinstance(outcome, Mapping) else ''}",
                code="invalid_result",
            )
        facts = dict(outcome)
        score = facts.pop(self.metric_name, None)
        steps = facts.pop("evaluation_steps", None)
        return EvaluationResult(
            score=facts.pop("score", score),
            passed=facts.pop("passed", None),
            reasoning=facts.pop("reasoning", None) or "",
            metric_name=facts.pop("metric_name", self.metric_name),
            threshold=facts.pop("threshold", None),
            raw_score=facts.pop("raw_score", None),
            evaluation_steps=None if steps is None else tuple(steps),
            polarity=facts.pop("polarity", "maximize"),
            confidence=facts.pop("confidence", None),
            metadata={**facts.pop("metadata", {}), **facts},
        )

    @abstractmethod
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult | Mapping[str, Any]:
        """Evaluate once; parameters come under the names of `PARAM_SPEC`, the required ones always."""

    async def _with_retries(self, arguments: Mapping[str, Any]) -> EvaluationResult:
        delays = self.retry_config.delays()
        while True:
            try:
                return self.result_of(await self._evaluate_impl(**arguments))
            except EvaluationError as error:
                if not self.is_transient(error):
                    raise
                failure: Exception = error
            except Exception as error:
                if not self.is_transient(error):
                    raise EvaluationError(f"{self.name} failed: {describe(error)}", code="evaluator_error") from error
                failure = error
            if is_late():
                # The limits of a call and of its metric end together: the faster timer must not decide what is told.
                raise TimeoutError from failure
            delay = next(delays, None)
            if delay is None:
                attempts = self.retry_config.attempts
                raise EvaluationError(
                    f"{self.name} failed after {attempts} attempt{'s' if attempts > 1 else ''}: {describe(failure)}",
                    code="retries_exhausted",
                    context=failure.context if isinstance(failure, EvaluationError) else None,
                ) from failure
            await asyncio.sleep(delay)

    def _missing(self, param: EvalParam) -> EvaluationError:
        other = OTHER_NAME.get(param)
        also = f" (or {other.value})" if other else ""
        way_out = f": {REPORT_CALLS}" if param is EvalParam.TOOL_INVOCATIONS else ""
        return EvaluationError(
            f"{self.name} needs {param.value}{also}, which was not given{way_out}",
            code="missing_input",
            context={"parameter": param.value},
        )


OfJudge = Callable[["JudgeModel | None", dict[str, Any]], BaseEvaluator]
"""Makes the evaluator that asks one judge; the second argument holds its timeout and retries, and without a judge the
configuration of its model."""


class Building(Struct, frozen=True):
    """What the evaluator of a metric is built with.

    Attributes:
        options: `timeout` and `retry_config`, as every evaluator takes them.
        judged: finds who grades a metric, or a part of one, and makes its evaluator: one model's, or a panel's.
        member: makes the evaluator of a member; the number is its cut-off rank.
        k: the metric's own cut-off rank.
        pool: the workers in which the suite's own code runs.
    """

    options: Mapping[str, Any]
    judged: Callable[[Metric, OfJudge], BaseEvaluator]
    member: Callable[[Metric, int | None], BaseEvaluator]
    k: int | None = None
    pool: WorkerPool | None = None

    def asking(self, config: Metric, evaluator: Callable[..., BaseEvaluator], **options: Any) -> BaseEvaluator:
        """Return what asks whoever grades a metric; `evaluator` takes `judge` besides these options."""
        return self.judged(config, lambda judge, shared: evaluator(judge=judge, **options, **shared))


class DeterministicEvaluator(BaseEvaluator):
    """An evaluator that only computes: a subclass implements `compute`, which needs no event loop.

    `QUICK_ON_SHORT_TEXTS` says whether it takes milliseconds where all inputs are short texts.
    """

    QUICK_ON_SHORT_TEXTS: ClassVar[bool] = False

    @abstractmethod
    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item.

        Args:
            **kwargs: the parameters under the names of `PARAM_SPEC`, the required ones always, no others.

        Raises:
            EvaluationError: it cannot be evaluated.
        """

    def is_quick(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether `compute` takes milliseconds at most: a thread and a time limit would cost more than it does."""
        return self.QUICK_ON_SHORT_TEXTS and all(
            isinstance(value, str) and len(value) <= _SHORT for value in arguments.values()
        )

    @final
    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Rename parameters to the declared names; parameters of other evaluators are left out.

        Raises:
            EvaluationError: as in `BaseEvaluator.resolve`, or a name is no evaluation parameter at all (code
                `unknown_parameter`).
        """
        arguments = super().resolve(given)
        declared = declared_names(self.PARAM_SPEC)
        if not arguments.keys() <= _PARAM_NAMES:
            name = next(name for name in arguments if name not in _PARAM_NAMES)
            raise EvaluationError(
                f"{self.name} knows no parameter {name!r:.80} (it takes: {', '.join(sorted(declared))})",
                code="unknown_parameter",
            )
        return {name: value for name, value in arguments.items() if name in declared}

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        return await asyncio.wrap_future(in_daemon_thread(lambda: self.compute(**kwargs)))


_PARAM_NAMES = frozenset(param.value for param in EvalParam)


_SHORT = 4_000
"""Characters of a text that any of our metrics compares in milliseconds."""


_LONGEST_ERROR = 10_000
"""Characters of an exception's text."""


def describe(error: BaseException) -> str:
    """Return type and text of an exception on one line; of a huge one its length, as no secret is known here."""
    text = " ".join(whole(str(error), _LONGEST_ERROR).split()).encode(errors="backslashreplace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
