"""The options of `compare --judge`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.project import Finished, Project
from tests.extensions.preference.shop import Shop
from tests.llm.models import KEY, FakeModels

pytestmark = pytest.mark.needs("preference")


@pytest.fixture
def shop(project: Project, models: FakeModels) -> Shop:
    """A shop with two stored runs, `base` and `out`, of which no pair is judged."""
    made = Shop(project, models)
    made.suite(2)
    made.base(["bad", "bad"])
    made.answers("head.jsonl", ["good", "good"])
    made.run("run", "--target", "recorded:head.jsonl", "-o", "out")
    assert not models.requests
    return made


def compare(shop: Shop, *flags: str) -> Finished:
    return shop.run("compare", "base", "out", "--judge", "agent.yaml", *flags)


@pytest.mark.proves("compare: --dry-run --cache --record --replay")
def test_pairs_are_planned_cached_recorded_and_replayed(shop: Shop) -> None:
    planned = compare(shop, "--dry-run")
    assert planned.code == 0, planned.stderr
    assert "4 calls of openai/judge" in planned.stdout
    assert not shop.models.requests
    recorded = compare(shop, "--record", "tape", "--cache", "kept")
    assert len(shop.models.requests) == 4
    for flags in (("--cache", "kept"), ("--replay", "tape")):
        assert compare(shop, *flags).stdout == recorded.stdout
    assert len(shop.models.requests) == 4


@pytest.mark.proves("compare: --max-tokens --max-cost-usd")
def test_a_budget_ends_the_judging(shop: Shop) -> None:
    limited = compare(shop, "--max-tokens", "10")
    assert "not all answers were compared: the budget of 10 tokens" in limited.stderr
    assert not shop.models.requests
    priced = compare(shop, "--max-cost-usd", "1")
    assert (priced.code, "the price of OpenAI model judge is unknown" in priced.stderr) == (2, True)


@pytest.mark.proves("compare: --env-file")
def test_variables_of_the_judges_suite_can_be_in_a_file(shop: Shop) -> None:
    shop.suite(2, policy={"target": "recorded:${ANSWERS}"})
    shop.project.write("variables", "ANSWERS=head.jsonl\n")
    assert [compare(shop, "--dry-run", *flags).code for flags in ((), ("--env-file", "variables"))] == [2, 0]


@pytest.mark.proves("compare: --allow-path --allow-plain-http --allow-unsafe-forks --requirements")
def test_the_suite_of_the_judge_has_the_permissions_of_any_suite(shop: Shop) -> None:
    outside = shop.project.folder.parent / f"{shop.project.folder.name}-outside"
    outside.mkdir()
    (outside / "answers.jsonl").write_text('{"case": "case 0", "response": "x"}')
    shop.suite(2, policy={"target": f"recorded:../{outside.name}/answers.jsonl"})
    found = [compare(shop, "--dry-run", *flags).stderr for flags in ((), ("--allow-path", str(outside)))]
    assert ["is outside the checkout" in text for text in found] == [True, False]
    http = {"type": "http", "url": "http://agent.example/", "headers": {"authorization": "Bearer x"}}
    shop.suite(2, policy={"target": http})
    found = [compare(shop, "--dry-run", *flags).stderr for flags in ((), ("--allow-plain-http",))]
    assert ["unencrypted to agent.example" in text for text in found] == [True, False]
    shop.project.write("checks.py", "def grade(context):\n    return True\n")
    model = {"provider": "openai", "name": "judge", "endpoint": shop.models.openai_url}
    metrics: list[dict[str, Any]] = [{"type": "code", "grader": "checks:grade"}, {"type": "preference", "model": model}]
    cases = [{"name": f"case {n}", "input": f"question {n}", "ground_truth": f"truth {n}"} for n in range(2)]
    shop.project.suite(cases, metrics)
    shop.project.policy()
    assert "gone.txt: there is no such file" in compare(shop, "--dry-run", "--requirements", "gone.txt").stderr
    fork = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "issue_comment", "OPENAI_API_KEY": KEY}
    arguments = ("compare", "base", "out", "--judge", "agent.yaml", "--dry-run")
    assert shop.project.run(*arguments, **fork).code == 2
    assert shop.project.run(*arguments, "--allow-unsafe-forks", **fork).code == 0


@pytest.mark.proves(
    "Gates: min_win_rate_lower_bound", "compare: --min-win-rate-lower-bound", "gate: --min-win-rate-lower-bound"
)
def test_other_terms_bound_the_win_rate(project: Project, models: FakeModels) -> None:
    shop = Shop(project, models)
    shop.suite(12, policy={"gates": {"min_win_rate_lower_bound": 0.9}, "baseline": {"source": "file:base"}})
    shop.answers("base.jsonl", ["bad"] * 11 + ["good"])
    project.policy()
    shop.run("run", "--target", "recorded:base.jsonl", "-o", "base")
    shop.suite(12, policy={"gates": {"min_win_rate_lower_bound": 0.9}, "baseline": {"source": "file:base"}})
    shop.answers("head.jsonl", ["good"] * 11 + ["bad"])
    assert shop.run("run", "--target", "recorded:head.jsonl", "-o", "out").code == 1
    decided = ("decide", "out/results.json", "--min-win-rate-lower-bound")
    found = [shop.run(*decided, bound) for bound in ("0.9", "0.5")]
    assert [each.code for each in found] == [1, 0], found
    compared = ("--min-win-rate-lower-bound",)
    found = [compare(shop, *compared, bound) for bound in ("0.9", "0.5")]
    assert [each.code for each in found] == [1, 0], found
