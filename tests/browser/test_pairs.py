"""A person says which of two answers is better without knowing whose they are; `calibrate` takes the labels."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Reader
from tests.browser.test_looks import violations
from tests.browser.test_reading import until
from tests.commands.project import Finished, Project
from tests.extensions.preference.shop import Shop, judged_by
from tests.extensions.simulation.shop import AGENT, GOAL, USER, customer
from tests.llm.models import KEY, FakeModels, Reply, Request

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.needs("preference")]
CASES = 14
HOSTILE = "=<img src=x onerror=window.__owned=1>\r\n<script>window.__owned=1</script>\u202e"


def base_answer(number: int) -> str:
    return f"{HOSTILE} bad {number}" if number == 3 else f"bad-{number}-" * (3000 if number == 4 else 1)


def head_answer(number: int) -> str:
    return f"good {number}{HOSTILE}" if number == 3 else f"good {number}"


class ProcessShop(Shop):
    """A shop whose runs are processes, since the browser's event loop runs in this one."""

    def run(self, *arguments: str) -> Finished:
        return self.project.run_process(*arguments, OPENAI_API_KEY=KEY)


@pytest.fixture
def compared(tmp_path: Path) -> Iterator[Shop]:
    """Two runs, of which a judge prefers the second; the last case has equal answers, the one before an error."""
    with FakeModels(keys=[KEY]) as models:
        shop = ProcessShop(Project(tmp_path), models)
        shop.suite(CASES)
        shop.base([*(base_answer(number) for number in range(CASES - 2)), None, "same"])
        shop.head([*(head_answer(number) for number in range(CASES - 2)), "good", "same"], "--min-completeness", "0.5")
        assert models.violations == []
        yield shop


def sides(page: Page) -> list[str]:
    page.wait_for_selector(".blind .pair pre")
    found: list[str] = page.locator(".blind .pair pre").all_text_contents()
    return found


def saved(page: Page, count: int) -> bytes:
    with page.expect_download() as download:
        page.click(f"text=labels.csv ({count})")
    content: bytes = download.value.path().read_bytes()
    return content


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_a_pair_is_blind_until_it_is_labelled(reader: Reader, compared: Shop, tmp_path: Path) -> None:
    page = reader.open(tmp_path / "out/report.html", "#pairs", accept_downloads=True)
    until(page, lambda page: page.inner_text(".blind > p"), f"0 of {CASES - 2} pairs labelled")
    firsts = []
    for number in range(CASES - 2):
        one, other = sides(page)
        firsts.append("good" in one)
        assert {"good" in one, "good" in other} == {True, False}
        shown = page.inner_html("main")
        for told in ("this run", "This run", "base", "so it is", "preference", "option", "case=", "passed", "failed"):
            assert told not in shown.replace(one, "").replace(other, ""), told
        assert page.locator("main a, main .mark, main .badge, main .list").count() == 0
        assert page.evaluate("location.hash") == "#pairs"
        # Both sides have the same elements, names and classes.
        marks = page.evaluate(
            "[...document.querySelectorAll('.blind .pair > *')].map(one => one.outerHTML.replace(/>[^<]*</g, '><'))"
        )
        assert marks[0].replace('"A"', '"B"') == marks[1]
        key = "t" if number == 2 else "a" if "good" in one else "b"
        page.keyboard.press(key)
        page.wait_for_selector(".revealed")
        whose = "A is this run's answer, B the base's." if "good" in one else "A is the base's answer, B this run's."
        assert whose in page.inner_text(".revealed")
        assert "preference: this run's answer is better: so it is" in page.inner_text(".revealed")
        # What was said with knowledge is no blind label.
        assert page.locator(".blind .switch button:disabled").count() == 3
        page.keyboard.press("j")
        until(page, lambda page: page.inner_text(".blind > p"), f"{number + 1} of {CASES - 2} pairs labelled")
    page.wait_for_selector("text=No pair is left.")
    # The order of the sides is drawn: neither run is always first.
    assert 0 < sum(firsts) < CASES - 2
    content = saved(page, CASES - 2)
    found = rows(content)
    assert {row["label"] for row in found} == {"win", "tie"}
    assert all(set(row) == {"input", "response", "other_response", "ground_truth", "label"} for row in found)
    (hostile,) = [row for row in found if row["input"] == "question 3"]
    assert (hostile["response"], hostile["other_response"]) == (f"'{head_answer(3)}", f"'{base_answer(3)}")
    (long,) = [row for row in found if row["input"] == "question 4"]
    assert long["other_response"] == base_answer(4)
    (tmp_path / "labels.csv").write_bytes(content)
    flags = ("--results", "out/results.json", "--format", "json")
    finished = Project(tmp_path).run("calibrate", "labels.csv", *flags)
    assert finished.code == 0, finished.stderr
    card = json.loads(finished.stdout)
    assert card["pairs"] == {"counts": [[CASES - 3, 0, 0], [1, 0, 0], [0, 0, 0]], "flipped": 0}
    # They outlast the visit, and the same pairs are drawn in the same order.
    page.reload()
    until(page, lambda page: page.inner_text(".blind > p"), f"{CASES - 2} of {CASES - 2} pairs labelled")
    assert saved(page, CASES - 2) == content


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_are_skipped_removed_noted_and_opened(
    reader: Reader, compared: Shop, tmp_path: Path, scheme: str
) -> None:
    place = tmp_path / "out/report.html"
    page = reader.open(place, accept_downloads=True, color_scheme=scheme, bypass_csp=True)
    page.keyboard.press("5")
    first = sides(page)
    page.keyboard.press("s")
    until(page, lambda page: sides(page) != first, True)
    second = sides(page)
    assert violations(page) == []
    page.get_by_label("Your name, as annotator of the labels").fill("Ann")
    page.get_by_label("Note on both answers").fill("atbs jk")
    page.click("text=A is better")
    page.wait_for_selector(".revealed")
    assert violations(page) == []
    page.keyboard.press("k")
    until(page, sides, first)
    assert page.locator(".revealed").count() == 0
    page.keyboard.press("t")
    page.wait_for_selector(".revealed")
    page.click("text=Remove the label")
    until(page, lambda page: sides(page) != first, True)
    (row,) = rows(content := saved(page, 1))
    assert (row["annotator"], row["comment"], row["label"]) == (
        "Ann",
        "atbs jk",
        "win" if "good" in second[0] else "loss",
    )
    (tmp_path / "labels.csv").write_bytes(content)
    # On the page of a later run, with both sides exchanged, it is the same pair.
    finished = Project(tmp_path).run("compare", "out", "base", "--format", "html")
    (tmp_path / "turned.html").write_text(finished.stdout, encoding="utf-8", newline="")
    other = reader.open(tmp_path / "turned.html", "#pairs", accept_downloads=True)
    other.wait_for_selector(".blind .pair")
    with other.expect_file_chooser() as chooser:
        other.click("[aria-label='Open a saved labels.csv']")
    chooser.value.set_files(tmp_path / "labels.csv")
    other.wait_for_selector("text=1 of 1 rows opened")
    until(other, lambda page: page.inner_text(".blind > p"), f"1 of {CASES - 2} pairs labelled")
    assert saved(other, 1) == content


