"""The meaning of each kind of error at each door, and the party that must act. docs/results.md prints this table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
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


_PROVIDED = "authentication quota"
_SETTING = "model_not_found bad_request context_length"
_OUTAGE = "rate_limited overloaded server_error connect disconnected http_status"
OUTAGE_CODES = frozenset((*_OUTAGE.split(), "timeout"))
"""Codes of errors that an outage of a provider causes. A run that is resumed runs such trials again."""
_BROKEN = "malformed bad_reply stream_error truncated"
_CASSETTE = "cassette_miss cassette_unreadable cassette_unwritable"
_SPENT = "budget_exhausted price_unknown"
_CRASH = "raised exited crashed too_much_output"
_RESULT = "bad_answer not_json unsupported_type"
_IMPORT = "import_failed missing_module missing_attribute not_callable"
_SCORE = (
    "evaluator_error evaluation_failed invalid_input schema_failed response_path pattern_timeout retries_exhausted "
    "parts_failed"
)
_TARGET: Meaning = "error of the target"
_UNKNOWN: Meaning = "unknown"


def _row(
    codes: str, doors: tuple[Door, ...], meaning: Meaning, actor: Actor, about: str, statuses: tuple[int, ...] = ()
) -> ErrorRow:
    return ErrorRow(tuple(codes.split()), doors, meaning, actor, about, statuses)


ROWS: tuple[ErrorRow, ...] = (
    # What answers a case.
    _row("agent_error", TARGETS, _TARGET, "agent", "the agent reports an error"),
    _row(
        "infrastructure_error",
        TARGETS,
        _UNKNOWN,
        "infrastructure",
        "the agent reports an error of the kind `infrastructure`, or a trace has no text",
    ),
    _row("timeout case_timeout", CODE, _TARGET, "agent", "no answer within the time limit"),
    _row(f"{_CRASH} session_ended", ("python", "command"), _TARGET, "agent", "its code failed"),
    _row(f"{_RESULT} bad_reply too_large", TARGETS, _TARGET, "agent", "an invalid reply"),
    _row("internal", TARGETS, _TARGET, "agent", "an unexpected exception"),
    _row(_IMPORT, ("python",), _TARGET, "agent", "its code cannot be imported"),
    _row("import_timeout", ("python",), _UNKNOWN, "configuration", "its import takes longer than its limit"),
    _row("cannot_start", CODE, _UNKNOWN, "configuration", "a process of the target cannot be started"),
    _row(
        "missing_transcript bad_transcript duplicate_transcript ambiguous_transcript",
        ("recorded",),
        _UNKNOWN,
        "configuration",
        "no recorded answer, or several",
    ),
    _row("no_file_texts", ("recorded",), _UNKNOWN, "configuration", "the record has no texts of files"),
    _row("not_run", TARGETS, _UNKNOWN, "agent", "an earlier turn of the conversation failed"),
    _row("closed cancelled", TARGETS, _UNKNOWN, "infrastructure", "the run ended before the answer"),
    _row("worker_lost", TARGETS, _UNKNOWN, "infrastructure", "the connection to a worker of the cluster is lost"),
    _row("connect disconnected", ("http",), _UNKNOWN, "infrastructure", "the agent's service is down"),
    _row(
        "http_status",
        ("http",),
        _UNKNOWN,
        "infrastructure",
        "the service is overloaded or not available",
        (408, 425, 429, 502, 503, 504, 529),
    ),
    _row(
        "http_status",
        ("http",),
        _UNKNOWN,
        "configuration",
        "the service refuses the caller, or the URL is wrong",
        (301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 407, 410),
    ),
    _row("http_status", ("http",), _TARGET, "agent", "any other status of the service"),
    _row(
        "bad_request bad_arguments", ("http",), _UNKNOWN, "configuration", "the `request` mapping cannot be filled in"
    ),
    _row("cut_off", (*TARGETS, *OWN_MODEL), _TARGET, "configuration", "the answer stops at its token limit"),
    # The suite's own model.
    _row("timeout case_timeout", OWN_MODEL, _TARGET, "configuration", "the model is too slow for the limits"),
    _row(
        "refused content_filter bad_output too_large too_many_calls",
        OWN_MODEL,
        _TARGET,
        "agent",
        "the model gave no answer that fits",
    ),
    _row("session_budget", OWN_MODEL, _TARGET, "configuration", "the conversation costs too much"),
    _row(_SETTING, OWN_MODEL, _TARGET, "configuration", "the provider refuses the request or the model"),
    _row(_PROVIDED, OWN_MODEL, _UNKNOWN, "configuration", "the provider refuses the key, or it has no credit"),
    _row(f"{_OUTAGE} {_BROKEN}", OWN_MODEL, _UNKNOWN, "service", "the provider fails"),
    _row(
        "bad_file tool_unavailable unsupported", OWN_MODEL, _UNKNOWN, "configuration", "a file or a tool cannot be used"
    ),
    _row(_CASSETTE, OWN_MODEL, _UNKNOWN, "configuration", "the recording lacks the call, or cannot be used"),
    _row(_SPENT, OWN_MODEL, _UNKNOWN, "budget", "the budget is used up"),
    # The user that a model plays.
    _row(
        "bad_user_message stop_check internal content_filter refused too_large",
        USER,
        _UNKNOWN,
        "user",
        "the user has no usable message",
    ),
    _row(
        f"{_PROVIDED} {_SETTING} {_CASSETTE}", USER, _UNKNOWN, "configuration", "the model of the user cannot be called"
    ),
    _row(f"{_OUTAGE} {_BROKEN} timeout", USER, _UNKNOWN, "service", "the provider of the user's model fails"),
    _row(_SPENT, USER, _UNKNOWN, "budget", "the budget is used up"),
    # What grades an answer.
    _row("missing_input", METRICS, _UNKNOWN, "configuration", "a fact that the metric needs is unknown"),
    _row(
        "no_judge not_installed not_importable provider_not_supported unsupported_metric unknown_prompt",
        METRICS,
        _UNKNOWN,
        "configuration",
        "the metric cannot be used here",
    ),
    _row(
        f"{_IMPORT} ambiguous_input unknown_parameter pattern_invalid no_schema cannot_start import_timeout",
        METRICS,
        _UNKNOWN,
        "configuration",
        "the metric's settings or code cannot be used",
    ),
    _row(f"{_PROVIDED} {_SETTING} {_CASSETTE}", METRICS, _UNKNOWN, "configuration", "the judge cannot be called"),
    _row(_SPENT, METRICS, _UNKNOWN, "budget", "the budget is used up"),
    _row(f"{_OUTAGE} stream_error truncated timeout", BUILT_IN, _UNKNOWN, "service", "the judge's provider fails"),
    _row(
        "judge_failed bad_verdict contradicted too_few_judges content_filter refused bad_reply malformed",
        METRICS,
        _UNKNOWN,
        "judge",
        "the judge gave no usable verdict",
    ),
    _row(
        "exam_failed",
        METRICS,
        _UNKNOWN,
        "configuration",
        "the judge did not grade the right answer of its probe better than the absurd one",
    ),
    _row("timeout", OWN_CLASS, _UNKNOWN, "metric", "no score within the time limit"),
    _row(
        f"{_CRASH} {_RESULT} invalid_score invalid_result network closed",
        METRICS,
        _UNKNOWN,
        "metric",
        "the metric's code failed, or its result is invalid",
    ),
    _row(
        f"{_SCORE} too_large too_many_calls",
        METRICS,
        _UNKNOWN,
        "metric",
        "the metric could not compute a score",
    ),
    _row("base_failed", METRICS, _UNKNOWN, "configuration", "the base has no answer to compare with"),
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


@lru_cache(512)
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
