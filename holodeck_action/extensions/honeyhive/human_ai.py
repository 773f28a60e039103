"""Labels beside the verdicts of a judge, answer by answer, in the shape of HoneyHive's human and AI evaluations."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.extensions.calibration.labelled_answers import Labels
from holodeck_action.extensions.calibration.matching import Compared, Matched, judges_of
from holodeck_action.extensions.honeyhive.honeyhive_patterns import derived_id
from holodeck_action.extensions.honeyhive.results_honeyhive import AIEvaluation, HumanAIEvaluation, HumanEvaluation


def human_ai_evaluations(labels: Labels, matched: Matched) -> Iterator[HumanAIEvaluation]:
    """Yield one comparison for each label; people are numbered by their columns."""
    for item in matched.compared:
        for number, label in enumerate(item.row.labels, start=1):
            if label is not None:
                yield _compared(item, number, label, labels, matched.metric)


def _compared(item: Compared, number: int, label: float, labels: Labels, metric: str) -> HumanAIEvaluation:
    evaluation = item.evaluation
    agreement, said = _score_agreement(item, label) if labels.scores else _verdict_agreement(item, label)
    who = f"human_{number}"
    score = evaluation.score
    return HumanAIEvaluation(
        evaluation_id=derived_id("eval", "human_ai_comparison", labels.digest, evaluation.evaluation_id, who),
        target_event_id=evaluation.target_event_id,
        metric=metric,
        score=agreement,
        explanation=f"line {item.row.line} of the labels",
        timestamp=evaluation.timestamp,
        status="completed" if agreement is not None else "failed",
        human_evaluation=HumanEvaluation(who, label, None),
        ai_evaluation=AIEvaluation(
            model=", ".join(sorted(judges_of(evaluation))) or None,
            score=float(score) if isinstance(score, int | float) else None,
            explanation=evaluation.explanation,
        ),
        agreement_score=agreement,
        discrepancy_analysis=said,
        sample_size=1,
    )


def _verdict_agreement(item: Compared, label: float) -> tuple[float | None, str]:
    """Return 1 for equal verdicts and 0 for others; None where the judge gave none."""
    outcome = judge_evaluation(item.evaluation).outcome
    if outcome not in ("passed", "failed"):
        return None, "the judge gave no verdict"
    human = "passed" if label == 1.0 else "failed"
    said = f"both say {human}" if human == outcome else f"people say {human}, the judge says {outcome}"
    return float(human == outcome), said


def _score_agreement(item: Compared, label: float) -> tuple[float | None, str]:
    """Return 1 − |difference| of two scores 0..1; None where the judge gave none."""
    score = item.evaluation.score
    if not isinstance(score, int | float):
        return None, "the judge gave no score"
    return 1 - abs(score - label), f"the judge's score is {score - label:+.4g} from that of people"
