"""`type: deepeval`: any metric of DeepEval by the name of its class, or a class of the suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.deepeval.catalogue import (
    SCHEMA_OPTION,
    CatalogueEntry,
    find_metric,
    metric_names,
    read_own_metric,
)
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.metrics.judging.class_metric import ClassMetric, metric_of_entry
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.model.probing import Exam
from holodeck_action.suite.validation import check_entry
from holodeck_action.text.foreign import ForeignError

RequiredParam = Literal[
    "input", "actual_output", "expected_output", "context", "retrieval_context", "tools_called", "expected_outcome"
]


class DeepEvalClassMetric(ClassMetric):
    """`type: deepeval`: a metric of DeepEval, by the name of its class, or a class of the suite, as `module:Class`.

    The option `expected_schema` is a JSON Schema, or the path of a file that contains one.
    """

    PLACE = 30
    NAMES_FILE = True
    TITLE = "DeepEval"

    type: Annotated[Literal["deepeval"], Role.KIND] = "deepeval"

    required_params: list[RequiredParam] | None = None
    """The fields of the test case that a class of the suite needs; those that the class itself declares when absent.
    Example: `[input, actual_output]`."""

    _schema: dict[str, Any] | None = PrivateAttr(None)

    @classmethod
    def class_names(cls) -> tuple[str, ...]:
        """Return the names of DeepEval's metrics."""
        return metric_names()

    @classmethod
    def exams(cls) -> Mapping[str, Exam]:
        """Return the pairs by which judges are probed, by name of the class."""
        from holodeck_action.extensions.deepeval.exams import EXAMS

        return EXAMS

    @classmethod
    def find_class(cls, name: str) -> CatalogueEntry | str | None:
        """Return the named metric, or the reason why a suite cannot use it; None if there is no such metric."""
        return find_metric(name)

    @property
    def is_own(self) -> bool:
        """Whether the class is one of the suite."""
        return ":" in self.metric

    @model_validator(mode="after")
    def _check_own(self) -> Self:
        if self.required_params is not None and not self.is_own:
            raise PydanticCustomError("required_params", "is only for a class of the suite, such as my_metrics:Tone")
        return self

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
        if not self.is_own and isinstance(schema := self.option_values.get(SCHEMA_OPTION), dict):
            self._set_schema(schema)
        return self

    def _set_schema(self, schema: Any) -> None:
        try:
            JsonSchema(schema, is_user_supplied=True)
        except ValueError as error:
            raise PydanticCustomError(
                "options", "expected_schema is not a JSON Schema: {reason}", {"reason": str(error)}
            ) from None
        self._schema = schema

    def with_file(self, place: Callable[[str], str], checkout: Checkout) -> Self:
        """Return a copy of the metric with the JSON Schema that `expected_schema` names, or with the properties of the
        suite's class; see `Metric.with_file`."""
        if self.is_own and self.ENTRY is None:
            entry = read_own_metric(self.metric, checkout.read, self.required_params)
            return check_entry(metric_of_entry(type(self), entry), self)
        written = None if self.is_own else self.option_values.get(SCHEMA_OPTION)
        if not isinstance(written, str):
            return self
        path = place(written)
        made = self.model_copy()
        try:
            made._set_schema(checkout.read(path).json())
        except ForeignError as error:
            raise ValueError(f"the file {path} {error}") from None
        except PydanticCustomError as error:
            raise ValueError(f"the file {path}: {error.message()}") from None
        return made

    def criteria_settings(self) -> dict[str, Any]:
        """Return the settings that determine the score, including the hash of the JSON Schema."""
        found = super().criteria_settings()
        if self._schema is None:
            return found
        return {**found, "schema_sha256": sha256(canonical_json(self._schema)).hexdigest()}

    @property
    def reads_turns(self) -> bool:
        """Whether the class grades a whole conversation."""
        return self.concerns_conversation

    @property
    def concerns_conversation(self) -> bool:
        """Whether the class grades a whole conversation."""
        return self.ENTRY is not None and self.ENTRY.of_conversation

    @property
    def evaluates_trial(self) -> bool:
        """Whether the class grades a whole conversation."""
        return self.concerns_conversation

    @property
    def library(self) -> str | None:
        """Name of the library that grades; None for a class of the suite, whose Python has its own DeepEval."""
        return None if self.is_own else "deepeval"

    @property
    def suite_class_paths(self) -> tuple[str, ...]:
        """The `module:Class` of the suite's class; empty for a class of DeepEval."""
        return (self.metric,) if self.is_own else ()

    def base_name(self, k: int | None) -> str:
        """Return the name of the class."""
        return self.metric.rpartition(":")[2]

    def library_parts(self) -> list[Metric]:
        """Return the metric itself if it is a class of DeepEval that needs no model; else an empty list."""
        return [] if self.is_own else super().library_parts()

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator of the metric."""
        from holodeck_action.extensions.deepeval.class_evaluator import ClassEvaluator
        from holodeck_action.extensions.deepeval.conversation import ConversationEvaluator
        from holodeck_action.extensions.deepeval.own_class import OwnClass

        entry = self.require_entry()
        kind = ConversationEvaluator if entry.of_conversation else ClassEvaluator
        options = {**self.option_values, **({} if self._schema is None else {SCHEMA_OPTION: self._schema})}
        settings: dict[str, Any] = {"metric": self.metric, "options": options, "threshold": self.pass_mark}
        if self.is_own:
            assert building.pool is not None
            settings["own"] = OwnClass(self.metric, entry, building.pool)
        if entry.has_judge:
            return building.judged_evaluator(self, kind, **settings)
        return kind(**settings, **building.options)
