"""The interface of all evaluators, with a time limit and retries of transient failures. Parameters can have the names
of either of two conventions (see `params`).

Source: HoloDeck evaluation API, Base Framework.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

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
from holodeck_action.text.plain import line_or_length

if TYPE_CHECKING:
    from holodeck_action.llm.embeddings import Embedder
    from holodeck_action.llm.judge import JudgeModel
    from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
    from holodeck_action.metrics.unrelated_texts import ExpectedTexts
    from holodeck_action.workers.pool import WorkerPool

__all__ = [
    "DEEPEVAL_PARAMS",
    "BaseEvaluator",
    "DeepEvalError",
    "EvalParam",
    "EvaluationError",
    "EvaluationResult",
    "NLPMetricsError",
    "ParamSpec",
    "ProviderNotSupportedError",
    "RetryConfig",
]

# A retry does not help if a file is missing or access is denied.
_PERMANENT = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


class RetryConfig(BaseModel):
    """Retries of transient failures with exponential back-off.

    By default there are at most three attempts, 2 and 4 seconds apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    max_retries: int = Field(default=3, ge=0)
    """Maximum number of attempts, as HoloDeck counts them; 0 also means one attempt."""
    base_delay: float = Field(default=2.0, gt=0)
    """Seconds before the first retry."""
    max_delay: float = Field(default=60.0, gt=0)
    """Maximum wait in seconds."""
    exponential_base: float = Field(default=2.0, ge=1)
    """Factor between consecutive waits."""

    @property
    def attempts(self) -> int:
        """Maximum number of attempts, including the first."""
        return max(1, self.max_retries)

    def delays(self) -> Iterator[float]:
        """Yield the seconds to wait before each retry."""
        delay = self.base_delay
        for _ in range(self.attempts - 1):
            yield min(delay, self.max_delay)
            delay = min(delay * self.exponential_base, self.max_delay)


