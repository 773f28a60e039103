"""`type: deepeval_tool_correctness`: DeepEval's tool correctness, computed without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from holodeck_action.metrics.base import describe
from holodeck_action.metrics.computed import ComputedMetric, PythonEvaluator
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.libraries import LibraryError, compute_in_library
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.metrics.tools.matchers import format_call, format_entry, format_text
from holodeck_action.metrics.tools.tool_correctness import expected_calls
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.expectations import literal_problem
from holodeck_action.suite.model.base import Flag, FormatModel, UnitInterval
from holodeck_action.suite.model.metric_base import TOOLS, Metric, Role
from holodeck_action.suite.values import ExpectedTool

_MOST_PAIRS = 1_000_000
"""Limit of the number of expected calls times the number of calls: DeepEval compares every pair."""
_LONGEST_REASON = 4_000
_BEFORE, _AFTER = "Tool Calling Reason: ", "\n\t Tool Selection Reason:"
_POINTERS = (" See details above.", " See more details above.")
"""Sentences of DeepEval's reason that refer to a log, which is not printed here."""


class ToolCallComparison(FormatModel):
    """Settings for DeepEval's comparison of tool calls."""

    threshold: Annotated[UnitInterval, Role.PASS_MARK] = 0.5
    """Lowest passing score; 0.5 when absent. Example: `0.8`."""
    evaluation_params: list[Literal["input_parameters"]] = Field(default=[])
    """`[input_parameters]`: compare arguments, not only names. Example: `[input_parameters]`."""
    should_exact_match: Flag = False
    """Score 1 if the calls are exactly the expected ones, in order, else 0."""
    should_consider_ordering: Flag = False
    """Align calls in order, as a longest common subsequence."""
    strict_mode: Flag = False
    """A score below 1 becomes 0, and the threshold is 1."""


class DeepEvalToolCorrectnessMetric(ToolCallComparison, ComputedMetric):
    """`type: deepeval_tool_correctness`: DeepEval scores the tool calls, without a model."""

    PLACE = 6
    OF_TOOL_CALLS = True
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.TOOL_INVOCATIONS}),
        optional=frozenset({EvalParam.EXPECTED_TOOLS, EvalParam.EXPECTED_TRAJECTORY}),
    )

    type: Annotated[Literal["deepeval_tool_correctness"], Role.KIND] = "deepeval_tool_correctness"

    @property
    def needs(self) -> frozenset[str]:
        """The expected calls."""
        return TOOLS

    @property
    def pass_mark(self) -> float | None:
        """The threshold; 1 in strict mode."""
        return 1.0 if self.strict_mode else self.threshold

    @property
    def mark(self) -> float | None:
        """The pass mark."""
        return self.pass_mark

    @property
    def library(self) -> str | None:
        """Name of the library that computes the score."""
        return "deepeval"

    def library_parts(self) -> list[Metric]:
        """Return this metric: DeepEval computes its score."""
        return [self]

    @property
    def compares_literals(self) -> bool:
        """Whether arguments are compared. DeepEval compares them only with literal values, not with matchers."""
        return bool(self.evaluation_params)

    def notices(self, place: str) -> Iterator[str]:
        """Yield a notice if strict mode overrides the written threshold."""
        if self.strict_mode and "threshold" in self.model_fields_set and self.threshold != 1:
            yield f"{place}: threshold has no effect on {self.type} with strict_mode: it is 1"

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `tool_invocations` (sequence of `ToolInvocation`) against the expected calls.

        DeepEval matches the expected calls in order, each with the best remaining call:

            score = Σ agreement of each expected call with its partner / number of expected calls,

        where agreement is 1 for calls with the same name. If arguments are compared, it is the proportion of equal
        arguments among the arguments of both calls; mappings are compared recursively. Unexpected calls do not lower
        the score, unless no call is expected: then the score is 0 if there are calls, else 1. Calls with equal names
        and arguments count as one.

        Names, including server prefixes, and arguments are compared by Python's equality. An expected call represents
        `count` calls; its `match` and `max_count` are ignored. If arguments are compared, each expected call must have
        `args`, all of them literal.

        The expected calls are `expected_trajectory` (sequence of `ExpectedTool`) if given, else `expected_tools` (the
        same, or a `ToolExpectation`, whose `order` is ignored).

        Raises:
            EvaluationError: no expected calls are given (code `missing_input`), DeepEval cannot express the expected
                calls (`invalid_input`), there are too many calls (`too_many_calls`), or DeepEval cannot be imported
                (`not_installed`, `not_importable`).
            DeepEvalError: DeepEval failed.
        """
        calls: Sequence[ToolInvocation] = given[EvalParam.TOOL_INVOCATIONS]
        entries = expected_calls(self.evaluator_name, given)
        total = sum(entry.count for entry in entries)
        if total * max(1, len(calls)) > _MOST_PAIRS:
            raise EvaluationError(
                f"{total} expected calls and {len(calls)} calls made are too many for DeepEval to compare "
                f"({_MOST_PAIRS} pairs); use type tool_correctness",
                code="too_many_calls",
            )
        if self.evaluation_params:
            for entry in entries:
                if (problem := literal_problem(entry)) is not None:
                    raise EvaluationError(f"{format_entry(entry, is_single=True)}: {problem}", code="invalid_input")
        try:
            found = compute_in_library(
                "deepeval",
                {
                    "calls": [_call_data(call.name, call.args, format_call(call)) for call in calls],
                    "expected": [_expected_call(entry) for entry in entries for _ in range(entry.count)],
                    "options": {
                        "threshold": self.mark,
                        "strict_mode": self.strict_mode,
                        "should_exact_match": self.should_exact_match,
                        "should_consider_ordering": self.should_consider_ordering,
                    },
                    "evaluation_params": self.evaluation_params,
                },
            )
        except EvaluationError:
            raise
        except Exception as error:
            message = str(error) if isinstance(error, LibraryError) else describe(error)
            raise DeepEvalError(message, self.type, error) from error
        return self.result(
            found["score"], _tool_reason(found["reason"]), {"expected_calls": total, "calls": len(calls)}
        )


class DeepEvalToolCorrectnessEvaluator(
    PythonEvaluator,
    of=DeepEvalToolCorrectnessMetric,
    takes="evaluation_params should_exact_match should_consider_ordering strict_mode threshold",
):
    """The evaluator of DeepEval's tool correctness, for use in Python."""


def _tool_reason(text: str) -> str:
    """Return the part of DeepEval's reason that concerns the calls made, without the part on the choice of tools."""
    reason = text.partition(_BEFORE)[2].partition(_AFTER)[0] or text
    for pointer in _POINTERS:
        reason = reason.removesuffix(pointer)
    return format_text(reason, _LONGEST_REASON)


def _expected_call(entry: ExpectedTool) -> dict[str, Any]:
    # Some of the arguments alone would be a different call.
    literal = literal_problem(entry) is None
    args = {name: matcher.value for name, matcher in (entry.args or {}).items()} if literal else None
    return _call_data(entry.name, args, format_entry(entry, is_single=True))


def _call_data(name: str, args: Mapping[str, Any] | None, label: str) -> dict[str, Any]:
    """Return a tool call, without its result, as JSON values for the process for grading libraries."""
    return {"name": name, "args": None if args is None else _json_value(args), "label": label}


def _json_value(value: Any) -> Any:
    """Return a JSON value; values that JSON does not support are replaced by their Python representation."""
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else f"\0{name!r}": _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value if isinstance(value, str | int | float | None) else f"\0{value!r}"
