"""Judge cards: what a judge says, measured against the labels of humans, for machines, terminals and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.decide.agreement import (
    alpha_of_pairs,
    cohen_kappa,
    confusion_of,
    corrected_rate,
    krippendorff_alpha,
    mean_absolute_error,
    pearson,
    spearman,
    wilson,
)
from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.decide.statistics import MANY_ENOUGH
from holodeck_action.extensions.calibration.labelled_answers import LabelError, Labels
from holodeck_action.extensions.calibration.matching import Compared, Matched, judges_of
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
NO_THRESHOLD = "has no threshold that makes a verdict of a score; give one with --threshold"


class _Judged(Struct, frozen=True):
    """A labelled answer with both verdicts; `humans` are those of all humans."""

    compared: Compared
    humans: tuple[bool | None, ...]
    judge: bool

    @property
    def human(self) -> bool:
        assert self.humans[0] is not None
        return self.humans[0]


def make_card(
    labels: Labels,
    matched: Matched,
    threshold: float | None,
    *,
    configuration: Configuration | None,
    source: str,
    created_at: str,
) -> JudgeCard:
    """Measure a judge.

    Args:
        labels: what humans say.
        matched: what the judge says of the same answers.
        threshold: lowest passing score (highest, where low scores are good) for humans and judge in place of the
            metric's own; None for the metric's own.
        configuration: see `JudgeCard`.
        source: see `JudgeCard`.
        created_at: see `JudgeCard`.

    Raises:
        LabelError: scores cannot be made verdicts, since there is no threshold.
    """
    judged: list[_Judged] = []
    missing: list[Missing] = []
    problems: list[str] = []
    for item in matched.compared:
        evaluation = _with_threshold(item.evaluation, threshold)
        verdict = judge_evaluation(evaluation)
        if verdict.outcome == "error":
            missing.append(Missing(item.row.line, verdict.reason))
        elif verdict.outcome in ("passed", "failed"):
            humans = tuple(_human(label, labels.scores, evaluation.criteria) for label in item.row.labels)
            if humans[0] is None:
                problems.append(_no_threshold(labels, item.row.line, f"the labels are scores, and {matched.metric}"))
            judged.append(_Judged(item, humans, verdict.outcome == "passed"))
        else:
            problems.append(_no_threshold(labels, item.row.line, matched.metric))
    if problems:
        raise LabelError(problems)
    table = confusion_of((item.human, item.judge) for item in judged)
    evaluations = [item.compared.evaluation for item in judged] or [item.evaluation for item in matched.compared]
    thresholds = {_with_threshold(found, threshold).criteria.threshold for found in evaluations}
    rates = _pass_rates(matched, table, threshold)
    return JudgeCard(
        schema_version=CARD_VERSION,
        metric=matched.metric,
        judges=tuple(sorted(frozenset().union(*map(judges_of, evaluations)))),
        configuration=configuration,
        threshold=next(iter(thresholds)) if len(thresholds) == 1 else None,
        source=source,
        labels=labels.digest,
        n=table.n,
        verdicts=table,
        judge=_agreement(
            [(item.human, item.judge) for item in judged], [item.compared.group for item in judged], table
        ),
        sensitivity=wilson(table.true_pass, table.human_passes),
        specificity=wilson(table.true_fail, table.human_fails),
        pass_rates=rates,
        scores=_scores(judged) if labels.scores else None,
        humans=_humans(judged, labels.scores),
        missing=tuple(missing),
        disagreements=tuple(
            Disagreement(item.compared.row.line, item.human, item.judge) for item in judged if item.human != item.judge
        ),
        notices=tuple(_notices(table, rates, thresholds)),
        tool_version=__version__,
        created_at=created_at,
    )


def _with_threshold(evaluation: Evaluation, threshold: float | None) -> Evaluation:
    """Return an evaluation as the threshold of the call has it."""
    if threshold is None:
        return evaluation
    metadata = {name: value for name, value in evaluation.metadata.items() if name != "passed"}
    criteria = replace(evaluation.criteria, threshold=threshold, asserts=True)
    return replace(evaluation, criteria=criteria, metadata=metadata)


def _no_threshold(labels: Labels, line: int, what: str) -> str:
    return f"{labels.file}:{line}: {what} {NO_THRESHOLD}"


def _human(label: float | None, scores: bool, criteria: Criteria) -> bool | None:
    """Return a human's verdict; None without a label, or without a threshold."""
    if label is None or not scores:
        return None if label is None else label == 1.0
    if criteria.threshold is None:
        return None
    return label <= criteria.threshold if criteria.polarity == "minimize" else label >= criteria.threshold


