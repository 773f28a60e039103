"""The metric `preference` in runs with a base, and in `compare --judge`."""

from __future__ import annotations

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.preference.shop import Shop
from tests.llm.models import FakeModels

pytestmark = pytest.mark.needs("preference")


def test_a_judge_says_which_answer_is_better(project: Project, models: FakeModels) -> None:
    shop = Shop(project, models)
    shop.suite(3)
    shop.base(["bad", "good", "same"])
    assert not models.requests
    finished = shop.head(["good", "bad", "same"])
    assert finished.code == 0, finished.stdout + finished.stderr
    head = read_record(project.out / "results.json")
    found = [each for each in head.evaluations if each.criteria.kind == "preference"]
    assert [each.score for each in found] == [1.0, 0.0, 0.5]
    assert [each.metadata["preference"]["identical"] for each in found] == [False, False, True]
    assert len(models.requests) == 4


@pytest.mark.proves("compare: --judge")
def test_two_records_are_compared_by_the_judge_of_a_suite(project: Project, models: FakeModels) -> None:
    shop = Shop(project, models)
    shop.suite(12)
    shop.base(["bad"] * 10 + ["good", "same"])
    shop.answers("head.jsonl", ["good"] * 10 + ["bad", "same"])
    shop.run("run", "--target", "recorded:head.jsonl", "-o", "out")
    before = (project.out / "results.json").read_bytes()
    finished = shop.run("compare", "base", "out", "--judge", "agent.yaml", "--record", "tape")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert (project.out / "results.json").read_bytes() == before
    asked = len(models.requests)
    assert asked == 22
    again = shop.run("compare", "base", "out", "--judge", "agent.yaml", "--replay", "tape")
    assert again.stdout == finished.stdout
    assert len(models.requests) == asked
