"""Classification of errors by their meaning, and by the party that has to act on them."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.decide.error_table import (
    BUILT_IN,
    OWN_CLASS,
    OWN_MODEL,
    TARGETS,
    USER,
    Actor,
    ErrorRow,
    find_row,
)
from holodeck_action.record.evaluation import OWN_CODE_ERROR, OWN_MODEL_FACT, USER_ERROR, ErrorInfo


class Fault(Struct, frozen=True):
    """An error, and the party that has to act on it."""

    actor: Actor
    metric: str | None
    message: str


def classify_error(error: ErrorInfo, metric: str | None) -> Fault:
    """Classify an error of a metric, or of the agent if `metric` is None."""
    return Fault(row_of_error(error, is_metric=metric is not None).actor, metric, error.message)


def row_of_error(error: ErrorInfo, *, is_metric: bool = False) -> ErrorRow:
    """Return the row of an error in the table of errors.

    Args:
        error: the error of a trial, a turn or an evaluation.
        is_metric: whether it is the error of an evaluation.
    """
    context = error.context
    cause = context.get("cause")
    has_provider = "provider" in context
    code = cause if isinstance(cause, str) and (is_metric or has_provider) else error.code
    if is_metric:
        return find_row(code, OWN_CLASS if error.type == OWN_CODE_ERROR else BUILT_IN)
    if error.type == USER_ERROR:
        return find_row(code, USER)
    if has_provider or context.get(OWN_MODEL_FACT) is True:
        return find_row(code, OWN_MODEL)
    status = context.get("status")
    found = find_row(code, TARGETS, status if isinstance(status, int) else None)
    # Only model calls name a provider; further errors of the suite's own model have codes that no target has.
    return found if found.codes else find_row(code, OWN_MODEL)