class BaseEvaluator(ABC):
    """An evaluator: a subclass declares `PARAM_SPEC` and implements `_evaluate_impl`.

    Attributes:
        timeout: maximum seconds of one `evaluate`, including retries; None if there is no limit.
        retry_config: retries of transient failures.
        PARAM_SPEC: parameters of the evaluator, named by one of the two conventions.
        VERSION: version of the scoring; it must change whenever the score of an input may change.
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
        """The evaluator's name, by default the name of its class."""
        return type(self).__name__

    @property
    def metric_name(self) -> str:
        """The key of the score in results."""
        return self.name

    @property
    def version(self) -> str:
        """The `evaluator_version` of records: `VERSION`, or the name and release of a library with its settings."""
        return self.VERSION

    @classmethod
    def get_param_spec(cls) -> ParamSpec:
        """Return the evaluator's parameters."""
        return cls.PARAM_SPEC

    @property
    def required_fields(self) -> set[str]:
        """The names of the required inputs."""
        return {param.value for param in self.PARAM_SPEC.required}

    @classmethod
    def get_input_fields(cls) -> list[str]:
        """Return the names of all inputs: required inputs first, each group in the order of `EvalParam`."""
        return [entry["name"] for entry in cls.get_input_spec()]

    @classmethod
    def get_input_spec(cls) -> list[dict[str, Any]]:
        """Return `{name, required, also}` per input; `also` is its name in the other convention, or None if it has only
        one name.
        """
        spec = cls.PARAM_SPEC
        declared = [param for param in EvalParam if param in spec.required]
        declared += [param for param in EvalParam if param in spec.optional - spec.required]
        return [
            {"name": param.value, "required": param in spec.required, "also": OTHER_NAME.get(param)}
            for param in declared
        ]

    @staticmethod
    def aggregate_required_fields(metrics: Iterable[BaseEvaluator], mode: str = "any") -> set[str]:
        """Return the combined required fields of several evaluators; see `params.aggregate_fields` for the modes.

        Raises:
            ValueError: the mode is unknown.
        """
        return aggregate_fields((metric.required_fields for metric in metrics), mode)

    @staticmethod
    def can_evaluate_any(metrics: Iterable[BaseEvaluator], data: Mapping[str, Any]) -> bool:
        """Return whether `data` has all required inputs of at least one evaluator; each input may have either of its
        names.
        """
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
            **kwargs: the parameters of `PARAM_SPEC`, under the names of either convention; a parameter that is None
                counts as missing.

        Raises:
            TimeoutError: the evaluation took longer than `timeout`.
            EvaluationError: a required parameter is missing (code `missing_input`), the score is invalid (code
                `invalid_score`), all retries failed (code `retries_exhausted`), or the evaluator failed.
        """
        arguments = self.resolve(kwargs)
        try:
            async with TimeLimit(self.timeout):
                return await self._with_retries(arguments)
        except TimeoutError:
            limit = "it may" if self.timeout is None else f"{self.timeout:g} s"
            raise TimeoutError(f"{self.name} took longer than {limit}") from None

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry may help: by default, for connection errors and timeouts inside the evaluator."""
        return isinstance(error, OSError) and not isinstance(error, _PERMANENT)

    def resolve(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Rename parameters to the names that `PARAM_SPEC` declares; other names are kept.

        Raises:
            EvaluationError: a required parameter is missing (code `missing_input`, its name in the context), or is
                given under both names with different values (code `ambiguous_input`).
        """
        names = declared_names(self.PARAM_SPEC)
        arguments: dict[str, Any] = {}
        for name, value in inputs.items():
            if value is None:
                continue
            declared = names.get(name, name)
            if declared in arguments and arguments[declared] != value:
                other = OTHER_NAME[EvalParam(declared)].value
                raise EvaluationError(
                    f"{self.name} got {declared} and {other} with different values; they are two names of the "
                    "same parameter",
                    code="ambiguous_input",
                )
            arguments[declared] = value
        if not self.PARAM_SPEC.required <= arguments.keys():
            raise self._missing_error(
                next(param for param in EvalParam if param in self.PARAM_SPEC.required - arguments.keys())
            )
        return arguments

    @property
    def computes(self) -> bool:
        """Whether the evaluator needs neither models nor code of the suite."""
        return False

    def knows_verdicts(self, inputs: Mapping[str, Any], trial: int) -> bool | None:
        """Return whether all needed verdicts of judges are stored from earlier runs; None if no judge is needed.

        Args:
            inputs: inputs of an item by name.
            trial: index of the trial; each trial has its own verdicts.
        """
        return None

    def result_of(self, outcome: EvaluationResult | Mapping[str, Any]) -> EvaluationResult:
        """Return the outcome of `_evaluate_impl` as a validated result.

        A plain mapping may contain any field of `EvaluationResult`, the score under the metric's name, and extra keys,
        which become metadata.

        Raises:
            EvaluationError: the score is invalid (code `invalid_score`) or missing (code `invalid_result`).
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
        """Evaluate once; parameters have the names of `PARAM_SPEC`, and the required ones are always given."""

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
                # The time limits of call and metric end together: which one fires first must not change the error.
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

    def _missing_error(self, param: EvalParam) -> EvaluationError:
        other = OTHER_NAME.get(param)
        also = f" (or {other.value})" if other else ""
        hint = f": {REPORT_CALLS}" if param is EvalParam.TOOL_INVOCATIONS else ""
        return EvaluationError(
            f"{self.name} needs {param.value}{also}, which was not given{hint}",
            code="missing_input",
            context={"parameter": param.value},
        )


@runtime_checkable
class FollowsSteps(Protocol):
    """An evaluator whose judge follows evaluation steps, which the settings contain or the judge writes."""

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps; None until the judge has written them."""
        ...

    def use_steps(self, steps: Sequence[str]) -> None:
        """Use steps that the judge wrote earlier."""
        ...


class Around(BaseEvaluator):
    """An evaluator with the names, inputs and version of another one, and with a function around its grading."""

    def __init__(
        self,
        evaluator: BaseEvaluator,
        grade: Callable[[dict[str, Any]], Awaitable[EvaluationResult]],
        *,
        timeout: float | None = None,
        spec: ParamSpec | None = None,
        knows_verdicts: Callable[[Mapping[str, Any], int], bool] | None = None,
    ) -> None:
        """Create the evaluator.

        Args:
            evaluator: has the names and the version, and its own time limit and retries.
            grade: grades the inputs of one item.
            timeout: maximum seconds of one evaluation; None if there is no further limit.
            spec: the inputs; those of `evaluator` if None.
            knows_verdicts: see `BaseEvaluator.knows_verdicts`; None if no verdicts are kept.
        """
        super().__init__(timeout, RetryConfig(max_retries=0))
        self._evaluator, self._grade, self._knows = evaluator, grade, knows_verdicts
        self.PARAM_SPEC = spec or evaluator.PARAM_SPEC

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._evaluator.name

    @property
    def metric_name(self) -> str:
        """The key of the score in results."""
        return self._evaluator.metric_name

    @property
    def version(self) -> str:
        """Version of the evaluator inside."""
        return self._evaluator.version

    def knows_verdicts(self, inputs: Mapping[str, Any], trial: int) -> bool | None:
        """Return whether all needed verdicts are stored; None if none are kept."""
        return None if self._knows is None else self._knows(inputs, trial)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        return await self._grade(kwargs)


JudgeEvaluatorFactory = Callable[["JudgeModel | None", dict[str, Any]], BaseEvaluator]
"""Creates the evaluator for one judge. The second argument contains the evaluator's `timeout` and `retry_config` and,
if the judge is None, the configuration of the judge model.
"""


class Use(Struct):
    """What a metric may use to grade items.

    Attributes:
        grading: the model that grades; None if `model` names it, or if none is needed.
        model: the configuration of the judge, in programs.
        pool: workers that run the suite's own code.
        timeout: maximum seconds of one call of the suite's own code.
        embedder: the embedding model.
        expected_texts: collects the texts that metrics embed; None to collect none.
        code: digest of the suite's code that grades, after its first call.
    """

    grading: JudgeModel | None = None
    model: JudgeModelConfig | None = None
    pool: WorkerPool | None = None
    timeout: float | None = None
    embedder: Embedder | None = None
    expected_texts: ExpectedTexts | None = None
    code: str | None = None

    @property
    def judge(self) -> JudgeModel:
        """The model that grades.

        Raises:
            EvaluationError: there is none (code `no_judge`).
        """
        if self.grading is None:
            raise EvaluationError("no model is configured as judge", code="no_judge")
        return self.grading


class BuildContext(Struct, frozen=True):
    """The objects that are needed to build the evaluator of a metric.

    Attributes:
        options: arguments `timeout` and `retry_config` of the evaluator.
        judged: creates the evaluator of a judged metric, or of the judged part of a metric, for one judge or a panel.
        member: creates the evaluator of a composite's member; its second argument is the member's cut-off rank or None.
        k: cut-off rank of the metric; None if it has no cut-off.
        pool: workers that run the suite's own code.
        embedder: returns an embedding model by its name; it raises `EvaluationError` (code `no_judge`) if the model
            cannot be called.
        expected_texts: collects the texts that metrics embed, for notices of the run; None to collect none.
    """

    options: Mapping[str, Any]
    judged: Callable[[Metric, JudgeEvaluatorFactory], BaseEvaluator]
    member: Callable[[Metric, int | None], BaseEvaluator]
    k: int | None = None
    pool: WorkerPool | None = None
    embedder: Callable[[str], Embedder] | None = None
    expected_texts: ExpectedTexts | None = None

    def judged_evaluator(
        self, config: Metric, evaluator: Callable[..., BaseEvaluator], **options: Any
    ) -> BaseEvaluator:
        """Return the evaluator that calls a metric's judges: for each judge, `evaluator` is called with `judge` and the
        options.
        """
        return self.judged(config, lambda judge, shared: evaluator(judge=judge, **options, **shared))


_LONGEST_ERROR = 10_000
"""Maximum characters of an exception's message."""


def describe(error: BaseException) -> str:
    """Return type and message of an exception on one line. A huge message is replaced by its length, because a secret
    that was cut could not be masked.
    """
    text = " ".join(line_or_length(str(error), _LONGEST_ERROR).split()).encode(errors="backslashreplace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
