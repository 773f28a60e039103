"""`type: trajectory`: the tool calls of a conversation compared with a reference sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Annotated, Any, Literal

from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, format_count
from holodeck_action.metrics.tools.call_table import CallSet, CallTable, agreeing_calls, common_subsequence_length
from holodeck_action.metrics.tools.matchers import format_call, format_entry
from holodeck_action.metrics.tools.tool_correctness import pair_calls
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.base import UnitInterval
from holodeck_action.suite.model.metric_base import ArgumentMatching, Role
from holodeck_action.suite.values import ExpectedTool

TrajectoryMode = Literal["strict", "unordered", "subset", "superset", "lcs_f1"]


class TrajectoryMetric(ComputedMetric):
    """`type: trajectory`: the tool calls of the whole conversation against `expected_trajectory`."""

    PLACE = 7
    OF_CONVERSATION = True
    OF_TOOL_CALLS = True
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.TOOL_INVOCATIONS, EvalParam.EXPECTED_TRAJECTORY}))

    type: Annotated[Literal["trajectory"], Role.KIND] = "trajectory"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score. Passes at 1 when absent; `lcs_f1` is then informational. Example: `0.8`."""
    mode: TrajectoryMode = "strict"
    """Which calls are accepted."""
    args: ArgumentMatching = "subset"
    """`subset`: listed arguments must match, others are free; `exact`: no others; `ignore`: names only."""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs: the expected trajectory."""
        return frozenset(("expected_trajectory",))

    @property
    def pass_mark(self) -> float | None:
        """The threshold; by default 1, or None in the mode `lcs_f1`."""
        return 1.0 if self.threshold is None and self.mode != "lcs_f1" else self.threshold

    @property
    def mark(self) -> float | None:
        """The threshold that decides results, see `pass_mark`."""
        return self.pass_mark

    def compute(self, **given: Any) -> EvaluationResult:
        """Score `tool_invocations` (sequence of `ToolInvocation`) against `expected_trajectory` (of `ExpectedTool`).

        An expected entry means `count` calls in a row. A call agrees with an expected one if both are calls of the same
        tool and their arguments agree under the rule `args` (`call_table.agreeing_calls`; names are compared exactly,
        but `mcp__server__tool` and `tool` are the same tool). Each mode is a condition on the calls made and scores 1.0
        or 0.0, except the last:

        * `strict`: the expected calls, one for one and in order;
        * `unordered`: the expected calls, one for one, in any order;
        * `subset`: a subset of the expected calls: every call made has its own expected call. An agent that calls
          nothing satisfies it;
        * `superset`: a superset of the expected calls: every expected call has its own call, others may be made;
        * `lcs_f1`: 2 L / (calls made + expected calls), L being the length of the longest common subsequence: the F1 of
          the calls made in the expected order; 1.0 when there are neither calls nor expected calls.

        "One for one" means a maximum matching, so that a matching trajectory is never rejected because of the choice of
        partners.

        Raises:
            EvaluationError: a pattern does not compile or takes too long (codes `pattern_invalid`, `pattern_timeout`).
        """
        expected, calls = given["expected_trajectory"], given["tool_invocations"]
        if self.mode == "strict":
            return self._score_strict(expected, calls)
        if self.mode == "lcs_f1":
            return self._score_lcs(expected, calls)
        return self._score_pairs(expected, calls)

    def _score_strict(self, expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation]) -> EvaluationResult:
        facts = {"expected_calls": sum(entry.count for entry in expected), "calls": len(calls)}
        for index, ((entry, agreed), call) in enumerate(
            zip(self._expected_steps(expected, calls), calls, strict=False)
        ):
            if not agreed >> index & 1:
                return self.result(
                    0.0,
                    f"call {index + 1} of {len(calls)} is {format_call(call)}, expected "
                    f"{format_entry(entry, is_single=True)}",
                    facts,
                )
        compared = f"{format_count(facts['expected_calls'], 'calls')} expected, {len(calls)} made"
        if facts["expected_calls"] != len(calls):
            return self.result(0.0, f"{compared}; {self._describe_length_difference(expected, calls)}", facts)
        return self.result(1.0, f"{compared}: each agrees with the expected call at its position", facts)

    @staticmethod
    def _describe_length_difference(expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation]) -> str:
        """Describe the first call that only the longer of the two sequences has."""
        entries = (entry for entry in expected for _ in range(entry.count))
        missing = next(islice(entries, len(calls), None), None)
        if missing is not None:
            return f"missing: {format_entry(missing, is_single=True)}"
        return f"one too many: {format_call(calls[sum(entry.count for entry in expected)])}"

    def _score_lcs(self, expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation]) -> EvaluationResult:
        total = sum(entry.count for entry in expected) + len(calls)
        length = common_subsequence_length((agreed for _, agreed in self._expected_steps(expected, calls)), len(calls))
        score = 2 * length / total if total else 1.0
        return self.result(
            score,
            f"{format_count(length, 'calls')} in the expected order, of {total - len(calls)} expected and {len(calls)} "
            f"made: F1 {score:.4g}",
            {"expected_calls": total - len(calls), "calls": len(calls), "lcs_length": length},
        )

    def _score_pairs(self, expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation]) -> EvaluationResult:
        pairing = pair_calls(expected, calls, self.args)
        nothing_missing = pairing.matched == pairing.expected
        nothing_unexpected = pairing.matched == pairing.made
        holds = {
            "unordered": nothing_missing and nothing_unexpected,
            "subset": nothing_unexpected,
            "superset": nothing_missing,
        }[self.mode]
        relation = {
            "unordered": "the expected calls in some order",
            "subset": "a subset of the expected calls",
            "superset": "a superset of the expected calls",
        }[self.mode]
        return self.result(
            1.0 if holds else 0.0,
            f"the calls made are {'' if holds else 'not '}{relation}: {pairing.matched} of {pairing.expected} expected "
            f"and of {pairing.made} made agree{pairing.differences()}",
            pairing.facts(),
        )

    def _expected_steps(
        self, expected: Sequence[ExpectedTool], calls: Sequence[ToolInvocation]
    ) -> Iterator[tuple[ExpectedTool, CallSet]]:
        """Yield the expected calls one by one, each with the calls made that agree with it.

        With n calls, an entry is repeated at most n + 1 times, because further copies do not change the comparison.
        """
        table = CallTable(calls)
        most = len(calls) + 1
        rows = [(entry, agreeing_calls(entry, table, self.args)) for entry in expected]
        return chain.from_iterable(repeat(row, min(row[0].count, most)) for row in rows)