def test_conversations_with_a_simulated_user_are_shown_as_a_whole(reader: Reader, tmp_path: Path) -> None:
    def rule(request: Request) -> Reply:
        judge = judged_by(lambda one, other: "first" if "please" in one else "second")
        return judge(request) if "Two assistants" in request.text else customer(request)

    with FakeModels(keys=[KEY]) as models:
        models.answer(rule)
        project = Project(tmp_path)
        model = {"provider": "openai", "name": "judge", "endpoint": models.openai_url}
        user = {**USER, "model": {**USER["model"], "endpoint": models.openai_url}}
        case: dict[str, Any] = {"name": "refund", "simulate": user, "expect": [{"contains": "refunded"}]}
        project.suite([case], [{"type": "preference", "model": model}])
        project.policy(target="python:agent:answer")
        project.write("agent.py", AGENT)
        assert project.run_process("run", "-o", "base", OPENAI_API_KEY=KEY).code == 0
        project.write(
            "agent.py", AGENT.replace("Which order is it?", 'Which \\"order\\"\\t is it, please?\\u00e9\\x7f')
        )
        assert project.run_process("run", "-o", "out", "--baseline", "file:base", OPENAI_API_KEY=KEY).code == 0
    page = reader.open(tmp_path / "out/report.html", "#pairs", accept_downloads=True)
    page.wait_for_selector(".blind .pair")
    one, other = page.locator(".blind .pair > *").all()
    assert one.locator("h5").all_inner_texts() == ["User", "Agent", "User", "Agent"]
    assert {"please" in one.inner_text(), "please" in other.inner_text()} == {True, False}
    assert GOAL in page.inner_text(".blind")
    page.keyboard.press("a" if "please" in one.inner_text() else "b")
    page.wait_for_selector(".revealed")
    content = saved(page, 1)
    assert rows(content)[0]["input"] == GOAL
    (tmp_path / "labels.csv").write_bytes(content)
    finished = Project(tmp_path).run("calibrate", "labels.csv", "--results", "out/results.json", "--format", "json")
    assert finished.code == 0, finished.stderr
    assert json.loads(finished.stdout)["pairs"]["counts"][0] == [1, 0, 0]
