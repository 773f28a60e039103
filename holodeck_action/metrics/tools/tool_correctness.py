"""Tool correctness: which expected tool calls were made, and which calls were expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Struct

from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, count
from holodeck_action.metrics.tools.call_table import CallTable, agreeing, bits, maximum_matching
from holodeck_action.metrics.tools.matchers import (
    argument_mismatch,
    listed,
    quoted,
    shown_call,
    shown_entry,
    shown_text,
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
    """Which of the three numbers is the score."""

    @property
    def needs(self) -> frozenset[str]:
        """The expected calls."""
        return TOOLS

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `tool_invocations` (sequence of `ToolInvocation`) against the expected calls, in any order.

        Expected calls and calls made are multisets (an expected entry stands for `count` calls). They are paired one to
        one by a maximum matching: a pair counts 1 when both are calls of one tool and their arguments agree as `args`
        says, else 0; no pairing has more agreeing pairs. With m of them,

            precision = m / calls made,  recall = m / expected calls,  F1 = 2 m / (calls made + expected calls).

        With neither expected calls nor calls made all three are 1.0; otherwise a share of nothing is 0.0.

        The tool's name is compared exactly, except that `mcp__server__tool` and `tool` are one tool; `match` and
        `max_count` of an entry play no part. `call_table.agreeing` defines `args`.

        The expected calls are `expected_trajectory` (sequence of `ExpectedTool`) where given, else `expected_tools`
        (the same, or a `ToolExpectation`, whose `order` plays no part).

        Raises:
            EvaluationError: neither is given (code `missing_input`), or a pattern cannot be decided (codes
                `pattern_invalid`, `pattern_timeout`).
        """
        pairing = pair_calls(expected_calls(self.evaluator_name, given), given["tool_invocations"], self.args)
        shares = {"precision": pairing.precision, "recall": pairing.recall, "f1": pairing.f1}
        return self.result(
            shares[self.score],
            f"{pairing.matched} of {count(pairing.expected, 'expected calls')} and of {count(pairing.made, 'calls')} "
            f"made agree: precision {pairing.precision:.4g}, recall {pairing.recall:.4g}, F1 {pairing.f1:.4g}"
            f"{pairing.differences()}",
            {**shares, **pairing.facts()},
        )


class Pairing(Struct, frozen=True):
    """Expected calls and calls made, paired one to one so that as many as possible agree.

    Attributes:
        expected: number of expected calls, an entry counting `count` times.
        made: number of calls made.
        matched: number of pairs that agree.
        missing: readable expected calls without a partner; the first 50 entries.
        unexpected: readable calls without a partner; the first 50.
        wrong_arguments: how missing and unexpected calls of the same tool differ; the first 50.
    """

    expected: int
    made: int
    matched: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    wrong_arguments: tuple[str, ...]

    @property
    def precision(self) -> float:
        """Matched calls as a share of the calls made; 1.0 when none was made and none expected."""
        return self._share(self.matched, self.made)

    @property
    def recall(self) -> float:
        """Matched calls as a share of the expected calls; 1.0 when none was made and none expected."""
        return self._share(self.matched, self.expected)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self._share(2 * self.matched, self.expected + self.made)

    def _share(self, part: int, whole: int) -> float:
        if not self.expected and not self.made:
            return 1.0
        return part / whole if whole else 0.0

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
        """Name what is missing, unexpected and wrong, as the end of a sentence; empty when nothing is."""
        parts = (("missing", self.missing), ("unexpected", self.unexpected), ("wrong arguments", self.wrong_arguments))
        return "".join(f"; {title}: {listed(items)}" for title, items in parts if items)


def pair_calls(expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation], args: ArgumentMatching) -> Pairing:
    """Pair expected calls with calls made by a maximum matching of those that agree (`call_table.agreeing`).

    Raises:
        PatternError: a pattern does not compile or runs out of time.
    """
    table = CallTable(calls)
    agreed = [agreeing(entry, table, args) for entry in expected]
    # Of an entry, no more copies than there are calls can ever find a partner.
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
        missing=tuple(_times(shown_entry(entry, once=True), number) for entry, number in lacking[:_LISTED]),
        unexpected=tuple(shown_call(calls[index]) for index in islice(bits(free), _LISTED)),
        wrong_arguments=tuple(islice(wrong, _LISTED)),
    )


def _times(text: str, number: int) -> str:
    return text if number == 1 else f"{text} {number} times"


def _wrong_arguments(
    lacking: Sequence[tuple[ExpectedTool, int]], free: int, table: CallTable, args: ArgumentMatching
) -> Iterator[str]:
    """Pair what is missing with what is left of the same tool, and say how each pair differs."""
    owners = [entry for entry, number in lacking for _ in range(min(number, len(table.calls)))]
    partners = maximum_matching([table.of_tool(entry.name) & free for entry in owners])
    for entry, partner in zip(owners, partners, strict=True):
        if partner is not None:
            # An entry without args agrees with every call of its tool: it would have been paired already.
            assert entry.args is not None
            call = table.calls[partner]
            wrong = [
                argument_mismatch(entry, argument, call)
                for argument, matcher in entry.args.items()
                if not table.matching(argument, matcher, table.of_tool(entry.name)) >> partner & 1
            ]
            if args == "exact":
                wrong += [f"argument {quoted(name)} is not expected" for name in call.args if name not in entry.args]
            yield f"{shown_text(call.name)}, call {partner + 1} of {len(table.calls)}: {listed(wrong)}"


def expected_calls(evaluator: str, given: Mapping[str, Any]) -> Sequence[ExpectedTool]:
    """Return the expected calls among the parameters of an evaluator: `expected_trajectory`, else `expected_tools`.

    Args:
        evaluator: its name, for the message.
        given: the parameters.

    Raises:
        EvaluationError: neither is given (code `missing_input`).
    """
    for param in (EvalParam.EXPECTED_TRAJECTORY, EvalParam.EXPECTED_TOOLS):
        expected: Sequence[ExpectedTool] | ToolExpectation | None = given.get(param)
        if expected is not None:
            return expected.tools if isinstance(expected, ToolExpectation) else expected
    raise EvaluationError(
        f"{evaluator} needs expected_trajectory or expected_tools, neither of which was given",
        code="missing_input",
        context={"parameter": EvalParam.EXPECTED_TRAJECTORY.value},
    )
