"""Test cases as they are written in agent.yaml or the file it names (HoloDeck format reference §1.8, §3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import Flag, FormatModel, Integer, MaybeText, NonBlank
from holodeck_action.suite.metrics import CaseMetric
from holodeck_action.suite.patterns import pattern_problem

MATCHER_KEYS: tuple[Literal["fuzzy"], Literal["regex"]] = ("fuzzy", "regex")


def json_value(value: Any) -> Any:
    """Hold free-form data to what JSON can carry, since it goes to graders, agents and records.

    Returns:
        The data as plain dicts and lists, without positions.

    Raises:
        PydanticCustomError: a mapping key that is not text, or NaN or infinity.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise PydanticCustomError(
                    "json_key", "the key {key} must be text: put it in quotes", {"key": str(key).lower()}
                )
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, float) and value - value != 0.0:
        raise PydanticCustomError("json_number", "must not contain NaN or infinity")
    return value


def _matcher(value: Any) -> Any:
    if not isinstance(value, dict) or not any(key in value for key in MATCHER_KEYS):
        return json_value(value)
    if len(value) > 1:
        raise PydanticCustomError(
            "matcher_shape", "a matcher has one key only, fuzzy or regex; other keys cannot stand beside it"
        )
    [(kind, text)] = value.items()
    if not isinstance(text, str):
        raise PydanticCustomError("matcher_text", "{kind} must be text: put it in quotes", {"kind": kind})
    if kind == "regex":
        problem = pattern_problem(text)
        if problem is not None:
            raise PydanticCustomError("matcher_pattern", "the pattern does not compile: {reason}", {"reason": problem})
    return value


def _tool_name(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("tool_name", "must not be blank: a blank name matches every call and asserts nothing")
    return value


def _ground_truth(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise PydanticCustomError("ground_truth_type", "must be text")
    return value


def _shape(value: Any) -> str:
    return "text" if isinstance(value, str) else "mapping"


def _list_or_mapping(value: Any) -> str:
    return "mapping" if isinstance(value, dict) else "list"


ToolName = Annotated[
    str, AfterValidator(_tool_name), WithJsonSchema({"type": "string", "pattern": r"\S", "title": "Tool name"})
]
GroundTruth = Annotated[
    NonBlank,
    BeforeValidator(_ground_truth),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": r"\S"}, {"type": ["number", "boolean"]}]}),
]
"""Kept as it is written in the file: `42`, `1.10` and `yes` are text."""
MatcherValue = Annotated[
    Any,
    AfterValidator(_matcher),
    WithJsonSchema(
        {
            "description": "A literal value, {fuzzy: text} or {regex: pattern}.",
            "if": {"type": "object", "anyOf": [{"required": ["fuzzy"]}, {"required": ["regex"]}]},
            "then": {
                "maxProperties": 1,
                "properties": {"fuzzy": {"type": "string"}, "regex": {"type": "string", "format": "regex"}},
            },
        }
    ),
]
FreeMapping = Annotated[dict[str, Any], AfterValidator(json_value)]
"""A free-form mapping of JSON values."""


class FileInput(FormatModel):
    """A file given to the agent with the input."""

    path: MaybeText = None
    """Path relative to the file that names it."""
    url: MaybeText = None
    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    description: str | None = None
    pages: list[Annotated[Integer, Field(gt=0)]] | None = None
    """Page numbers, the first page is 1."""
    sheet: str | None = None
    range: str | None = None
    cache: Flag | None = None

    @model_validator(mode="after")
    def _one_source(self) -> FileInput:
        if (self.path is None) == (self.url is None):
            raise PydanticCustomError("path", "give exactly one of path and url")
        return self


class TrajectoryEntry(FormatModel):
    """One expected tool call, as steps of `expected_trajectory` are written."""

    name: ToolName
    args: dict[str, MatcherValue] | None = None
    """Matcher per argument; arguments that are not listed are not compared."""
    count: Annotated[Integer, Field(ge=1)] = 1
    """Least number of matching calls; in a trajectory, the number of calls in a row."""


class ExpectedToolEntry(TrajectoryEntry):
    """One expected tool call that asserts by itself."""

    max_count: Annotated[Integer, Field(ge=1)] | None = None
    """Greatest number of matching calls."""
    match: Literal["substring", "exact"] = "substring"
    """How the tool name is compared."""

    @model_validator(mode="after")
    def _counts_are_ordered(self) -> ExpectedToolEntry:
        if self.max_count is not None and self.max_count < self.count:
            raise PydanticCustomError("max_count", "is below count: no number of calls satisfies both")
        return self


ExpectedToolItem = Annotated[
    Annotated[ToolName, Tag("text")] | Annotated[ExpectedToolEntry, Tag("mapping")], Discriminator(_shape)
]


class OrderedExpectation(FormatModel):
    """`expected_tools` with an order."""

    tools: list[ExpectedToolItem]
    order: Literal["any", "subset", "strict"] = "any"
    """`subset`: in this order, others may stand between; `strict`: exactly these calls in this order."""


ExpectedToolsField = Annotated[
    Annotated[list[ExpectedToolItem], Tag("list")] | Annotated[OrderedExpectation, Tag("mapping")],
    Discriminator(_list_or_mapping),
]


class TurnEntry(FormatModel):
    """One exchange of a multi-turn case."""

    input: NonBlank
    ground_truth: GroundTruth | None = None
    expected_tools: ExpectedToolsField | None = None
    """Expected tool calls; an empty list asserts that no tool is called."""
    files: Annotated[list[FileInput], Field(max_length=10)] | None = None
    retrieval_context: list[str] | None = None
    evaluations: list[CaseMetric] | None = None
    """Metrics of this turn instead of the case's or the suite's; an empty list changes nothing."""
    turn_config: FreeMapping | None = None
    """Free-form data for code graders."""


class CaseEntry(FormatModel):
    """One test case: either `input` or `turns`."""

    name: NonBlank | None = None
    input: NonBlank | None = None
    ground_truth: GroundTruth | None = None
    expected_tools: ExpectedToolsField | None = None
    """Expected tool calls; an empty list asserts that no tool is called."""
    files: Annotated[list[FileInput], Field(max_length=10)] | None = None
    retrieval_context: list[str] | None = None
    evaluations: list[CaseMetric] | None = None
    """Metrics of this case instead of the suite's; an empty list changes nothing."""
    turns: Annotated[list[TurnEntry], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> CaseEntry:
        if self.turns is None:
            if self.input is None:
                raise PydanticCustomError("case_form", "a case needs input, or turns for a conversation")
            return self
        beside = [
            name
            for name in ("input", "ground_truth", "expected_tools", "files", "retrieval_context")
            if getattr(self, name) is not None
        ]
        if beside:
            raise PydanticCustomError(
                "case_form",
                "a case with turns cannot have {keys} of its own: move it into the turns",
                {"keys": " and ".join(beside)},
            )
        return self
