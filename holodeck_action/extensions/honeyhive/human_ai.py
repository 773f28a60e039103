"""Compares human labels with a judge's verdicts, answer by answer, as HoneyHive's human and AI evaluations."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.extensions.calibration.label_matches import LabelledEvaluation, MatchedLabels, judge_models
from holodeck_action.extensions.calibration.labels import Labels
from holodeck_action.extensions.honeyhive.honeyhive_models import AIEvaluation, HumanAIEvaluation, HumanEvaluation
from holodeck_action.extensions.honeyhive.honeyhive_patterns import derived_id


def human_ai_evaluations(labels: Labels, matched_labels: MatchedLabels) -> Iterator[HumanAIEvaluation]:
    """Yield one comparison per label; annotators without a name are numbered by the column of their labels."""
    for item in matched_labels.pairs:
        for number, label in enumerate(item.row.labels, start=1):
            if label is not None:
                yield _compare(item, number, label, labels, matched_labels.metric)


def _compare(labelled: LabelledEvaluation, number: int, label: float, labels: Labels, metric: str) -> HumanAIEvaluation:
    evaluation = labelled.evaluation
    by_score = labels.are_scores or labelled.row.of_pair
    agreement, explanation = _score_agreement(labelled, label) if by_score else _verdict_agreement(labelled, label)
    who = f"human_{number}"
    score = evaluation.score
    return HumanAIEvaluation(
        evaluation_id=derived_id("eval", "human_ai_comparison", labels.digest, evaluation.evaluation_id, who),
        target_event_id=evaluation.target_event_id,
        metric=metric,
        score=agreement,
        explanation=f"line {labelled.row.line} of the labels",
        timestamp=evaluation.timestamp,
        status="completed" if agreement is not None else "failed",
        human_evaluation=HumanEvaluation(
            annotator_id=labelled.row.annotators[number - 1] or who,
            score=label,
            explanation=labelled.row.comments[number - 1],
        ),
        ai_evaluation=AIEvaluation(
            model=", ".join(sorted(judge_models(evaluation))) or None,
            score=float(score) if isinstance(score, int | float) else None,
            explanation=evaluation.explanation,
        ),
        agreement_score=agreement,
        discrepancy_analysis=explanation,
        sample_size=1,
    )


def _verdict_agreement(labelled: LabelledEvaluation, label: float) -> tuple[float | None, str]:
    """Return 1 if the judge's verdict agrees with the label, else 0, and an explanation.

    The number is None if the judge gave no verdict.
    """
    outcome = judge_evaluation(labelled.evaluation).outcome
    if outcome not in ("passed", "failed"):
        return None, "the judge gave no verdict"
    human = "passed" if label == 1.0 else "failed"
    explanation = f"both say {human}" if human == outcome else f"people say {human}, the judge says {outcome}"
    return float(human == outcome), explanation


def _score_agreement(labelled: LabelledEvaluation, label: float) -> tuple[float | None, str]:
    """Return 1 − |judge's score − label|, where both are 0..1, and an explanation.

    The number is None if the judge gave no score.
    """
    score = labelled.evaluation.score
    if not isinstance(score, int | float):
        return None, "the judge gave no score"
    return 1 - abs(score - label), f"the judge's score is {score - label:+.4g} from that of people"
