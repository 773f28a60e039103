"""Judge cards of metrics that compare two answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holodeck_action import __version__
from holodeck_action.decide.agreement import alpha_of_pairs, kappa_of_counts, krippendorff_alpha, wilson
from holodeck_action.decide.statistics import MIN_SAMPLE
from holodeck_action.extensions.calibration.label_matches import LabelledEvaluation, MatchedLabels, judge_models
from holodeck_action.extensions.calibration.labels import Labels
from holodeck_action.record.evaluation import PREFERENCE
from holodeck_action.record.judge_card import (
    CARD_VERSION,
    NO_ESTIMATE,
    PAIR_VERDICTS,
    Agreement,
    Configuration,
    Confusion,
    Disagreement,
    HumanAgreement,
    JudgeCard,
    PairConfusion,
    PairCounts,
    PairVerdict,
    PassRates,
    UngradedAnswer,
)


def make_pair_card(
    labels: Labels, matched_labels: MatchedLabels, *, configuration: Configuration | None, source: str, created_at: str
) -> JudgeCard:
    """Return the judge card computed from labelled pairs of answers.

    Args:
        labels: the human labels.
        matched_labels: the judge's verdicts on the same pairs.
        configuration: see `JudgeCard`.
        source: see `JudgeCard`.
        created_at: see `JudgeCard`.
    """
    judged = [(item, _judge_value(item)) for item in matched_labels.pairs if item.evaluation.status == "completed"]
    missing = [
        UngradedAnswer(item.row.line, item.evaluation.explanation or "")
        for item in matched_labels.pairs
        if item.evaluation.status != "completed"
    ]
    values = [(_first_label(item), value) for item, value in judged]
    groups = [item.group for item, _ in judged]
    flipped = sum(item.evaluation.metadata[PREFERENCE]["flipped"] for item, _ in judged)
    counts = _counts(values)
    table = PairConfusion(counts, flipped)
    return JudgeCard(
        schema_version=CARD_VERSION,
        metric=matched_labels.metric,
        judges=tuple(sorted(frozenset().union(*(judge_models(item.evaluation) for item, _ in judged)))),
        configuration=configuration,
        threshold=None,
        source=source,
        labels=labels.digest,
        n=table.n,
        verdicts=Confusion(0, 0, 0, 0),
        judge=_agreement(values, groups),
        sensitivity=NO_ESTIMATE,
        specificity=NO_ESTIMATE,
        pass_rates=PassRates(NO_ESTIMATE, NO_ESTIMATE, 0, NO_ESTIMATE, NO_ESTIMATE),
        scores=None,
        humans=_human_agreement([item for item, _ in judged]),
        missing=tuple(missing),
        disagreements=tuple(
            Disagreement(
                item.row.line,
                _verdict(_first_label(item)),
                _verdict(value),
                annotator=item.row.annotators[0],
                comment=item.row.comments[0],
            )
            for item, value in judged
            if _first_label(item) != value
        ),
        notices=tuple(_notices(table, matched_labels.absent)),
        tool_version=__version__,
        created_at=created_at,
        pairs=table,
    )


def _judge_value(labelled: LabelledEvaluation) -> float:
    """Return the judge's verdict on a scale from 0 to 1: 1 for a win, ½ for a tie, 0 for a loss."""
    return (1 + float(labelled.evaluation.metadata[PREFERENCE]["value"])) / 2


def _first_label(labelled: LabelledEvaluation) -> float:
    label = labelled.row.labels[0]
    assert label is not None
    return label


def _verdict(value: float) -> PairVerdict:
    return PAIR_VERDICTS[round(2 - 2 * value)]


def _counts(values: Sequence[tuple[float, float]]) -> tuple[PairCounts, PairCounts, PairCounts]:
    """Return the number of pairs with each label (row) and each verdict (column)."""
    found = Counter(values)
    win, tie, loss = ((found[label, 1.0], found[label, 0.5], found[label, 0.0]) for label in (1.0, 0.5, 0.0))
    return win, tie, loss


def _agreement(values: Sequence[tuple[float, float]], groups: Sequence[str]) -> Agreement:
    counts = _counts(values)
    agreed = wilson(sum(one == other for one, other in values), len(values))
    return Agreement(len(values), agreed, kappa_of_counts(counts), alpha_of_pairs(values, groups))


def _human_agreement(judged: Sequence[LabelledEvaluation]) -> HumanAgreement | None:
    raters = len(judged[0].row.labels) if judged else 0
    if raters < 2:
        return None
    both = [(item, second) for item in judged if (second := item.row.labels[1]) is not None]
    first_two = _agreement([(_first_label(item), second) for item, second in both], [item.group for item, _ in both])
    return HumanAgreement(raters, first_two, krippendorff_alpha([item.row.labels for item in judged]))


def _notices(table: PairConfusion, absent_lines: Sequence[int]) -> Iterator[str]:
    if 0 < table.n < MIN_SAMPLE:
        yield f"too few labels for an interval of κ or α: {table.n}, {MIN_SAMPLE} needed"
    if absent_lines:
        pairs = "1 labelled pair is" if len(absent_lines) == 1 else f"{len(absent_lines)} labelled pairs are"
        yield f"{pairs} not in the record and therefore not compared"
    if table.n and sum(1 for row in table.counts if sum(row)) == 1:
        yield "all labels are the same, so it is unknown whether the judge distinguishes better answers; label more"