def _agreement(verdicts: Sequence[tuple[bool, bool]], groups: Sequence[str], table: Confusion) -> Agreement:
    pairs = [(float(one), float(other)) for one, other in verdicts]
    return Agreement(table.n, wilson(table.agreed, table.n), cohen_kappa(table), alpha_of_pairs(pairs, groups))


def _scores(judged: Sequence[_Judged]) -> Scores | None:
    pairs: list[tuple[float, float]] = []
    groups: list[str] = []
    for item in judged:
        label, score = item.compared.row.labels[0], item.compared.evaluation.score
        if label is not None and isinstance(score, bool | int | float):
            pairs.append((label, float(score)))
            groups.append(item.compared.group)
    if not pairs:
        return None
    return Scores(
        len(pairs), pearson(pairs), spearman(pairs), alpha_of_pairs(pairs, groups), mean_absolute_error(pairs)
    )


def _humans(judged: Sequence[_Judged], scores: bool) -> Humans | None:
    raters = len(judged[0].humans) if judged else 0
    if raters < 2:
        return None
    both = [item for item in judged if item.humans[1] is not None]
    verdicts = [(item.human, bool(item.humans[1])) for item in both]
    units: list[Sequence[float | None]] = [
        item.compared.row.labels if scores else [None if said is None else float(said) for said in item.humans]
        for item in judged
    ]
    first_two = _agreement(verdicts, [item.compared.group for item in both], confusion_of(verdicts))
    return Humans(raters, first_two, krippendorff_alpha(units))


def _pass_rates(matched: Matched, table: Confusion, threshold: float | None) -> PassRates:
    outcomes = [judge_evaluation(_with_threshold(evaluation, threshold)).outcome for evaluation in matched.judged]
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
    if 0 < table.n < MANY_ENOUGH:
        yield f"too few labels for an interval of κ or α: {table.n}, {MANY_ENOUGH} needed"
    if table.n and not table.human_fails:
        yield "no labelled answer is bad: nothing tells whether the judge would fail one; label some that are"
    if table.n and not table.human_passes:
        yield "no labelled answer is good: nothing tells whether the judge would pass one; label some that are"
    if len(thresholds) > 1:
        yield "the metric's threshold differs by case"
    if rates.judged > table.n and rates.corrected.value is None and table.human_fails and table.human_passes:
        yield "the judge tells good from bad answers no better than chance: its pass rate cannot be corrected"


def console_lines(card: JudgeCard) -> Iterator[str]:
    """Yield the card as plain lines."""
    yield _title(card)
    yield ""
    width = max(len("judge passes"), len(str(card.n)))
    yield f"{'':12}  {'judge passes':>{width}}  {'judge fails':>{width}}"
    for name, cells in _table(card):
        yield f"{name:12}  {cells[0]:>{width}}  {cells[1]:>{width}}"
    yield ""
    rows = list(_numbers(card))
    longest = max(len(name) for name, _ in rows)
    for name, value in rows:
        yield f"{name:{longest}}  {value}"
    yield ""
    for remark, said in _remarks(card):
        yield remark + one_line(said, 1000)


