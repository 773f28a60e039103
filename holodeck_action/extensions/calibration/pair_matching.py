"""Matches labels that compare two answers with the judge's verdicts, by the texts of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.calibration.label_matches import (
    Evaluations,
    LabelledEvaluation,
    MatchedLabels,
    normalize,
)
from holodeck_action.extensions.calibration.labels import LabelError, LabelledAnswer, Labels
from holodeck_action.record.evaluation import PREFERENCE, Evaluation
from holodeck_action.record.pair_texts import (
    compared_text,
    compares_conversations,
    digest_of_text,
    question_text,
    sees_of,
)
from holodeck_action.record.record import CaseRecord, Record, TrialRecord

_Key = tuple[str, str, str]
"""The question, the digest of this run's answer, and the digest of the base run's answer."""


class _JudgedPair(Struct, frozen=True):
    """A judge's verdict on two answers, with the expected answer and the id of the case."""

    case: str
    ground_truth: str | None
    evaluation: Evaluation


def match_pairs(labels: Labels, record: Record, metric: str, record_name: str) -> MatchedLabels:
    """Find the labelled pairs of answers in a record; either answer may be from this run.

    Labels of pairs that the record does not contain are not matched, since new runs have other answers.

    Args:
        labels: the labels of the metric.
        record: the record.
        metric: name of the metric, which compares two answers.
        record_name: name of the record in messages.

    Raises:
        LabelError: the record contains none of the pairs.
    """
    judged: dict[_Key, list[_JudgedPair]] = {}
    for case in record.cases:
        for trial in case.trials:
            for key, pair in _judged_pairs(case, trial, metric):
                judged.setdefault(key, []).append(pair)
    found: list[LabelledEvaluation] = []
    absent: list[int] = []
    for row in labels.rows:
        match = _find(row, judged)
        if match is None:
            absent.append(row.line)
        else:
            found.append(match)
    if not found:
        raise LabelError(
            [
                f"{labels.file}: {record_name} has none of the labelled pairs of answers; give the record of their "
                "run, or leave out --results to have the judge compare the labelled answers"
            ]
        )
    return MatchedLabels(metric, tuple(found), Evaluations(record, metric), tuple(absent))


def _judged_pairs(case: CaseRecord, trial: TrialRecord, metric: str) -> Iterator[tuple[_Key, _JudgedPair]]:
    for evaluation in trial.turns[-1].evaluations if trial.turns else ():
        if evaluation.evaluator_name != metric or evaluation.criteria.kind != PREFERENCE:
            continue
        facts = evaluation.metadata.get(PREFERENCE)
        text = compared_text(trial, conversation=compares_conversations(case, sees=sees_of(evaluation)))
        if facts is not None and text is not None:
            key = normalize(question_text(case, trial)), digest_of_text(text), facts["base_digest"]
            yield key, _JudgedPair(case.id, trial.turns[-1].ground_truth, evaluation)


def _find(row: LabelledAnswer, judged: dict[_Key, list[_JudgedPair]]) -> LabelledEvaluation | None:
    """Return a row with the first verdict on its pair, or None. If `response` is the base's answer, swap the row."""
    question = normalize(row.input or "")
    ours, theirs = _digests(row.response or ""), _digests(row.other_response or "")
    for swapped, (one, other) in enumerate(((ours, theirs), (theirs, ours))):
        for key in ((question, mine, base) for mine in one for base in other):
            for pair in judged.get(key, ()):
                if row.ground_truth is None or normalize(row.ground_truth) == normalize(pair.ground_truth or ""):
                    return LabelledEvaluation(_swap_answers(row) if swapped else row, pair.case, pair.evaluation)
    return None


def _digests(text: str) -> Sequence[str]:
    """Return the digests of a text as given and with other line ends, since spreadsheets change line ends."""
    return [digest_of_text(text), digest_of_text(text.replace("\r\n", "\n"))]


def _swap_answers(row: LabelledAnswer) -> LabelledAnswer:
    """Return a row with its two answers swapped and its labels inverted."""
    labels = tuple(None if label is None else 1 - label for label in row.labels)
    return replace(row, labels=labels, response=row.other_response, other_response=row.response)
