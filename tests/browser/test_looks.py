"""Everybody can read the page: in the dark, on a phone, on paper, with a screen reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import PHONE, Reader
from tests.browser.shop import compared_page, page_of, run_of_shop
from tests.browser.test_reading import until
from tests.record.records import case_of, evaluation, record, turn

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("shop"), run_of_shop())


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compared_page(tmp_path_factory.mktemp("compared"), run_of_shop(better=True), run_of_shop())


def violations(page: Page) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = page.evaluate(
        """async () => (await axe.run()).violations.flatMap(
            one => one.nodes.map(node => `${one.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(reader: Reader, shop: Path, compared: Path, scheme: str) -> None:
    page = reader.open(shop, color_scheme=scheme, bypass_csp=True)
    assert violations(page) == []
    for case in ("case-0", "case-1", "case-2", "case-4"):
        page.evaluate("id => { location.hash = 'case=' + id }", case)
        page.wait_for_selector(".turn")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        page.keyboard.press("l")
        assert violations(page) == []
    page.keyboard.press("d")
    assert violations(page) == []
    page.keyboard.press("3")
    assert violations(page) == []
    page.keyboard.press("?")
    assert violations(page) == []
    page = reader.open(compared, "#compare", color_scheme=scheme, bypass_csp=True)
    assert violations(page) == []
    page.keyboard.press("j")
    page.wait_for_selector(".turn")
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_difference_is_seen_without_its_colours(reader: Reader, tmp_path: Path, scheme: str) -> None:
    lines = "One line.\nA second line of {}.\nThe last line.\n"
    said, expected = f"{lines.format('five words')}Quite another ending\n", f"{lines.format('four words')}0815\n"
    differing = case_of(turn(evaluation(0.1), response=said, ground_truth=expected), name="differing")
    page = reader.open(page_of(tmp_path, record(differing)), "#case=case-0", color_scheme=scheme, bypass_csp=True)
    page.wait_for_selector(".sides .lines")
    looks = """(shown) => [...document.querySelectorAll(shown)].map((one) => {
        const { textDecorationLine, fontWeight, borderLeftWidth } = getComputedStyle(one);
        return [textDecorationLine, Number(fontWeight) > 600, borderLeftWidth];
    })"""
    assert page.evaluate(looks, ".sides del") == [["underline", False, "0px"]]
    assert page.evaluate(looks, ".sides ins") == [["underline", True, "0px"]]
    assert page.evaluate(looks, ".sides .lines") == [["none", False, "3px"]] * 2
    assert violations(page) == []
    page.keyboard.press("d")
    page.wait_for_selector("pre.diff")
    assert page.evaluate(looks, "pre.diff del") == [["line-through", False, "0px"]] * 2
    assert page.evaluate(looks, "pre.diff ins") == [["underline", True, "0px"]] * 2
    assert violations(page) == []


def test_colours_follow_the_system_until_one_chooses(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click('[aria-label="Colours: auto"]')
    until(page, lambda page: page.evaluate(ground) != dark, True)
    page.reload()
    page.wait_for_selector(".option")
    until(page, lambda page: page.get_attribute("html", "data-theme"), "light")
    page.click('[aria-label="Colours: light"]')
    until(page, lambda page: page.evaluate(ground), dark)


def test_a_phone_shows_one_thing_at_a_time(reader: Reader, shop: Path) -> None:
    page = reader.open(shop, viewport=PHONE, has_touch=True, is_mobile=True)
    assert page.is_visible(".list")
    assert not page.is_visible(".right")
    page.tap(".option")
    page.wait_for_selector(".case h2")
    page.wait_for_selector(".list", state="hidden")
    page.tap('[aria-label="Back to the list"]')
    page.wait_for_selector(".list")
    page.tap("nav .summary")
    page.wait_for_selector(".overview .gates")
    for hash in ("", "#case=case-0", "#metrics"):
        page.evaluate("hash => { location.hash = hash }", hash)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_paper_has_the_summary_and_every_case_with_a_problem_in_full(reader: Reader, shop: Path) -> None:
    page = reader.open(shop)
    page.wait_for_timeout(300)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.is_visible("#app")
    assert page.locator("#paper .case h2").all_inner_texts() == ["refund", "two turns", "unreachable"]
    # What a click opens on the screen is open.
    assert page.is_visible("#paper >> text=too curt")
    assert page.is_visible("#paper >> text=Refunds take 14 days. >> nth=-1")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    page.wait_for_selector("#paper *", state="detached")
    assert page.is_visible(".list")


def test_without_scripts_the_page_says_what_came_out(reader: Reader, shop: Path) -> None:
    context = reader.browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(shop.as_uri())
    text = page.inner_text("#app")
    context.close()
    assert "shop" in text
    assert "refund" in text
    assert "34 of 36 passed" in text
