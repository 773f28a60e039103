"""Labels with the judge's evaluations of the same answers, and the evaluations of a metric in a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holodeck_action.extensions.calibration.labels import LabelledAnswer
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import CaseRecord, Record, TurnRecord


class LabelledEvaluation(Struct, frozen=True):
    """A label and the judge's evaluation of the same answer; `group` identifies the answer's test case."""

    row: LabelledAnswer
    group: str
    evaluation: Evaluation


class MatchedLabels(Struct, frozen=True):
    """The labels for a metric, each with the judge's evaluation of the same answer.

    Attributes:
        metric: name of the metric.
        pairs: the labelled answers with their evaluations, in the order of the file.
        evaluations: the metric's evaluations of all answers, labelled or not.
        absent: line numbers of labels that compare two answers which the record does not contain.
    """

    metric: str
    pairs: tuple[LabelledEvaluation, ...]
    evaluations: Iterable[Evaluation]
    absent: tuple[int, ...] = ()

    @property
    def of_pairs(self) -> bool:
        """Whether the labels compare two answers."""
        return any(item.row.of_pair for item in self.pairs)


class RecordedEvaluation(Struct, frozen=True):
    """An evaluation and its position in a record."""

    case: CaseRecord
    trial: int
    turn: TurnRecord
    evaluation: Evaluation


def judge_models(evaluation: Evaluation) -> frozenset[str]:
    """Return the names of the models that gave a verdict; empty if the evaluation names no model."""
    judge, panel = evaluation.metadata.get("judge"), evaluation.metadata.get("panel")
    found = {judge} if isinstance(judge, str) else set()
    # A custom grader may store anything under these keys.
    verdicts = panel.get("verdicts") if isinstance(panel, Mapping) else None
    for verdict in verdicts if isinstance(verdicts, list | tuple) else ():
        if isinstance(verdict, Mapping) and isinstance(verdict.get("model"), str) and not verdict.get("fallback"):
            found.add(verdict["model"])
    return frozenset(found)


class Evaluations(Struct, frozen=True):
    """The evaluations of a metric in a record; each iteration reads the record again."""

    record: Record
    metric: str

    def __iter__(self) -> Iterator[Evaluation]:
        return (place.evaluation for case in self.record.cases for place in metric_evaluations(case, self.metric))


def metric_evaluations(case: CaseRecord, metric: str) -> Iterator[RecordedEvaluation]:
    """Yield the evaluations of a metric in a case, with their positions."""
    for trial in case.trials:
        turns = {turn.index: turn for turn in trial.turns}
        for turn, evaluation in trial.graded:
            if evaluation.status != "skipped" and evaluation.evaluator_name == metric:
                yield RecordedEvaluation(case, trial.index, turns[turn], evaluation)


def normalize(text: str) -> str:
    """Return a string with uniform line ends and no surrounding white space, both of which spreadsheets change."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
