"""What a step tells the steps after it (docs/action.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holodeck_action.github.channels import Channel, Published
from holodeck_action.results.verdict import (
    EXIT_CONFIGURATION,
    EXIT_INCOMPLETE,
    EXIT_PASSED,
    EXIT_STOPPED,
    EXIT_VIOLATED,
    Counts,
)

_VERDICTS = {
    EXIT_PASSED: "passed",
    EXIT_VIOLATED: "failed",
    EXIT_CONFIGURATION: "invalid",
    EXIT_INCOMPLETE: "incomplete",
    EXIT_STOPPED: "stopped",
}


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What the outputs need to know of one suite.

    `pass_rate` is weighted, quarantined cases left out, None when no case was decided; `cost_usd` None when unknown.
    The paths are as the workflow sees them; None where a file was not written.
    """

    counts: Counts
    pass_rate: float | None
    cost_usd: float | None
    results: str | None
    report: str | None


def step_outputs(
    exit_code: int, suites: Sequence[SuiteResult], verdict: str | None, channels: Sequence[Channel]
) -> dict[str, str]:
    """Return every output of the step; what is not known is empty.

    Args:
        exit_code: of the run (DESIGN §4).
        suites: the suites that ran; counts and costs are their sums, the pass rate the lowest of theirs, paths stand
            one per line.
        verdict: path of verdict.json as the workflow sees it.
        channels: where it was published.
    """
    counts = [suite.counts for suite in suites]
    rates = [suite.pass_rate for suite in suites]
    costs = [suite.cost_usd for suite in suites]

    def total(*outcomes: str) -> str:
        return str(sum(getattr(count, outcome) for count in counts for outcome in outcomes)) if counts else ""

    known_rates = [rate for rate in rates if rate is not None]
    known_costs = [cost for cost in costs if cost is not None]
    return {
        "verdict": _VERDICTS[exit_code],
        "exit-code": str(exit_code),
        "passed": total("passed"),
        "failed": total("failed"),
        "errors": total("error"),
        "skipped": total("skipped"),
        "total": total("passed", "failed", "error", "skipped", "informational", "quarantined"),
        "pass-rate": repr(min(known_rates)) if known_rates and len(known_rates) == len(rates) else "",
        "cost-usd": f"{sum(known_costs):.6f}" if known_costs and len(known_costs) == len(costs) else "",
        "results-path": "\n".join(suite.results for suite in suites if suite.results),
        "report-path": "\n".join(suite.report for suite in suites if suite.report),
        "verdict-path": verdict or "",
        **{f"{name}-url": _urls(channels, name) for name in ("comment", "check", "review")},
    }


def _urls(channels: Sequence[Channel], name: str) -> str:
    ended = [channel.outcome for channel in channels if channel.name == name]
    return "\n".join(outcome.url for outcome in ended if isinstance(outcome, Published) and outcome.url)
