"""The grader of the refund desk: whether the books are right when the conversation is over."""

from __future__ import annotations

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

RIGHT = {
    "A kettle that leaks": {("A-17", "kettle")},
    "A grinder from last year": set(),
    "One cup of two": {("C-9", "cup")},
}
"""The items, by order, that the shop must have paid back at the end of each case."""


def books(ctx: GraderContext) -> GraderResult:
    """Compare the refunds of the whole conversation with those that are right."""
    paid = {
        (call.args.get("order"), call.args.get("item"))
        for call in ctx.tool_invocations
        if call.name == "refund" and call.error is None
    }
    wanted = RIGHT[ctx.test_case_name or ""]
    return GraderResult(
        score=1.0 if paid == wanted else 0.0, reason=f"refunded {sorted(paid)}, right is {sorted(wanted)}"
    )
