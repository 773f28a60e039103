"""Suites whose judges grade whole conversations, from the run to the comment."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.decide.decision import decide
from holodeck_action.github.case_annotations import annotate, passing_keys
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.record.result_files import read_record
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.report_building import build_report
from tests.commands.project import Finished, Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub, Repository, Token
from tests.github.workflow import REPOSITORY
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.llm.models.values import Reply
from tests.record.records import conversation, evaluation, resealed, turn
from tests.record.records import record as a_record

pytestmark = pytest.mark.needs("deepeval")
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn")
TOKEN = "ghp_0123456789abcdefABCDEF0123456789abcd"
FORGOT = "Who are you?"
_FORGOTTEN = re.compile(r'"turn": (\d),\s+"role": "assistant",\s+"content": "Who are you\?"')
MEMORY = {
    "type": "geval",
    "name": "Memory",
    "criteria": "The agent uses what the user said.",
    "evaluation_steps": ["Look for what the agent forgot."],
    "evaluation_params": ["input", "actual_output"],
    "threshold": 0.5,
    "scope": "conversation",
}


class Script:
    """An agent that forgets the name of `forgets` in turn 1 and fails `broken` there, and a judge who finds that."""

    def __init__(self, forgets: str = "", broken: str = "") -> None:
        self.forgets, self.broken = forgets, broken

    def __call__(self, request: Request) -> Reply:
        if request.model == "agent":
            name, _, said = request.text.partition(": ")
            if name == self.broken and said == "book a room":
                return Fault(status=400, body={"error": {"message": "no such model", "type": "invalid_request_error"}})
            return FORGOT if name == self.forgets and said == "book a room" else f"Yes, {name}."
        found = _FORGOTTEN.search(request.text)
        verdict = {"score": 10, "reason": "Every answer uses the name."}
        if found is not None:
            verdict = {"score": 0, "reason": f"In turn {found[1]} the agent asks for a name that it knows."}
        return Answer(json.dumps(verdict))


@pytest.fixture
def inn(project: Project, models: FakeModels) -> Project:
    """A suite of six conversations of three turns each."""
    project.write(".git/HEAD", f"{HEAD}\n")

    def model(name: str) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": models.openai_url, "api_key": KEY}

    says = ("hello", "book a room", "thanks")
    cases = [{"name": name, "turns": [{"input": f"{name}: {said}"} for said in says]} for name in NAMES]
    project.suite(cases, model=model("agent"), evaluations={"model": model("judge"), "metrics": [MEMORY]})
    models.answer(Script())
    assert project.run("run", "-o", "base").code == 0
    return project


def case_of(record: Record, name: str) -> CaseRecord:
    return next(case for case in record.cases if case.name == name)


def line_of(project: Project, text: str) -> int:
    lines = (project.folder / "agent.yaml").read_text().splitlines()
    # A turn begins at the line of its brace.
    return next(number for number, line in enumerate(lines) if text in line)


@pytest.fixture
def comment_on(hub: FakeGitHub, inn: Project) -> Callable[[str], str]:
    """Publishes results on a pull request, and returns the comment."""
    repository: Repository = hub.add_repository(REPOSITORY)
    repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic")
    hub.add_token(TOKEN, Token("alice", "classic", {"pull_requests": "write", "issues": "write"}))

    def publish(results: str) -> str:
        asked = ("--repository", REPOSITORY, "--pull-request", "7")
        ended: Finished = inn.run("publish", results, *asked, GITHUB_TOKEN=TOKEN, GITHUB_API_URL=hub.url)
        assert "comment: " in ended.stdout, ended.stdout + ended.stderr
        return str(repository.comments(7)[-1]["body"])

    return publish


@pytest.mark.full
def test_six_conversations_from_a_live_run_to_the_comment(
    inn: Project, models: FakeModels, comment_on: Callable[[str], str]
) -> None:
    models.answer(Script(forgets="Dan"))
    inn.policy(baseline={"source": "file:base/results.json"})
    asked = ("run", "--record", "tape", "-o")
    live = inn.run(*asked, "out", "--repeat", "2")
    assert live.code == 1, live.stdout + live.stderr
    record = read_record(inn.out / "results.json")
    trials = [trial for case in record.cases for trial in case.trials]
    # Each trial has one evaluation of its conversation, beside its turns.
    assert [(len(trial.turns), len(trial.evaluations)) for trial in trials] == [(3, 1)] * 11
    assert not any(turn.evaluations for turn in record.turns)
    written = json.loads((inn.out / "results.json").read_bytes())
    assert (written["schema_version"], [*written["cases"][0]["trials"][0]][-1]) == (3, "evaluations")

    # It replays byte for byte, without a model.
    models.answer(lambda request: pytest.fail("a replay calls no model"))
    assert inn.run("run", "--replay", "tape", "-o", "again", "--repeat", "2").code == 1
    again = read_record(inn.folder / "again" / "results.json")
    assert canonical_json(again) == canonical_json(record)
    for run in ("out", "again"):
        assert inn.run("report", run, "--format", "csv", "-o", f"{run}.csv").code == 0
    assert (inn.folder / "out.csv").read_bytes() == (inn.folder / "again.csv").read_bytes()

    # It is compared with the base: the conversation got worse, at the turn that the judge names.
    comparison = inn.verdict()["comparison"]
    (worse,) = comparison["regressed"]
    assert (worse["title"], worse["turn"], worse["question"]) == ("Dan", 1, "Dan: book a room")
    assert (worse["before"], worse["after"]) == ("Yes, Dan.", FORGOT)
    (step,) = worse["steps"]
    assert (step["conversation"], step["named_turn"], step["base"], step["head"]) == (True, 1, 1.0, 0.0)
    compared = inn.run("compare", "base", "out")
    assert compared.code == 1
    assert "conversation, turn 1: Memory 1.00 → 0.00, needs 0.50" in compared.stdout

    # The judge grades it again.
    rejudged = inn.run("rejudge", "out/results.json", "-o", "rejudged", "--replay", "tape")
    assert rejudged.code == 1, rejudged.stderr
    graded = read_record(inn.folder / "rejudged" / "results.json")
    assert [trial.evaluations[0].score for case in graded.cases for trial in case.trials] == [
        trial.evaluations[0].score for trial in trials
    ]

    # The comment shows the turn at which the agent went wrong, with a link to its line.
    shown = comment_on("out")
    reason = "Memory 0, needs 0.50: In turn 1 the agent asks for a name that it knows."
    assert reason in shown
    line = line_of(inn, "Dan: book a room")
    assert re.search(
        rf"> Dan: book a room \(turn 1 of 3, counted from 0\) · \[[^]]+\]\([^)]+agent\.yaml#L{line}\)", shown
    )
    assert f"got: {FORGOT}" in shown


def test_reports_show_a_conversation_at_its_case(inn: Project, models: FakeModels) -> None:
    models.answer(Script(forgets="Dan"))
    ended, record = inn.evaluate("--verbose")
    assert ended.code == 1
    problem = "Memory 0, needs 0.50: In turn 1 the agent asks for a name that it knows."
    assert f"conversation: {problem}" in ended.stdout
    assert case_of(record, "Dan").trials[0].evaluations[0].score == 0
    place = f"agent.yaml:{line_of(inn, 'Dan: book a room')}"
    markdown = (inn.out / "report.md").read_text()
    assert problem in markdown
    assert "> Dan: book a room (turn 1 of 3, counted from 0)" in markdown
    junit = (inn.out / "junit.xml").read_text()
    assert f"conversation: {problem}" in junit
    assert f"turn 1: {place}" in junit
    rows = inn.run("report", "out", "--format", "csv").stdout.splitlines()
    assert len([row for row in rows if ",0,,Memory," in row]) == len(NAMES)
    (failed,) = [case for case in inn.verdict()["cases"] if case["outcome"] == "failed"]
    assert failed["trials"][0]["conversation"]["others"][0]["name"] == "Memory"
    assert failed["reason"] == f"conversation: {problem}"


def test_an_annotation_is_at_the_turn_that_the_judge_names(inn: Project, models: FakeModels) -> None:
    models.answer(Script(forgets="Dan"))
    record = inn.evaluate()[1]
    (found,) = annotate([conclude(record).report])
    assert (found.path, found.line) == ("agent.yaml", line_of(inn, "Dan: book a room"))
    assert found.title == "FAILED Dan turn 1 · Memory 0, needs 0.50: In turn 1 the agent asks for a name that it knows."
    assert f"answer: {FORGOT}" in found.message
    # The next run, in which nothing is forgotten, resolves it.
    models.answer(Script())
    assert found.key in passing_keys([conclude(inn.evaluate()[1]).report])


@pytest.mark.parametrize(
    ("explanation", "named"),
    [("turn 1 is rude", 1), ("Turn 1 and turn 2 are rude", None), ("turn 7 is rude", None), ("turns 1 and 2", None)],
)
def test_only_a_single_turn_of_the_conversation_is_named(explanation: str, named: int | None) -> None:
    turns = [turn(index=index) for index in range(3)]
    made = a_record(conversation(evaluation(0.0, explanation=explanation), turns=turns))
    (case,) = build_report(made, decide(made)).attention
    assert case.conversation is not None
    assert case.conversation.named_turn == named


def test_a_turn_in_error_makes_the_conversation_an_error_in_each_trial(
    inn: Project, models: FakeModels, comment_on: Callable[[str], str]
) -> None:
    models.answer(Script(broken="Eve"))
    ended, record = inn.evaluate("--repeat", "2")
    assert ended.code == 3, ended.stdout + ended.stderr
    trials = case_of(record, "Eve").trials
    assert [[each.status for each in trial.evaluations] for trial in trials] == [["pending"]] * 2
    assert [turn.skipped is None for turn in trials[0].turns] == [True, True, False]
    (found,) = [case for case in inn.verdict()["cases"] if case["outcome"] == "error"]
    assert [trial["conversation"]["outcome"] for trial in found["trials"]] == ["error", "error"]
    assert inn.verdict()["metrics"]["Memory"]["errors"] == 2
    reason = "Memory not evaluated: not run: turn 1 of the conversation failed"
    assert "no such model" in (inn.out / "report.md").read_text()
    assert f"conversation: {reason}" in (inn.out / "junit.xml").read_text()
    # The comment has the cause, and not what follows from it.
    shown = comment_on("out")
    assert "no such model" in shown
    assert reason not in shown


def as_version_2(results: Path) -> str:
    """A results file as version 2 wrote it: with the evaluations of the conversation in the last turn."""
    document = json.loads(results.read_bytes())
    document["schema_version"] = 2
    for trial in (trial for case in document["cases"] for trial in case["trials"]):
        trial["turns"][-1]["evaluations"] += trial.pop("evaluations")
    return resealed({name: value for name, value in document.items() if name != "record_digest"})


def test_records_of_version_2_are_read_as_if_this_version_had_written_them(inn: Project, models: FakeModels) -> None:
    models.answer(Script(forgets="Dan"))
    record = inn.evaluate()[1]
    for run in ("base", "out"):
        inn.write(f"old-{run}/results.json", as_version_2(inn.folder / run / "results.json"))
    assert canonical_json(read_record(inn.folder / "old-out")) == canonical_json(record)

    def compared(base: str, head: str) -> dict[str, Any]:
        shown = json.loads(inn.run("compare", base, head, "--format", "json").stdout)
        for side in ("base", "head"):
            # It names the path and the time of the run.
            del shown["comparison"][side]
        return dict(shown)

    expected = compared("base", "out")
    assert [case["title"] for case in expected["comparison"]["regressed"]] == ["Dan"]
    for base, head in (("old-base", "out"), ("base", "old-out"), ("old-base", "old-out")):
        assert compared(base, head) == expected
    assert inn.run("decide", "old-out").stdout == inn.run("decide", "out").stdout
