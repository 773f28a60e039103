"""A judge card for people: lines for a terminal, or Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holodeck_action.reports.phrases import estimate_text
from holodeck_action.results.judge_card import Agreement, JudgeCard
from holodeck_action.text.code_spans import inline_code
from holodeck_action.text.plain import one_line

_MOST_LINES = 20


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
    yield from _agreement("", card.judge)
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
        yield from _agreement(f"humans 1 and 2 ({card.humans.first_two.n} answers): ", card.humans.first_two)
        if card.humans.raters > 2:
            yield f"all {card.humans.raters} humans: Krippendorff's α", _plain(card.humans.alpha)


def _agreement(whose: str, found: Agreement) -> Iterator[tuple[str, str]]:
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
