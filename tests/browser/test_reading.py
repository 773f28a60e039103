"""A person reads a run: looks for cases, opens them, and finds everything that the record holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from bench.records import random_record
from holodeck_action.record.record import ToolInvocation
from tests.browser.conftest import Reader
from tests.browser.shop import LONG, PLAIN, page_of, run_of_shop
from tests.record.records import case_of, conversation, evaluation, record, turn
from tests.reports.shown import LARGE, full_record

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
CASES = PLAIN + 9


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("shop"), run_of_shop())


def titles(page: Page) -> list[str]:
    """The titles in the list, as they stand there; only those in sight are drawn."""
    found: list[str] = page.eval_on_selector_all(
        ".option",
        """all => all.sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)
            .map(one => one.querySelector('.title').textContent)""",
    )
    return found


def shown(page: Page) -> int:
    """How many cases the list has."""
    return int(page.get_attribute(".under", "data-shown") or "")


def until(page: Page, read: Callable[[Page], Any], wanted: Any) -> None:
    """Wait until the page shows something."""
    for _ in range(250):
        if read(page) == wanted:
            return
        page.wait_for_timeout(20)
    assert read(page) == wanted


def first(page: Page) -> str:
    return titles(page)[0]


def heading(page: Page) -> str:
    return str(page.inner_text(".case h2"))


def test_problems_come_first_and_chips_filter_by_outcome(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    assert titles(page)[:2] == ["refund", "two turns"]
    until(page, shown, CASES)
    chips = [" ".join(chip.split()) for chip in page.locator(".chip").all_inner_texts()]
    assert chips == ["failed 2", "in error 1", "quarantined 1", "informational 1", f"passed {CASES - 5}", "flaky 1"]
    page.click('[data-outcome="error"]')
    until(page, titles, ["unreachable"])
    page.click('[data-outcome="failed"]')
    until(page, titles, ["refund", "two turns", "unreachable"])
    page.click('[aria-label="Clear all filters"]')
    until(page, shown, CASES)
    page.locator(".chip", has_text="flaky").click()
    until(page, titles, ["flaky greeting"])


def test_selects_filter_by_metric_and_tag_and_sort(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    page.get_by_label("Metric", exact=True).select_option("bleu failed (4)")
    until(page, titles, ["refund", "two turns", "known to fail", "flaky greeting"])
    page.get_by_label("Metric", exact=True).select_option("Any metric")
    page.get_by_label("Tag").select_option("odd (15)")
    until(page, shown, 15)
    page.get_by_label("Order").select_option("By name")
    until(page, first, "order 1")
    page.get_by_label("Order").select_option("Slowest first")
    until(page, first, "order 29")
    page.click(".under button")
    page.get_by_label("Order").select_option("Worst bleu first")
    until(page, first, "known to fail")
    page.get_by_label("Order").select_option("As in the suite")
    until(page, lambda page: titles(page)[:4], ["refund", "two turns", "flaky greeting", "gift card"])


def test_the_search_finds_words_of_answers_tools_and_reasons(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    page.wait_for_timeout(300)
    for query, found in (
        ("arrives day 7.", 3),
        ('"order 7 arrives"', 1),
        ('"the till is closed"', 1),
        ("Refunds 14 days", 1),
        ("too curt", 1),
        ("503", 1),
        ("SELL TENTS", 1),
        ("order", PLAIN + 1),
        ("nobody says this", 0),
    ):
        page.fill("input[type=search]", query)
        until(page, shown, found)
    page.wait_for_selector("text=No case fits.")


def test_keys_move_through_cases_and_views(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    page.keyboard.press("j")
    until(page, heading, "refund")
    page.keyboard.press("j")
    until(page, heading, "two turns")
    page.keyboard.press("k")
    until(page, heading, "refund")
    page.keyboard.press("/")
    page.keyboard.type("greeting")
    until(page, titles, ["flaky greeting"])
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    until(page, heading, "flaky greeting")
    page.wait_for_selector(".turn")
    page.keyboard.press("t")
    page.wait_for_selector('[aria-label="Trial"] button:nth-child(2)[aria-pressed=true]')
    page.keyboard.press("Escape")
    page.wait_for_selector(".case", state="detached")
    page.keyboard.press("3")
    page.wait_for_selector("h2 >> text=Metrics")
    page.keyboard.press("1")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=next case")
    page.keyboard.press("j")
    assert page.locator(".case").count() == 0
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.fill("input[type=search]", "")
    page.click("input[type=search]")
    page.keyboard.type("jk?")
    assert page.input_value("input[type=search]") == "jk?"
    page.keyboard.press("Escape")
    page.fill("input[type=search]", "")
    page.locator(".list").focus()
    page.keyboard.press("End")
    opened = page.get_attribute('[aria-selected="true"]', "id")
    until(page, lambda page: page.get_attribute(".list", "aria-activedescendant"), opened)
    until(page, heading, "voucher")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    until(page, heading, "two turns")
    page.keyboard.press("Enter")
    until(page, lambda page: page.evaluate("document.activeElement.className"), "right")


def test_a_link_opens_a_case_and_follows_what_is_open(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, hash="#case=case-1")
    until(page, heading, "two turns")
    page.keyboard.press("j")
    until(page, lambda page: page.url.partition("#")[2], "case=case-4")
    page.evaluate("location.hash = 'case=case-0'")
    page.wait_for_selector(".case h2 >> text=refund")
    page.evaluate("location.hash = '#metrics'")
    page.wait_for_selector("h2 >> text=Time and cost")
    page.go_back()
    page.wait_for_selector(".case h2 >> text=refund")
    other = reader.open(shop, hash="#case=" + quote("nobody has this id"))
    assert shown(other) == CASES


def test_a_case_shows_answer_tools_chunks_and_votes(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, hash="#case=case-0")
    page.wait_for_selector(".sides")
    assert page.locator(".sides del").all_inner_texts() == ["14"]
    page.click("text=Inline")
    page.wait_for_selector("pre.diff")
    assert page.inner_text("pre.diff").startswith("You get the money back within 1430 days")
    assert page.locator("pre.diff del").count() > 0
    assert page.locator("pre.diff ins").count() > 0
    page.keyboard.press("d")
    page.wait_for_selector(".sides")
    assert page.is_visible("text=expected refund(days=30)")
    page.click("summary:has-text('find_order')")
    assert json.loads(page.inner_text('[aria-label="Arguments of call 1"]')) == {"id": "A-17"}
    assert json.loads(page.inner_text('[aria-label="Result of call 1"]')) == {"state": "returned"}
    page.click("summary:has-text('closed') , summary:has(code:text('refund'))")
    assert page.inner_text('[aria-label="Result of call 2"]') == "the till is closed"
    page.click("summary:has-text('terms.md#3')")
    assert page.inner_text('[aria-label="Chunk 1"]') == "Refunds take 14 days."
    page.click("summary:has-text('A letter')")
    assert page.inner_text('[aria-label="Context 1"]') == "A letter from the customer."
    page.click("summary:has-text('tone')")
    votes = page.locator('[aria-label="Votes of the panel"] tbody tr').all_inner_texts()
    assert [vote.split() for vote in votes] == [
        ["openai/alpha", "passed", "0.9", "polite"],
        ["openai/beta", "failed", "0.2", "too", "curt"],
    ]


def test_everything_of_a_turn_is_told(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, full_record()), hash="#case=case-0")
    page.wait_for_selector(".turn")
    facts = dict(text.split("\n") for text in page.locator(".turn .facts div").all_inner_texts())
    assert facts == {
        "Latency": "80 ms",
        "First token": "9 ms",
        "Tokens": "15",
        "Cost": "$0.0100",
        "Models": "m1, m2",
        "Why the model stopped": "length",
        "What the error tells besides": '{"stderr": "trace"}',
        "Metadata": '{"route": "b"}',
    }
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert [page.inner_text(f'[aria-label="Chunk {at}"]') for at in (1, 2)] == ["found", "found before"]
    votes = page.locator('[aria-label="Votes of the panel"] tbody tr').all_inner_texts()
    assert [vote.split() for vote in votes] == [
        ["openai/a", "(fallback)", "passed", "0.9", "fine"],
        ["openai/b", "in", "error", "–", "late"],
    ]
    assert page.is_visible("summary:has-text('tone') .score:has-text('bad')")
    said = page.inner_text(".turn")
    assert all(part in said for part in ("it broke", "find was not called", "judged by openai/a", '{"steps": ["one"]}'))


def test_changed_files_are_folded_and_opened_by_keys(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, full_record()), hash="#case=case-0")
    page.click("text=Trajectory: ")
    page.wait_for_selector("text=Changed files (3)")
    assert not page.is_visible("text=def refund")
    page.focus("summary:has-text('app.py')")
    page.keyboard.press("Enter")
    shown = page.locator('[aria-label="Difference of app.py"]')
    assert shown.locator("ins").all_inner_texts() == ["+++ b/notes.md\n", "+    pass\n"]
    assert shown.locator("del").all_inner_texts() == ["--- a/notes.md\n"]
    page.click("summary:has-text('logo.png')")
    assert page.is_visible("text=Its difference is not kept.")
    assert page.is_visible("text=workspaces/case-0/0")


def test_a_large_number_of_a_tool_is_not_rounded(reader: Reader, tmp_path: Path) -> None:
    asked = turn(evaluation(0.75, 5.0), tool_invocations=(ToolInvocation("find", {"id": LARGE}, {"id": LARGE}),))
    page = reader.open(page_of(tmp_path, record(case_of(asked), case_of(turn(evaluation(0.25, 5.0))))), "#case=case-0")
    page.click("summary:has-text('find')")
    assert page.inner_text('[aria-label="Arguments of call 1"]') == f'{{"id": {LARGE}}}'
    assert page.inner_text('[aria-label="Result of call 1"]') == f'{{"id": {LARGE}}}'


def test_a_conversation_is_read_turn_by_turn(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, hash="#case=case-1")
    page.wait_for_selector(".turn h3")
    assert page.locator(".turn h3").all_inner_texts() == ["Turn 1 of 2", "Turn 2 of 2"]
    assert page.locator(".turn").nth(0).locator('[aria-label="Answer"]').inner_text() == "Good day!"
    assert "Which kettle?" in page.locator(".turn").nth(1).inner_text()
    # Only the evaluation that failed is open.
    assert page.locator(".turn details[open]").count() == 1


def test_errors_trials_and_long_answers(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, hash="#case=case-4")
    page.wait_for_selector(".problems >> text=the service answered 503 >> nth=0")
    page.evaluate("location.hash = 'case=case-2'")
    page.wait_for_selector("text=2 of 3 trials passed")
    marks = page.locator('[aria-label="Trial"] svg').all()
    assert [mark.get_attribute("aria-label") for mark in marks] == ["failed", "passed", "passed"]
    page.evaluate("location.hash = 'case=case-7'")
    page.wait_for_selector("text=more characters")
    assert len(page.inner_text('[aria-label="Answer"]')) < len(LONG) / 2
    page.click("text=more characters")
    until(page, lambda page: page.inner_text('[aria-label="Answer"]').strip(), LONG.strip())


def test_a_failed_score_is_not_said_to_reach_its_threshold(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    page.keyboard.press("j")
    until(page, heading, "refund")
    page.wait_for_selector("summary .score:has-text('0.2, needs ≥ 0.5')")


def test_the_command_and_the_link_are_copied(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, hash="#case=case-1", permissions=["clipboard-read", "clipboard-write"])
    page.click("text=Run it alone")
    page.wait_for_selector("text=Command copied")
    assert page.evaluate("navigator.clipboard.readText()") == "holodeck-action run agent.yaml --case=case-1"
    page.click('[aria-label="Copy a link to this case"]')
    page.wait_for_selector("text=Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == shop.as_uri() + "#case=case-1"


def test_columns_of_drawings_show_their_cases(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, hash="#metrics")
    bleu = page.locator(".card", has=page.locator("h3", has_text="bleu"))
    assert "threshold 0.5" in bleu.inner_text()
    column = bleu.locator(".column").first
    said = column.get_attribute("aria-label") or ""
    assert said == "1 case from 0.1 to 0.15"
    column.focus()
    page.keyboard.press("Enter")
    until(page, titles, ["known to fail"])
    page.wait_for_selector("text=bleu 0.1 to 0.15")
    page.keyboard.press("3")
    page.locator(".card", has=page.locator("h3", has_text="Latency")).locator(".column").last.click()
    until(page, lambda page: 1 <= shown(page) < CASES, True)
    page.click('[aria-label="Remove the range"]')
    until(page, shown, CASES)


def test_the_summary_tells_gates_metrics_and_run(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    summary = page.inner_text(".overview")
    assert "exit code 1" in summary
    assert "min_pass_rate: 34 of 36 passed" in summary
    assert "recorded:answers.jsonl" in summary
    page.click(".overview .scrolls tr:has-text('bleu') button >> nth=1")
    until(page, titles, ["refund", "two turns", "known to fail", "flaky greeting"])
    page.click('[aria-label="Clear all filters"]')
    page.click(".outcomes button:has-text('in error')")
    until(page, titles, ["unreachable"])


def test_a_search_prefers_titles_and_says_where_else_the_words_are(reader: Reader, tmp_path: Path) -> None:
    page = reader.open(page_of(tmp_path, random_record(200)))
    page.fill("input[type=search]", "case 7")
    until(page, lambda found: all("7" in title for title in titles(found)[:10]), True)
    assert page.locator(".option").first.locator(".found").count() == 0
    page.fill("input[type=search]", '"rule 7."')
    until(page, shown, 1)
    until(page, lambda found: found.locator(".option .found").all_inner_texts(), ["in question or answer"])


def test_a_reason_is_shown_once_and_a_passing_row_has_answer_and_score(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    page.click('[data-outcome="passed"]')
    until(page, lambda found: found.locator(".option .second").first.inner_text() != "every assertion holds", True)
    assert "every assertion holds" not in page.inner_text(".list")
    page.click('[data-outcome="passed"]')
    page.click(".option >> text=refund")
    page.wait_for_selector(".problems")
    for problem in page.locator("ul.problems li").all_inner_texts():
        assert page.inner_text(".case").count(problem) == 1


def test_a_whole_conversation_is_shown_beside_its_turns(tmp_path: Path, reader: Reader) -> None:
    whole = evaluation(0.0, evaluator_name="Memory", explanation="in turn 1 the agent forgets")
    made = record(conversation(whole, turns=[turn(index=0), turn(index=1)]))
    page = reader.open(page_of(tmp_path, made), "#case=case-0")
    shown = page.locator('[aria-label="Whole conversation"]')
    assert "in turn 1 the agent forgets" in shown.inner_text()
    assert "Memory" in shown.locator(".evaluations").inner_text()
