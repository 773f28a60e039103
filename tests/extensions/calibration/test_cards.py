"""Judge cards in reports: numbers in one row, a stale card in one line, and no text of either as anything but text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from holodeck_action.record.judge_card import NO_ESTIMATE, CardSummary, Estimate
from holodeck_action.record.record import Record
from holodeck_action.reports.comment.size_limit import JOB_SUMMARY, SizeLimit
from holodeck_action.reports.custom import CustomTemplate, render_custom
from holodeck_action.reports.formats import render_markdown
from holodeck_action.reports.terminal.console import console_report
from tests.action.runner import read_log
from tests.record.records import case, record
from tests.reports.hostile import storable_texts
from tests.reports.pages import Page
from tests.reports.parsing import check_inert, parses, rows
from tests.reports.shown import page, report_of
from tests.reports.test_comment import comment

SENTINEL = "qsentinelq"
HELD = CardSummary(
    metric="faithfulness",
    made_on="2027-01-31",
    labels=60,
    missing=0,
    agreement=Estimate(0.9, 0.8, 0.95),
    kappa=Estimate(0.75, 0.5, 0.9),
    alpha=Estimate(0.7),
    sensitivity=Estimate(0.95, 0.85, 0.99),
    specificity=Estimate(0.8, 0.6, 0.9),
    judged=1200,
    pass_rate=Estimate(0.7, 0.67, 0.73),
    corrected=Estimate(2 / 3, 0.6, 0.8),
    stale=(),
)
STALE = replace(
    HELD, metric="tone", corrected=NO_ESTIMATE, stale=("settings of the metric", "threshold (was 0.5, is 0.7)")
)
NUMBERS = ("0.900 [0.800, 0.950]", "0.750 [0.500, 0.900]", "0.700", "0.950 [0.850, 0.990]", "0.800 [0.600, 0.900]")
RATES = ("0.700 [0.670, 0.730]", "0.667 [0.600, 0.800]")


def of(*cards: CardSummary) -> Record:
    return record(case("P"), cards=cards)


def test_a_card_is_one_row_and_a_stale_one_a_line() -> None:
    report = report_of(of(HELD, replace(STALE, missing=3)))
    row = f"| `faithfulness` | `2027-01-31` | 60 | {' | '.join((*NUMBERS, *RATES))} |\n"
    line = (
        "- `tone`: the judge card of `2027-01-31` is stale and is not used for corrections. Changed since it was made: "
        "`settings of the metric`, `threshold (was 0.5, is 0.7)`\n"
    )
    for text in (render_markdown(report), comment(report), render_markdown(report, SizeLimit(1500, 1500))):
        assert row in text
        assert line in text
    said = (
        "faithfulness: judge card of 2027-01-31: 60 labels, agreement 0.900 [0.800, 0.950], κ 0.750 [0.500, 0.900], "
        "α 0.700, sensitivity 0.950 [0.850, 0.990], specificity 0.800 [0.600, 0.900], "
        "passes 0.700 [0.670, 0.730] of 1,200 answers, corrected 0.667 [0.600, 0.800]"
    )
    stale = (
        "tone: judge card of 2027-01-31 is stale and is not used for corrections. Changed since it was made: "
        "settings of the metric; threshold (was 0.5, is 0.7)"
    )
    console = "".join(console_report(report))
    assert f"{said}\n" in console
    assert f"{stale}\n" in console
    shown = Page(page(of(HELD, STALE)))
    assert shown.head["suites"][0]["remarks"] == [{"title": "Judge cards", "lines": [said, stale]}]


def test_what_is_not_known_is_a_dash_and_missing_labels_are_told() -> None:
    made = of(replace(HELD, missing=2, corrected=NO_ESTIMATE, judged=0, pass_rate=NO_ESTIMATE))
    report = report_of(made)
    assert "| 60 (2 not judged) |" in render_markdown(report)
    assert "| – | – |\n" in render_markdown(report)
    assert "60 labels (2 more not judged)" in "".join(console_report(report))
    assert "passes – of 0 answers, corrected –\n" in "".join(console_report(report))
    assert "60 labels (2 more not judged)" in page(made)


@pytest.mark.parametrize("show", [render_markdown, comment, lambda report: "".join(console_report(report))])
def test_without_cards_nothing_is_said(show: object) -> None:
    assert "card" not in show(report_of(of())).casefold()  # type: ignore[operator]


def test_a_template_of_the_user_can_show_them() -> None:
    source = "{% for card in report.cards %}{{ card.metric|code }} {{ card.corrected|estimate }}{% endfor %}"
    template = CustomTemplate("mine.md.j2", source)
    shown = render_custom(template, report_of(of(HELD)), JOB_SUMMARY, footer="")
    assert shown == "`faithfulness` 0.667 [0.600, 0.800]"


@pytest.mark.full
@settings(deadline=None, max_examples=60)
@given(storable_texts)
def test_the_text_of_a_card_stays_text(text: str) -> None:
    text = f"{SENTINEL}{text}"
    cards = (
        replace(HELD, metric=text, made_on=text),
        replace(STALE, metric=text, made_on=text, stale=(text, text)),
    )
    report = report_of(of(*cards))
    shown = render_markdown(report)
    check_inert(shown, SENTINEL)
    assert all([len(row) for row in rows(tokens)].count(10) == 2 for tokens in parses(shown))
    for told in (shown, comment(report), "".join(console_report(report))):
        assert read_log(told.encode()).commands == ()
    found = Page(page(of(*cards)))
    assert found.stray == []
    assert found.elements == Page(page(of(HELD, replace(STALE, stale=("a", "b"))))).elements
    assert SENTINEL in found.head["suites"][0]["remarks"][0]["lines"][1]
