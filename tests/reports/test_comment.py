"""The comment and the check run: whole texts as files, links to lines only, within the limit whatever is in them.

`UPDATE_GOLDEN=1` writes the files anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import (
    BaseRun,
    CaseRecord,
    Provenance,
    Record,
    RecordedBaseline,
    SuiteIdentity,
    ToolAssertion,
    ToolInvocation,
    Usage,
)
from holodeck_action.reports.comment.changes import State, state_of
from holodeck_action.reports.comment.check_summary import TITLE_LIMIT, AnnotatedLine, render_check
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.comment.pull_request import render_comment, render_problem
from holodeck_action.reports.comment.size_limit import CHECK, COMMENT, SizeLimit
from holodeck_action.reports.custom import CustomTemplate
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Baseline, GateMetric, Gates
from tests.action.runner import read_log
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.hostile import FRAGMENTS, hostile_case, hostile_record, storable_texts
from tests.reports.parsing import check_structure, leaves, parses, rows
from tests.reports.shown import failing, passing, report_of, varied

GOLDEN = Path(__file__).with_name("golden")
MARKER = "<!-- holodeck-action:report:ci/evaluate/agent.yaml -->"
A, B = "a1" * 20, "b2" * 20
SERVER = "https://github.com"
RUN = f"{SERVER}/octo/shop/actions/runs/77"
AT = LinkContext(SERVER, "octo/shop", A, RUN)
SENTINEL = "qzxq"
LINK = re.compile(rf"{SERVER}/octo/shop/(actions/runs/77|commit/({A}|{B})|blob/{A}/[\w.~/%-]+#L[1-9]\d*)", re.ASCII)
SUMMARY = re.compile(
    r"<summary>(All terms that differ from the base|Copy for a coding agent|"
    r"\d+ (passed|(more )?of the \d+ failing cases|quarantined, without effect on the verdict)|"
    r"(\d+ of )?\d+ gates? (violated|undecided|not judged|passed) · metrics(: .+)?)</summary>"
)


def silent(sentence: str) -> None:
    raise AssertionError(sentence)


def comment(
    *reports: Report,
    previous: State | None = None,
    exit_code: int | None = None,
    sha: str = A,
    run: str = "77/1",
    at: LinkContext = AT,
    template: CustomTemplate | None = None,
    note: Callable[[str], None] = silent,
) -> str:
    code = max(report.exit_code for report in reports) if exit_code is None else exit_code
    now = state_of(reports, code, sha, run)
    return render_comment(reports, MARKER, at, now, previous, template, note)


def in_folder(made: Record, folder: str | None = "agents/support", name: str = "support") -> Report:
    identity = SuiteIdentity(name, "agent.yaml", "digest")
    provenance = Provenance("1.0.0", "recorded:answers.jsonl", "d" * 40, folder=folder)
    return report_of(replace(made, suite=identity, provenance=provenance), folder or "")


def at_line(line: int, made: CaseRecord, **changes: Any) -> CaseRecord:
    mark = SourceMark("agent.yaml", line, 5)
    trials = tuple(
        replace(trial, turns=tuple(replace(item, source=mark) for item in trial.turns)) for trial in made.trials
    )
    return replace(made, source=mark, trials=trials, **changes)


ANSWERED = turn(
    evaluation(0.31, explanation="the answer names no refund period"),
    evaluation(0.8, 0.7, evaluator_name="faithfulness"),
    input="Can I send back shoes that I wore outside once?",
    response="Sure! Just send them back whenever you like.",
    ground_truth="Only unworn shoes can be sent back, within 30 days.",
    tool_invocations=(ToolInvocation("search_help", {"query": "return worn shoes"}, "returns.md"),),
    usage=Usage(420, 61, 0.0031),
)
GOOD = turn(
    evaluation(0.93),
    evaluation(0.95, 0.7, evaluator_name="faithfulness"),
    input="Where is my order?",
    response="It arrives tomorrow.",
    usage=Usage(380, 40, 0.0022),
)


def support(*changed: CaseRecord, gates: Gates | None = None, **changes: Any) -> Record:
    cases = (
        at_line(12, case_of(ANSWERED), name="Worn shoes"),
        at_line(19, case_of(GOOD), name="Late parcel"),
        at_line(26, case_of(GOOD), name="Gift card"),
    )
    return record(*(changed or cases), gates=gates or Gates(min_pass_rate=0.9), **changes)


def all_passed() -> str:
    made = support(
        *(
            at_line(12 + 7 * number, case_of(GOOD), name=name)
            for number, name in enumerate(("Late parcel", "Gift card"))
        )
    )
    return comment(in_folder(made))


def failed_with_two_gates() -> str:
    return comment(in_folder(support(gates=Gates(min_pass_rate=0.9, metrics={"bleu": GateMetric(min_mean=0.8)}))))


def incomplete() -> str:
    down = turn(
        input="Do you ship to Peru?",
        response=None,
        error=ErrorInfo("AgentError", "the endpoint answered 503 three times", "crashed"),
    )
    return comment(
        in_folder(support(at_line(12, case_of(GOOD), name="Late parcel"), at_line(19, case_of(down), name="Peru")))
    )


def stopped() -> str:
    made = support(
        at_line(12, case_of(GOOD), name="Late parcel"),
        at_line(19, case(""), name="Gift card"),
        stopped="the run deadline of 60 s was reached",
    )
    return comment(in_folder(made))


def several_suites() -> str:
    good = in_folder(support(at_line(4, case_of(GOOD), name="Opening hours")), "agents/faq", "faq")
    return comment(good, in_folder(support()))


def quarantined_flaky_and_skipped() -> str:
    return comment(in_folder(varied(notices=("only 8 of 9 cases were chosen by `tag`",))))


def changed_since_the_commit_before() -> str:
    before = support(
        at_line(12, case_of(GOOD), name="Worn shoes"),
        at_line(19, case_of(ANSWERED), name="Late parcel"),
        at_line(26, case_of(GOOD), name="Gift card"),
        at_line(33, case_of(GOOD), name="Gone"),
    )
    previous = state_of([in_folder(before)], 1, B, "76/1")
    return comment(in_folder(support()), previous=previous)


def not_a_suite() -> str:
    problems = (
        "agent.yaml:12:3: test_cases[0]: unknown field `inputs`; did you mean `input`?",
        "agent.yaml:20:7: evaluations.metrics[1]: unknown metric `blue`; did you mean `bleu`?",
    )
    previous = state_of([in_folder(support())], 1, B, "76/1")
    return render_problem(problems, MARKER, AT, state_of((), 2, A, "77/1", problems), previous)


def compared(base: Record, head: Record, run: BaseRun) -> Report:
    """A report of a run that is compared with another one."""
    baseline = RecordedBaseline(Baseline(source="artifact"), run)
    made = replace(head, baseline=baseline, run=replace(head.run, base_digest="d"))
    verdict = decide(made, Terms(base=base))
    return build_report(made, verdict, "agents/support")


def regressed_since_the_base() -> str:
    before = support(
        at_line(12, case_of(GOOD), name="Worn shoes"),
        at_line(19, case_of(ANSWERED), name="Late parcel"),
        at_line(26, case_of(GOOD), name="Gift card"),
        at_line(33, case_of(GOOD), name="Gone"),
    )
    identity = SuiteIdentity("support", "agent.yaml", "digest")
    base, head = (
        replace(
            made, suite=identity, provenance=Provenance("1.0.0", "recorded:answers.jsonl", sha, folder="agents/support")
        )
        for made, sha in ((before, B), (support(), A))
    )
    older = replace(base.run, started_at="2026-01-01T09:00:00+00:00")
    report = compared(
        replace(base, run=older), head, BaseRun("artifact", B, B, 0, ("The base is 2 days old.",), "main")
    )
    return comment(report, previous=state_of([in_folder(before)], 1, B, "76/1"))


def asks_for_less() -> str:
    names = ("Late parcel", *(f"gone-{at}" for at in range(6)))
    base = in_folder_record(support(*(at_line(12 + at, case_of(GOOD), name=name) for at, name in enumerate(names))))
    marks = {"gates.min_pass_rate": SourceMark("holodeck-action.yaml", 3, 18)}
    head = replace(base, cases=base.cases[:1], gates=Gates(min_pass_rate=0.5), marks=marks)
    return comment(compared(base, head, BaseRun("artifact", B, B, 0, (), "main")))


def compares_a_part() -> str:
    names = ("Late parcel", "Refund", "Invoice")
    base = in_folder_record(
        support(*(at_line(12 + at, case("PEP"[at], name=name), name=name) for at, name in enumerate(names)))
    )
    cases = (at_line(at, case("PFF"[at - 12], name=name), name=name) for at, name in enumerate(names[:2], 12))
    new = at_line(15, case("F", name="Warranty"), name="Warranty")
    head = in_folder_record(support(*cases, new))
    asked = replace(base, provenance=replace(base.provenance, target="http://localhost:1"))
    return comment(compared(asked, head, BaseRun("artifact", B, B, 0, (), "main")))


def in_folder_record(made: Record) -> Record:
    return replace(made, provenance=Provenance("1.0.0", "recorded:answers.jsonl", A, folder="agents/support"))


def without_a_base() -> str:
    made = support(at_line(12, case_of(GOOD), name="Late parcel"))
    missing = "no run of main has an artifact holodeck-results; run the workflow on main once"
    return comment(in_folder(replace(made, baseline=RecordedBaseline(Baseline(source="artifact"), None, missing))))


def hostile() -> str:
    text = "".join(FRAGMENTS)
    made = record(
        at_line(12, hostile_case(text)),
        case("P", name=text),
        gates=Gates(metrics={text[:300]: GateMetric(min_mean=0.5)}),
        notices=(text,),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text, folder=text),
    )
    right = turn(evaluation(0.9, evaluator_name=text), input=text, response=text)
    right = replace(right, tool_assertions=(ToolAssertion(text, True, 0),))
    good = replace(made.cases[0], trials=case_of(right).trials)
    gone = (replace(case("P", name=text), id=f"{text} {at}") for at in range(5))
    base = replace(made, cases=(good, replace(made.cases[1], weight=2.0, name=text), *gone))
    changed = compared(base, made, BaseRun(text, text, None, 3, (text,), text)).comparison
    return comment(replace(report_of(made, text), comparison=changed))


SCENES: dict[str, Callable[[], str]] = {
    scene.__name__: scene
    for scene in (
        *(all_passed, failed_with_two_gates, incomplete, stopped, several_suites, quarantined_flaky_and_skipped),
        *(
            changed_since_the_commit_before,
            regressed_since_the_base,
            asks_for_less,
            compares_a_part,
            without_a_base,
            not_a_suite,
            hostile,
        ),
    )
}


def check_inert(text: str) -> None:
    """Check that below the hidden lines the structure is ours alone, and every link one that we made."""
    check_structure(text, SENTINEL, ours=is_ours, link=LINK, prose=True)


def is_ours(line: str) -> bool:
    return line in ("<details>", "</details>", MARKER) or bool(SUMMARY.fullmatch(line)) or is_state(line)


def is_state(line: str) -> bool:
    return State.read(f"{MARKER}\n{line}") is not None


def hrefs(text: str) -> list[str]:
    return [str(token.attrs["href"]) for token in leaves(parses(text)[1]) if token.type == "link_open"]


def within(text: str, limit: SizeLimit) -> bool:
    return len(text) <= limit.characters and len(text.encode()) <= limit.bytes


@pytest.mark.parametrize("name", SCENES)
def test_whole_comments(name: str) -> None:
    text = SCENES[name]()
    check_inert(text)
    first, hidden, rest = text.split("\n", 2)
    assert first == MARKER
    assert is_state(hidden)
    # How a state is compressed is up to the library.
    shown = f"{first}\n<!-- state -->\n{rest}"
    file = GOLDEN / f"{name}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8", newline="\n")
    assert shown == file.read_bytes().decode(), f"{file.name} differs; UPDATE_GOLDEN=1 writes it anew"


def names_the_commit(text: str) -> bool:
    """Tell whether the last line names the commit, as a link, and no other line does."""
    shown = text.rstrip("\n").split("\n")
    link = f"commit [`{A[:7]}`]({SERVER}/octo/shop/commit/{A})"
    return [number for number, line in enumerate(shown) if link in line] == [len(shown) - 1]


@pytest.mark.parametrize("name", SCENES)
def test_the_last_line_names_the_commit(name: str) -> None:
    assert names_the_commit(SCENES[name]())


@pytest.mark.full
def test_a_comment_of_a_template_names_the_commit() -> None:
    report = in_folder(support())
    template = CustomTemplate("mine.j2", "{{ report.suite }}: {{ report.outcome }}\n" + "line\n" * 20_000)
    # What a template writes may be cut, so the line above it names the commit.
    text = comment(report, template=template)
    assert text.split("\n")[2] == f"Commit [`{A[:7]}`]({SERVER}/octo/shop/commit/{A})"
    several = comment(report, report, template=template)
    assert names_the_commit(several)
    assert within(text, COMMENT)
    assert within(several, COMMENT)
    broken = CustomTemplate("mine.j2", "{{ nothing }}")
    assert names_the_commit(comment(report, template=broken, note=lambda _: None))
    stopped_early = comment(report, exit_code=4)
    assert names_the_commit(stopped_early)


def test_every_golden_file_is_of_a_scene() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(SCENES)


def test_the_last_line_has_usage_that_changed_by_a_tenth() -> None:
    def run(cost: float, calls: int) -> Record:
        used = turn(
            evaluation(0.9), usage=Usage(10, 5, cost), tool_invocations=(ToolInvocation("f", {}, None),) * calls
        )
        return record(case_of(used))

    recorded = RecordedBaseline(Baseline(source="artifact"), BaseRun("artifact", None, None, 0, (), "main"))
    head = replace(run(0.0205, 3), baseline=recorded)
    head = replace(head, run=replace(head.run, base_digest="d"))
    text = comment(build_report(head, decide(head, Terms(base=run(0.0200, 2)))))
    assert " · tool calls 2 → 3 · " in text
    assert "cost" not in text


def test_no_paragraph_has_a_line_break() -> None:
    """GitHub shows line breaks of a comment; the one behind the kind of an alert belongs to it."""
    for scene in SCENES.values():
        text = scene()
        breaks = [token for token in leaves(parses(text)[1]) if token.type == "softbreak"]
        assert len(breaks) == text.count("> [!")


def test_the_same_run_rendered_twice_is_the_same_text() -> None:
    previous = state_of([in_folder(varied())], 1, B, "76/1")
    first = comment(in_folder(support()), previous=previous)
    again = comment(in_folder(support()), previous=State.read(first))
    assert again == first
    assert "compared with `b2b2b2b`: 1 newly failing, 1 fixed" in first
    assert "compared with" not in comment(in_folder(support()))


def test_a_problem_replaces_a_verdict_and_keeps_what_to_compare_with() -> None:
    good = comment(in_folder(support()), sha=B, run="76/1")
    problem = render_problem(("no",), MARKER, AT, state_of((), 2, A, "77/1", ("no",)), State.read(good))
    assert "passed" not in problem
    later = comment(in_folder(support()), previous=State.read(problem), sha="c3" * 20, run="78/1")
    assert "compared with `b2b2b2b`" in later


@pytest.mark.parametrize(
    ("code", "alert", "shown"),
    [
        (2, "CAUTION", "the configuration is invalid, and nothing was evaluated"),
        (3, "WARNING", "the evaluation could not run"),
        (4, "WARNING", "the run was stopped"),
    ],
)
def test_without_a_verdict(code: int, alert: str, shown: str) -> None:
    text = render_problem(("a.yaml:3:5: why",), MARKER, AT, state_of((), code, A, "77/1", ("why",)))
    count = " 1 mistake:" if code == 2 else ""
    first = f"> [!{alert}]\n> **No verdict: {shown}.**{count}\n\n"
    assert f"\n{first}- `a.yaml:3:5` why\n" in text
    assert names_the_commit(text)
    title, summary = render_check((), ("why",), AT, None, silent, exit_code=code)
    assert title == f"NO VERDICT: {shown}"
    assert summary.startswith(f"{first}- why\n")


@pytest.mark.full
@given(storable_texts)
@settings(max_examples=30, deadline=None)
def test_no_text_of_a_record_acts(text: str) -> None:
    text = text + SENTINEL
    made = record(
        hostile_case(text, id="a"),
        hostile_case(text, id="b", source=SourceMark(text, 3, 1)),
        case("P", name=text),
        case("E", name=text, tags=(text,)),
        gates=Gates(metrics={text: GateMetric(min_mean=0.5)}),
        notices=(text,),
        suite=SuiteIdentity(text, text, text),
        provenance=Provenance(text, text, text, folder=text),
        stopped=text,
    )
    report = report_of(made, text)
    previous = state_of([report], 1, B, "76/1")
    shown = comment(report, previous=previous)
    for body in (shown, comment(report, report, previous=previous, exit_code=4)):
        assert within(body, COMMENT)
        check_inert(body)
        assert read_log(body.encode()).commands == ()
    title, summary = render_check((report,), (), AT, None, silent, (AnnotatedLine(text, 3, "failure"),), 5)
    check_inert(summary)
    assert len(title) <= TITLE_LIMIT
    assert title.splitlines() == [title]
    for tokens in parses(shown):
        # No row is torn.
        assert {len(row) for row in rows(tokens)} <= {2, 3, 4, 7}
    check_inert(render_problem((text, text), MARKER, AT, state_of((), 2, A, "77/1", (text,))))


HOSTILE_PLACES = (
    ("agents", "/etc/passwd"),
    ("agents", "../../etc/passwd"),
    ("../other", "agent.yaml"),
    ("/agents", "agent.yaml"),
    ("agents", "..\\..\\agent.yaml"),
    ("agents", "a\nb.yaml"),
    ("agents", "a\u202eb.yaml"),
    ("agents", "a\u2028b.yaml"),
    ("agents", ""),
    ("a/..", "."),
    ("agents", "x" * 5000),
    (None, "agent.yaml"),
)


@pytest.mark.parametrize(("folder", "file"), HOSTILE_PLACES)
def test_what_is_no_place_of_the_repository_is_no_link(folder: str | None, file: str) -> None:
    made = record(case("F", source=SourceMark(file, 3, 1)), provenance=Provenance("1.0.0", "t", folder=folder))
    text = comment(report_of(made))
    assert not any("/blob/" in href for href in hrefs(text))
    check_inert(text)


@pytest.mark.parametrize("line", [0, -1, 2**31])
def test_what_is_no_line_is_no_link(line: int) -> None:
    made = record(case("F", source=SourceMark("agent.yaml", line, 1)), provenance=Provenance("1.0.0", "t", folder=""))
    assert not any("/blob/" in href for href in hrefs(comment(report_of(made))))


@pytest.mark.parametrize(
    ("folder", "file", "path"),
    [
        ("", "agent.yaml", "agent.yaml"),
        ("agents/faq", "agent.yaml", "agents/faq/agent.yaml"),
        ("agents/faq", "../cases.yaml", "agents/cases.yaml"),
        ("a", "b c)](x) #1?%2e|`.yaml", "a/b c)](x) #1?%2e|`.yaml"),
        ("a", "ünï '\"<b>.yaml", "a/ünï '\"<b>.yaml"),
    ],
)
def test_links_lead_to_the_line(folder: str, file: str, path: str) -> None:
    made = record(case("F", source=SourceMark(file, 7, 1)), provenance=Provenance("1.0.0", "t", folder=folder))
    text = comment(report_of(made))
    check_inert(text)
    found = [href for href in hrefs(text) if "/blob/" in href]
    assert len(found) == 1
    assert {unquote(href) for href in found} == {f"{SERVER}/octo/shop/blob/{A}/{path}#L7"}
    shown = [token.content for token in leaves(parses(text)[1]) if token.type == "code_inline"]
    assert f"{path}:7".replace("|", "¦") in shown


@pytest.mark.parametrize("sha", [None, "main", "a" * 39, "a" * 40 + ")"])
def test_without_a_commit_there_is_no_link_to_a_line(sha: str | None) -> None:
    report = in_folder(support())
    marks = (AnnotatedLine("agents/support/agent.yaml", 12, "failure"),)
    _, summary = render_check((report,), (), replace(AT, sha=sha), None, silent, marks)
    assert "- `agents/support/agent.yaml`: line 12\n" in summary
    assert hrefs(summary) == []
    text = comment(report, sha=str(sha))
    assert set(hrefs(text)) == {RUN}
    assert "`agents/support/agent.yaml:12`" in text


@pytest.mark.full
def test_two_thousand_hostile_cases() -> None:
    report = in_folder(hostile_record(2000, 20_000))
    text = comment(report, previous=state_of([report], 1, B, "76/1"))
    assert within(text, COMMENT)
    check_inert(text)
    assert text.startswith(f"{MARKER}\n<!-- holodeck-action:state:")
    assert re.search(r"^> \*\*.* · 0 of 2000 passed, all must pass\*\*", text, re.MULTILINE)
    assert re.search(r"<summary>[12]00 more of the 2000 failing cases</summary>", text)
    marks = tuple(AnnotatedLine(f"agents/{number % 50}.yaml", 1 + number, "failure") for number in range(1000))
    title, summary = render_check((report,), (), AT, None, silent, marks, 1000)
    assert within(summary, CHECK)
    check_inert(summary)
    assert title.startswith("FAILED: support · 0 of 2000 passed, all must pass · bleu 0.10")
    assert summary.startswith("- ❌ **support · 0 of 2000 passed, all must pass** · bleu 0.10")
    assert "\n\nAnnotations below: 1,000 failures in 50 files.\n" in summary
    assert "1,000 more annotations are not shown" in summary


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 10, 100])
def test_many_suites_share_the_budget(count: int) -> None:
    reports = [in_folder(hostile_record(20, 5000), f"agents/{number}", "日本" * 60) for number in range(count)]
    text = comment(*reports, previous=state_of(reports, 1, B, "76/1"))
    assert within(text, COMMENT)
    check_inert(text)
    assert f"> **{count} of {count} suites failed**<br>**" in text
    assert State.read(text) is not None


@pytest.mark.full
def test_the_budget_is_kept_when_the_links_take_half_of_it() -> None:
    reports = [in_folder(hostile_record(20, 5000), f"agents/{number}") for number in range(30)]
    text = comment(*reports, at=replace(AT, run_url=f"{RUN}{'7' * 33_000}"))
    assert within(text, COMMENT)
    assert State.read(text) is not None
    assert "30 of 30 suites failed" in text
    assert text.endswith("[the run](" + f"{RUN}{'7' * 33_000}" + ")</sub>\n")


@pytest.mark.full
def test_what_is_left_out_first() -> None:
    def parts(answered: int, passed: int, answer: str = "the answer " * 100) -> tuple[bool, int, int]:
        made = record(*failing(answered, answer), *passing(passed))
        text = comment(in_folder(made))
        check_inert(text)
        return "passing 0 |" in text, text.count("got: "), text.count("| ❌ | [failing")

    assert parts(12, 5) == (True, 1, 11)
    assert parts(12, 2000) == (False, 1, 11)
    assert parts(12, 5, "日本語" * 1000) == (True, 1, 11)
    assert parts(150, 2000) == (False, 1, 149)
    assert parts(1000, 2000) == (False, 1, 200)


def test_a_run_that_ended_worse_than_its_suites_is_not_shown_as_passed() -> None:
    good = in_folder(support(at_line(12, case_of(GOOD))))
    assert good.exit_code == 0
    for code, verdict in ((3, "INCOMPLETE"), (4, "STOPPED"), (77, "NO VERDICT")):
        text = comment(good, exit_code=code)
        assert text.split("\n")[2] == "> [!WARNING]"
        assert "the run and its suites ended differently" in text.split("\n")[3]
        title, summary = render_check((good,), (), AT, None, silent, exit_code=code)
        assert title.startswith(verdict)
        assert summary.startswith(f"⚠️ **{verdict}: some suites did not run, or results could not be written")
    assert render_check((good,), (), AT, None, silent)[0] == "PASSED: support · 1 of 1 passed"


def test_without_suites_there_is_no_verdict() -> None:
    title, summary = render_check((), (), AT, None, silent)
    assert title.startswith("NO VERDICT")
    assert "PASSED" not in summary


def test_a_title_of_hostile_names_is_one_short_line() -> None:
    names = {f"{number} {''.join(FRAGMENTS)}": GateMetric(min_mean=0.9) for number in range(5)}
    report = report_of(record(case("F"), gates=Gates(min_pass_rate=None, metrics=names)))
    title = render_check((report,), (), AT, None, silent)[0]
    assert len(title) <= TITLE_LIMIT
    assert title.splitlines() == [title]
    assert title.startswith("INCOMPLETE: suite · no verdict: 0 `````")


TEMPLATE = CustomTemplate(
    "own.md.j2", "# {{ report.suite|code }}\n{% for case in report.attention %}\n- {{ case.title }}\n{% endfor %}"
)


@pytest.mark.full
def test_a_template_of_the_users_own_stands_below_the_hidden_lines() -> None:
    report = in_folder(support())
    text = comment(report, template=TEMPLATE)
    first, hidden, rest = text.split("\n", 2)
    assert first == MARKER
    assert is_state(hidden)
    assert rest == f"Commit [`{A[:7]}`]({SERVER}/octo/shop/commit/{A})\n\n# `support`\n- `Worn shoes`\n\n"
    assert render_check((report,), (), AT, TEMPLATE, silent)[1] == "# `support`\n- `Worn shoes`\n"
    long = comment(in_folder(record(*failing(5000, "no"))), template=TEMPLATE)
    assert within(long, COMMENT)
    assert long.rstrip().endswith(f"_The report was cut here: for the rest see [the run]({RUN})_")


def test_a_template_that_cannot_be_used_is_told_of() -> None:
    notes: list[str] = []
    report = in_folder(support())
    text = comment(report, template=CustomTemplate("own.md.j2", "{{ nothing }}"), note=notes.append)
    assert text == comment(report)
    assert notes == ["own.md.j2:1: 'nothing' is undefined; the built-in report is used instead"]


@given(st.lists(storable_texts, min_size=1, max_size=30), st.integers(1, 400))
@settings(max_examples=20, deadline=None)
def test_problems_of_any_length(problems: list[str], times: int) -> None:
    many = problems * times
    text = render_problem(many, MARKER, AT, state_of((), 2, A, "77/1", many))
    assert within(text, COMMENT)
    check_inert(text)
    assert within(render_check((), many, AT, None, silent)[1], CHECK)


def test_the_page_of_all_cases_is_among_the_artifacts_of_a_run_that_wrote_it() -> None:
    link = f" · [all cases]({RUN}#artifacts)"
    for reports in ((report_of(varied()),), (report_of(varied()), report_of(varied()))):
        assert link not in comment(*reports)
        assert comment(*reports, at=replace(AT, pages=True)).count(f"[the run]({RUN}){link}") == 1
        assert link not in comment(*reports, at=replace(AT, run_url=None, pages=True))
