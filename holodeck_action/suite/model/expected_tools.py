"""Expected tool calls, and matchers of their arguments, as they are written in agent.yaml or in a case file."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.model.base import FormatModel, Integer, list_or_mapping, text_or_mapping
from holodeck_action.suite.model.patterns import pattern_problem

MATCHER_KEYS: tuple[Literal["fuzzy"], Literal["regex"]] = ("fuzzy", "regex")


def check_json(value: Any) -> Any:
    """Check that free-form data can be written as JSON, since it is passed to graders, agents and records.

    Returns:
        The data as plain dicts and lists, without positions.

    Raises:
        PydanticCustomError: a mapping key is not text, or a number is NaN or infinite.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise PydanticCustomError(
                    "json_key", "the key {key} must be text: put it in quotes", {"key": str(key).lower()}
                )
        return {key: check_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [check_json(item) for item in value]
    if isinstance(value, float) and value - value != 0.0:
        raise PydanticCustomError("json_number", "must not contain NaN or infinity")
    return value


def _check_matcher(value: Any) -> Any:
    if not isinstance(value, dict) or not any(key in value for key in MATCHER_KEYS):
        return check_json(value)
    if len(value) > 1:
        raise PydanticCustomError("matcher_shape", "a matcher has only one key, fuzzy or regex, and no others")
    [(kind, text)] = value.items()
    if not isinstance(text, str):
        raise PydanticCustomError("matcher_text", "{kind} must be text: put it in quotes", {"kind": kind})
    if kind == "regex":
        problem = pattern_problem(text)
        if problem is not None:
            raise PydanticCustomError("matcher_pattern", "the pattern does not compile: {reason}", {"reason": problem})
    return value


def _check_tool_name(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("tool_name", "must not be blank: a blank name matches every call and asserts nothing")
    return value


ToolName = Annotated[
    str, AfterValidator(_check_tool_name), WithJsonSchema({"type": "string", "pattern": r"\S", "title": "Tool name"})
]
MatcherValue = Annotated[
    Any,
    AfterValidator(_check_matcher),
    WithJsonSchema(
        {
            "description": "A literal value, {fuzzy: text} or {regex: pattern}.",
            "if": {"type": "object", "anyOf": [{"required": ["fuzzy"]}, {"required": ["regex"]}]},
            "then": {
                "maxProperties": 1,
                "properties": {"fuzzy": {"type": "string"}, "regex": {"type": "string"}},
            },
        }
    ),
]


class TrajectoryEntry(FormatModel):
    """An entry of `expected_trajectory`: an expected tool call."""

    name: ToolName
    """The name of the tool. Example: `find_order`."""
    args: dict[str, MatcherValue] | None = None
    """A matcher per argument: a literal value, `{fuzzy: text}` or `{regex: pattern}`. Arguments not listed are free.
    Example: `{order: {fuzzy: A-17}}`."""
    count: Annotated[Integer, Field(ge=1)] = 1
    """Smallest number of matching calls; in a trajectory, the number of consecutive calls."""


class ExpectedToolEntry(TrajectoryEntry):
    """An entry of `expected_tools`: an expected tool call. The turn fails if the calls do not match."""

    max_count: Annotated[Integer, Field(ge=1)] | None = None
    """Largest number of matching calls. Example: `1`."""
    match: Literal["substring", "exact"] = "substring"
    """How the name is compared: as a substring, or as a whole."""

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.max_count is not None and self.max_count < self.count:
            raise PydanticCustomError("max_count", "is below count: no number of calls satisfies both")
        return self


ExpectedToolItem = Annotated[
    Annotated[ToolName, Tag("text")] | Annotated[ExpectedToolEntry, Tag("mapping")], Discriminator(text_or_mapping)
]


class OrderedExpectation(FormatModel):
    """`expected_tools` with an order."""

    tools: list[ExpectedToolItem]
    """The expected calls, in order. Example: `[find_order, refund]`."""
    order: Literal["any", "subset", "strict"] = "any"
    """`subset`: the calls occur in this order, others may come between; `strict`: exactly these calls; `any`: any
    order."""


ExpectedToolsField = Annotated[
    Annotated[list[ExpectedToolItem], Tag("list")] | Annotated[OrderedExpectation, Tag("mapping")],
    Discriminator(list_or_mapping),
]
