"""The meaning of each kind of error at each door, and the party that must act. docs/results.md prints this table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from msgspec import Struct

Door = Literal[
    "recorded", "python", "command", "http", "spans", "traces",
    "own model", "simulated user",
    "judge", "own class", "metric",
]  # fmt: skip
"""The place at which an error occurs. `own class` is a grader or a metric class of the suite; `metric`, any other."""
Meaning = Literal["error of the target", "unknown", "score 0"]
"""The first two are no low scores: the case has no verdict. A race counts an error of the target as 0."""
Actor = Literal["configuration", "budget", "service", "judge", "agent", "metric", "infrastructure", "user"]

CODE: tuple[Door, ...] = ("python", "command", "http", "spans")
TARGETS: tuple[Door, ...] = ("recorded", *CODE, "traces")
OWN_MODEL: tuple[Door, ...] = ("own model",)
USER: tuple[Door, ...] = ("simulated user",)
OWN_CLASS: tuple[Door, ...] = ("own class",)
BUILT_IN: tuple[Door, ...] = ("judge", "metric")
METRICS = (*OWN_CLASS, *BUILT_IN)
GROUPS = (TARGETS, OWN_MODEL, USER, OWN_CLASS, BUILT_IN)
"""Doors that an error in a record does not distinguish, except by its code."""

ACTIONS: Mapping[str, str] = {
    "configuration": "You must act: change what the message names, in the suite or in the job's secrets.",
    "budget": "You must act: raise the budget, or run fewer cases.",
    "service": "The model's provider must act: run the job again later.",
    "judge": "The judge gave no usable verdict: run the job again, or choose another judge.",
    "agent": "The agent must be repaired: it gave no answer that could be graded.",
    "metric": "The metric must be repaired: its own code failed.",
    "infrastructure": "A service that the agent needs must be repaired: do what the message says, or run again later.",
    "user": "The simulated user must be repaired: run the job again, or choose another model for the user.",
}
"""For each actor of an error, the required action."""


class ErrorRow(Struct, frozen=True):
    """Kinds of errors that mean the same.

    Attributes:
        codes: the codes of the errors.
        doors: the doors at which they occur.
        meaning: what they mean for the agent.
        actor: the party that must act.
        about: what happened, for readers.
        statuses: the HTTP statuses of the errors; empty for all others.
    """

    codes: tuple[str, ...]
    doors: tuple[Door, ...]
    meaning: Meaning
    actor: Actor
    about: str
    statuses: tuple[int, ...] = ()


_PROVIDED = ("authentication", "quota")
_SETTING = ("model_not_found", "bad_request", "context_length")
_OUTAGE = ("rate_limited", "overloaded", "server_error", "connect", "disconnected", "http_status")
_BROKEN = ("malformed", "bad_reply", "stream_error", "truncated")
_CASSETTE = ("cassette_miss", "cassette_unreadable", "cassette_unwritable")
_SPENT = ("budget_exhausted", "price_unknown")
_CRASH = ("raised", "exited", "crashed", "too_much_output")
_RESULT = ("bad_answer", "not_json", "unsupported_type")
_IMPORT = ("import_failed", "missing_module", "missing_attribute", "not_callable")

ROWS: tuple[ErrorRow, ...] = (
    # What answers a case.
    ErrorRow(("agent_error",), TARGETS, "error of the target", "agent", "the agent reports an error"),
    ErrorRow(
        ("infrastructure_error",),
        TARGETS,
        "unknown",
        "infrastructure",
        "the agent reports an error of the kind `infrastructure`, or a trace has no text",
    ),
    ErrorRow(("timeout", "case_timeout"), CODE, "error of the target", "agent", "no answer within the time limit"),
    ErrorRow((*_CRASH, "session_ended"), ("python", "command"), "error of the target", "agent", "its code failed"),
    ErrorRow((*_RESULT, "bad_reply", "too_large"), TARGETS, "error of the target", "agent", "an invalid reply"),
    ErrorRow(("internal",), TARGETS, "error of the target", "agent", "an unexpected exception"),
    ErrorRow(_IMPORT, ("python",), "error of the target", "agent", "its code cannot be imported"),
    ErrorRow(("import_timeout",), ("python",), "unknown", "configuration", "its import takes longer than its limit"),
    ErrorRow(("cannot_start",), CODE, "unknown", "configuration", "a process of the target cannot be started"),
    ErrorRow(
        ("missing_transcript", "bad_transcript", "duplicate_transcript", "ambiguous_transcript"),
        ("recorded",),
        "unknown",
        "configuration",
        "no recorded answer, or several",
    ),
    ErrorRow(("no_file_texts",), ("recorded",), "unknown", "configuration", "the record has no texts of files"),
    ErrorRow(("not_run",), TARGETS, "unknown", "agent", "an earlier turn of the conversation failed"),
    ErrorRow(("closed", "cancelled"), TARGETS, "unknown", "infrastructure", "the run ended before the answer"),
    ErrorRow(
        ("worker_lost",), TARGETS, "unknown", "infrastructure", "the connection to a worker of the cluster is lost"
    ),
    ErrorRow(("connect", "disconnected"), ("http",), "unknown", "infrastructure", "the agent's service is down"),
    ErrorRow(
        ("http_status",),
        ("http",),
        "unknown",
        "infrastructure",
        "the service is overloaded or not available",
        (408, 425, 429, 502, 503, 504, 529),
    ),
    ErrorRow(
        ("http_status",),
        ("http",),
        "unknown",
        "configuration",
        "the service refuses the caller, or the URL is wrong",
        (301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 407, 410),
    ),
    ErrorRow(("http_status",), ("http",), "error of the target", "agent", "any other status of the service"),
    ErrorRow(
        ("bad_request", "bad_arguments"),
        ("http",),
        "unknown",
        "configuration",
        "the `request` mapping cannot be filled in",
    ),
    ErrorRow(
        ("cut_off",),
        (*TARGETS, *OWN_MODEL),
        "error of the target",
        "configuration",
        "the answer stops at its token limit",
    ),
    # The suite's own model.
    ErrorRow(
        ("timeout", "case_timeout"),
        OWN_MODEL,
        "error of the target",
        "configuration",
        "the model is too slow for the limits",
    ),
    ErrorRow(
        ("refused", "content_filter", "bad_output", "too_large", "too_many_calls"),
        OWN_MODEL,
        "error of the target",
        "agent",
        "the model gave no answer that fits",
    ),
    ErrorRow(("session_budget",), OWN_MODEL, "error of the target", "configuration", "the conversation costs too much"),
    ErrorRow(
        _SETTING, OWN_MODEL, "error of the target", "configuration", "the provider refuses the request or the model"
    ),
    ErrorRow(_PROVIDED, OWN_MODEL, "unknown", "configuration", "the provider refuses the key, or it has no credit"),
    ErrorRow((*_OUTAGE, *_BROKEN), OWN_MODEL, "unknown", "service", "the provider fails"),
    ErrorRow(
        ("bad_file", "tool_unavailable", "unsupported"),
        OWN_MODEL,
        "unknown",
        "configuration",
        "a file or a tool cannot be used",
    ),
    ErrorRow(_CASSETTE, OWN_MODEL, "unknown", "configuration", "the recording lacks the call, or cannot be used"),
    ErrorRow(_SPENT, OWN_MODEL, "unknown", "budget", "the budget is used up"),
    # The user that a model plays.
    ErrorRow(
        ("bad_user_message", "stop_check", "internal", "content_filter", "refused", "too_large"),
        USER,
        "unknown",
        "user",
        "the user has no usable message",
    ),
    ErrorRow(
        (*_SETTING, *_PROVIDED, *_CASSETTE), USER, "unknown", "configuration", "the model of the user cannot be called"
    ),
    ErrorRow((*_OUTAGE, *_BROKEN, "timeout"), USER, "unknown", "service", "the provider of the user's model fails"),
    ErrorRow(_SPENT, USER, "unknown", "budget", "the budget is used up"),
    # What grades an answer.
    ErrorRow(("missing_input",), METRICS, "unknown", "configuration", "a fact that the metric needs is unknown"),
    ErrorRow(
        (
            "no_judge",
            "not_installed",
            "not_importable",
            "provider_not_supported",
            "unsupported_metric",
            "unknown_prompt",
        ),
        METRICS,
        "unknown",
        "configuration",
        "the metric cannot be used here",
    ),
    ErrorRow(
        (
            "ambiguous_input",
            "unknown_parameter",
            "pattern_invalid",
            "no_schema",
            "cannot_start",
            "import_timeout",
            *_IMPORT,
        ),
        METRICS,
        "unknown",
        "configuration",
        "the metric's settings or code cannot be used",
    ),
    ErrorRow((*_SETTING, *_PROVIDED, *_CASSETTE), METRICS, "unknown", "configuration", "the judge cannot be called"),
    ErrorRow(_SPENT, METRICS, "unknown", "budget", "the budget is used up"),
    ErrorRow(
        (*_OUTAGE, "stream_error", "truncated", "timeout"), BUILT_IN, "unknown", "service", "the judge's provider fails"
    ),
    ErrorRow(
        ("judge_failed", "bad_verdict", "too_few_judges", "content_filter", "refused", "bad_reply", "malformed"),
        METRICS,
        "unknown",
        "judge",
        "the judge gave no usable verdict",
    ),
    ErrorRow(("timeout",), OWN_CLASS, "unknown", "metric", "no score within the time limit"),
    ErrorRow(
        (*_CRASH, *_RESULT, "invalid_score", "invalid_result", "network", "closed"),
        METRICS,
        "unknown",
        "metric",
        "the metric's code failed, or its result is invalid",
    ),
    ErrorRow(
        (
            "evaluator_error",
            "evaluation_failed",
            "invalid_input",
            "too_large",
            "too_many_calls",
            "schema_failed",
            "response_path",
            "pattern_timeout",
            "retries_exhausted",
            "parts_failed",
        ),
        METRICS,
        "unknown",
        "metric",
        "the metric could not compute a score",
    ),
    ErrorRow(("base_failed",), METRICS, "unknown", "configuration", "the base has no answer to compare with"),
)
"""The rows. A code occurs in one row for each door and HTTP status."""

_OTHERS: Mapping[tuple[Door, ...], ErrorRow] = {
    TARGETS: ErrorRow((), TARGETS, "error of the target", "agent", "any other error"),
    OWN_MODEL: ErrorRow((), OWN_MODEL, "error of the target", "agent", "any other error"),
    USER: ErrorRow((), USER, "unknown", "user", "any other error"),
    OWN_CLASS: ErrorRow((), OWN_CLASS, "unknown", "metric", "any other error"),
    BUILT_IN: ErrorRow((), BUILT_IN, "unknown", "metric", "any other error"),
}
"""For errors of other programs and other versions, whose codes have no row."""


_FAIL_ON_ERROR = ErrorRow((), METRICS, "score 0", "metric", "any error of a metric with `fail_on_error: true`")
"""Printed for readers: `judge_turn` counts such an error as a failure, whatever its row says."""


@cache
def find_row(code: str, group: tuple[Door, ...], status: int | None = None) -> ErrorRow:
    """Return the row of an error.

    Args:
        code: its code.
        group: the doors at which it may have occurred, one of `GROUPS`.
        status: its HTTP status; None if it has none.
    """
    found = [row for row in ROWS if code in row.codes and not {*group}.isdisjoint(row.doors)]
    named = [row for row in found if status in row.statuses]
    general = [row for row in found if not row.statuses]
    return [*named, *general, _OTHERS[group]][0]


def table_rows() -> tuple[ErrorRow, ...]:
    """Return all rows, ending with those for errors whose codes have no other row."""
    return (*ROWS, *_OTHERS.values(), _FAIL_ON_ERROR)
