"""`type: tool_correctness`: precision and recall of tool calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Struct

from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, format_count
from holodeck_action.metrics.tools.call_table import CallSet, CallTable, agreeing_calls, bit_positions, maximum_matching
from holodeck_action.metrics.tools.matchers import (
    argument_mismatch,
    format_call,
    format_entry,
    format_text,
    join_first,
    quote_name,
)
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import UnitInterval
from holodeck_action.suite.model.metric_base import TOOLS, ArgumentMatching, Role
from holodeck_action.suite.values import ExpectedTool, ToolExpectation

ToolScore = Literal["f1", "precision", "recall"]

_LISTED = 50


class ToolCorrectnessMetric(ComputedMetric):
    """`type: tool_correctness`: expected and actual tool calls, paired as well as possible."""

    PLACE = 5
    OF_TOOL_CALLS = True
    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.TOOL_INVOCATIONS}),
        optional=frozenset({EvalParam.EXPECTED_TOOLS, EvalParam.EXPECTED_TRAJECTORY}),
    )

    type: Annotated[Literal["tool_correctness"], Role.KIND] = "tool_correctness"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score; informational when absent. Example: `1.0`."""
    args: ArgumentMatching = "subset"
    """`subset`: listed arguments must match, others are free; `exact`: no others; `ignore`: names only."""
    score: ToolScore = "f1"
    """Which number is the score: precision, recall, or F1, their harmonic mean."""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs: the expected calls."""
        return TOOLS

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `tool_invocations` (sequence of `ToolInvocation`) against the expected calls, in any order.

        Calls made and expected calls are multisets, in which an expected entry counts `count` times. They are paired
        one to one by a maximum matching: a pair agrees if both are calls of the same tool and their arguments agree
        according to `args`. With m agreeing pairs,

            precision = m / calls made,  recall = m / expected calls,  F1 = 2 m / (calls made + expected calls).

        If there are neither expected calls nor calls made, all three are 1.0; otherwise a ratio with denominator 0 is
        0.0.

        Tool names are compared exactly, except that `mcp__server__tool` and `tool` are the same tool; `match` and
        `max_count` of an entry are ignored. `call_table.agreeing_calls` defines `args`.

        The expected calls are `expected_trajectory` (sequence of `ExpectedTool`) if given, otherwise `expected_tools`
        (the same, or a `ToolExpectation`, whose `order` is ignored).

        Raises:
            EvaluationError: neither parameter is given (code `missing_input`), or a pattern fails (codes
                `pattern_invalid`, `pattern_timeout`).
        """
        pairing = pair_calls(expected_calls(self.evaluator_name, given), given["tool_invocations"], self.args)
        shares = {"precision": pairing.precision, "recall": pairing.recall, "f1": pairing.f1}
        return self.result(
            shares[self.score],
            f"{pairing.matched} of {format_count(pairing.expected, 'expected calls')} and of "
            f"{format_count(pairing.made, 'calls')} made agree: "
            f"precision {pairing.precision:.4g}, recall {pairing.recall:.4g}, F1 {pairing.f1:.4g}"
            f"{pairing.differences()}",
            {**shares, **pairing.facts()},
        )


class Pairing(Struct, frozen=True):
    """Expected calls and calls made, paired one to one so that as many pairs as possible agree.

    Attributes:
        expected: number of expected calls; an entry counts `count` times.
        made: number of calls made.
        matched: number of agreeing pairs.
        missing: the first 50 expected calls without a partner, as text.
        unexpected: the first 50 calls made without a partner, as text.
        wrong_arguments: the first 50 differences between missing and unexpected calls of the same tool, as text.
    """

    expected: int
    made: int
    matched: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    wrong_arguments: tuple[str, ...]

    @property
    def precision(self) -> float:
        """Matched calls divided by the calls made; 1.0 if there are neither calls made nor expected calls."""
        return self._share(self.matched, self.made)

    @property
    def recall(self) -> float:
        """Matched calls divided by the expected calls; 1.0 if there are neither calls made nor expected calls."""
        return self._share(self.matched, self.expected)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self._share(2 * self.matched, self.expected + self.made)

    def _share(self, numerator: int, denominator: int) -> float:
        if not self.expected and not self.made:
            return 1.0
        return numerator / denominator if denominator else 0.0

    def facts(self) -> dict[str, Any]:
        """Return the numbers and lists as JSON values."""
        return {
            "expected_calls": self.expected,
            "calls": self.made,
            "matched_calls": self.matched,
            "missing": list(self.missing),
            "unexpected": list(self.unexpected),
            "wrong_arguments": list(self.wrong_arguments),
        }

    def differences(self) -> str:
        """Return missing calls, unexpected calls and wrong arguments as the end of a sentence; empty if there are no
        differences.
        """
        parts = (("missing", self.missing), ("unexpected", self.unexpected), ("wrong arguments", self.wrong_arguments))
        return "".join(f"; {title}: {join_first(items)}" for title, items in parts if items)


