"""Opposite verdicts of one judge on equal prompts: a judge that contradicts itself does not know the answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.agreement import valid_verdicts
from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.decide.verdict import ContradictionSummary
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import items_or_none
from holodeck_action.record.record import CaseRecord, TrialRecord, TurnRecord
from holodeck_action.record.serialization import to_json

CONTRADICTED = "contradicted"
"""Code of the error of an evaluation whose judge gave the opposite verdict on the same prompt."""
_JUDGEMENTS = "judgements"


class _Repeat(Struct):
    """The verdicts of one judge on one prompt, and the evaluations that they belong to."""

    metric: str
    passed: list[bool]
    evaluations: list[str]

    @property
    def is_contradiction(self) -> bool:
        return len(set(self.passed)) > 1


class ContradictionTally:
    """Counts, case by case, the prompts that a judge got several times, and those on which it contradicted itself."""

    def __init__(self) -> None:
        self._repeated: Counter[str] = Counter()
        self._contradicted: Counter[str] = Counter()

    def add(self, case: CaseRecord) -> None:
        """Add the evaluations of a case."""
        for repeat in _repeats(case.trials):
            self._repeated[repeat.metric] += 1
            self._contradicted[repeat.metric] += repeat.is_contradiction

    @property
    def summaries(self) -> tuple[ContradictionSummary, ...]:
        """One summary for each metric with a contradiction, sorted by name."""
        return tuple(
            ContradictionSummary(name, count, self._repeated[name])
            for name, count in sorted(self._contradicted.items())
            if count
        )


def refuse_contradictions(trials: Sequence[TrialRecord]) -> dict[int, TrialRecord]:
    """Turn evaluations whose judge contradicts itself into errors.

    Args:
        trials: finished trials of one case.

    Returns:
        The changed trials by their index.
    """
    refused = {each for repeat in _repeats(trials) if repeat.is_contradiction for each in repeat.evaluations}
    return {trial.index: _refuse(trial, refused) for trial in trials if refused & {*map(_id, _all(trial))}}


def _refuse(trial: TrialRecord, refused: set[str]) -> TrialRecord:
    def change(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
        return tuple(_as_error(each) if each.evaluation_id in refused else each for each in evaluations)

    turns = tuple(replace(turn, evaluations=change(turn.evaluations)) for turn in trial.turns)
    return replace(trial, turns=turns, evaluations=change(trial.evaluations))


def _as_error(evaluation: Evaluation) -> Evaluation:
    if evaluation.status != "completed":
        return evaluation
    message = f"the judge of {evaluation.evaluator_name} passed and failed the same answer, for equal prompts"
    error = ErrorInfo("EvaluationError", message, CONTRADICTED, {_JUDGEMENTS: dict(_judgements(evaluation))})
    return replace(evaluation, score=None, explanation=message, status="failed", error=error)


def _repeats(trials: Sequence[TrialRecord]) -> Iterator[_Repeat]:
    """Yield the prompts of a case that a judge got in several trials."""
    if len(trials) < 2:
        return
    found: dict[tuple[object, ...], _Repeat] = defaultdict(lambda: _Repeat("", [], []))
    for trial in trials:
        if all(next(_judgements(each), None) is None for each in _all(trial)):
            continue
        shown: list[object] = []
        for turn in trial.turns:
            shown.append(_shown(turn))
            _add(found, f"turn {turn.index}", to_json(shown), turn.evaluations)
        _add(found, "conversation", to_json(shown), trial.evaluations)
    yield from (repeat for repeat in found.values() if len(repeat.passed) > 1)


def _add(
    found: Mapping[tuple[object, ...], _Repeat], place: str, shown: bytes, evaluations: Sequence[Evaluation]
) -> None:
    for evaluation in evaluations:
        for judge, passed in _judgements(evaluation):
            repeat = found[place, shown, evaluation.evaluator_name, judge]
            repeat.metric = evaluation.evaluator_name
            repeat.passed.append(passed)
            repeat.evaluations.append(evaluation.evaluation_id)


def _shown(turn: TurnRecord) -> list[object]:
    """Return the texts of a turn that a judge may see: equal ones give equal prompts within a case."""
    calls = items_or_none(turn.calls)
    return [
        turn.input,
        turn.response,
        None if calls is None else [[call.name, call.args, call.result, call.error] for call in calls],
        items_or_none(turn.texts),
        turn.context,
    ]


def _judgements(evaluation: Evaluation) -> Iterator[tuple[str, bool]]:
    """Yield each judge of an evaluation, by its name and place in the panel, and whether it passed the answer."""
    if evaluation.error is not None:
        judgements = evaluation.error.context.get(_JUDGEMENTS) if evaluation.error.code == CONTRADICTED else None
        if isinstance(judgements, Mapping):
            yield from ((judge, passed is True) for judge, passed in judgements.items())
        return
    panel = evaluation.metadata.get("panel")
    if isinstance(panel, Mapping):
        for place, verdict in enumerate(valid_verdicts(panel.get("verdicts")) or ()):
            if verdict["passed"] is not None and not verdict["fallback"]:
                yield f"{place} {verdict.get('model')}", verdict["passed"]
    elif "judge" in evaluation.metadata or "usage" in evaluation.metadata:
        outcome = judge_evaluation(evaluation).outcome
        if outcome in ("passed", "failed"):
            yield str(evaluation.metadata.get("judge", "")), outcome == "passed"


def _all(trial: TrialRecord) -> Iterator[Evaluation]:
    return (evaluation for _, evaluation in trial.graded)


def _id(evaluation: Evaluation) -> str:
    return evaluation.evaluation_id
