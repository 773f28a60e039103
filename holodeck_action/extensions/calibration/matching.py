"""Labels and the evaluations of the answers that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from holodeck_action.extensions.calibration.labelled_answers import (
    LabelError,
    LabelledAnswer,
    Labels,
    about_metric,
    only_metric,
)
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import CaseRecord, Record, TurnRecord
from holodeck_action.text.plain import cut


class Compared(Struct, frozen=True):
    """A label and the judge's evaluation of the same answer; `group` is the case to which the answer belongs."""

    row: LabelledAnswer
    group: str
    evaluation: Evaluation


class Matched(Struct, frozen=True):
    """What there is to compare.

    Attributes:
        metric: its name.
        compared: the labelled answers, in the order of the file.
        judged: the metric's evaluations of all answers, the labelled ones among them.
    """

    metric: str
    compared: tuple[Compared, ...]
    judged: Iterable[Evaluation]


class _Place(Struct, frozen=True):
    """An evaluation of the metric in a record."""

    case: CaseRecord
    trial: int
    turn: TurnRecord
    evaluation: Evaluation


def match_record(labels: Labels, record: Record, metric: str | None, shown: str) -> Matched:
    """Find the labelled answers in a record.

    Args:
        labels: the labels.
        record: the record.
        metric: the metric's name; None for the only one that a judge grades.
        shown: what the record is called in messages.

    Raises:
        LabelError: there is no such metric, or answers are not in the record, or not as they were labelled.
    """
    name = _metric_of(record, metric or only_metric(labels), shown)
    labels = about_metric(labels, name, record.suite.name)
    cases = {row.case for row in labels.rows}
    texts = {(_text(row.input or ""), _text(row.response or "")) for row in labels.rows if row.case is None}
    known: set[str] = set()
    by_name: dict[str, set[str]] = {}
    by_case: dict[str, list[_Place]] = {}
    by_texts: dict[tuple[str, str], list[_Place]] = {}
    # Of a large record only what a label is about is kept.
    for case in record.cases:
        if case.id in cases:
            known.add(case.id)
        if case.name in cases and case.name is not None:
            by_name.setdefault(case.name, set()).add(case.id)
        for place in _places_in(case, name):
            said = _text(place.turn.input), _text(place.turn.response or "")
            if said in texts:
                by_texts.setdefault(said, []).append(place)
            if case.id in cases or case.name in cases:
                by_case.setdefault(case.id, []).append(place)
    found: list[tuple[LabelledAnswer, _Place]] = []
    problems: list[str] = []
    for row in labels.rows:
        try:
            if row.case is None:
                place = _by_texts(row, by_texts, name)
            else:
                ids = {row.case} if row.case in known else by_name.get(row.case, set())
                place = _by_place(row, row.case, ids, by_case, name)
            _check(row, place)
        except _NotFoundError as error:
            if row.metric == "" and error.not_judged:
                # A label of the whole answer says nothing of a metric that did not look at it.
                continue
            problems.append(f"{labels.file}:{row.line}: column {error.column}: {shown}: {error}")
            continue
        found.append((row, place))
    problems += _twice(labels, found)
    if problems:
        raise LabelError(problems)
    compared = tuple(Compared(row, place.case.id, place.evaluation) for row, place in found)
    return Matched(name, compared, _Evaluations(record, name))


class _NotFoundError(Exception):
    """No evaluation fits a row; `column` is to blame.

    `not_judged` says that the case is there, and that the metric did not look at its answer.
    """

    def __init__(self, column: str, message: str, *, not_judged: bool = False) -> None:
        super().__init__(message)
        self.column, self.not_judged = column, not_judged


def judges_of(evaluation: Evaluation) -> frozenset[str]:
    """Return the models that gave a verdict; empty where it names none."""
    judge, panel = evaluation.metadata.get("judge"), evaluation.metadata.get("panel")
    found = {judge} if isinstance(judge, str) else set()
    # A grader of the suite's own may keep anything under these names.
    verdicts = panel.get("verdicts") if isinstance(panel, Mapping) else None
    for verdict in verdicts if isinstance(verdicts, list | tuple) else ():
        if isinstance(verdict, Mapping) and isinstance(verdict.get("model"), str) and not verdict.get("fallback"):
            found.add(verdict["model"])
    return frozenset(found)


