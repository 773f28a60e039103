"""The example suites do what their README files say: exit code, failing cases, and a reason for each."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from holodeck_action.record.canonical import canonical_json
from tests.commands.project import Project

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Example:
    """What a run of an example shows: a part of the reason per failing case, by id."""

    name: str
    cases: int
    failed: dict[str, tuple[str, ...]]
    quarantined: dict[str, tuple[str, ...]] = field(default_factory=dict)


SUPPORT = Example(
    "support",
    cases=27,
    failed={
        "opened-bag-of-coffee": ("meteor 0.20, needs 0.45; f1_score 0.21, needs 0.40",),
        "return-of-a-milk-jug": ('tool start_return: order_id is "LF-20713", expected "LF-20731"',),
        "cancel-an-order": ("tool cancel_order was not called (calls: get_order)",),
        "only-asking-about-cancelling": ("call 2, 'update_subscription', is one too many",),
        "which-water-to-use": ("length: ", "77 words, more than the maximum of 60"),
        "spare-gasket": ("0 words, fewer than the minimum of 2", "meteor 0, needs 0.45"),
    },
)
FINANCIAL = Example(
    "financial",
    cases=22,
    failed={
        "base-year-confused": (
            "turn 1: ",
            "-12.39% differs from 14.14%",
            "step 1 is lookup(Kestrel Optics, net income, 2024), the program wants lookup(Kestrel Optics, ",
        ),
        "margin-change-in-basis-points": ("turn 1: ", "110 differs from 112 by 2"),
        "dividend-per-share": ("turn 0: ", "the unit is '', but must be 'USD per share'"),
    },
)
RETRIEVAL = Example(
    "retrieval",
    cases=25,
    failed={
        "phishing": ("0 of 1 relevant chunk among the first 3 of 0 retrieved", "missed: computers-2"),
        "remote-days": ("0 of 1 relevant chunk among the first 3 of 6 retrieved", "missed: computers-3"),
        "leaving-the-yard": ("both halves found 0.50, needs 1: ", "missed: leave-2"),
        "entering-a-tank": ("trajectory: 2 calls expected, 1 made",),
    },
    quarantined={"retiring-at-63": ("quarantined until 2099-12-31", "missed: pension-4")},
)
SKILL = Example(
    "skill",
    cases=8,
    failed={
        "no-refund-twice": ("1 failed: test_refund_twice",),
        "refund-in-the-ledger": ("larkfield/refunds.py was not changed", "1 failed: test_a_refund_is_a_line"),
        "a-test-that-fails": ("tests/test_orders.py must not be changed", "1 failed: test_total_with_discount"),
    },
)
ALL = [pytest.param(example, id=example.name) for example in (SUPPORT, FINANCIAL, RETRIEVAL)]


@pytest.fixture
def copied(project: Project, example: Example) -> Project:
    """The example in a folder of its own, as a user would start from it."""
    shutil.copytree(EXAMPLES / example.name, project.folder, dirs_exist_ok=True)
    return project


@pytest.mark.full
@pytest.mark.parametrize("example", [*ALL, pytest.param(SKILL, id="skill", marks=pytest.mark.needs("agent_programs"))])
def test_it_fails_where_it_is_meant_to_and_says_why(copied: Project, example: Example) -> None:
    replayed = ("--replay", "cassette") if example is SKILL else ()
    finished, record = copied.evaluate("--concurrency", "2", *replayed)
    assert finished.code == 1, finished.stderr
    outcomes = {case["id"]: case for case in copied.verdict()["cases"]}
    assert len(outcomes) == example.cases
    for outcome, expected in (("failed", example.failed), ("quarantined", example.quarantined)):
        found = {name: case["reason"] for name, case in outcomes.items() if case["outcome"] == outcome}
        assert found.keys() == expected.keys()
        missing = [(name, part) for name, parts in expected.items() for part in parts if part not in found[name]]
        assert missing == [], found
    others = {case["outcome"] for name, case in outcomes.items() if name not in example.failed | example.quarantined}
    assert others == {"passed"}
    for case in record.cases:
        if case.id in example.failed:
            assert f"✗ {case.name}  [failed]  {case.source.file}:{case.source.line}:" in finished.stdout


@pytest.mark.full
@pytest.mark.parametrize("example", ALL)
def test_the_record_does_not_depend_on_the_concurrency(copied: Project, example: Example) -> None:
    _, alone = copied.evaluate("--concurrency", "1")
    _, together = copied.evaluate("--concurrency", "16")
    assert len(alone.cases) == example.cases
    assert canonical_json(alone) == canonical_json(together)


@pytest.mark.parametrize("example", [*ALL, pytest.param(SKILL, id="skill")])
def test_its_readme_lists_the_cases_that_fail(copied: Project, example: Example) -> None:
    rows = re.findall(r"^\| (?!case |---)(.+?) \|", (copied.folder / "README.md").read_text(encoding="utf-8"), re.M)
    listed = {re.sub(r"\W+", "-", name.removesuffix(" (quarantined)").lower()) for name in rows}
    assert listed == example.failed.keys() | example.quarantined.keys()


@pytest.mark.parametrize("example", ALL)
def test_holodeck_knows_the_metrics_of_its_agent_file(copied: Project, example: Example) -> None:
    agent = yaml.safe_load((copied.folder / "agent.yaml").read_text(encoding="utf-8"))
    metrics = agent["evaluations"]["metrics"]
    assert {metric["type"] for metric in metrics} <= {"standard", "geval", "rag", "code"}
    standard = {metric["metric"] for metric in metrics if metric["type"] == "standard"}
    assert standard <= {"bleu", "rouge", "meteor", "equality", "numeric"}


@pytest.mark.parametrize("example", [pytest.param(SUPPORT, id="support")])
def test_a_tag_picks_its_cases(copied: Project, example: Example) -> None:
    _, record = copied.evaluate("--tag", "critical")
    assert {case.id for case in record.cases} == {
        "cancel-an-order",
        "only-asking-about-cancelling",
        "allergen-statement",
        "discount-by-injection",
    }


@pytest.mark.full
@pytest.mark.parametrize("example", [pytest.param(FINANCIAL, id="financial")])
def test_a_case_is_asked_as_often_as_the_policy_file_says(copied: Project, example: Example) -> None:
    _, record = copied.evaluate("--case", "asked-three-times", "--case", "current-ratio")
    assert {case.id: len(case.trials) for case in record.cases} == {"asked-three-times": 3, "current-ratio": 1}
