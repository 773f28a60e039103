"""Parsing of results files of this version and of earlier ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import ValidationError
from msgspec.structs import replace

from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import FIRST_VERSION, SCHEMA_VERSION, CaseRecord, Record, TrialRecord, TurnRecord
from holodeck_action.record.serialization import JSON_ERRORS, decode_problem, from_json
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.json_values import ConstantError, parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

_CLASSES_OF_CONVERSATIONS = frozenset(
    {
        "ConversationCompletenessMetric",
        "ConversationalGEval",
        "GoalAccuracyMetric",
        "KnowledgeRetentionMetric",
        "RoleAdherenceMetric",
        "ToolUseMetric",
        "TopicAdherenceMetric",
        "TurnContextualPrecisionMetric",
        "TurnContextualRecallMetric",
        "TurnContextualRelevancyMetric",
        "TurnFaithfulnessMetric",
        "TurnRelevancyMetric",
    }
)
"""DeepEval's classes of conversations in records up to version 2, which do not name the scope of these metrics."""

LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9
"""Minimum and maximum of a case's weight, so that all sums of weights are finite."""

_START = lazy_pattern(rb'\{\r?\n "schema_version": %d,' % SCHEMA_VERSION)


class RecordError(ConfigurationError):
    """A results file cannot be used; the message is one sentence with the name of the file and a remedy."""

    def __init__(self, message: str) -> None:
        super().__init__([message])


def parse_current(content: bytes) -> Record | None:
    """Return the record of a file in the layout of this version; None for any other file."""
    if _START.match(content) is None:
        return None
    try:
        return from_json(content, Record)
    except JSON_ERRORS:
        return None


def parse_any_version(content: bytes, path: os.PathLike[str] | str) -> tuple[Record, bool]:
    """Return a record of any schema version, and whether it is from a version without digests.

    Args:
        content: content of the file.
        path: the file's name in messages.

    Raises:
        RecordError: the content is not a record.
    """
    try:
        document = _parse_document(content)
        version = document["schema_version"]
        if version not in range(FIRST_VERSION, SCHEMA_VERSION + 1) or isinstance(version, bool):
            raise RecordError(
                f"{path}: schema_version is {version!r}, this version reads {FIRST_VERSION} to {SCHEMA_VERSION}; "
                "use the version of holodeck-action that wrote it"
            )
        record = from_json(content, Record)
    except ValidationError as error:
        raise RecordError(f"{path}: not a results file: {decode_problem(error)}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not a results file: {error}") from error
    unsealed = version == FIRST_VERSION and not {"digest", "chosen"} & document.keys()
    if version == FIRST_VERSION:
        record = _convert_version_1(record)
    return _convert_version_2(record), unsealed


def _convert_version_1(record: Record) -> Record:
    """Replace empty lists of tool calls by None (unknown), except for the suite's own model: for other targets, version
    1 wrote an empty list even if the tool calls were unknown."""
    own_model = record.provenance.target.startswith("model:")

    def mark_unknown_calls(turn: TurnRecord) -> TurnRecord:
        if turn.tool_invocations or (own_model and turn.response is not None):
            return turn
        return replace(turn, tool_invocations=None)

    def convert_trial(trial: TrialRecord) -> TrialRecord:
        return replace(trial, turns=tuple(map(mark_unknown_calls, trial.turns)))

    return _convert_trials(record, convert_trial)


def _convert_version_2(record: Record) -> Record:
    """Move the evaluations of whole conversations to the trials; up to version 2, the last turn held them."""
    converted = _convert_trials(record, lambda trial: trial.with_conversation(_grades_conversation))
    return replace(converted, schema_version=SCHEMA_VERSION)


def _grades_conversation(evaluation: Evaluation) -> bool:
    criteria = evaluation.criteria
    return _is_of_conversation({**criteria.settings, "type": criteria.kind, "metric": criteria.metric})


def _is_of_conversation(metric: Any) -> bool:
    """Return whether these are settings of a metric for whole conversations, or of a composite of only such metrics."""
    if not isinstance(metric, Mapping):
        return False
    if metric.get("type") == "composite":
        members = metric.get("metrics")
        return isinstance(members, list) and bool(members) and all(map(_is_of_conversation, members))
    if metric.get("type") == "deepeval":
        return metric.get("metric") in _CLASSES_OF_CONVERSATIONS
    return metric.get("scope") == "conversation"


def _convert_trials(record: Record, convert: Callable[[TrialRecord], TrialRecord]) -> Record:
    def convert_case(case: CaseRecord) -> CaseRecord:
        trials, confirmation = (tuple(map(convert, part)) for part in (case.trials, case.confirmation))
        return replace(case, trials=trials, confirmation=confirmation)

    return replace(record, cases=tuple(map(convert_case, record.cases)))


def _parse_document(content: bytes) -> dict[str, Any]:
    try:
        document = parse_json(Foreign(content).text())
    except ConstantError as error:
        raise ValueError(f"it holds {error.name}") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(document, dict) or "suite" not in document or "schema_version" not in document:
        raise ValueError("its schema_version or its suite is missing")
    return document
