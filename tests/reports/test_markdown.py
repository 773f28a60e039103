"""Markdown reports: within their limit and structurally whole, whatever the answers hold."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.record.record import Provenance, SuiteIdentity
from holodeck_action.reports.comment.size_limit import CHECK, COMMENT, JOB_SUMMARY, SizeLimit, cut
from holodeck_action.reports.formats import render_markdown
from holodeck_action.suite.model.policy import GateMetric, Gates
from tests.action.runner import read_log
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.hostile import FRAGMENTS, hostile_case, hostile_record, storable_texts
from tests.reports.parsing import check_inert, leaves, parses, rows
from tests.reports.shown import failing, passing, report_of, varied

SENTINEL = "qzxq"
CUT = "The report was cut here"


def within(text: str, limit: SizeLimit) -> bool:
    return len(text) <= limit.characters and len(text.encode()) <= limit.bytes


@pytest.mark.full
@given(storable_texts)
@settings(max_examples=40)
def test_every_text_of_a_record_is_inert(text: str) -> None:
    text = text + SENTINEL
    made = record(
        hostile_case(text, id="a"),
        hostile_case(text, id="b"),
        case("P", name=text),
        case("E", name=text, tags=(text,)),
        gates=Gates(metrics={text: GateMetric(min_mean=0.5)}),
        notices=(text,),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text),
        stopped=text,
    )
    for limit in (JOB_SUMMARY, SizeLimit(9000, 9000), SizeLimit(3000, 3000)):
        shown = render_markdown(report_of(made, text), limit)
        assert within(shown, limit)
        check_inert(shown, SENTINEL)
        assert read_log(shown.encode()).commands == ()
    full = render_markdown(report_of(made, text))
    for tokens in parses(full):
        # Two gates and a head, the metrics and a head, one passing case and a head: no row is torn.
        assert [len(row) for row in rows(tokens)] == [3] * 4 + [6] * 3 + [3] * 2


@pytest.mark.full
@pytest.mark.parametrize("limit", [COMMENT, CHECK, JOB_SUMMARY])
def test_many_hostile_answers_stay_within_the_budget(limit: SizeLimit) -> None:
    shown = render_markdown(report_of(hostile_record(400, 20_000)), limit)
    assert within(shown, limit)
    check_inert(shown, SENTINEL)


@pytest.mark.full
def test_two_thousand_hostile_cases() -> None:
    report = report_of(hostile_record(2000, 4_000))
    for limit in (COMMENT, CHECK, JOB_SUMMARY):
        shown = render_markdown(report, limit)
        assert within(shown, limit)
        assert shown.startswith("## ❌ suite\n\n**0 of 2000 passed, all must pass**")
        assert "| ❌ | `min_pass_rate` | 0 of " in shown
        for tokens in parses(shown):
            details = [token.content for token in tokens if token.type == "html_block"]
            assert sum("<details" in text for text in details) == sum("</details" in text for text in details)
        assert (CUT in shown) == (limit is not JOB_SUMMARY)


def test_what_is_left_out_first() -> None:
    made = record(*failing(5, "the answer " * 40), *passing(300))
    report = report_of(made)
    full = render_markdown(report, SizeLimit(10**6, 10**6))
    assert "`passing 299`" in full
    sizes = []
    for text in _shrinking(report, full):
        sizes.append(
            (
                "`passing 299`" in text,
                "got: the answer" in text,
                "bleu 0.10, needs 0.50: compared" in text,
                "failing 4" in text,
                "| `bleu` |" in text,
            )
        )
    assert sizes == [
        (True, True, True, True, True),
        (False, True, True, True, True),
        (False, False, True, True, True),
        (False, False, True, True, True),
        (False, False, True, False, True),
    ]


def _shrinking(report: object, text: str) -> list[str]:
    """Return the different levels of detail, found by asking for a little less than the last one took."""
    texts = [text]
    while CUT not in texts[-1]:
        size = len(texts[-1].encode()) - 1
        texts.append(render_markdown(report, SizeLimit(size, size)))  # type: ignore[arg-type]
    return texts


@pytest.mark.full
def test_a_cut_report_says_where_the_rest_is() -> None:
    shown = render_markdown(
        report_of(hostile_record(400, 100)), SizeLimit(9000, 9000), footer="see [the run](https://ci.example/1)"
    )
    listed = shown.partition("### Cases that need attention")[2]
    rows = sum(line.startswith("| ❌") for line in listed.splitlines())
    assert 0 < rows < 400
    assert shown.rstrip().endswith(
        f"_The report was cut here: the last {400 - rows} of 400 cases that need attention are omitted; "
        "see [the run](https://ci.example/1)_"
    )
    before = render_markdown(report_of(hostile_record(400, 100)), SizeLimit(600, 600))
    assert "the last 400 of 400 cases that need attention are omitted; the whole record is in results.json" in before
    assert CUT not in render_markdown(report_of(hostile_record(400, 100)))


@pytest.mark.full
@given(st.integers(0, 4000), st.integers(0, 4000))
def test_any_budget_is_kept(characters: int, size: int) -> None:
    limit = SizeLimit(characters + 200, size + 200)
    shown = render_markdown(report_of(varied()), limit)
    assert within(shown, limit)
    check_inert(shown, SENTINEL)


LINES = st.sampled_from((
    *("text\n", "```text\n", "```\n", "````\n", "~~~\n", "<details>\n", "</details>\n", "`<details>`\n"),
    *("<details open><summary>x</summary>\n\n", "| a | b |\n", "\n", "ünïcödé 日本\n", "- `` ` ``\n", "x" * 300 + "\n"),
))  # fmt: skip


@given(st.lists(LINES, max_size=40).map("".join), st.integers(100, 600))
@example("<details>\n```\n<details open>\n\n" + "text\n" * 100, 300)
@example("<details>\n\n```text\n" + "text\n" * 100, 300)
@example("<details>\n`<details>`\n" + "text\n" * 100, 300)
@example("`<details>`\n" + "text\n" * 100, 300)
def test_a_cut_closes_what_is_open(text: str, size: int) -> None:
    limit = SizeLimit(size, size)
    shown = cut(text, limit, "end")
    assert within(shown, limit)
    for tokens in parses(shown):
        # What was open is closed: the last sentence is a paragraph of its own, in neither a fence nor <details>.
        assert [token.type for token in tokens[-3:]] == ["paragraph_open", "inline", "paragraph_close"]
        assert tokens[-2].content == f"_{CUT}: end_"
        depth = 0
        for slash in re.findall(
            "<(/?)details", "".join(t.content for t in leaves(tokens) if t.type.startswith("html"))
        ):
            depth = max(0, depth - 1) if slash else depth + 1
        assert depth == 0


def test_a_cut_counts_bytes_and_characters() -> None:
    text = "日本語\n" * 100
    for limit in (SizeLimit(150, 10**6), SizeLimit(10**6, 300)):
        shown = cut(text, limit, "end")
        assert within(shown, limit)
        assert shown.startswith("日本語\n")


def test_the_whole_report_of_every_outcome() -> None:
    text = render_markdown(report_of(varied(notices=("only 8 of 9 cases were chosen",)), "suites/one"))
    check_inert(text, SENTINEL)
    for part in (
        "**2** passed, **2** failed, **1** in error, **1** not run, **1** informational, **1** quarantined",
        "| ❌ | `max_errors` | 1 case in error; none is allowed |",
        "| `toxicity` | 0.20 | ≤ 0.50 |",
        "❌ <b>two turns</b> · `suites/one/agent.yaml:3`<br>bleu 0.10, needs 0.50: compared",
        "<summary>1 quarantined, without effect on the verdict</summary>",
        "<summary>2 passing</summary>",
        "| `passes` | `suites/one/agent.yaml:3` | `bleu` 0.90 |",
        "1 informational, without an assertion: `only informs`",
        "- `rouge` (1): `no ground truth`",
        "- Note: `only 8 of 9 cases were chosen`",
        "10 + 5 tokens",
        "$0.0100",
    ):
        assert part in text, part
    assert "asserting nothing" not in text
    assert text.index("❌ <b>") < text.index("⚠️ <b>") < text.index("2 passing")


def test_metrics_that_only_inform_are_named() -> None:
    silent = evaluation(0.9, asserts=False, evaluator_name="tone")
    text = render_markdown(report_of(record(case("P"), case_of(turn(silent, evaluation(0.9))))))
    assert "Informational, asserting nothing: `tone`." in text


def test_a_report_without_gates_metrics_and_cases() -> None:
    empty = report_of(record())
    assert render_markdown(replace(empty, gates=())).startswith("## ✅ suite\n\n**no case could pass or fail**")


def test_fragments_stay_hostile() -> None:
    """Unguarded, the corpus does what the tests above say cannot happen: they are able to fail."""
    kinds = {token.type for text in FRAGMENTS for tokens in parses(f"{text}x") for token in leaves(tokens)}
    assert {"html_block", "html_inline", "link_open", "image", "heading_open", "strong_open", "em_open"} <= kinds
    assert read_log("".join(FRAGMENTS).encode()).commands
