"""A judge that passes and fails the same answer: counted in reports, and an error if the policy requires it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels, Reply, Request

CASES = 6


class Wavering:
    """A judge that gives the opposite verdict when it is asked about one case again."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Reply:
        self.asked[request.text] += 1
        refuses = self.about in request.text and self.asked[request.text] % 2 == 0
        return Answer(json.dumps({"reason": "so it is", "verdict": "yes" if refuses else "no"}))


def model_of(models: FakeModels, name: str) -> dict[str, str]:
    return {"provider": "openai", "name": name, "endpoint": models.openai_url, "api_key": KEY}


def write(project: Project, models: FakeModels, *, judges: dict[str, object]) -> None:
    cases = [{"name": f"case {number}", "input": f"question {number}"} for number in range(CASES)]
    project.suite(cases, [{"type": "refusal"}], model=model_of(models, "judge"))
    rows = [{"case": f"case {n}", "trial": trial, "response": f"answer {n}"} for n in range(CASES) for trial in (0, 1)]
    # The last case has different answers, which are no repeated prompts.
    rows[-1]["response"] = "another answer"
    project.answers(rows)
    trials = {"repeat": 2, "min_pass": 1, "stop_when_decided": False}
    project.policy(target="recorded:answers.jsonl", trials=trials, judges=judges)


@pytest.mark.proves("SuiteJudges: consistent")
@pytest.mark.parametrize("consistent", ["report", "require"])
def test_a_judge_that_contradicts_itself_is_counted_and_refused_if_required(
    project: Project, models: FakeModels, consistent: str
) -> None:
    models.answer(Wavering("answer 3"))
    write(project, models, judges={"consistent": consistent})
    finished, record = project.evaluate()
    sentence = "the judge contradicted itself on 1 of 5 repeated prompts"
    assert f"refusal: {sentence}" in finished.stdout
    assert project.verdict()["contradictions"] == [{"metric": "refusal", "contradicted": 1, "repeated": 5}]
    errors = [each for each in evaluations(record) if each.error is not None]
    if consistent == "report":
        assert (finished.code, errors) == (0, []), finished.stdout
    else:
        assert finished.code == 3, finished.stdout
        assert {each.error.code for each in errors if each.error} == {"contradicted"}
        assert [each.score for each in errors] == [None, None]
        assert [case.id for case in record.cases if any(each.error for each in case.evaluations)] == ["case-3"]
    page = project.run("report", "out", "--format", "markdown")
    assert sentence in page.stdout, page.stderr


def test_a_consistent_judge_is_not_mentioned(project: Project, models: FakeModels) -> None:
    models.answer(Wavering("no case"))
    write(project, models, judges={"consistent": "require"})
    finished, _ = project.evaluate()
    assert (finished.code, "contradicted" in finished.stdout) == (0, False), finished.stdout
    assert "contradictions" not in project.verdict()


@pytest.mark.full
def test_one_judge_of_a_panel_may_contradict_itself(project: Project, models: FakeModels) -> None:
    wavering = Wavering("answer 3")
    models.answer(lambda request: wavering(request) if request.model == "second" else Wavering("none")(request))
    panel = [model_of(models, name) for name in ("first", "second", "third")]
    write(project, models, judges={"models": panel, "consistent": "require"})
    finished, _ = project.evaluate()
    assert finished.code == 3, finished.stdout
    assert project.verdict()["contradictions"] == [{"metric": "refusal", "contradicted": 1, "repeated": 15}]


@pytest.mark.full
def test_a_record_graded_again_is_held_to_the_same_rule(project: Project, models: FakeModels) -> None:
    models.answer(Wavering("answer 3"))
    write(project, models, judges={"consistent": "require"})
    first, record = project.evaluate()
    again = project.run("rejudge", "out", "-o", "again")
    assert (first.code, again.code) == (3, 3), again.stdout + again.stderr
    found = read_record(Path(project.folder / "again" / "results.json"))
    assert sum(each.error is not None for each in evaluations(found)) == 2
    assert sum(each.error is not None for each in evaluations(record)) == 2


@pytest.mark.full
def test_a_run_that_no_longer_requires_consistency_is_laxer_than_its_base(project: Project, models: FakeModels) -> None:
    models.answer(Wavering("no case"))
    write(project, models, judges={"consistent": "require"})
    assert project.run("run", "-o", "base").code == 0
    write(project, models, judges={})
    finished, _ = project.evaluate("--baseline", "file:base")
    assert "sets judges.consistent to report instead of require" in finished.stdout, finished.stdout
