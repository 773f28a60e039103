"""`type: deepeval`, which selects a metric of DeepEval by the name of its class."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.deepeval.catalogue import SCHEMA_OPTION, CatalogueEntry, find_metric, metric_names
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.metrics.judging.class_metric import ClassMetric
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.text.foreign import Foreign, ForeignError


class DeepEvalClassMetric(ClassMetric):
    """`type: deepeval`: a metric of DeepEval, by the name of its class.

    The option `expected_schema` is a JSON Schema, or the path of a file that contains one.
    """

    PLACE = 30
    NAMES_FILE = True
    TITLE = "DeepEval"

    type: Annotated[Literal["deepeval"], Role.KIND] = "deepeval"

    _schema: dict[str, Any] | None = PrivateAttr(None)

    @classmethod
    def class_names(cls) -> tuple[str, ...]:
        """Return the names of DeepEval's metrics."""
        return metric_names()

    @classmethod
    def find_class(cls, name: str) -> CatalogueEntry | str | None:
        """Return the named metric, or the reason why a suite cannot use it; None if there is no such metric."""
        return find_metric(name)

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
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
        """Return a copy with the JSON Schema in place of the path `expected_schema`; see `Metric.with_file`."""
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
        """Name of the library that grades."""
        return "deepeval"

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Create the evaluator of the metric."""
        from holodeck_action.extensions.deepeval.class_evaluator import ClassEvaluator
        from holodeck_action.extensions.deepeval.conversation import ConversationEvaluator

        entry = self.require_entry()
        kind = ConversationEvaluator if entry.of_conversation else ClassEvaluator
        options = {**self.option_values, **({} if self._schema is None else {SCHEMA_OPTION: self._schema})}
        settings: dict[str, Any] = {"metric": self.metric, "options": options, "threshold": self.pass_mark}
        if entry.has_judge:
            return building.judged_evaluator(self, kind, **settings)
        return kind(**settings, **building.options)
