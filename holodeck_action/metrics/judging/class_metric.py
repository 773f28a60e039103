"""The base of metrics that name a class of an installed library, such as `{type: deepeval, metric: BiasMetric}`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

from msgspec import Struct
from pydantic import Field, WithJsonSchema, create_model, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.class_signatures import Parameter
from holodeck_action.seam import registry
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.base import FormatModel, NonBlank, UnitInterval
from holodeck_action.suite.model.metric_base import NO_INPUTS, JudgeCalls, JudgedMetric, Metric, Role
from holodeck_action.suite.model.probing import Exam
from holodeck_action.suite.model.providers import LLMProvider

Class = TypeVar("Class", bound="ClassMetric")


class ClassEntry(Struct, frozen=True, kw_only=True):
    """Properties of a library's class, read from the library's source.

    Attributes:
        name: name of the class.
        options: the options of a suite's entry by name.
        threshold: the class's default threshold, 0..1; None if there is no default.
        needs: the inputs of a turn that it requires besides question and answer.
        reads_calls: whether it needs the agent's tool calls.
        has_judge: whether it calls a model.
        judge_calls: estimated number of judge calls of one evaluation, except calls for the reason.
        tools_option: name of the option that takes the agent's tools; empty if it has none.
        tool_keys: the keys that each tool in this option must have.
        needs_tools: whether it cannot grade without the tools.
        reason_calls: number of calls for the reason, which `include_reason: false` saves.
    """

    name: str
    options: Mapping[str, Parameter]
    threshold: float | None = None
    needs: frozenset[str] = NO_INPUTS
    reads_calls: bool = False
    has_judge: bool = True
    judge_calls: int = 1
    tools_option: str = ""
    tool_keys: tuple[str, ...] = ("name", "description")
    needs_tools: bool = False
    reason_calls: int = 0


class ClassMetric(JudgedMetric):
    """A metric that names a class of a library. The class decides which options, inputs and judge the metric has.

    If the library is not installed, options, inputs and judge are unknown, and the metric is refused before a run.
    """

    ENTRY: ClassVar[Any] = None
    """The `ClassEntry` of the class; None if the library is not installed."""
    TITLE: ClassVar[str]
    """The library's name in messages."""

    metric: Annotated[NonBlank, Role.KIND]
    """Name of the class. Example: `HallucinationMetric`."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score, 0 to 1; the class's own default when absent. Example: `0.8`."""
    options: Annotated[Any, WithJsonSchema({"type": "object"})] = Field(default_factory=dict)
    """Arguments of the class, by name. Example: `{include_reason: false}`."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge; `evaluations.model` when absent."""

    def __new__(cls, **settings: Any) -> ClassMetric:
        """Create a metric of the class that the setting `metric` selects."""
        return super().__new__(cls.of(settings))

    @classmethod
    def class_names(cls) -> tuple[str, ...]:
        """Return the names of the library's metric classes, including classes that a suite cannot use; empty if the
        library is not installed."""
        raise NotImplementedError

    @classmethod
    def find_class(cls, name: str) -> ClassEntry | str | None:
        """Return the entry of a class, or why a suite cannot use it; None if the library has no such class."""
        raise NotImplementedError

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> builtins.type[ClassMetric]:
        """Return the subclass with the options of the class that the setting `metric` names."""
        name = value.get("metric")
        return _metric_of_class(cls, name) if cls.ENTRY is None and isinstance(name, str) else cls

    @classmethod
    def exams(cls) -> Mapping[str, Exam]:
        """Return the pairs by which judges are probed, by name of the class."""
        raise NotImplementedError

    @property
    def own_exam(self) -> Exam | None:
        """The pair of the class; None for a class of the suite, and for one that grades a free criterion."""
        return None if self.is_own else self.exams().get(self.metric)

    def for_exam(self) -> Self:
        """Return the metric with the options of its class's pair, unless the suite gives the pair."""
        exam = self.exam
        if exam is None or not exam.options or not isinstance(self.options, FormatModel):
            return self
        return self.model_copy(update={"options": self.options.model_copy(update=dict(exam.options))})

    @property
    def is_own(self) -> bool:
        """Whether the suite, not the library, defines the class; `with_file` then reads the class."""
        return False

    @model_validator(mode="after")
    def _check_class(self) -> Self:
        if self.ENTRY is None and not self.is_own and (names := self.class_names()):
            reason = self.find_class(self.metric)
            if reason is not None:
                context = {"name": self.metric, "reason": reason}
                raise PydanticCustomError("metric", "{name} cannot be used: {reason}", context)
            context = {"name": self.metric, "title": self.TITLE, "close": did_you_mean(self.metric, names)}
            raise PydanticCustomError("metric", "{name} is not a metric of {title}{close}", context)
        if not isinstance(self.options, Mapping | FormatModel):
            raise PydanticCustomError("options", "must be a mapping")
        return self

    @property
    def option_values(self) -> Mapping[str, Any]:
        """The options that the suite sets, by name."""
        if isinstance(self.options, FormatModel):
            return self.options.model_dump(exclude_unset=True)
        return self.options if isinstance(self.options, Mapping) else {}

    def with_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> Self:
        """Return a copy with the agent's tools as an option, unless the suite sets it or the tools are unknown."""
        entry = self.ENTRY
        if entry is None or not entry.tools_option or entry.tools_option in self.option_values or not tools:
            return self
        if not all(entry.tool_keys[-1] in tool for tool in tools):
            return self
        known = [{key: tool[key] for key in entry.tool_keys} for tool in tools]
        options = self.options.model_copy(update={entry.tools_option: known})
        return self.model_copy(update={"options": options})

    @property
    def measure(self) -> str:
        """Name of the class."""
        return self.metric

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the class requires in addition to question and answer."""
        return NO_INPUTS if self.ENTRY is None else self.ENTRY.needs

    @property
    def reads_expected_answer(self) -> bool:
        """Whether the class requires the expected answer; also True if its inputs are unknown."""
        return self.ENTRY is None or self.is_own or super().reads_expected_answer

    @property
    def reads_tool_calls(self) -> bool:
        """Whether the class needs the turn's tool calls."""
        return self.ENTRY is not None and self.ENTRY.reads_calls

    @property
    def pass_mark(self) -> float | None:
        """The threshold; the class's default if none is given."""
        if self.threshold is not None:
            return self.threshold
        return 0.5 if self.ENTRY is None or self.ENTRY.threshold is None else self.ENTRY.threshold

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the metric itself, unless its class calls no model."""
        if self.ENTRY is None or self.ENTRY.has_judge:
            yield "", self

    def library_parts(self) -> list[Metric]:
        """Return this metric if a library computes it without a model, else an empty list."""
        return [] if self.needs_judge else [self]

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the estimated judge calls of one evaluation, including the call for the reason."""
        if self.ENTRY is not None and self.ENTRY.has_judge:
            explained = self.option_values.get("include_reason", True)
            yield JudgeCalls(self, self.ENTRY.judge_calls + (self.ENTRY.reason_calls if explained else 0))

    def require_entry(self) -> Any:
        """Return the `ClassEntry` of the class.

        Raises:
            EvaluationError: the library is not installed (code `not_installed`), the class is one of a suite but used
                outside it (`unsupported_metric`), or the agent's tools are needed but unknown (`missing_input`).
        """
        if self.ENTRY is None and self.is_own:
            raise EvaluationError(
                f"{self.metric} is a class of a suite: name it in agent.yaml", code="unsupported_metric"
            )
        if self.ENTRY is None:
            way = way_to_get(registry.libraries()[self.library or ""].extra)
            raise EvaluationError(
                f"{self.metric} needs {self.TITLE}, which is not installed; {way}", code="not_installed"
            )
        option = self.ENTRY.tools_option
        if self.ENTRY.needs_tools and not self.option_values.get(option):
            raise EvaluationError(
                f"{self.metric} needs the {', '.join(self.ENTRY.tool_keys)} of each tool that the agent may call; "
                f"the suite's `tools` do not give them: write the option {option}",
                code="missing_input",
                context={"parameter": option},
            )
        return self.ENTRY


@cache
def _metric_of_class(base: type[ClassMetric], name: str) -> type[ClassMetric]:
    """Return the metric for a library's class; `base` if the class is unknown or a suite cannot use it."""
    found = base.find_class(name)
    return base if found is None or isinstance(found, str) else metric_of_entry(base, found)


def metric_of_entry(base: type[Class], entry: ClassEntry) -> type[Class]:
    """Create the subclass of `base` for a class of a library, with the options of this class."""
    fields: dict[str, Any] = {
        option.name: (option.type, ... if option.required else option.default) for option in entry.options.values()
    }
    options = create_model(f"{entry.name}Options", __base__=FormatModel, __module__=base.__module__, **fields)
    made = create_model(
        f"{base.__name__}{entry.name}",
        __base__=base,
        __module__=base.__module__,
        # Validated, so that a missing option is named.
        options=(options, Field(default={}, validate_default=True)),
    )
    made.ENTRY = entry
    return made
