"""Judge cards: the agreement of a judge with human labels, as data, plain text and Markdown."""

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
from holodeck_action.extensions.calibration.labels import LabelError, Labels
from holodeck_action.extensions.calibration.matching import LabelledEvaluation, MatchedLabels, judge_models
from holodeck_action.record.evaluation import Criteria, Evaluation
from holodeck_action.record.judge_card import (
    CARD_VERSION,
    Agreement,
    Configuration,
    Confusion,
    Disagreement,
    Estimate,
    Humans,
    JudgeCard,
    Missing,
    PassRates,
    Scores,
)
from holodeck_action.reports.phrases import estimate_text
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line

_MOST_LINES = 20
NO_THRESHOLD = "has no threshold, so its scores are not verdicts; give one with --threshold"


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
    matched: MatchedLabels,
    threshold: float | None,
    *,
    configuration: Configuration | None,
    source: str,
    created_at: str,
) -> JudgeCard:
    """Return the judge card computed from labelled answers.

    Args:
        labels: the human labels.
        matched: the judge's evaluations of the same answers.
        threshold: lowest passing score (highest, if low scores are good) for humans and judge, which replaces the
            metric's threshold; None to keep it.
        configuration: see `JudgeCard`.
        source: see `JudgeCard`.
        created_at: see `JudgeCard`.

    Raises:
        LabelError: the labels are scores, and no threshold turns them into verdicts.
    """
    judged: list[_JudgedAnswer] = []
    missing: list[Missing] = []
    problems: list[str] = []
    for item in matched.pairs:
        evaluation = _apply_threshold(item.evaluation, threshold)
        verdict = judge_evaluation(evaluation)
        if verdict.outcome == "error":
            missing.append(Missing(item.row.line, verdict.reason))
        elif verdict.outcome in ("passed", "failed"):
            humans = tuple(_human_verdict(label, labels.scores, evaluation.criteria) for label in item.row.labels)
            if humans[0] is None:
                problems.append(
                    _threshold_problem(labels, item.row.line, f"the labels are scores, and {matched.metric}")
                )
            judged.append(_JudgedAnswer(item, humans, verdict.outcome == "passed"))
        else:
            problems.append(_threshold_problem(labels, item.row.line, matched.metric))
    if problems:
        raise LabelError(problems)
    table = count_confusion((item.human_verdict, item.judge) for item in judged)
    evaluations = [item.pair.evaluation for item in judged] or [item.evaluation for item in matched.pairs]
    thresholds = {_apply_threshold(found, threshold).criteria.threshold for found in evaluations}
    rates = _pass_rates(matched, table, threshold)
    return JudgeCard(
        schema_version=CARD_VERSION,
        metric=matched.metric,
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
        scores=_score_agreement(judged) if labels.scores else None,
        humans=_human_agreement(judged, labels.scores),
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


def _threshold_problem(labels: Labels, line: int, what: str) -> str:
    return f"{labels.file}:{line}: {what} {NO_THRESHOLD}"


def _human_verdict(label: float | None, scores: bool, criteria: Criteria) -> bool | None:
    """Return whether a human's label means pass; None if there is no label, or no threshold for a score."""
    if label is None or not scores:
        return None if label is None else label == 1.0
    if criteria.threshold is None:
        return None
    return label <= criteria.threshold if criteria.polarity == "minimize" else label >= criteria.threshold


def _agreement(verdicts: Sequence[tuple[bool, bool]], groups: Sequence[str], table: Confusion) -> Agreement:
    pairs = [(float(one), float(other)) for one, other in verdicts]
    return Agreement(table.n, wilson(table.agreed, table.n), cohen_kappa(table), alpha_of_pairs(pairs, groups))


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


def _human_agreement(judged: Sequence[_JudgedAnswer], scores: bool) -> Humans | None:
    raters = len(judged[0].humans) if judged else 0
    if raters < 2:
        return None
    both = [item for item in judged if item.humans[1] is not None]
    verdicts = [(item.human_verdict, bool(item.humans[1])) for item in both]
    units: list[Sequence[float | None]] = [
        item.pair.row.labels if scores else [None if verdict is None else float(verdict) for verdict in item.humans]
        for item in judged
    ]
    first_two = _agreement(verdicts, [item.pair.group for item in both], count_confusion(verdicts))
    return Humans(raters, first_two, krippendorff_alpha(units))


def _pass_rates(matched: MatchedLabels, table: Confusion, threshold: float | None) -> PassRates:
    outcomes = [judge_evaluation(_apply_threshold(evaluation, threshold)).outcome for evaluation in matched.evaluations]
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


def console_lines(card: JudgeCard) -> Iterator[str]:
    """Yield the lines of the card as plain text."""
    yield _title(card)
    yield ""
    width = max(len("judge passes"), len(str(card.n)))
    yield f"{'':12}  {'judge passes':>{width}}  {'judge fails':>{width}}"
    for name, cells in _confusion_rows(card):
        yield f"{name:12}  {cells[0]:>{width}}  {cells[1]:>{width}}"
    yield ""
    rows = list(_number_rows(card))
    longest = max(len(name) for name, _ in rows)
    for name, value in rows:
        yield f"{name:{longest}}  {value}"
    yield ""
    for remark, text in _remarks(card):
        yield remark + one_line(text, 1000)


def markdown_lines(card: JudgeCard) -> Iterator[str]:
    """Yield the lines of the card as Markdown."""
    yield f"### Judge card of {inline_code(card.metric, 120)}"
    yield ""
    yield f"{card.n} labelled answers{_judges_text(card)}{_threshold_text(card)}."
    yield ""
    yield "| | judge passes | judge fails |"
    yield "|---|--:|--:|"
    for name, cells in _confusion_rows(card):
        yield f"| {name} | {cells[0]} | {cells[1]} |"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in _number_rows(card):
        yield f"| {name} | {value} |"
    yield ""
    for remark, text in _remarks(card):
        yield f"* {remark}{inline_code(text, 1000) if text else ''}"


def _title(card: JudgeCard) -> str:
    judges = f" by {', '.join(card.judges)}" if card.judges else ""
    return one_line(f"judge card: {card.metric}{judges}: {card.n} labelled answers{_threshold_text(card)}", 1000)


def _judges_text(card: JudgeCard) -> str:
    """Return the names of the judges in Markdown."""
    return f", judged by {', '.join(inline_code(judge, 120) for judge in card.judges)}" if card.judges else ""


def _threshold_text(card: JudgeCard) -> str:
    return "" if card.threshold is None else f", threshold {card.threshold:.4g}"


def _confusion_rows(card: JudgeCard) -> Sequence[tuple[str, tuple[int, int]]]:
    found = card.verdicts
    return (
        ("human passes", (found.true_pass, found.false_fail)),
        ("human fails", (found.false_pass, found.true_fail)),
    )


def _number_rows(card: JudgeCard) -> Iterator[tuple[str, str]]:
    yield from _agreement_rows("", card.judge)
    yield "sensitivity", estimate_text(card.sensitivity)
    yield "specificity", estimate_text(card.specificity)
    rates = card.pass_rates
    yield "pass rate, human", estimate_text(rates.human)
    yield "pass rate, judge", estimate_text(rates.judge)
    if rates.judged > card.n:
        yield f"pass rate, judge, all {rates.judged} answers", estimate_text(rates.of_judged)
        yield "corrected pass rate of these", estimate_text(rates.corrected)
    if card.scores is not None:
        yield "Pearson's r of scores", _decimal(card.scores.pearson)
        yield "Spearman's ρ of scores", _decimal(card.scores.spearman)
        yield "Krippendorff's α of scores", estimate_text(card.scores.alpha)
        yield "mean absolute error of scores", _decimal(card.scores.mean_absolute_error)
    if card.humans is not None:
        yield from _agreement_rows(f"humans 1 and 2 ({card.humans.first_two.n} answers): ", card.humans.first_two)
        if card.humans.raters > 2:
            yield f"all {card.humans.raters} humans: Krippendorff's α", _decimal(card.humans.alpha)


def _agreement_rows(whose: str, found: Agreement) -> Iterator[tuple[str, str]]:
    yield f"{whose}agreement", estimate_text(found.agreement)
    yield f"{whose}Cohen's κ", estimate_text(found.kappa)
    yield f"{whose}Krippendorff's α", estimate_text(found.alpha)


def _remarks(card: JudgeCard) -> Iterator[tuple[str, str]]:
    """Yield remarks on the card, each as a fixed sentence start and the untrusted text that completes it."""
    for title, differing in (
        ("judge passes what the human fails", [found.line for found in card.disagreements if found.judge]),
        ("judge fails what the human passes", [found.line for found in card.disagreements if found.human]),
    ):
        if differing:
            more = f" and {len(differing) - _MOST_LINES} more" if len(differing) > _MOST_LINES else ""
            yield f"{title}: line {', '.join(map(str, differing[:_MOST_LINES]))}{more}", ""
    commented = [found for found in card.disagreements if found.comment is not None]
    for found in commented[:_MOST_LINES]:
        yield f"line {found.line}: comment: ", ": ".join(filter(None, (found.annotator, found.comment)))
    if len(commented) > _MOST_LINES:
        yield f"{len(commented) - _MOST_LINES} more comments on such answers", ""
    for missing in card.missing[:_MOST_LINES]:
        yield f"line {missing.line}: not judged: ", missing.reason
    if len(card.missing) > _MOST_LINES:
        yield f"{len(card.missing) - _MOST_LINES} more answers were not judged", ""
    for notice in card.notices:
        yield f"note: {notice}", ""


def _decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