class _Evaluations(Struct, frozen=True):
    """The evaluations of a metric in a record, read each time they are asked for."""

    record: Record
    metric: str

    def __iter__(self) -> Iterator[Evaluation]:
        return (place.evaluation for case in self.record.cases for place in _places_in(case, self.metric))


def _places_in(case: CaseRecord, metric: str) -> Iterator[_Place]:
    for trial in case.trials:
        for turn in trial.turns:
            for evaluation in turn.evaluations:
                if evaluation.status != "skipped" and evaluation.evaluator_name == metric:
                    yield _Place(case, trial.index, turn, evaluation)


def _metric_of(record: Record, metric: str | None, shown: str) -> str:
    names: dict[str, bool] = {}
    for evaluation in record.evaluations:
        if evaluation.status != "skipped":
            name = evaluation.evaluator_name
            names[name] = names.get(name, False) or bool(judges_of(evaluation))
    if metric is not None and metric in names:
        return metric
    judged = [name for name, by_judge in names.items() if by_judge] or list(names)
    if metric is None and len(judged) == 1:
        return judged[0]
    there = ", ".join(sorted(names)) or "none"
    if metric is None:
        raise LabelError([f"{shown}: say with --metric which one the labels are about (there are: {there})"])
    raise LabelError([f"{shown}: no metric is called {metric!r} (there are: {there})"])


def _by_texts(row: LabelledAnswer, known: Mapping[tuple[str, str], Sequence[_Place]], metric: str) -> _Place:
    places = known.get((_text(row.input or ""), _text(row.response or "")), ())
    if len(places) == 1:
        return places[0]
    if places:
        raise _NotFoundError("input", f"{len(places)} evaluations by {metric} have these texts: name the case instead")
    raise _NotFoundError("input", f"no answer with these texts was evaluated by {metric}")


def _by_place(
    row: LabelledAnswer, case: str, ids: set[str], by_case: Mapping[str, Sequence[_Place]], metric: str
) -> _Place:
    if not ids:
        raise _NotFoundError("case", f"there is no case {cut(case, 80)!r}")
    if len(ids) > 1:
        raise _NotFoundError("case", f"{len(ids)} cases are called {cut(case, 80)!r}: give the id of one")
    places = by_case.get(next(iter(ids)), ())
    if not places:
        raise _NotFoundError("case", f"no answer of {cut(case, 80)!r} was evaluated by {metric}", not_judged=True)
    places = _narrowed(places, "turn", row.turn, [place.turn.index for place in places], case, metric)
    places = _narrowed(places, "trial", row.trial, [place.trial for place in places], case, metric)
    return places[0]


def _narrowed(
    places: Sequence[_Place], column: str, wanted: int | None, there: Sequence[int], case: str, metric: str
) -> Sequence[_Place]:
    """Keep the places whose turn or trial is the wanted one; `there` holds that of each."""
    if wanted is None and len(set(there)) > 1:
        which = ", ".join(map(str, sorted(set(there))))
        raise _NotFoundError(column, f"say which {column} of {cut(case, 80)!r} ({which}) the label is about")
    kept = [place for place, index in zip(places, there, strict=True) if wanted in (None, index)]
    if not kept:
        said = f"{column} {wanted} of {cut(case, 80)!r} was not evaluated by {metric}"
        raise _NotFoundError(column, said, not_judged=True)
    return kept


def _check(row: LabelledAnswer, place: _Place) -> None:
    """Refuse a label of another answer than the one that was judged."""
    turn = place.turn
    if turn.response is None:
        raise _NotFoundError("case", f"case {place.case.id!r} got no answer")
    for column in ("input", "response", "ground_truth"):
        given = getattr(row, column)
        if given is not None and _text(given) != _text(getattr(turn, column) or ""):
            raise _NotFoundError(column, "this is not the text that was judged")
    for column in ("context", "retrieval_context"):
        given = getattr(row, column)
        if given is not None and given != (getattr(turn, column) or ()):
            raise _NotFoundError(column, "these are not the texts that were judged")


def _twice(labels: Labels, found: Sequence[tuple[LabelledAnswer, _Place]]) -> list[str]:
    first: dict[int, int] = {}
    problems = []
    for row, place in found:
        line = first.setdefault(id(place.evaluation), row.line)
        if line != row.line:
            problems.append(f"{labels.file}:{row.line}: the answer of line {line} again; give one row for each answer")
    return problems


def _text(text: str) -> str:
    """Return a text as spreadsheets leave it: line ends and white space around it differ."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
