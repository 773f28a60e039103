"""DeepEval's tool correctness, for those who need its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holodeck_action.metrics.base import DeterministicEvaluator, EvalParam, EvaluationResult, ParamSpec, describe
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.libraries import LibraryError, computed, ready
from holodeck_action.metrics.params import one_of
from holodeck_action.metrics.result import check_threshold
from holodeck_action.metrics.tools.matchers import shown_call, shown_entry, shown_text
from holodeck_action.metrics.tools.tool_correctness import expected_calls
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.expectations import not_literal
from holodeck_action.suite.values import ExpectedTool

ARGUMENTS = "input_parameters"
"""The one thing besides names that DeepEval can compare here: what calls are expected to return nobody says."""

_MOST_PAIRS = 1_000_000
"""DeepEval compares every expected call with every call made, one pair at a time, and keeps a table of them."""
_LONGEST_REASON = 4_000
_BEFORE, _AFTER = "Tool Calling Reason: ", "\n\t Tool Selection Reason:"
_POINTERS = (" See details above.", " See more details above.")
"""How DeepEval points at a log that nobody here sees."""


class DeepEvalToolCorrectnessEvaluator(DeterministicEvaluator):
    """The share of the expected tool calls that were made, by DeepEval's `ToolCorrectnessMetric`; no model is asked.

    DeepEval serves the expected calls in order, each with the best call that is left, and gives

        score = Σ agreement of each expected call with its partner / expected calls,

    the agreement being 1 for calls of one name; where arguments are compared it is the share of equal ones among all
    that either call has, mappings by their own shares. Calls that nobody expected cost nothing, unless nothing at all
    is expected: then any call gives 0, and none gives 1. Calls with equal names and arguments count as one.

    Names and arguments are compared as Python compares values, prefixes of servers included; `match` and
    `max_count` of an entry play no part, and an entry stands for `count` calls.

    Args:
        evaluation_params: `input_parameters` among them compares arguments too; each entry must then list its `args`,
            all of them literal.
        should_exact_match: 1 when the calls are the expected ones, one for one and in order, else 0.
        should_consider_ordering: calls are aligned in order, by a longest common subsequence that is weighted with the
            agreements.
        strict_mode: every score below 1 is a 0, and the threshold is 1.
        threshold: lowest passing score, 0..1; None for no verdict.
        timeout: seconds; None for no limit.
        **kwargs: see `BaseEvaluator`.

    Raises:
        ValueError: an argument is not one of the allowed values.
    """

    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.TOOL_INVOCATIONS}),
        optional=frozenset({EvalParam.EXPECTED_TOOLS, EvalParam.EXPECTED_TRAJECTORY}),
    )

    def __init__(
        self,
        evaluation_params: Iterable[str] = (),
        should_exact_match: bool = False,
        should_consider_ordering: bool = False,
        strict_mode: bool = False,
        threshold: float | None = 0.5,
        timeout: float | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.evaluation_params = tuple(one_of("evaluation_params", name, (ARGUMENTS,)) for name in evaluation_params)
        self.should_exact_match = should_exact_match
        self.should_consider_ordering = should_consider_ordering
        self.strict_mode = strict_mode
        self.threshold = 1.0 if strict_mode else check_threshold(threshold)

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite."""
        return "deepeval_tool_correctness"

    async def evaluate(self, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item; see `BaseEvaluator.evaluate`."""
        await ready("deepeval")
        return await super().evaluate(**kwargs)

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score `tool_invocations` (sequence of `ToolInvocation`) against the expected calls.

        Those are `expected_trajectory` (sequence of `ExpectedTool`) where given, else `expected_tools` (the same, or a
        `ToolExpectation`, whose `order` plays no part).

        Raises:
            EvaluationError: neither is given (code `missing_input`), DeepEval cannot express what is expected
                (`invalid_input`), there are too many calls for it (`too_many_calls`), or it is not there
                (`not_installed`, `not_importable`).
            DeepEvalError: DeepEval failed.
        """
        calls: Sequence[ToolInvocation] = kwargs[EvalParam.TOOL_INVOCATIONS]
        entries = expected_calls(self.name, kwargs)
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
                        "threshold": self.threshold,
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
            raise DeepEvalError(told, self.metric_name, error) from error
        return EvaluationResult(
            score=found["score"],
            reasoning=_reason(found["reason"]),
            metric_name=self.metric_name,
            threshold=self.threshold,
            metadata={"expected_calls": total, "calls": len(calls)},
        )


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