def pair_calls(expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation], args: ArgumentMatching) -> Pairing:
    """Pair expected calls with calls made, so that as many pairs as possible agree (`call_table.agreeing_calls`).

    Raises:
        PatternError: a pattern does not compile or takes too long.
    """
    table = CallTable(calls)
    agreed = [agreeing_calls(entry, table, args) for entry in expected]
    # More copies of an entry than there are calls cannot find a partner.
    owners = [index for index, entry in enumerate(expected) for _ in range(min(entry.count, len(calls)))]
    partners = maximum_matching([agreed[owner] for owner in owners])
    found = Counter(owner for owner, partner in zip(owners, partners, strict=True) if partner is not None)
    free = (1 << len(calls)) - 1
    free ^= sum(1 << partner for partner in partners if partner is not None)
    lacking = [
        (entry, entry.count - found[index]) for index, entry in enumerate(expected) if entry.count > found[index]
    ]
    wrong = iter(()) if args == "ignore" else _wrong_arguments(lacking, free, table, args)
    return Pairing(
        expected=sum(entry.count for entry in expected),
        made=len(calls),
        matched=found.total(),
        missing=tuple(_repeat_text(format_entry(entry, is_single=True), number) for entry, number in lacking[:_LISTED]),
        unexpected=tuple(format_call(calls[index]) for index in islice(bit_positions(free), _LISTED)),
        wrong_arguments=tuple(islice(wrong, _LISTED)),
    )


def _repeat_text(text: str, number: int) -> str:
    return text if number == 1 else f"{text} {number} times"


def _wrong_arguments(
    missing_calls: Sequence[tuple[ExpectedTool, int]],
    unexpected_calls: CallSet,
    table: CallTable,
    args: ArgumentMatching,
) -> Iterator[str]:
    """Pair missing expected calls with unexpected calls of the same tool, and yield how each pair differs."""
    owners = [entry for entry, number in missing_calls for _ in range(min(number, len(table.calls)))]
    partners = maximum_matching([table.calls_of_tool(entry.name) & unexpected_calls for entry in owners])
    for entry, partner in zip(owners, partners, strict=True):
        if partner is not None:
            # An entry without args agrees with every call of its tool, so it would have a partner.
            assert entry.args is not None
            call = table.calls[partner]
            wrong = [
                argument_mismatch(entry, argument, call)
                for argument, matcher in entry.args.items()
                if not table.calls_matching(argument, matcher, table.calls_of_tool(entry.name)) >> partner & 1
            ]
            if args == "exact":
                wrong += [
                    f"argument {quote_name(name)} is not expected" for name in call.args if name not in entry.args
                ]
            yield f"{format_text(call.name)}, call {partner + 1} of {len(table.calls)}: {join_first(wrong)}"


def expected_calls(evaluator: str, inputs: Mapping[str, Any]) -> Sequence[ExpectedTool]:
    """Return the expected calls from an evaluator's parameters: `expected_trajectory`, or else `expected_tools`.

    Args:
        evaluator: the evaluator's name, for the message.
        inputs: the parameters.

    Raises:
        EvaluationError: neither parameter is given (code `missing_input`).
    """
    for param in (EvalParam.EXPECTED_TRAJECTORY, EvalParam.EXPECTED_TOOLS):
        expected: Sequence[ExpectedTool] | ToolExpectation | None = inputs.get(param)
        if expected is not None:
            return expected.tools if isinstance(expected, ToolExpectation) else expected
    raise EvaluationError(
        f"{evaluator} needs expected_trajectory or expected_tools, neither of which was given",
        code="missing_input",
        context={"parameter": EvalParam.EXPECTED_TRAJECTORY.value},
    )
