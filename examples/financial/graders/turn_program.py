"""Did the analyst work the answer out as it should?"""

from __future__ import annotations

import math
import re

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

PARAMETERS = {
    "lookup": ("company", "item", "year"),
    "subtract": ("a", "b"),
    "divide": ("a", "b"),
    "percent_change": ("old", "new"),
}


def follows_program(ctx: GraderContext) -> GraderResult:
    """Hold the tool calls of a turn against `turn_program` of its turn_config.

    A program is a list of calls such as `lookup(Kestrel Optics, revenue, 2023), …, subtract(#1, #0)`, where `#0` is the
    result of the first call. The score is the share of steps that were called in their place.
    """
    steps = re.findall(r"(\w+)\(([^)]*)\)", ctx.turn_config["turn_program"])
    calls = ctx.tool_invocations
    results = [call.result for call in calls]
    problems = []
    for index, (name, parameters) in enumerate(steps):
        wanted = dict(zip(PARAMETERS[name], (_value(text, results) for text in parameters.split(",")), strict=True))
        if index >= len(calls):
            problems.append(f"step {index + 1}, {_shown(name, wanted)}, is missing")
        elif calls[index].name != name or not _agree(wanted, calls[index].args):
            made = _shown(calls[index].name, calls[index].args)
            problems.append(f"step {index + 1} is {made}, the program wants {_shown(name, wanted)}")
    right = len(steps) - len(problems)
    if len(calls) > len(steps):
        problems.append(f"{len(calls)} calls were made for {len(steps)} steps")
    return GraderResult(
        score=right / max(len(steps), len(calls)),
        passed=not problems,
        reason=problems[0] if problems else f"all {len(steps)} steps are as programmed",
        details={"steps": len(steps), "right": right, "problems": problems},
    )


def _value(text: str, results: list[object]) -> object:
    text = text.strip()
    if text.startswith("#"):
        index = int(text[1:])
        return results[index] if index < len(results) else None
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else text


def _agree(wanted: dict[str, object], made: dict[str, object]) -> bool:
    return wanted.keys() == made.keys() and all(_equal(value, made[name]) for name, value in wanted.items())


def _equal(wanted: object, made: object) -> bool:
    if isinstance(wanted, int | float) and isinstance(made, int | float):
        return math.isclose(wanted, made, rel_tol=1e-9)
    return wanted == made


def _shown(name: str, args: dict[str, object]) -> str:
    values = (f"{value:.6g}" if isinstance(value, int | float) else str(value) for value in args.values())
    return f"{name}({', '.join(values)})"
