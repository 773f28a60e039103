"""Texts of a record are shown, and do nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holodeck_action.record.record import CaseRecord, Provenance, RetrievedChunk, SuiteIdentity, ToolInvocation
from tests.browser.conftest import Reader
from tests.browser.hostile import texts
from tests.browser.shop import page_of
from tests.browser.test_reading import shown, until
from tests.record.records import case_of, evaluation, record, turn
from tests.reports.hostile import hostile_case

pytestmark = pytest.mark.browser
ELEMENTS = """selector => [...new Set([...document.querySelectorAll(selector)].map(
    one => one.tagName.toLowerCase() + [...one.attributes].map(
        a => ' ' + a.name + (/^(href|src|style|data|action)$/.test(a.name) ? '=' + a.value.slice(0, 8) : '')
    ).join('')))].sort()"""


WALK = (
    "async count => { const elements = "
    + ELEMENTS
    + """;
    const found = [];
    for (let number = 1; number <= count; number++) {
        const before = document.querySelector('.case');
        location.hash = `case=case-${number}`;
        while (document.querySelector('.case') === before || !document.querySelector('.turn')) {
            await new Promise(resolve => setTimeout(resolve, 1));
        }
        document.querySelectorAll('.right details').forEach(one => { one.open = true });
        found.push(elements('.right *'));
    }
    return found;
}"""
)


def case_full_of(text: str, *, metric: bool = True) -> CaseRecord:
    """A case whose name, tag, texts, calls, chunks, explanations and metric, if it says so, are a text."""
    made = hostile_case(text, tags=(text,))
    (trial,) = made.trials
    (one,) = trial.turns
    one = replace(one, retrieved_chunks=(RetrievedChunk(text, text, 0.5),), context=(text,))
    # The answer differs from what is expected, so that the difference is shown, too.
    one = replace(one, response=f"{text} {text}")
    if not metric:
        one = replace(one, evaluations=tuple(replace(each, evaluator_name="m") for each in one.evaluations))
    return replace(made, trials=(replace(trial, turns=(one,)),))


def test_five_hundred_texts_are_shown_as_what_they_are(reader: Reader, tmp_path: Path) -> None:
    hostile = texts()
    assert len(hostile) >= 500
    made = record(
        case_full_of("plain words"),
        *(case_full_of(text, metric=number % 20 == 0) for number, text in enumerate(hostile)),
        suite=SuiteIdentity(hostile[0], "agent.yaml", "d"),
        provenance=Provenance(hostile[1], hostile[2], hostile[3]),
        notices=hostile[:5],
    )
    page = reader.open(page_of(tmp_path, made))
    until(page, shown, len(hostile) + 1)
    page.evaluate("location.hash = 'case=case-0'")
    page.wait_for_selector(".turn")
    page.evaluate("document.querySelectorAll('.right details').forEach(one => { one.open = true })")
    harmless = set(page.evaluate(ELEMENTS, ".right *"))
    # A case of several lines, or without a word in common, is shown with these, too.
    harmless |= {
        "del",
        "ins",
        "pre dir class",
        "pre dir class tabindex role aria-label",
        "p class",
        "button type class",
    }
    harmless |= {"br"}
    before = page.evaluate("document.querySelectorAll('body > *, head > *').length")
    for number, found in enumerate(page.evaluate(WALK, len(hostile))):
        assert set(found) <= harmless, hostile[number]
    assert page.evaluate("document.querySelectorAll('body > *, head > *').length") == before
    assert page.evaluate("Object.prototype.polluted") is None
    for view in ("#metrics", "#summary"):
        page.evaluate("hash => { location.hash = hash }", view)
        page.wait_for_timeout(50)
    tag = page.locator("[aria-label=Tag] option", has_text="(1)").nth(5).get_attribute("value")
    page.get_by_label("Tag").select_option(tag)
    until(page, shown, 1)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#paper .case").count() == 200
    assert page.locator("script:not([type])").count() == 1


def test_an_answer_of_twenty_megabytes_opens(reader: Reader, tmp_path: Path) -> None:
    long = "<b>long</b> " * (20_000_000 // 12)
    call = ToolInvocation("find", {"q": "x"}, long)
    made = record(case_of(turn(evaluation(0.1, explanation=long), response=long, tool_invocations=(call,))))
    page = reader.open(page_of(tmp_path, made))
    page.keyboard.press("j")
    page.wait_for_selector(".turn")
    page.click(".more >> nth=0")
    assert page.locator(".right b:text('long')").count() == 0
    end = "document.querySelector('[aria-label=Answer]').textContent.endsWith('more characters, in results.json)')"
    until(page, lambda page: page.evaluate(end), True)


def test_only_links_to_the_web_are_links(reader: Reader, tmp_path: Path) -> None:
    made = record(case_full_of("plain"), provenance=Provenance("1.0.0", "x", commit="javascript:alert(1)"))
    page = reader.open(page_of(tmp_path, made))
    assert page.locator("a").count() == 0
    page.keyboard.press("j")
    page.wait_for_selector(".turn")
    assert page.locator("a").count() == 0
