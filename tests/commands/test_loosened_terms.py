"""A run whose suite asks for less than its base's: what is said first, and what `baseline.on_loosened` makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.github.repositories import commit, repository, run
from tests.reports.parsing import check_inert

QUARANTINE = [{"case": "c3", "reason": "r", "owner": "o", "expires": "2099-01-31"}]
SAID = (
    "Unlike the base, this run removes c11 at agent.yaml:74 on the base, "
    "lowers min_pass_rate from 1 to 0.5 at holodeck-action.yaml:4, "
    "sets on_case_regression to ignore instead of confirm at holodeck-action.yaml:8 "
    "and quarantines c3 at holodeck-action.yaml:12"
)


def suite(project: Project, count: int, wrong: frozenset[int] = frozenset(), **changes: Any) -> None:
    cases = [{"name": f"c{at}", "input": f"what is {at}?", "ground_truth": str(at)} for at in range(count)]
    project.suite([{**case, **changes.get(case["name"], {})} for case in cases], changes.get("metrics"))
    project.answers([{"case": f"c{at}", "response": "wrong" if at in wrong else str(at)} for at in range(count)])


@pytest.fixture
def sound(project: Project) -> Project:
    """Twelve cases, all right, in base/results.json."""
    suite(project, 12)
    project.policy(target="recorded:answers.jsonl")
    assert project.run("run", "-o", "base").code == 0
    return project


def loosen(project: Project, **baseline: Any) -> None:
    """Quarantine one failing case, delete another, and let all others fail."""
    suite(project, 11, frozenset({3}))
    project.policy(
        target="recorded:answers.jsonl",
        gates={"min_pass_rate": 0.5},
        baseline={"source": "file:base", "on_case_regression": "ignore", **baseline},
        quarantine=QUARANTINE,
    )


def loosened(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project.verdict()["comparison"]["terms"]["changes"]
    return found


def said(project: Project) -> list[str]:
    return [change["said"] for change in loosened(project)]


def test_a_run_that_asks_for_less_says_so_first(sound: Project) -> None:
    loosen(sound)
    finished = sound.run("run", "-o", "out")
    assert finished.code == 0
    assert finished.stdout.splitlines()[1] == f"warning: {SAID}"
    shown = (sound.out / "report.md").read_text().splitlines()
    assert shown[2].startswith("⚠️ **Unlike the base, this run** removes c11 at `agent.yaml:74` on the base, ")
    assert "lowers min\\_pass\\_rate from 1 to 0.5 at " in shown[2]
    changes = loosened(sound)
    assert [(change["way"], change["said"]) for change in changes] == [
        ("laxer", "removes"),
        ("laxer", "lowers min_pass_rate from 1 to 0.5"),
        ("laxer", "sets on_case_regression to ignore instead of confirm"),
        ("laxer", "quarantines"),
    ]
    assert changes[3]["places"] == [
        {"name": "c3", "source": {"file": "holodeck-action.yaml", "line": 12, "column": 12}}
    ]
    page = (sound.out / "report.html").read_text()
    assert SAID in page
    for form in ("console", "markdown", "json"):
        text = sound.run("compare", "base", "out", "--format", form).stdout
        assert "min_pass_rate" in text or "min\\_pass\\_rate" in text


@pytest.mark.proves(
    "Baseline: on_loosened",
    "Baseline.on_loosened=fail Baseline.on_loosened=warn Baseline.on_loosened=ignore",
    "run: --on-loosened",
    "gate: --on-loosened",
    "compare: --on-loosened",
)
@pytest.mark.parametrize("by_flag", [False, True])
def test_it_fails_warns_or_is_ignored(sound: Project, by_flag: bool) -> None:
    # The word of the base counts where it is stricter, so the base of these says `ignore`.
    sound.policy(target="recorded:answers.jsonl", baseline={"source": "file:base", "on_loosened": "ignore"})
    assert sound.run("run", "-o", "other").code == 0

    def with_word(word: str) -> Finished:
        loosen(sound, source="file:other", **({} if by_flag else {"on_loosened": word}))
        return sound.run("run", "-o", "out", *(["--on-loosened", word] if by_flag else []))

    assert with_word("fail").code == 1
    (gate,) = (gate for gate in sound.verdict()["gates"] if gate["name"] == "baseline.on_loosened")
    assert (gate["state"], gate["actual"], gate["required"]) == ("failed", 4, 0)
    assert sound.verdict()["reason"].startswith("the run removes c11 at ")
    for command in ("decide", "compare"):
        files = ["out/results.json"] if command == "decide" else ["other", "out"]
        assert sound.run(command, *files).code == 1
    warned = with_word("warn")
    assert (warned.code, "warning: Unlike the base" in warned.stdout) == (0, True)
    assert sound.run("decide", "out/results.json", "--on-loosened", "fail").code == 1
    assert sound.run("compare", "other", "out", "--on-loosened", "fail").code == 1
    ignored = with_word("ignore")
    assert (ignored.code, "Unlike the base" in ignored.stdout) == (0, False)
    assert said(sound)


def test_a_change_cannot_ignore_itself(sound: Project) -> None:
    sound.policy(target="recorded:answers.jsonl", baseline={"source": "file:base", "on_loosened": "fail"})
    assert sound.run("run", "-o", "strict").code == 0
    loosen(sound, source="file:strict", on_loosened="ignore")
    finished = sound.run("run", "-o", "out", "--on-loosened", "ignore")
    assert finished.code == 1
    assert "sets on_loosened to ignore instead of fail" in said(sound)
    # A base that was compared with nothing had the default.
    loosen(sound, on_loosened="ignore")
    assert "Unlike the base" in sound.run("run", "-o", "out").stdout


def test_without_a_base_the_gate_is_skipped_or_cannot_be_decided(sound: Project) -> None:
    for missing, code, state in (("warn", 0, "skipped"), ("fail", 3, "undetermined")):
        baseline = {"source": "merge-base", "on_loosened": "fail", "on_missing": missing}
        sound.policy(target="recorded:answers.jsonl", baseline=baseline)
        assert sound.run("run", "-o", "out").code == code
        (gate,) = (gate for gate in sound.verdict()["gates"] if gate["name"] == "baseline.on_loosened")
        assert gate["state"] == state


def test_nothing_is_said_of_the_same_and_of_stricter_terms(sound: Project) -> None:
    sound.policy(
        target="recorded:answers.jsonl",
        baseline={"source": "file:base", "on_missing": "fail"},
        gates={"max_errors": 0, "metrics": {"equality": {"min_mean": 0.5}}},
        metrics=[{"type": "length", "max_words": 60}],
        trials={"repeat": 2},
    )
    sound.answers([{"case": f"c{at}", "trial": n, "response": str(at)} for at in range(12) for n in range(2)])
    finished = sound.run("run", "-o", "out")
    assert finished.code == 0, finished.stdout
    assert "Unlike the base" not in finished.stdout
    assert "terms" not in sound.verdict()["comparison"]


def test_metrics_questions_and_filters_are_compared(sound: Project) -> None:
    suite(sound, 12, c4={"input": "what is four?"}, c5={"ground_truth": "V"}, c6={"expected_tools": ["find"]})
    rows = (sound.folder / "answers.jsonl").read_text().replace('"5"', '"V"').splitlines()
    sound.answers([{**json.loads(row), "tool_invocations": [{"name": "find"}]} for row in rows])
    sound.policy(target="recorded:answers.jsonl", baseline={"source": "file:base"})
    sound.run("run", "-o", "out")
    assert [(change["way"], change["said"]) for change in loosened(sound)] == [
        ("changed", "changes the question of"),
        ("changed", "changes the ground truth of"),
        ("changed", "changes the expected tools of"),
    ]
    suite(sound, 12, metrics=[{"type": "standard", "metric": "rouge", "threshold": 0.2}])
    sound.run("run", "-o", "out", "--limit", "3")
    assert said(sound) == ["leaves out (by its filters: limit)", "removes equality from"]
    assert [len(change["places"]) for change in loosened(sound)] == [9, 3]


def test_many_changes_are_cut_in_the_first_line_and_listed_below(sound: Project) -> None:
    # A name with what would act in Markdown.
    name = "**bold** @octocat <img src=x> | cell"
    suite(sound, 12)
    agent = json.loads((sound.folder / "agent.yaml").read_text())
    agent["test_cases"] = [{**case, "name": name} if at == 0 else case for at, case in enumerate(agent["test_cases"])]
    sound.write("agent.yaml", json.dumps(agent, indent=1))
    sound.answers([{"case": name if at == 0 else f"c{at}", "response": str(at)} for at in range(12)])
    sound.policy(target="recorded:answers.jsonl")
    assert sound.run("run", "-o", "named").code == 0
    suite(sound, 2)
    agent = json.loads((sound.folder / "agent.yaml").read_text())
    agent["test_cases"] = agent["test_cases"][1:]
    sound.write("agent.yaml", json.dumps(agent, indent=1))
    sound.policy(target="recorded:answers.jsonl", baseline={"source": "file:named"})
    finished = sound.run("run", "-o", "out")
    line = finished.stdout.splitlines()[1]
    assert line.startswith(f'warning: Unlike the base, this run removes "{name}", c2, c3 and 8 more at agent.yaml:')
    assert f'  · "{name}" at agent.yaml:' in finished.stdout
    shown = (sound.out / "report.md").read_text()
    assert "removes 11 cases:" in shown
    check_inert(shown, "octocat")


@pytest.mark.full
def test_a_template_of_the_change_cannot_leave_it_out(sound: Project) -> None:
    loosen(sound)
    sound.write("mine.md.j2", "All is well with {{ report.suite|code }}.\n")
    sound.run("run", "-o", "out", "--template", "mine.md.j2")
    first, _, *rest = (sound.out / "report.md").read_text().splitlines()
    assert first.startswith("⚠️ **Unlike the base, this run** removes c11")
    assert rest == ["All is well with `tested`."]
    hidden = "<!--\n\n{{ report.comparison|terms }}\n\n-->\n"
    sound.write("mine.md.j2", hidden)
    sound.run("run", "-o", "out", "--template", "mine.md.j2")
    assert (sound.out / "report.md").read_text().startswith("⚠️ **Unlike the base")
    sound.write("mine.md.j2", "{{ report.comparison|terms }}\n")
    sound.run("run", "-o", "out", "--template", "mine.md.j2")
    assert (sound.out / "report.md").read_text().count("⚠️") == 1


def test_the_terms_of_a_merge_base_are_its_own(project: Project) -> None:
    shop = repository(project)
    suite(shop, 12)
    shop.policy(target="recorded:answers.jsonl", trials={"repeat": 2})
    shop.answers([{"case": f"c{at}", "trial": n, "response": str(at)} for at in range(12) for n in range(2)])
    commit(shop)
    loosen(shop, source="merge-base")
    commit(shop, "topic")
    finished = run(shop)
    assert finished.code == 0, finished.stderr
    assert said(shop) == [
        "removes",
        "lowers min_pass_rate from 1 to 0.5",
        "sets on_case_regression to ignore instead of confirm",
        "quarantines",
        "requires 1 of 1 passing trials instead of 2 of 2 in",
    ]
    base = read_record(shop.out / "base" / "results.json")
    assert base.own is not None
    assert base.own.gates.min_pass_rate == 1.0
    assert [case.id for case in base.own.cases] == [f"c{at}" for at in range(12)]
    # Such a record of an older version has the terms of the head alone.
    (shop.folder / "old").mkdir()
    write_results(shop.folder / "old", replace(base, own=None), decide(base))
    record = read_record(shop.out / "results.json")
    assert record.baseline is not None
    old = decide(record, Terms(base=read_record(shop.folder / "old" / "results.json"))).comparison
    assert old is not None
    assert old.terms is not None
    assert ("unknown", "cannot be compared with the base's own terms, which the base's record does not contain") in [
        (change.way, change.said) for change in old.terms.changes
    ]


def test_a_suite_beside_has_terms_of_its_own(project: Project, tmp_path: Path) -> None:
    other = Project(project.folder / "other")
    other.folder.mkdir()
    suite(other, 3)
    other.policy(target="recorded:answers.jsonl", gates={"max_flaky": 0})
    suite(project, 3, metrics=[{"type": "standard", "metric": "equality", "fail_on_error": True}])
    project.policy(target="recorded:answers.jsonl", cases={"c0": {"weight": 2}})
    finished = project.run("run", "-o", "out", "--against", "other")
    assert finished.code == 0, finished.stderr
    assert said(project) == ["switches off max_flaky (it was 0)", "gives the weight 2 instead of 1 to"]
    finished = project.run("run", "-o", "out", "--against-target", "recorded:answers.jsonl")
    assert "terms" not in project.verdict()["comparison"]
