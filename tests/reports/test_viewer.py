"""The viewer's page: everything of a record is in it, and nothing in it acts or asks."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import date

from hypothesis import given, settings
from msgspec.structs import replace

from holodeck_action.record.record import (
    Provenance,
    Record,
    SuiteIdentity,
)
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.page.viewer_cases import LONGEST_TEXT
from holodeck_action.reports.page.viewer_index import PageLinks
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import QuarantineEntry
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.hostile import hostile_case, hostile_record, storable_texts
from tests.reports.pages import Page
from tests.reports.shown import LARGE, VOTES, full_record, page, varied

TRAP = "</script><script>boo()</script><!-- <script>"


def hostile(text: str) -> Record:
    return record(
        hostile_case(text),
        case("P", name=text),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text),
        notices=(text,),
    )


@given(storable_texts)
@settings(max_examples=30)
def test_texts_are_data_and_never_elements(text: str) -> None:
    plain, found = Page(page(hostile("x"))), Page(page(hostile(text + TRAP)))
    assert found.stray == []
    assert found.elements == plain.elements
    (turn_shown,) = found.details["case-0"]["trials"][0]["turns"]
    assert turn_shown["response"] == turn_shown["input"] == text + TRAP
    assert "##[" not in page(hostile(text))


def test_a_page_asks_for_nothing_and_runs_what_it_holds_alone() -> None:
    found = Page(page(varied()))
    assert {tag for tag, _ in found.elements} & {"link", "img", "iframe", "a", "form", "base", "object"} == set()
    assert not any({"src", "href", "style", "onclick", "onerror"} & set(attributes) for _, attributes in found.elements)
    (style,) = found.styles
    ((_, script),) = [one for one in found.scripts if not one[0]]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert found.policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert {one[0].get("type") for one in found.scripts if one[0]} == {"application/json", "application/octet-stream"}


def test_cases_come_worst_first_with_what_a_list_shows() -> None:
    found = Page(page(varied(), "suites/one"))
    titles = ["fails", "two turns", "crashes", "was not run", "is quarantined", "passes", "only informs", "flaky"]
    assert found.index["title"] == titles
    assert found.index["position"] == [1, 7, 2, 3, 4, 0, 5, 6]
    counts = {"passed": 2, "failed": 2, "error": 1, "skipped": 1, "informational": 1, "quarantined": 1}
    assert found.head["suites"][0]["counts"].items() >= counts.items()
    row = found.row("case-7")
    assert (row["outcome"], row["reason"]) == ("failed", "turn 1: bleu 0.10, needs 0.50: compared")
    assert row["scores"] == {"bleu": 0.1, "rouge": None, "tone": None, "toxicity": 0.2}
    assert row["metric_outcomes"] == {"bleu": "f", "rouge": "s", "tone": "p", "toxicity": "p"}
    assert (row["place"], row["tokens"], row["cost_usd"]) == ("suites/one/agent.yaml:3:5", 15, None)
    assert row["command"] == "holodeck-action run suites/one/agent.yaml --case=case-7"
    assert found.row("case-0")["tags"] == ["fast"]
    assert found.row("case-6")["flaky"] is True


def test_everything_of_a_turn_is_there() -> None:
    found = Page(page(full_record())).details["case-0"]["trials"]
    (trial,) = found
    (one,) = trial["turns"]
    (call,) = one["tool_invocations"]
    assert (call["name"], call["args"], call["result"], call["error"]) == (
        "search",
        '{"q": "x"}',
        f'{{"id": {LARGE}}}',
        "slow",
    )
    assert [assertion["reason"] for assertion in one["tool_assertions"]] == ["find was not called"]
    assert one["retrieved_chunks"] == [{"id": "a.md#1", "text": "found", "score": 0.7}]
    assert one["retrieval_context"] == ["found before"]
    assert (one["context"], [part["model"] for part in one["usage"]["models"]]) == (["a file"], ["m1", "m2"])
    assert (one["latency_ms"], one["first_token_ms"], one["error"]["message"]) == (80.0, 9.0, "it broke")
    quality, tone = one["evaluations"]
    assert quality == {
        "name": "quality", "outcome": "failed", "score": 0.4, "category": None, "threshold": 0.5,
        "reason": "quality 0.40, needs 0.50", "explanation": "compared", "judge": "openai/a",
        "votes": [*VOTES], "details": '{"steps": ["one"]}', "cost_usd": 0.002, "duration_ms": 1.0,
    }  # fmt: skip
    assert (tone["category"], tone["score"], tone["outcome"]) == ("bad", None, "failed")
    assert (one["finish_reason"], one["metadata"]) == ("length", '{"route": "b"}')
    assert one["error"]["context"] == '{"stderr": "trace"}'
    assert "error: it broke" in one["problems"]


def test_trials_that_do_not_count_are_shown_as_such() -> None:
    found = Page(page(record(case("FFP", repeat=3, min_pass=2)))).details["case-0"]["trials"]
    assert [trial["outcome"] for trial in found] == ["failed", "failed", "passed"]
    uncounted = "does not count, because earlier trials decide the case"
    assert [trial["reason"].startswith(uncounted) for trial in found] == [False, False, True]


def test_two_records_stand_side_by_side() -> None:
    before = record(
        case("P", name="one"), case("F", name="two"), case("P", name="three"), case("P", name="was removed")
    )
    after = replace(
        record(case("F", name="one"), case("P", name="two"), case("P", name="three"), case("P", name="is new")),
    )
    gone, new = replace(before.cases[3], id="gone"), replace(after.cases[3], id="new")
    before = replace(before, cases=(*before.cases[:3], gone))
    after = replace(after, cases=(*after.cases[:3], new))
    found = Page(compared(before, after))
    assert dict(zip(found.index["id"], found.index["change"], strict=True)) == {
        "case-0": "regressed",
        "case-1": "improved",
        "case-2": "same",
        "new": "new",
        "gone": "gone",
    }
    worse = found.details["case-0"]
    assert worse["trials"][0]["outcome"] == "failed"
    assert worse["base"][0]["outcome"] == "passed"
    assert worse["remarks"] == ["bleu 0.90 → 0.10, needs 0.50"]
    assert found.details["gone"]["trials"] == []
    assert found.details["new"]["base"] is None
    assert found.head["base"]["name"] == "main"
    assert [measure["name"] for measure in found.head["base"]["measures"]] == ["pass rate", "bleu"]


def test_a_case_that_fails_only_in_trials_that_the_base_lacks_has_its_own_word() -> None:
    before, after = record(case("P")), record(case("PPPFF", repeat=5, min_pass=5))
    assert Page(compared(before, after)).index["change"] == ["undecided"]


def compared(before: Record, after: Record) -> str:
    from holodeck_action.decide.compare.comparing import compare
    from holodeck_action.decide.survey import judge_cases
    from holodeck_action.record.record import BaseRun
    from holodeck_action.suite.model.policy import Baseline

    concluded = conclude(after)
    against = BaseRun("merge-base", name="main")
    found = compare(before, after, Baseline(), base_run=against, judged=judge_cases(after))
    concluded = replace(concluded, report=replace(concluded.report, comparison=found))
    view = PageView([replace(concluded, base=before)], concluded.report.exit_code, results="out/results.json")
    return b"".join(render_page(view)).decode()


def test_links_lead_to_the_lines_of_the_repository_alone() -> None:
    commit = "a" * 40
    places = (SourceMark("agent.yaml", 3, 5), SourceMark("../../../secret.yaml", 3, 5), SourceMark("rows.csv", 3, 0))
    made = record(
        *(replace(case("P"), source=source) for source in places),
        provenance=Provenance("1.0.0", "x", commit=commit, folder="agents/one two"),
    )
    links = PageLinks("https://github.example/octo/shop", "https://github.example/octo/shop/actions/runs/7")
    view = PageView([conclude(made)], 0, results="results.json", links=links)
    found = Page(b"".join(render_page(view)).decode())
    line = f"https://github.example/octo/shop/blob/{commit}/agents/one%20two/agent.yaml#L3"
    assert found.index["url"] == [line, None, None]
    assert found.head["run"]["commit_url"] == f"https://github.example/octo/shop/commit/{commit}"
    assert found.head["run"]["run_url"] == links.run
    assert Page(page(made)).index["url"] == [None, None, None]


def test_a_text_that_no_browser_shows_in_a_moment_is_cut() -> None:
    long = "x" * (LONGEST_TEXT + 1234)
    made = record(case_of(turn(evaluation(0.1), response=long)))
    shown = Page(page(made)).details["case-0"]["trials"][0]["turns"][0]["response"]
    assert shown == "x" * LONGEST_TEXT + "… (1,234 more characters, in results.json)"


def test_details_that_have_no_room_are_left_out_the_passing_ones_first() -> None:
    made = record(*(case("F" if n % 3 == 0 else "P") for n in range(600)))
    view = PageView([conclude(made)], 1, results="out/results.json")
    whole = Page(b"".join(render_page(view)).decode())
    assert (len(whole.details), whole.head["omitted"]) == (600, None)
    room = sum(len(text) for attributes, text in whole.scripts if attributes.get("class") == "chunk") * 2 // 3
    found = Page(b"".join(render_page(view, most_details=room)).decode())
    assert len(found.index["id"]) == 600
    kept = len(found.details)
    assert 200 <= kept < 400
    assert {case for case in found.details if found.row(case)["outcome"] == "failed"} == {
        f"case-{n}" for n in range(0, 600, 3)
    }
    assert found.head["omitted"]["cases"] == 600 - kept
    assert found.head["omitted"]["command"] == (
        "holodeck-action report out/results.json --format html --case ID -o case.html"
    )


def test_a_metric_of_quarantined_cases_alone_is_no_column() -> None:
    entry = QuarantineEntry(case="case-1", reason="known", owner="me", expires=date(2027, 1, 1))
    made = record(case("P"), case_of(turn(evaluation(0.1, evaluator_name="other"))), quarantine=(entry,))
    found = Page(page(made))
    assert [metric["name"] for metric in found.head["metrics"]] == ["bleu"]
    assert found.details["case-1"]["trials"][0]["turns"][0]["evaluations"][0]["name"] == "other"


def test_a_page_of_many_long_answers_is_whole() -> None:
    made = hostile_record(300, 20_000)
    found = Page(page(made))
    assert found.stray == []
    assert len(found.details) == 300
    answers = {one.id: next(one.turns).response for one in made.cases}
    assert {id: one["trials"][0]["turns"][0]["response"] for id, one in found.details.items()} == answers
    assert json.loads(json.dumps(found.head)) == found.head


def test_the_list_of_many_cases_holds_each_of_them_in_its_order() -> None:
    scores = [number / 1_000 for number in range(1_203)]
    found = Page(page(record(*(case_of(turn(evaluation(score, 0.0))) for score in scores))))
    assert found.index["scores"] == [scores]
    assert found.index["position"] == [*range(1_203)]
    assert {len(column) for name, column in found.index.items() if name != "scores"} == {1_203}
