"""Judge cards: the agreement of a judge with human labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.decide.agreement import (
    alpha_of_pairs,
    cohen_kappa,
    corrected_rate,
    count_confusion,
    krippendorff_alpha,
    mean_absolute_error,
    pearson,
    spearman,
    wilson,
)
from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.decide.statistics import MIN_SAMPLE
from holodeck_action.extensions.calibration.label_matches import LabelledEvaluation, MatchedLabels, judge_models
from holodeck_action.extensions.calibration.labels import LabelError, Labels
from holodeck_action.extensions.calibration.pair_card import make_pair_card
from holodeck_action.record.evaluation import Criteria, Evaluation
from holodeck_action.record.judge_card import (
    CARD_VERSION,
    Agreement,
    Configuration,
    Confusion,
    Disagreement,
    Estimate,
    HumanAgreement,
    JudgeCard,
    PassRates,
    Scores,
    UngradedAnswer,
)

NO_THRESHOLD = "has no threshold, so its scores are not verdicts; give one with --threshold"
NO_PAIR_THRESHOLD = "compares two answers, so that --threshold has no effect; leave it out"


class _JudgedAnswer(Struct, frozen=True):
    """A labelled answer with the verdicts of all humans and of the judge."""

    pair: LabelledEvaluation
    humans: tuple[bool | None, ...]
    judge: bool

    @property
    def human_verdict(self) -> bool:
        assert self.humans[0] is not None
        return self.humans[0]


def make_card(
    labels: Labels,
    matched_labels: MatchedLabels,
    threshold: float | None,
    *,
    configuration: Configuration | None,
    source: str,
    created_at: str,
) -> JudgeCard:
    """Return the judge card computed from labelled answers.

    Args:
        labels: the human labels.
        matched_labels: the judge's evaluations of the same answers.
        threshold: lowest passing score (highest, if low scores are good) for humans and judge, which replaces the
            metric's threshold; None to keep it.
        configuration: see `JudgeCard`.
        source: see `JudgeCard`.
        created_at: see `JudgeCard`.

    Raises:
        LabelError: the labels are scores, and there is no threshold to turn them into verdicts; or a threshold is
            given, but the labels compare pairs of answers.
    """
    if matched_labels.of_pairs:
        if threshold is not None:
            raise LabelError(
                [f"--threshold has no effect on {matched_labels.metric}, which compares two answers; leave it out"]
            )
        return make_pair_card(labels, matched_labels, configuration=configuration, source=source, created_at=created_at)
    judged: list[_JudgedAnswer] = []
    missing: list[UngradedAnswer] = []
    problems: list[str] = []
    for item in matched_labels.pairs:
        evaluation = _apply_threshold(item.evaluation, threshold)
        verdict = judge_evaluation(evaluation)
        if verdict.outcome == "error":
            missing.append(UngradedAnswer(item.row.line, verdict.reason))
        elif verdict.outcome in ("passed", "failed"):
            humans = tuple(_human_verdict(label, labels.are_scores, evaluation.criteria) for label in item.row.labels)
            if humans[0] is None:
                problems.append(
                    _threshold_problem(labels, item.row.line, f"the labels are scores, and {matched_labels.metric}")
                )
            judged.append(_JudgedAnswer(item, humans, verdict.outcome == "passed"))
        else:
            problems.append(_threshold_problem(labels, item.row.line, matched_labels.metric))
    if problems:
        raise LabelError(problems)
    table = count_confusion((item.human_verdict, item.judge) for item in judged)
    evaluations = [item.pair.evaluation for item in judged] or [item.evaluation for item in matched_labels.pairs]
    thresholds = {_apply_threshold(found, threshold).criteria.threshold for found in evaluations}
    rates = _pass_rates(matched_labels, table, threshold)
    return JudgeCard(
        schema_version=CARD_VERSION,
        metric=matched_labels.metric,
        judges=tuple(sorted(frozenset().union(*map(judge_models, evaluations)))),
        configuration=configuration,
        threshold=next(iter(thresholds)) if len(thresholds) == 1 else None,
        source=source,
        labels=labels.digest,
        n=table.n,
        verdicts=table,
        judge=_agreement(
            [(item.human_verdict, item.judge) for item in judged], [item.pair.group for item in judged], table
        ),
        sensitivity=wilson(table.true_pass, table.human_passes),
        specificity=wilson(table.true_fail, table.human_fails),
        pass_rates=rates,
        scores=_score_agreement(judged) if labels.are_scores else None,
        humans=_human_agreement(judged, labels.are_scores),
        missing=tuple(missing),
        disagreements=tuple(
            Disagreement(
                item.pair.row.line,
                item.human_verdict,
                item.judge,
                annotator=item.pair.row.annotators[0],
                comment=item.pair.row.comments[0],
            )
            for item in judged
            if item.human_verdict != item.judge
        ),
        notices=tuple(_notices(table, rates, thresholds)),
        tool_version=__version__,
        created_at=created_at,
    )


def _apply_threshold(evaluation: Evaluation, threshold: float | None) -> Evaluation:
    """Return the evaluation with its threshold replaced; unchanged if `threshold` is None."""
    if threshold is None:
        return evaluation
    metadata = {name: value for name, value in evaluation.metadata.items() if name != "passed"}
    criteria = replace(evaluation.criteria, threshold=threshold, asserts=True)
    return replace(evaluation, criteria=criteria, metadata=metadata)


def _threshold_problem(labels: Labels, line: int, subject: str) -> str:
    return f"{labels.file}:{line}: {subject} {NO_THRESHOLD}"


def _human_verdict(label: float | None, are_scores: bool, criteria: Criteria) -> bool | None:
    """Return whether a human's label means pass; None if there is no label, or if it is a score without a threshold."""
    if label is None or not are_scores:
        return None if label is None else label == 1.0
    if criteria.threshold is None:
        return None
    return label <= criteria.threshold if criteria.polarity == "minimize" else label >= criteria.threshold


