"""Judge cards as plain text and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holodeck_action.record.judge_card import PAIR_VERDICTS, Agreement, JudgeCard
from holodeck_action.reports.phrases import estimate_text
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line

_MOST_LINES = 20


def console_lines(card: JudgeCard) -> Iterator[str]:
    """Yield the lines of the card as plain text."""
    yield _title(card)
    yield ""
    heads, table = _confusion_table(card)
    width = max(*map(len, heads), len(str(card.n)))
    first = max(len(name) for name, _ in table)
    yield f"{'':{first}}{''.join(f'  {head:>{width}}' for head in heads)}"
    for name, cells in table:
        yield f"{name:{first}}{''.join(f'  {cell:>{width}}' for cell in cells)}"
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
    heads, table = _confusion_table(card)
    yield f"{_count_text(card)}{_judges_text(card)}{_threshold_text(card)}."
    yield ""
    yield f"| | {' | '.join(heads)} |"
    yield f"|---|{'--:|' * len(heads)}"
    for name, cells in table:
        yield f"| {name} | {' | '.join(map(str, cells))} |"
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
    return one_line(f"judge card: {card.metric}{judges}: {_count_text(card)}{_threshold_text(card)}", 1000)


def _judges_text(card: JudgeCard) -> str:
    """Return the names of the judge models as Markdown."""
    return f", judged by {', '.join(inline_code(judge, 120) for judge in card.judges)}" if card.judges else ""


def _threshold_text(card: JudgeCard) -> str:
    return "" if card.threshold is None else f", threshold {card.threshold:.4g}"


def _count_text(card: JudgeCard) -> str:
    return f"{card.n} labelled {'answers' if card.pairs is None else 'pairs of answers'}"


def _confusion_table(card: JudgeCard) -> tuple[Sequence[str], Sequence[tuple[str, Sequence[int]]]]:
    """Return the column headings of the confusion table, and its rows as (name, counts)."""
    if card.pairs is not None:
        heads = [f"judge: {verdict}" for verdict in PAIR_VERDICTS]
        return heads, [
            (f"human: {verdict}", cells) for verdict, cells in zip(PAIR_VERDICTS, card.pairs.counts, strict=True)
        ]
    found = card.verdicts
    return ("judge passes", "judge fails"), (
        ("human passes", (found.true_pass, found.false_fail)),
        ("human fails", (found.false_pass, found.true_fail)),
    )


def _number_rows(card: JudgeCard) -> Iterator[tuple[str, str]]:
    yield from _agreement_rows("", card.judge)
    if card.pairs is not None:
        human, judge = card.pairs.win_rates
        yield "win rate, human", _decimal(human)
        yield "win rate, judge", _decimal(judge)
        yield "flipped with the order", f"{card.pairs.flipped} of {card.n}"
        yield from _human_rows(card)
        return
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
    yield from _human_rows(card)


def _human_rows(card: JudgeCard) -> Iterator[tuple[str, str]]:
    if card.humans is not None:
        yield from _agreement_rows(f"humans 1 and 2 ({card.humans.first_two.n} answers): ", card.humans.first_two)
        if card.humans.raters > 2:
            yield f"all {card.humans.raters} humans: Krippendorff's α", _decimal(card.humans.alpha)


def _agreement_rows(whose: str, agreement: Agreement) -> Iterator[tuple[str, str]]:
    yield f"{whose}agreement", estimate_text(agreement.agreement)
    yield f"{whose}Cohen's κ", estimate_text(agreement.kappa)
    yield f"{whose}Krippendorff's α", estimate_text(agreement.alpha)


def _remarks(card: JudgeCard) -> Iterator[tuple[str, str]]:
    """Yield remarks on the card, each as (fixed start of a sentence, untrusted end of the sentence)."""
    for title, differing in _disagreements(card):
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


def _disagreements(card: JudgeCard) -> Iterator[tuple[str, list[int]]]:
    """Yield each kind of disagreement with the line numbers of its labels."""
    if card.pairs is None:
        yield "judge passes, human fails", [found.line for found in card.disagreements if found.judge]
        yield "judge fails, human passes", [found.line for found in card.disagreements if found.human]
        return
    for human in PAIR_VERDICTS:
        for judge in PAIR_VERDICTS:
            lines = [found.line for found in card.disagreements if (found.human, found.judge) == (human, judge)]
            yield f"judge: {judge}, human: {human}", lines


def _decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
