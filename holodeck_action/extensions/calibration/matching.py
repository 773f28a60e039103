"""Matches labels with the judge's evaluations of the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holodeck_action.extensions.calibration.label_matches import (
    Evaluations,
    LabelledEvaluation,
    MatchedLabels,
    RecordedEvaluation,
    judge_models,
    metric_evaluations,
    normalize,
)
from holodeck_action.extensions.calibration.labels import (
    LabelError,
    LabelledAnswer,
    Labels,
    labels_of_metric,
    sole_metric,
)
from holodeck_action.extensions.calibration.pair_matching import match_pairs
from holodeck_action.record.evaluation import PREFERENCE
from holodeck_action.record.record import Record
from holodeck_action.text.plain import cut


def match_record(labels: Labels, record: Record, metric: str | None, record_name: str) -> MatchedLabels:
    """Find the labelled answers in a record.

    Args:
        labels: the labels.
        record: the record.
        metric: name of the metric; None if the record has only one metric with a judge, which is used.
        record_name: name of the record in messages.

    Raises:
        LabelError: the metric does not exist, or labelled answers are missing from the record or differ from it.
    """
    name, of_pairs = _choose_metric(record, labels, metric or sole_metric(labels), record_name)
    labels = labels_of_metric(labels, name, record.suite.name, compares_pairs=of_pairs)
    if of_pairs:
        return match_pairs(labels, record, name, record_name)
    cases = {row.case for row in labels.rows}
    texts = {(normalize(row.input or ""), normalize(row.response or "")) for row in labels.rows if row.case is None}
    known: set[str] = set()
    by_name: dict[str, set[str]] = {}
    by_case: dict[str, list[RecordedEvaluation]] = {}
    by_texts: dict[tuple[str, str], list[RecordedEvaluation]] = {}
    # Keep only the labelled parts of a large record.
    for case in record.cases:
        if case.id in cases:
            known.add(case.id)
        if case.name in cases and case.name is not None:
            by_name.setdefault(case.name, set()).add(case.id)
        for place in metric_evaluations(case, name):
            said = normalize(place.turn.input), normalize(place.turn.response or "")
            if said in texts:
                by_texts.setdefault(said, []).append(place)
            if case.id in cases or case.name in cases:
                by_case.setdefault(case.id, []).append(place)
    found: list[tuple[LabelledAnswer, RecordedEvaluation]] = []
    problems: list[str] = []
    for row in labels.rows:
        try:
            if row.case is None:
                place = _find_by_texts(row, by_texts, name)
            else:
                ids = {row.case} if row.case in known else by_name.get(row.case, set())
                place = _find_by_case(row, row.case, ids, by_case, name)
            _check_texts(row, place)
        except _NotFoundError as error:
            if row.metric == "" and error.not_judged:
                # A label of the whole answer does not apply to a metric that did not evaluate it.
                continue
            problems.append(f"{labels.file}:{row.line}: column `{error.column}`: {record_name}: {error}")
            continue
        found.append((row, place))
    problems += _duplicate_problems(labels, found)
    if problems:
        raise LabelError(problems)
    compared = tuple(LabelledEvaluation(row, place.case.id, place.evaluation) for row, place in found)
    return MatchedLabels(name, compared, Evaluations(record, name))


class _NotFoundError(Exception):
    """No evaluation matches a row of labels; `column` is the column whose value was not found.

    `not_judged` is true if the case exists, but the metric did not evaluate its answer.
    """

    def __init__(self, column: str, message: str, *, is_judging_missing: bool = False) -> None:
        super().__init__(message)
        self.column, self.not_judged = column, is_judging_missing


def _choose_metric(record: Record, labels: Labels, metric: str | None, record_name: str) -> tuple[str, bool]:
    """Return the name of the metric, and whether it compares two answers."""
    names: dict[str, bool] = {}
    kinds: dict[str, bool] = {}
    for evaluation in record.evaluations:
        if evaluation.status != "skipped":
            name = evaluation.evaluator_name
            names[name] = names.get(name, False) or bool(judge_models(evaluation))
            kinds[name] = evaluation.criteria.kind == PREFERENCE
    if metric is not None and metric in names:
        return metric, kinds[metric]
    labelled = {row.of_pair for row in labels.rows}
    fitting = [name for name in names if kinds[name] in labelled]
    judged = [name for name in fitting if names[name]] or fitting
    if metric is None and len(judged) == 1:
        return judged[0], kinds[judged[0]]
    there = ", ".join(sorted(names)) or "none"
    if metric is None:
        raise LabelError(
            [(f"{record_name}: use --metric to name the metric that the labels are about (there are: {there})")]
        )
    raise LabelError([f"{record_name}: there is no metric {metric!r} (there are: {there})"])


def _find_by_texts(
    row: LabelledAnswer, evaluations: Mapping[tuple[str, str], Sequence[RecordedEvaluation]], metric: str
) -> RecordedEvaluation:
    places = evaluations.get((normalize(row.input or ""), normalize(row.response or "")), ())
    if len(places) == 1:
        return places[0]
    if places:
        raise _NotFoundError(
            "input", f"{len(places)} evaluations by {metric} have these texts: name the case in the column `case`"
        )
    raise _NotFoundError("input", f"no answer with these texts was evaluated by {metric}")


def _find_by_case(
    row: LabelledAnswer, case: str, ids: set[str], by_case: Mapping[str, Sequence[RecordedEvaluation]], metric: str
) -> RecordedEvaluation:
    if not ids:
        raise _NotFoundError("case", f"there is no case {cut(case, 80)!r}")
    if len(ids) > 1:
        raise _NotFoundError("case", f"{len(ids)} cases are named {cut(case, 80)!r}; give the id of one")
    places = by_case.get(next(iter(ids)), ())
    if not places:
        raise _NotFoundError(
            "case", f"no answer of {cut(case, 80)!r} was evaluated by {metric}", is_judging_missing=True
        )
    places = _filter_by_index(places, "turn", row.turn, [place.turn.index for place in places], case, metric)
    places = _filter_by_index(places, "trial", row.trial, [place.trial for place in places], case, metric)
    return places[0]


def _filter_by_index(
    places: Sequence[RecordedEvaluation],
    column: str,
    position: int | None,
    indexes: Sequence[int],
    case: str,
    metric: str,
) -> Sequence[RecordedEvaluation]:
    """Return the evaluations whose turn or trial index, given in `indexes`, is `position`."""
    if position is None and len(set(indexes)) > 1:
        which = ", ".join(map(str, sorted(set(indexes))))
        raise _NotFoundError(column, f"name the {column} of {cut(case, 80)!r} ({which}) that the label is about")
    kept = [place for place, index in zip(places, indexes, strict=True) if position in (None, index)]
    if not kept:
        said = f"{column} {position} of {cut(case, 80)!r} was not evaluated by {metric}"
        raise _NotFoundError(column, said, is_judging_missing=True)
    return kept


def _check_texts(row: LabelledAnswer, place: RecordedEvaluation) -> None:
    """Raise _NotFoundError if the texts of a label differ from the texts that the judge graded."""
    turn = place.turn
    if turn.response is None:
        raise _NotFoundError("case", f"case {place.case.id!r} got no answer")
    for column in ("input", "response", "ground_truth"):
        given = getattr(row, column)
        if given is not None and normalize(given) != normalize(getattr(turn, column) or ""):
            raise _NotFoundError(column, "this is not the text that was judged")
    for column in ("context", "retrieval_context"):
        given = getattr(row, column)
        if given is not None and given != (getattr(turn, column) or ()):
            raise _NotFoundError(column, "these are not the texts that were judged")


def _duplicate_problems(labels: Labels, matches: Sequence[tuple[LabelledAnswer, RecordedEvaluation]]) -> list[str]:
    first: dict[int, int] = {}
    problems = []
    for row, place in matches:
        line = first.setdefault(id(place.evaluation), row.line)
        if line != row.line:
            problems.append(
                f"{labels.file}:{row.line}: repeats the answer of line {line}; give one row for each answer"
            )
    return problems
