"""`type: deepeval_tool_correctness`: DeepEval's own number of the tool calls, for which no model is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from holodeck_action.metrics.base import Building, DeterministicEvaluator, describe
from holodeck_action.metrics.computed import ComputedEvaluator, ComputedMetric, PythonEvaluator
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.libraries import LibraryError, computed, ready
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.metrics.tools.matchers import shown_call, shown_entry, shown_text
from holodeck_action.metrics.tools.tool_correctness import expected_calls
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.expectations import not_literal
from holodeck_action.suite.model.base import Flag, FormatModel, UnitInterval
from holodeck_action.suite.model.metric_base import TOOLS, Metric, Role
from holodeck_action.suite.values import ExpectedTool

_MOST_PAIRS = 1_000_000
"""DeepEval compares every expected call with every call made, one pair at a time, and keeps a table of them."""
_LONGEST_REASON = 4_000
_BEFORE, _AFTER = "Tool Calling Reason: ", "\n\t Tool Selection Reason:"
_POINTERS = (" See details above.", " See more details above.")
"""How DeepEval points at a log that nobody here sees."""


class ToolCallComparison(FormatModel):
    """How DeepEval compares tool calls."""

    threshold: Annotated[UnitInterval, Role.PASS_MARK] = 0.5
    """Lowest passing score; 0.5 when absent. Example: `0.8`."""
    evaluation_params: list[Literal["input_parameters"]] = Field(default=[])
    """`[input_parameters]`: compare arguments, not only names. Example: `[input_parameters]`."""
    should_exact_match: Flag = False
    """1 when the calls are exactly the expected ones, in order, else 0."""
    should_consider_ordering: Flag = False
    """Align calls in order, as a longest common subsequence."""
    strict_mode: Flag = False
    """A score below 1 becomes 0, and the threshold is 1."""


class DeepEvalToolCorrectnessMetric(ToolCallComparison, ComputedMetric):
    """`type: deepeval_tool_correctness`: tool calls by DeepEval's own class, without a model."""

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
        """The threshold; in strict mode 1."""
        return 1.0 if self.strict_mode else self.threshold

    @property
    def mark(self) -> float | None:
        """The pass mark."""
        return self.pass_mark

    @property
    def library(self) -> str | None:
        """DeepEval computes it."""
        return "deepeval"

    def computed_by_library(self) -> list[Metric]:
        """Return the metric."""
        return [self]

    @property
    def compares_literals(self) -> bool:
        """Whether it compares arguments: DeepEval knows plain values alone."""
        return bool(self.evaluation_params)

    def notices(self, place: str) -> Iterator[str]:
        """Yield that strict mode has another threshold than the one written."""
        if self.strict_mode and "threshold" in self.model_fields_set and self.threshold != 1:
            yield f"{place}: threshold has no effect on {self.type} with strict_mode: it is 1"

    def evaluator(self, building: Building) -> DeterministicEvaluator:
        """Return the evaluator that waits for DeepEval, then calls `compute`."""
        return _WaitingEvaluator(self, **building.options)

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `tool_invocations` (sequence of `ToolInvocation`) against the expected calls.

        DeepEval serves the expected calls in order, each with the best call that is left, and gives

            score = Σ agreement of each expected call with its partner / expected calls,

        the agreement being 1 for calls of one name; where arguments are compared it is the share of equal ones among
        all that either call has, mappings by their own shares. Calls that nobody expected cost nothing, unless nothing
        at all is expected: then any call gives 0, and none gives 1. Calls with equal names and arguments count as one.

        Names and arguments are compared as Python compares values, prefixes of servers included; `match` and
        `max_count` of an entry play no part, and an entry stands for `count` calls. Where arguments are compared, each
        entry must list its `args`, all of them literal.

        The expected calls are `expected_trajectory` (sequence of `ExpectedTool`) where given, else `expected_tools`
        (the same, or a `ToolExpectation`, whose `order` plays no part).

        Raises:
            EvaluationError: neither is given (code `missing_input`), DeepEval cannot express what is expected
                (`invalid_input`), there are too many calls for it (`too_many_calls`), or it is not there
                (`not_installed`, `not_importable`).
            DeepEvalError: DeepEval failed.
        """
        calls: Sequence[ToolInvocation] = given[EvalParam.TOOL_INVOCATIONS]
        entries = expected_calls(self.evaluator_name, given)
        total = sum(entry.count for entry in entries)
        if total * max(1, len(calls)) > _MOST_PAIRS:
            raise EvaluationError(
                f"{total} expected calls and {len(calls)} calls made are more than DeepEval can compare "
                f"({_MOST_PAIRS} pairs); use type tool_correctness",
                code="too_many_calls",
            )
        if self.evaluation_params:
            for entry in entries:
                if (problem := not_literal(entry)) is not None:
                    raise EvaluationError(f"{shown_entry(entry, once=True)}: {problem}", code="invalid_input")
        try:
            found = computed(
                "deepeval",
                {
                    "calls": [_call(call.name, call.args, shown_call(call)) for call in calls],
                    "expected": [_expected(entry) for entry in entries for _ in range(entry.count)],
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
            told = str(error) if isinstance(error, LibraryError) else describe(error)
            raise DeepEvalError(told, self.type, error) from error
        return self.result(found["score"], _reason(found["reason"]), {"expected_calls": total, "calls": len(calls)})


class _WaitingEvaluator(ComputedEvaluator):
    """Waits until DeepEval is imported: that is no time of an evaluation."""

    async def evaluate(self, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item; see `BaseEvaluator.evaluate`."""
        await ready("deepeval")
        return await super().evaluate(**kwargs)


class DeepEvalToolCorrectnessEvaluator(
    _WaitingEvaluator,
    PythonEvaluator,
    of=DeepEvalToolCorrectnessMetric,
    takes="evaluation_params should_exact_match should_consider_ordering strict_mode threshold",
):
    """DeepEval's tool correctness, in Python."""


def _reason(text: str) -> str:
    """Return what DeepEval says about the calls; about tools to choose from it knows nothing here."""
    told = text.partition(_BEFORE)[2].partition(_AFTER)[0] or text
    for pointer in _POINTERS:
        told = told.removesuffix(pointer)
    return shown_text(told, _LONGEST_REASON)


def _expected(entry: ExpectedTool) -> dict[str, Any]:
    # Without all of them it would be a call with other arguments.
    literal = not_literal(entry) is None
    args = {name: matcher.value for name, matcher in (entry.args or {}).items()} if literal else None
    return _call(entry.name, args, shown_entry(entry, once=True))


def _call(name: str, args: Mapping[str, Any] | None, shown: str) -> dict[str, Any]:
    """Return a call as `measure_tools` takes it; its results are omitted, since none are expected."""
    return {"name": name, "args": None if args is None else _plain(args), "shown": shown}


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; what JSON does not hold is compared as it is written in Python."""
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else f"\0{name!r}": _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else f"\0{value!r}"
