"""What every surface says of a base before anything else: how little of it is compared, and what differs from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import Terms
from holodeck_action.record.record import BaseRun, Record, RecordedBaseline
from holodeck_action.reports.comment.changes import state_of
from holodeck_action.reports.comment.check_summary import render_check
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import render_comment
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.formats import markdown_report, render_markdown
from holodeck_action.reports.headline import verdict_line
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.terminal.console import console_report
from holodeck_action.suite.model.policy import Baseline, Gates
from tests.commands.test_partial_comparison import of_letters, store
from tests.record.records import case, record
from tests.reports.pages import Page

PLACE = LinkContext("https://github.com", "octo/shop", None, "")
OTHER_TEXT = "1" * 64


def nothing_to_note(sentence: str) -> None:
    raise AssertionError(sentence)


def concluded_with(base: Record, head: Record) -> Conclusion:
    """A run that is compared with a base, which is called `main`."""
    against = RecordedBaseline(Baseline(source="artifact"), BaseRun("artifact", name="main"))
    return conclude(replace(head, baseline=against, run=replace(head.run, base_digest="d")), Terms(base=base))


def first_texts(folder: Path, base: Record, head: Record) -> dict[str, list[str]]:
    """What a reader sees of a comparison on each surface: the lines that are not blank."""
    concluded = concluded_with(base, head)
    report = concluded.report
    state = state_of([report], report.exit_code, None, "1/1")
    text = render_comment([report], "<!-- m -->", PLACE, state, None, None, nothing_to_note)
    # Two lines are hidden, and a break in a paragraph begins a line, too.
    shown = "\n".join(line for line in text.split("\n")[2:] if not line.startswith("> [!"))
    title, check = render_check([report], [], PLACE, None, nothing_to_note)
    view = PageView([concluded], report.exit_code, results="results.json")
    page = Page(b"".join(render_page(view)).decode())
    project = store(folder, base=base, head=head)
    found = {
        "comment": shown.replace("<br>", "\n"),
        "title": title,
        "check": check,
        "summary": render_markdown(report),
        "console": "".join(console_report(report)),
        "page": "\n".join(page.head["suites"][0]["notices"]),
        "base of the page": page.head["base"]["sentence"],
        "compare": project.run("compare", "base", "head").stdout,
        "compare as markdown": project.run("compare", "base", "head", "--format", "markdown").stdout,
    }
    return {name: [line.removeprefix("> ") for line in text.split("\n") if line] for name, text in found.items()}


def whole(first: dict[str, list[str]]) -> str:
    return "\n".join("\n".join(lines) for lines in first.values())


@pytest.mark.parametrize(("base", "count"), [("P" + "E" * 11, 11), ("P" + " " * 11, 11), ("PPPPPPPPPPPE", 1)])
def test_how_little_was_compared_is_in_the_second_line(tmp_path: Path, base: str, count: int) -> None:
    first = first_texts(tmp_path, of_letters(base), of_letters("P" * 12))
    said = f"Compared {12 - count} of 12 cases"
    open_ones = f": {count} not fully evaluated on "
    assert first["comment"][1] == f"⚠️ {said} with `main`{open_ones}`main`"
    assert first["check"][0] == first["summary"][1] == first["comment"][1]
    assert f"compared {12 - count} of 12 cases" in first["title"][0]
    assert first["console"][1] == f"warning: {said} with main{open_ones}main"
    assert first["page"][0] == f"{said} with main{open_ones}main"
    assert first["compare"][0] == f"warning: {said} with base{open_ones}base"
    assert said in first["compare as markdown"][1]
    told = whole(first)
    assert "No case changed" not in told
    assert "as on `main`" not in told
    assert "none worse" not in told
    assert "o compared case changed" in first["base of the page"][0]


@pytest.mark.parametrize("covered", ["PPPP", "PPFF"])
def test_of_a_whole_comparison_nothing_is_said(tmp_path: Path, covered: str) -> None:
    told = whole(first_texts(tmp_path, of_letters(covered), of_letters(covered)))
    assert "ompared 4 of" not in told
    assert "No compared" not in told
    assert "No case changed" in told


@pytest.mark.parametrize(
    "head",
    [
        record(case("P"), case("P"), case("F", content_hash=OTHER_TEXT)),
        record(case("P"), case("P"), case("P"), case("F")),
    ],
    ids=["changed", "added"],
)
def test_a_failing_case_that_cannot_be_compared_is_no_unchanged_one(tmp_path: Path, head: Record) -> None:
    first = first_texts(tmp_path, of_letters("PPP"), head)
    told = whole(first)
    assert "No case changed" not in told
    assert "No case got worse" not in told
    assert "1 case not compared fails, no compared case changed" in told
    assert "passed, all must pass** · case-" in first["comment"][0]
    assert first["comment"][1] == "no compared case got worse than `main`"
    assert "(1 not compared fails now)" in first["comment"][2]
    assert "no compared case got worse than on the base (none allowed)" in "\n".join(first["console"])


def test_a_renamed_or_a_removed_case_is_no_unchanged_one(tmp_path: Path) -> None:
    renamed = record(case("P"), case("P"), case("P"))
    renamed = replace(renamed, cases=(*renamed.cases[:2], replace(renamed.cases[2], id="other")))
    for name, head in {"renamed": renamed, "fewer": of_letters("PP")}.items():
        told = whole(first_texts(tmp_path / name, of_letters("PPP"), head))
        assert "No case changed" not in told
        assert "as on `main`" not in told
        assert "No compared case changed" in told


def test_another_target_of_the_base_is_in_the_first_lines(tmp_path: Path) -> None:
    base, head = of_letters("PP"), of_letters("PP")
    other = replace(base.provenance, target="python:old:answer")
    first = first_texts(tmp_path, replace(base, provenance=other), head)
    said = f"main was evaluated through python:old:answer, this run through {head.provenance.target}"
    for surface in ("comment", "check", "summary", "console", "page"):
        lines = [line.replace("`", "") for line in first[surface][:3]]
        assert any(said in line for line in lines), (surface, lines)
    assert any(said.replace("main", "base", 1) in line for line in first["compare"][:3])


def test_a_template_of_ones_own_cannot_leave_it_out() -> None:
    report = concluded_with(of_letters("PE"), of_letters("PP")).report
    text = markdown_report(report, CustomTemplate("mine.j2", "all is well"), nothing_to_note)
    assert text.startswith("⚠️ Compared 1 of 2 cases with `main`: 1 not fully evaluated on `main`")


def test_a_loss_beyond_chance_is_told_by_the_pass_rates() -> None:
    lax = Gates(min_pass_rate=0.1)
    base, head = record(*[case("P")] * 40, gates=lax), record(*[case("P")] * 20, *[case("F")] * 20, gates=lax)
    line = verdict_line(concluded_with(base, head).report)
    assert ' · 20 of 40 cases got worse than main · the same answer "answer" · ' in line
    assert " · pass rate 100 → 50 %, beyond chance" in line