def _agreement(verdicts: Sequence[tuple[bool, bool]], groups: Sequence[str], table: Confusion) -> Agreement:
    pairs = [(float(one), float(other)) for one, other in verdicts]
    return Agreement(table.n, wilson(table.agreement_count, table.n), cohen_kappa(table), alpha_of_pairs(pairs, groups))


def _score_agreement(judged: Sequence[_JudgedAnswer]) -> Scores | None:
    pairs: list[tuple[float, float]] = []
    groups: list[str] = []
    for item in judged:
        label, score = item.pair.row.labels[0], item.pair.evaluation.score
        if label is not None and isinstance(score, bool | int | float):
            pairs.append((label, float(score)))
            groups.append(item.pair.group)
    if not pairs:
        return None
    return Scores(
        len(pairs), pearson(pairs), spearman(pairs), alpha_of_pairs(pairs, groups), mean_absolute_error(pairs)
    )


def _human_agreement(judged: Sequence[_JudgedAnswer], are_scores: bool) -> HumanAgreement | None:
    raters = len(judged[0].humans) if judged else 0
    if raters < 2:
        return None
    both = [item for item in judged if item.humans[1] is not None]
    verdicts = [(item.human_verdict, bool(item.humans[1])) for item in both]
    units: list[Sequence[float | None]] = [
        item.pair.row.labels if are_scores else [None if verdict is None else float(verdict) for verdict in item.humans]
        for item in judged
    ]
    first_two = _agreement(verdicts, [item.pair.group for item in both], count_confusion(verdicts))
    return HumanAgreement(raters, first_two, krippendorff_alpha(units))


def _pass_rates(matched_labels: MatchedLabels, table: Confusion, threshold: float | None) -> PassRates:
    outcomes = [
        judge_evaluation(_apply_threshold(evaluation, threshold)).outcome for evaluation in matched_labels.evaluations
    ]
    passes, judged = outcomes.count("passed"), outcomes.count("passed") + outcomes.count("failed")
    corrected = corrected_rate(passes, judged, table) if judged > table.n else Estimate(None)
    return PassRates(
        human=wilson(table.human_passes, table.n),
        judge=wilson(table.judge_passes, table.n),
        judged=judged,
        of_judged=wilson(passes, judged),
        corrected=corrected,
    )


def _notices(table: Confusion, rates: PassRates, thresholds: set[float | None]) -> Iterator[str]:
    if 0 < table.n < MIN_SAMPLE:
        yield f"too few labels for an interval of κ or α: {table.n}, {MIN_SAMPLE} needed"
    if table.n and not table.human_fails:
        yield "no labelled answer is bad, so it is unknown whether the judge would fail one; label some bad answers"
    if table.n and not table.human_passes:
        yield "no labelled answer is good, so it is unknown whether the judge would pass one; label some good answers"
    if len(thresholds) > 1:
        yield "the metric's threshold differs by case"
    if rates.judged > table.n and rates.corrected.value is None and table.human_fails and table.human_passes:
        yield (
            "the judge distinguishes good from bad answers no better than chance, so its pass rate cannot be corrected"
        )