def markdown_lines(card: JudgeCard) -> Iterator[str]:
    """Yield the card as Markdown."""
    yield f"### Judge card of {inline_code(card.metric, 120)}"
    yield ""
    yield f"{card.n} labelled answers{_by(card)}{_at(card)}."
    yield ""
    yield "| | judge passes | judge fails |"
    yield "|---|--:|--:|"
    for name, cells in _table(card):
        yield f"| {name} | {cells[0]} | {cells[1]} |"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in _numbers(card):
        yield f"| {name} | {value} |"
    yield ""
    for remark, said in _remarks(card):
        yield f"* {remark}{inline_code(said, 1000) if said else ''}"


def _title(card: JudgeCard) -> str:
    judges = f" by {', '.join(card.judges)}" if card.judges else ""
    return one_line(f"judge card: {card.metric}{judges}: {card.n} labelled answers{_at(card)}", 1000)


def _by(card: JudgeCard) -> str:
    """Name the judges in Markdown."""
    return f", judged by {', '.join(inline_code(judge, 120) for judge in card.judges)}" if card.judges else ""


def _at(card: JudgeCard) -> str:
    return "" if card.threshold is None else f", threshold {card.threshold:.4g}"


def _table(card: JudgeCard) -> Sequence[tuple[str, tuple[int, int]]]:
    found = card.verdicts
    return (
        ("human passes", (found.true_pass, found.false_fail)),
        ("human fails", (found.false_pass, found.true_fail)),
    )


def _numbers(card: JudgeCard) -> Iterator[tuple[str, str]]:
    yield from _agreement_numbers("", card.judge)
    yield "sensitivity", estimate_text(card.sensitivity)
    yield "specificity", estimate_text(card.specificity)
    rates = card.pass_rates
    yield "pass rate, human", estimate_text(rates.human)
    yield "pass rate, judge", estimate_text(rates.judge)
    if rates.judged > card.n:
        yield f"pass rate, judge, all {rates.judged} answers", estimate_text(rates.of_judged)
        yield "corrected pass rate of these", estimate_text(rates.corrected)
    if card.scores is not None:
        yield "Pearson's r of scores", _plain(card.scores.pearson)
        yield "Spearman's ρ of scores", _plain(card.scores.spearman)
        yield "Krippendorff's α of scores", estimate_text(card.scores.alpha)
        yield "mean absolute error of scores", _plain(card.scores.mean_absolute_error)
    if card.humans is not None:
        yield from _agreement_numbers(f"humans 1 and 2 ({card.humans.first_two.n} answers): ", card.humans.first_two)
        if card.humans.raters > 2:
            yield f"all {card.humans.raters} humans: Krippendorff's α", _plain(card.humans.alpha)


def _agreement_numbers(whose: str, found: Agreement) -> Iterator[tuple[str, str]]:
    yield f"{whose}agreement", estimate_text(found.agreement)
    yield f"{whose}Cohen's κ", estimate_text(found.kappa)
    yield f"{whose}Krippendorff's α", estimate_text(found.alpha)


def _remarks(card: JudgeCard) -> Iterator[tuple[str, str]]:
    """Yield our own words, each with what others said after them."""
    for title, differing in (
        ("judge passes what the human fails", [found.line for found in card.disagreements if found.judge]),
        ("judge fails what the human passes", [found.line for found in card.disagreements if found.human]),
    ):
        if differing:
            more = f" and {len(differing) - _MOST_LINES} more" if len(differing) > _MOST_LINES else ""
            yield f"{title}: line {', '.join(map(str, differing[:_MOST_LINES]))}{more}", ""
    for missing in card.missing[:_MOST_LINES]:
        yield f"line {missing.line}: not judged: ", missing.reason
    if len(card.missing) > _MOST_LINES:
        yield f"{len(card.missing) - _MOST_LINES} more answers were not judged", ""
    for notice in card.notices:
        yield f"note: {notice}", ""


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
