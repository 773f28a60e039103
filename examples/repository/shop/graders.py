"""What the agent promises, compared with what the shop's tools did."""

from __future__ import annotations

import re

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

_NUMBER = re.compile(r"\b[BR]-\d+\b")


def keeps_promises(ctx: GraderContext) -> GraderResult:
    """Fail an answer that names a booking or a label that no tool has issued."""
    issued = {number for call in ctx.tool_invocations for number in _NUMBER.findall(str(call.result))}
    invented = sorted(set(_NUMBER.findall(ctx.agent_response)) - issued)
    return GraderResult(
        score=0.0 if invented else 1.0,
        reason=f"no tool has issued {', '.join(invented)}" if invented else "every number is from a tool",
    )
