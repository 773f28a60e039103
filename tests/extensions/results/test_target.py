"""`--target results:PATH`: stored results of another program answer a suite."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished
from tests.extensions.results.conftest import DATA, Shelf
from tests.github.fake import FakeGitHub
from tests.github.workflow import REPOSITORY, Workflow

CASES: list[dict[str, Any]] = [
    {"name": "greets", "input": "hi", "ground_truth": "ok hi"},
    {"name": "greets wrongly", "input": " hello ", "ground_truth": "good day"},
    {"name": "provider throws", "input": "boom", "ground_truth": "ok"},
    {"name": "never asked", "input": "who is there?", "ground_truth": "ok"},
    {"name": "fails", "input": "something else", "ground_truth": "ok"},
    {
        "name": "two turns",
        "turns": [{"input": "ciao", "ground_truth": "ok ciao"}, {"input": "bye", "ground_truth": "x"}],
    },
]
"""Cases for the answers of every.yaml, and what is wrong with those that cannot be judged."""
WRONG = {
    "provider throws": "the agent reports an error: Error: provider 500",
    "never asked": "results:every.json has no answer for case never asked, turn 0, trial 0",
    "fails": "the stored result with this name is of another input",
    "two turns": "results:every.json has no answer for case two turns, turn 1, trial 0",
}


def _run(shelf: Shelf, file: str, *options: str, **environ: str) -> Finished:
    return shelf.project.run("run", "--target", f"results:{file}", "-o", "out", *options, **environ)


def _errors(shelf: Shelf) -> dict[str | None, str]:
    """The first error of each case, by the case's name."""
    found: dict[str | None, str] = {}
    for case in read_record(shelf.project.folder / "out").cases:
        for turn in (turn for trial in case.trials for turn in trial.turns if turn.error is not None):
            found.setdefault(case.name, turn.error.message if turn.error else "")
    return found


def test_stored_answers_are_judged_by_the_suite_and_what_they_lack_is_an_error(shelf: Shelf, hub: FakeGitHub) -> None:
    hub.add_repository(REPOSITORY)
    shelf.project.suite(CASES)
    ended = _run(shelf, shelf.take("promptfoo/every.json"))
    assert (ended.code, "the answers are those of results of promptfoo 0.123.1" in ended.stdout) == (1, True)
    outcomes = {"greets": "passed", "greets wrongly": "failed"}
    assert shelf.outcomes() == outcomes | dict.fromkeys(WRONG, "error")
    errors = _errors(shelf)
    assert {name: sentence in errors[name] for name, sentence in WRONG.items()} == dict.fromkeys(WRONG, True), errors
    greets = read_record(shelf.project.folder / "out").cases[0].trials[0].turns[0]
    assert (greets.response, greets.usage and greets.usage.cost_usd) == ("ok hi", 0.01)
    shelf.project.suite([case for case in CASES if case["name"] != "greets wrongly"])
    assert _run(shelf, "every.json").code == 3
    shelf.project.answers([{"case": "greets", "response": "no"}])
    compared = _run(shelf, "every.json", "--against-target", "recorded:answers.jsonl", "--case", "greets")
    assert "1 case got better" in compared.stdout, compared.stdout
    step = Workflow(hub, shelf.project).job(inputs={"target": "results:every.json", "args": "--accept-stored"})
    assert (step.code, step.outputs["verdict"]) == (3, "incomplete"), step.text
    assert "have up to 2 trials of a case; without --repeat, its first ones decide" in ended.stdout
    # A case with more trials than the results has no answer to the others.
    shelf.project.suite(CASES[:1])
    assert [_run(shelf, "every.json", "--repeat", number).code for number in ("2", "3")] == [0, 3]


def test_two_results_of_one_input_are_told_apart_by_name_or_answer_nothing(shelf: Shelf) -> None:
    document = json.loads((DATA / "promptfoo" / "good.json").read_text(encoding="utf-8"))
    for row in document["results"]["results"]:
        row["prompt"]["raw"], row["vars"] = "hi", {"q": "hi"}
        row["testCase"]["vars"] = {"q": "hi"}
    shelf.project.write("twice.json", json.dumps(document))
    names = [row["testCase"]["description"] for row in document["results"]["results"]]
    shelf.project.suite([{"name": name, "input": "hi", "ground_truth": "ok hi"} for name in (names[0], "other")])
    assert _run(shelf, "twice.json").code == 3
    assert "stored results answer this input" in _errors(shelf)["other"]
    assert names[0] not in _errors(shelf)


@pytest.mark.parametrize("file", ["deepeval/run.json", "inspect/sums.eval", "junit/pytest.xml"])
def test_each_format_answers_with_what_it_has(shelf: Shelf, file: str) -> None:
    inputs = {"deepeval": "hi", "inspect": "two plus two", "junit": "test_greeting[hi-ok hi]"}
    shelf.project.suite([{"name": "one", "input": inputs[file.partition("/")[0]], "ground_truth": "x"}])
    assert _run(shelf, shelf.take(file)).code == (3 if "junit" in file else 1)
    assert _errors(shelf) == (
        {"one": "there is no answer, for a reason outside the agent: the results hold no answer"}
        if "junit" in file
        else {}
    )


@pytest.mark.proves("run: --accept-stored")
def test_files_that_are_no_evidence_and_options_without_effect_are_refused(shelf: Shelf) -> None:
    shelf.project.suite(CASES[:1])
    file = shelf.take("promptfoo/good.json")
    event = shelf.project.write("event.json", "{}")
    os.utime(event, (1_895_960_734, 1_895_960_734))
    refused = _run(shelf, file, GITHUB_EVENT_PATH=str(event))
    assert (refused.code, "--target: good.json: was written at" in refused.stderr) == (2, True)
    assert _run(shelf, file, "--accept-stored", GITHUB_EVENT_PATH=str(event)).code == 0
    assert _run(shelf, "*.json", "--accept-stored").code == 2
    shelf.project.suite([{"name": "a", "input": "never asked", "ground_truth": "b"}])
    for path, options, sentence in (
        ("none.json", (), "none.json: is of no format of the others"),
        ("none*.json", (), "none*.json: no such file"),
        ("", (), "needs the path of a results file"),
        (file, (), "has the input of a case"),
        (file, ("--cases", "3"), "--cases is about results of other programs; give them to the command gate"),
        (file, ("--pass-at", "3"), "--pass-at is about results of other programs; give them to the command gate"),
    ):
        ended = _run(shelf, path, *options)
        assert (ended.code, sentence in ended.stderr) == (2, True), ended.stderr
    shelf.project.policy(target="results:good.json")
    assert "only --target of `run` can name it" in shelf.project.run("validate").stderr
