"""A failing case as a task for a coding agent: the same in comment, summary and page; no text of it forges a line."""

from __future__ import annotations

from markdown_it import MarkdownIt

from holodeck_action.reports.formats import render_markdown
from tests.record.records import record
from tests.reports.hostile import FRAGMENTS, hostile_case
from tests.reports.pages import Page
from tests.reports.shown import page, report_of
from tests.reports.test_comment import comment, in_folder, support

FIELDS = ("case: ", "defined at: ", "run it alone: ", "problem: ", "input: ", "answer: ", "expected: ", "tool: ")


def tasks(markdown: str) -> list[str]:
    """Return the texts of the blocks for a coding agent."""
    return [
        token.content.removesuffix("\n")
        for token in MarkdownIt("commonmark").parse(markdown)
        if token.type == "fence" and token.content.startswith("A test case of this repository's AI agent fails.")
    ]


def test_comment_summary_and_page_copy_the_same_task() -> None:
    made = support()
    (told,) = tasks(comment(in_folder(made, folder="")))
    assert [told] == tasks(render_markdown(report_of(made)))
    details = Page(page(made)).details
    assert [details[f"case-{at}"].get("task") for at in range(3)] == [told, None, None]
    assert told.splitlines()[1:] == [
        "case: Worn shoes",
        "defined at: agent.yaml:12:5",
        "run it alone: holodeck-action run agent.yaml --case=case-0",
        "problem: bleu 0.31, needs 0.50: the answer names no refund period",
        "input: Can I send back shoes that I wore outside once?",
        "answer: Sure! Just send them back whenever you like.",
        "expected: Only unworn shoes can be sent back, within 30 days.",
        'tool: search_help(query="return worn shoes") → returns.md',
    ]


def test_no_text_of_a_case_looks_like_a_line_of_ours() -> None:
    made = record(hostile_case("".join(FRAGMENTS)))
    (told,) = tasks(comment(in_folder(made)))
    for text in (told, Page(page(made)).details["case-0"]["task"]):
        lines = text.splitlines()[1:]
        assert len(lines) > 20
        assert all(line.startswith((*FIELDS, "  ", "… (")) for line in lines), lines
        assert sum(line.startswith("run it alone: ") for line in lines) <= 1
