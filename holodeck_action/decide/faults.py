"""Classification of errors by the party that has to act on them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holodeck_action.record.evaluation import ErrorInfo

Actor = Literal["configuration", "budget", "service", "judge", "agent", "metric"]

_BUDGET = frozenset(("budget_exhausted", "price_unknown"))
_SERVICE = frozenset(
    ("rate_limited", "overloaded", "server_error", "connect", "disconnected", "timeout", "stream_error")
)
_CONFIGURATION = frozenset(
    (
        *("authentication", "quota", "model_not_found", "bad_request", "context_length"),
        *("no_judge", "not_installed", "not_importable", "unsupported_metric", "provider_not_supported", "unsupported"),
        *("missing_input", "ambiguous_input", "unknown_parameter", "unknown_prompt", "pattern_invalid"),
        *("bad_file", "missing_transcript", "bad_transcript", "tool_unavailable", "cannot_start"),
        *("cassette_miss", "cassette_unreadable", "cassette_unwritable"),
    )
)
_JUDGE = frozenset(("judge_failed", "bad_verdict", "too_few_judges", "content_filter", "bad_reply", "malformed"))


class Fault(Struct, frozen=True):
    """An error, and the party that has to act on it."""

    actor: Actor
    metric: str | None
    message: str


def classify_error(error: ErrorInfo, metric: str | None) -> Fault:
    """Classify an error of a metric, or of the agent if `metric` is None."""
    cause = error.context.get("cause")
    code = cause if isinstance(cause, str) else error.code
    # An HTTP target is the agent itself; only the suite's own model has a provider.
    provider = metric is not None or "provider" in error.context
    actor: Actor = "agent" if metric is None else "metric"
    if code in _BUDGET:
        actor = "budget"
    elif code in _CONFIGURATION:
        actor = "configuration"
    elif code in _SERVICE and provider:
        actor = "service"
    elif code in _JUDGE and metric is not None:
        actor = "judge"
    return Fault(actor, metric, error.message)
