"""Did the analyst name the unit of its answer?"""

from __future__ import annotations

import json

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult


def states_unit(ctx: GraderContext) -> GraderResult:
    """Compare the unit in the answer's envelope with `unit` of turn_config."""
    wanted = ctx.turn_config["unit"]
    unit = json.loads(ctx.agent_response).get("unit", "")
    return GraderResult(
        score=float(unit == wanted),
        passed=unit == wanted,
        reason=f"the unit is {unit!r}" if unit == wanted else f"the unit is {unit!r}, but must be {wanted!r}",
    )
