"""Untrusted text as prose: words stay words, nothing acts, and what differs between two texts is marked."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest
from hypothesis import given, settings

from holodeck_action.record.record import Provenance, SuiteIdentity
from holodeck_action.reports.comment.check_summary import AnnotatedLine, render_check
from holodeck_action.reports.formats import render_markdown
from holodeck_action.reports.terminal.console import console_report
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import GateMetric, Gates
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import difference, prose, short_prose
from tests.action.runner import read_log
from tests.record.records import case, record
from tests.reports.hostile import CORPUS, hostile_case, hostile_texts
from tests.reports.parsing import check_structure, leaves, parses
from tests.reports.shown import report_of
from tests.reports.test_comment import AT, check_inert, comment, silent

_BATCH = 40


def shown(markdown: str) -> str:
    """The text that a reader sees."""
    return "".join(token.content for token in leaves(parses(markdown)[1]) if token.type in ("text", "code_inline"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You can return it, within 30 days.", "You can return it, within 30 days."),
        ("**Done!** a_b [x](y)", r"\*\*Done!\*\* a\_b \[x\](y)"),
        ("ask @octocat about #12 please", "ask `@octocat` about `#12` please"),
        ("see https://x.example/a or www.y.example", "see `https://x.example/a` or `www.y.example`"),
        ("<b>bold</b> & co", r"`<b>bold</b>` \& co"),
        ("/merge now", "`/merge` now"),
        ("it is in agent.yaml at 3.5 s", "it is in `agent.yaml` at 3.5 s"),
        ("unknown field `inputs`; did you mean it?", "unknown field `inputs`; did you mean it?"),
        ("commit a1b2c3d4 costs $4", "commit `a1b2c3d4` costs `$4`"),
        ("＠octocat", "`＠octocat`"),
        ("the `id`s, and `|`GH-1", "the `id`s, and `` `¦`GH-1 ``"),
        ("1. first", r"1\. first"),
        ("", "(empty)"),
    ],
)
def test_only_what_could_act_becomes_code(text: str, expected: str) -> None:
    assert prose(text) == expected


@pytest.mark.full
@given(hostile_texts)
@settings(max_examples=200, deadline=None)
def test_nothing_acts_and_the_words_stay(text: str) -> None:
    for made in (prose(text), short_prose(text), difference(text, f"{text[::-1]} and {text}") or ""):
        for place in (made, f"x {made} y", f"| a |\n| - |\n| {made} |", f"<b>{made}</b>", f"- {made}"):
            check_structure(place, "qzxq", ours=lambda line: False, prose=True)
    # Backticks around a word are taken for marks of code.
    bare = re.compile(r"[`\s]")
    assert bare.sub("", shown(f"x{prose(text)}")) in (
        bare.sub("", f"x{one_line(text)}".replace("|", "¦")),
        "x(empty)",
        bare.sub("", unescape(f"x{one_line(text)}".replace("|", "¦"))),
    )


def test_words_that_differ_are_marked() -> None:
    wanted = "I have started the return of order LF-20731. Print the label."
    got = "Done! I have started the return of order LF-20713. Print the label."
    assert difference(wanted, got) == (
        "<b>Done!</b> I have started the return of order <del>LF-20731.</del> <b>LF-20713.</b> Print the label."
    )
    assert difference("yes, of course", "No way") is None


def test_a_difference_far_behind_the_beginning_is_shown() -> None:
    same = " ".join(f"word{number}" for number in range(120))
    shown = difference(f"{same} alpha", f"{same} beta", 200)
    assert shown == "… word114 word115 word116 word117 word118 word119 <del>alpha</del> <b>beta</b>"


def test_comparing_takes_no_time_whatever_the_texts_are() -> None:
    def cost(times: int) -> float:
        begun = time.process_time()
        for one, other in (("a b " * 500, "b a " * 500), ("x " * 20, "y x " * 10), ("a" * 10**5, "b" * 10**5)):
            difference(one * times, other * times)
        return time.process_time() - begun

    # Four times the text takes as long, not sixteen times.
    assert min(cost(40) for _ in range(2)) < 8 * min(cost(10) for _ in range(2))


@pytest.mark.full
def test_the_corpus_is_inert_everywhere() -> None:
    assert len(set(CORPUS)) >= 500
    for start in range(0, len(CORPUS), _BATCH):
        texts = CORPUS[start : start + _BATCH]
        text = texts[0]
        made = record(
            *(hostile_case(each, source=SourceMark(each, 3, 1)) for each in texts),
            case("P", name=text),
            gates=Gates(metrics={text or "m": GateMetric(min_mean=0.5)}),
            notices=(text,),
            suite=SuiteIdentity(text, text, text),
            provenance=Provenance(text, text, text, folder=text),
        )
        report = report_of(made, text)
        marks = tuple(AnnotatedLine(each, 3, "failure") for each in texts)
        body, summary = comment(report), render_check((report,), texts, AT, None, silent, marks)[1]
        for channel in (body, summary, render_check((report,), (), AT, None, silent, marks)[1]):
            check_inert(channel)
        for log in (body, summary, render_markdown(report), "".join(console_report(report))):
            assert read_log(log.encode()).commands == ()
