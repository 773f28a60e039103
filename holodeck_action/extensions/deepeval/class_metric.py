"""`type: deepeval`: any metric of DeepEval by the name of its class."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, WithJsonSchema, create_model, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.deepeval.catalogue import (
    SCHEMA_OPTION,
    CatalogueEntry,
    find_metric,
    is_installed,
    metric_names,
)
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.base import FormatModel, NonBlank, UnitInterval
from holodeck_action.suite.model.metric_base import NOTHING, JudgeCalls, JudgedMetric, Metric, Role
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.text.foreign import Foreign, ForeignError


class DeepEvalClassMetric(JudgedMetric):
    """`type: deepeval`: a metric of DeepEval, by the name of its class."""

    PLACE = 30
    TOLD_BY = None
    NAMES_FILE = True

    ENTRY: ClassVar[CatalogueEntry | None] = None
    """What DeepEval's source says about the class; None if DeepEval is not installed."""

    type: Annotated[Literal["deepeval"], Role.KIND] = "deepeval"
    metric: Annotated[NonBlank, Role.KIND]
    """Name of the class in `deepeval.metrics`. Example: `HallucinationMetric`."""
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score; the class's own default when absent. Example: `0.8`."""
    options: Annotated[Any, WithJsonSchema({"type": "object"})] = Field(default_factory=dict)
    """Other arguments of the class's constructor, by name. `expected_schema` is a JSON Schema, or the path of a file
    with one. Example: `{include_reason: false}`."""
    model: Annotated[LLMProvider | None, Role.JUDGES] = None
    """The judge; `evaluations.model` when absent."""

    _schema: dict[str, Any] | None = PrivateAttr(None)

    def __new__(cls, **settings: Any) -> DeepEvalClassMetric:
        """Create a metric of the class that the setting `metric` selects."""
        return super().__new__(cls.of(settings))

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> builtins.type[DeepEvalClassMetric]:
        """Return the subclass whose options are those of the setting `metric`."""
        name = value.get("metric")
        return _class_metric(name) if cls is DeepEvalClassMetric and isinstance(name, str) else cls

    @model_validator(mode="after")
    def _check_class(self) -> Self:
        if self.ENTRY is None and is_installed():
            found = find_metric(self.metric)
            if isinstance(found, str):
                raise PydanticCustomError(
                    "metric", "{name} cannot be used: {reason}", {"name": self.metric, "reason": found}
                )
            close = did_you_mean(self.metric, metric_names())
            raise PydanticCustomError(
                "metric", "{name} is not a metric of DeepEval{close}", {"name": self.metric, "close": close}
            )
        if not isinstance(self.options, Mapping | FormatModel):
            raise PydanticCustomError("options", "must be a mapping")
        if isinstance(schema := self.option_values.get(SCHEMA_OPTION), dict):
            self._set_schema(schema)
        return self

    def _set_schema(self, schema: Any) -> None:
        try:
            JsonSchema(schema, written=True)
        except ValueError as error:
            raise PydanticCustomError(
                "options", "expected_schema is not a JSON Schema: {reason}", {"reason": str(error)}
            ) from None
        self._schema = schema

    def with_file(self, place: Callable[[str], str], read: Callable[[str], Foreign]) -> Self:
        """Return a copy of the metric with the JSON Schema that `expected_schema` names; see `Metric.with_file`."""
        written = self.option_values.get(SCHEMA_OPTION)
        if not isinstance(written, str):
            return self
        path = place(written)
        made = self.model_copy()
        try:
            made._set_schema(read(path).json())
        except ForeignError as error:
            raise ValueError(f"the file {path} {error}") from None
        except PydanticCustomError as error:
            raise ValueError(f"the file {path}: {error.message()}") from None
        return made

    @property
    def option_values(self) -> Mapping[str, Any]:
        """The options as written."""
        if isinstance(self.options, FormatModel):
            return self.options.model_dump(exclude_unset=True)
        return self.options if isinstance(self.options, Mapping) else {}

    def criteria_settings(self) -> dict[str, Any]:
        """Return the settings, including the hash of the JSON Schema."""
        found = super().criteria_settings()
        if self._schema is None:
            return found
        return {**found, "schema_sha256": sha256(canonical_json(self._schema)).hexdigest()}

    @property
    def measure(self) -> str:
        """Name of the class."""
        return self.metric

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that the class requires besides question and answer."""
        return NOTHING if self.ENTRY is None else self.ENTRY.needs

    @property
    def reads_tool_calls(self) -> bool:
        """Whether the class needs the turn's tool calls."""
        return self.ENTRY is not None and self.ENTRY.reads_calls

    @property
    def reads_turns(self) -> bool:
        """Whether the class grades a whole conversation."""
        return self.concerns_conversation

    @property
    def concerns_conversation(self) -> bool:
        """Whether the class grades a whole conversation."""
        return self.ENTRY is not None and self.ENTRY.of_conversation

    @property
    def pass_mark(self) -> float | None:
        """The threshold; the class's default if none is given."""
        if self.threshold is not None:
            return self.threshold
        return 0.5 if self.ENTRY is None or self.ENTRY.threshold is None else self.ENTRY.threshold

    @property
    def library(self) -> str | None:
        """Name of the library that grades."""
        return "deepeval"

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield the metric itself, unless its class calls no model."""
        if self.ENTRY is None or self.ENTRY.has_judge:
            yield "", self

    def library_parts(self) -> list[Metric]:
        """Return the metric itself if its class calls no model."""
        return [] if self.needs_judge else [self]

    def judge_calls(self) -> Iterator[JudgeCalls]:
        """Yield the estimated judge calls of one evaluation, including the call for the reason."""
        if self.ENTRY is not None and self.ENTRY.has_judge:
            explained = self.option_values.get("include_reason", True)
            yield JudgeCalls(self, self.ENTRY.judge_calls + (self.ENTRY.reason_calls if explained else 0))

    def settings_problem(self) -> str | None:
        """Return why the class cannot be read; None if it was read."""
        if self.ENTRY is None:
            return f"needs DeepEval, which says what {self.metric} needs"
        return None

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator of the metric."""
        from holodeck_action.extensions.deepeval.class_evaluator import ClassEvaluator
        from holodeck_action.extensions.deepeval.conversation import ConversationEvaluator

        assert self.ENTRY is not None
        kind = ConversationEvaluator if self.ENTRY.of_conversation else ClassEvaluator
        options = {**self.option_values, **({} if self._schema is None else {SCHEMA_OPTION: self._schema})}
        settings: dict[str, Any] = {"metric": self.metric, "options": options, "threshold": self.pass_mark}
        if self.ENTRY.has_judge:
            return building.judged_evaluator(self, kind, **settings)
        return kind(**settings, **building.options)


@cache
def _class_metric(name: str) -> type[DeepEvalClassMetric]:
    """Return the metric for a class of DeepEval; the base class if DeepEval has no such class that a suite can use."""
    found = find_metric(name)
    if not isinstance(found, CatalogueEntry):
        return DeepEvalClassMetric
    fields: dict[str, Any] = {
        option.name: (option.type, ... if option.required else option.default) for option in found.options.values()
    }
    options = create_model(f"{name}Options", __base__=FormatModel, __module__=__name__, **fields)
    made = create_model(
        f"DeepEval{name}",
        __base__=DeepEvalClassMetric,
        __module__=__name__,
        # Validated, so that a missing option is named.
        options=(options, Field(default={}, validate_default=True)),
    )
    made.ENTRY = found
    return made
