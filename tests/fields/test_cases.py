"""Every field of a case, a turn, an expected call and an overlay changes what the case is judged to be."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from holodeck_action.record.record import CaseRecord
from tests.commands.project import Project
from tests.fields.pairs import (
    ERROR,
    FAILED,
    NO_CALLS,
    PASSED,
    Entry,
    Pair,
    call,
    calls,
    chunks,
    judged_pairs,
    run_pairs,
)

EQUALITY = {"metric": "equality"}
SUITE_METRIC = {"type": "length", "max_characters": 1000}
SEARCH = calls(call("search", q="A-17"))


def context(grader: str) -> dict[str, Any]:
    """A grader that tells whether it was given what it looks for."""
    return {"evaluations": [{"type": "code", "grader": f"graders:{grader}"}]}


def tools(without: Any, given: Any, outcomes: tuple[str, str], *made: Entry) -> Pair:
    """Two values of `expected_tools`."""
    return Pair({"expected_tools": without}, {"expected_tools": given}, outcomes, reply=calls(*made))


def argument(without: Any, given: Any, outcomes: tuple[str, str]) -> Pair:
    """Two matchers for the argument of the call that is made, whose value is A-17."""
    first, second = ([{"name": "search", "args": {"q": matcher}}] for matcher in (without, given))
    return tools(first, second, outcomes, call("search", q="A-17"))


def turns(without: Entry, given: Entry, outcomes: tuple[str, str]) -> Pair:
    """A conversation of two turns whose first one differs."""
    first, second = (
        {"turns": [{"input": "?", **turn}, {"input": "!", "expected_tools": []}]} for turn in (without, given)
    )
    return Pair(first, second, outcomes)


def trajectory(without: Any, given: Any, outcomes: tuple[str, str], *made: Entry) -> Pair:
    """Two trajectories for the same calls."""
    overlays = ({"expected_trajectory": without}, {"expected_trajectory": given})
    return Pair(TRAJECTORY, TRAJECTORY, outcomes, reply=calls(*made), overlays=overlays)


def relevant(without: Any, given: Any) -> Pair:
    """Two statements of what is relevant, for a retrieval of `one` alone."""
    first, second = ({"retrieval": {"ground_truth_chunk_ids": ids}} for ids in (without, given))
    return Pair(NDCG, NDCG, (PASSED, FAILED), reply=chunks("one", "x"), overlays=(first, second))


ANY_ORDER, IN_ORDER, STRICT = ({"tools": ["a", "b"], "order": order} for order in ("any", "subset", "strict"))
RECALL = {"evaluations": [{"type": "retrieval", "metric": "recall_at_k", "threshold": 0.9}]}
NDCG = {"evaluations": [{"type": "retrieval", "metric": "ndcg_at_k", "threshold": 0.8}]}
TRAJECTORY = {"evaluations": [{"type": "trajectory"}]}

CASES = {
    "CaseEntry.ground_truth": Pair(
        {"evaluations": [EQUALITY]}, {"evaluations": [EQUALITY], "ground_truth": "Paris"}, (ERROR, PASSED)
    ),
    "CaseEntry.expected_tools": Pair({}, {"expected_tools": ["search"]}, (PASSED, FAILED)),
    "CaseEntry.expected_tools=[]": Pair({}, {"expected_tools": []}, (PASSED, FAILED), reply=SEARCH),
    "CaseEntry.retrieval_context": Pair(
        context("context_is_given"), {**context("context_is_given"), "retrieval_context": ["given"]}, (FAILED, PASSED)
    ),
    "CaseEntry.evaluations": Pair(
        {"ground_truth": "Lyon"}, {"ground_truth": "Lyon", "evaluations": [EQUALITY]}, (PASSED, FAILED)
    ),
    "CaseEntry.turns": Pair({}, {"turns": [{"input": "?"}, {"input": "!", "expected_tools": ["x"]}]}, (PASSED, FAILED)),
}
TURNS = {
    "TurnEntry.ground_truth": turns(
        {"evaluations": [EQUALITY]}, {"evaluations": [EQUALITY], "ground_truth": "Paris"}, (ERROR, PASSED)
    ),
    "TurnEntry.expected_tools": turns({}, {"expected_tools": ["search"]}, (PASSED, FAILED)),
    "TurnEntry.retrieval_context": turns(
        context("context_is_given"), {**context("context_is_given"), "retrieval_context": ["given"]}, (FAILED, PASSED)
    ),
    "TurnEntry.evaluations": turns(
        {"ground_truth": "Lyon"}, {"ground_truth": "Lyon", "evaluations": [EQUALITY]}, (PASSED, FAILED)
    ),
    "TurnEntry.turn_config": turns(
        context("config_is_given"), {**context("config_is_given"), "turn_config": {"a": [1]}}, (FAILED, PASSED)
    ),
}
CALLS = {
    "ExpectedToolEntry.name": tools([{"name": "search"}], [{"name": "find"}], (PASSED, FAILED), call("search")),
    "ExpectedToolEntry.args": tools(
        [{"name": "search"}], [{"name": "search", "args": {"q": 1}}], (PASSED, FAILED), call("search", q=2)
    ),
    "ExpectedToolEntry.count": tools(
        [{"name": "search"}], [{"name": "search", "count": 2}], (PASSED, FAILED), call("search")
    ),
    "ExpectedToolEntry.max_count": tools(
        [{"name": "search"}], [{"name": "search", "max_count": 1}], (PASSED, FAILED), call("search"), call("search")
    ),
    "ExpectedToolEntry.match=exact": tools(
        [{"name": "tract"}], [{"name": "tract", "match": "exact"}], (PASSED, FAILED), call("subtract")
    ),
    "ExpectedToolEntry.args=fuzzy": argument("a-17", {"fuzzy": "a-17"}, (FAILED, PASSED)),
    "ExpectedToolEntry.args=regex": argument("A-\\d+", {"regex": "A-\\d+"}, (FAILED, PASSED)),
    "ExpectedToolEntry.args=literal": argument("A-18", "A-17", (FAILED, PASSED)),
    "OrderedExpectation.tools": tools({"tools": ["a"]}, {"tools": ["b"]}, (PASSED, FAILED), call("a")),
    "OrderedExpectation.order=subset": tools(ANY_ORDER, IN_ORDER, (PASSED, FAILED), call("b"), call("a")),
    "OrderedExpectation.order=strict": tools(IN_ORDER, STRICT, (PASSED, FAILED), call("a"), call("x"), call("b")),
    "TrajectoryEntry.name": trajectory([{"name": "a"}], [{"name": "b"}], (PASSED, FAILED), call("a")),
    "TrajectoryEntry.args": trajectory(
        [{"name": "a"}], [{"name": "a", "args": {"x": {"fuzzy": "B"}}}], (PASSED, FAILED), call("a", x="c")
    ),
    "TrajectoryEntry.count": trajectory(
        [{"name": "a"}], [{"name": "a", "count": 2}], (FAILED, PASSED), call("a"), call("a")
    ),
}
OVERLAYS = {
    "CaseOverlay.evaluations": Pair(
        {"ground_truth": "Lyon"}, {"ground_truth": "Lyon"}, (PASSED, FAILED), overlays=({}, {"evaluations": [EQUALITY]})
    ),
    "CaseOverlay.retrieval": Pair(
        RECALL,
        RECALL,
        (ERROR, PASSED),
        reply=chunks("one"),
        overlays=({}, {"retrieval": {"ground_truth_chunk_ids": ["one"]}}),
    ),
    "RetrievalOverlay.ground_truth_chunk_ids=list": relevant(["one"], ["one", "two"]),
    "RetrievalOverlay.ground_truth_chunk_ids=gains": relevant({"one": 9, "two": 1}, {"one": 1, "two": 9}),
    "CaseOverlay.expected_trajectory": Pair(
        TRAJECTORY,
        TRAJECTORY,
        (ERROR, PASSED),
        reply=SEARCH,
        overlays=({}, {"expected_trajectory": [{"name": "search"}]}),
    ),
}
PAIRS = {**CASES, **TURNS, **CALLS, **OVERLAYS}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    return run_pairs(tmp_path_factory.mktemp("cases"), PAIRS, [SUITE_METRIC])


@pytest.mark.proves(*PAIRS, "Policy: cases", "expected_tools as names, as mappings, as a mapping with an order")
@pytest.mark.parametrize("key", PAIRS)
def test_a_field_changes_the_verdict(judged: dict[str, tuple[str, str]], key: str) -> None:
    assert judged[key] == PAIRS[key].outcomes


@pytest.mark.proves("Policy: cases", "CaseOverlay: repeat min_pass")
def test_trials_of_one_case(project: Project) -> None:
    pairs: dict[str, tuple[dict[str, int], dict[str, int]]] = {
        "CaseOverlay.repeat": ({}, {"repeat": 2}),
        "CaseOverlay.min_pass": ({"repeat": 2}, {"repeat": 2, "min_pass": 1}),
    }
    overlays = {
        f"{key} {part}": both[at] for key, both in pairs.items() for at, part in enumerate(("without", "given"))
    }
    project.suite([{"name": name, "input": "?", "ground_truth": "Paris"} for name in overlays])
    project.policy(cases=overlays)
    project.answers(
        [
            {"case": name, "trial": trial, "response": response}
            for name in overlays
            for trial, response in enumerate(("Paris", "Lyon"))
        ]
    )
    _, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert judged_pairs(record.cases, project.verdict()) == {
        "CaseOverlay.repeat": (PASSED, FAILED),
        "CaseOverlay.min_pass": (FAILED, PASSED),
    }


ECHO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    told = {key: asked[key] for key in ("name", "input", "files", "turn_config")}
    print(json.dumps({"response": json.dumps(told), "tool_invocations": []}), flush=True)
"""


def _told(case: CaseRecord) -> list[dict[str, Any]]:
    return [json.loads(turn.response or "") for turn in case.trials[0].turns]


@pytest.mark.proves("CaseEntry: name input files", "TurnEntry: input files turn_config", "FileInput: path url")
def test_what_the_agent_is_told(project: Project) -> None:
    files = [{"path": "a.txt", "type": "text"}, {"url": "https://example.org/b.pdf", "type": "pdf"}]
    project.suite(
        [
            {"name": "one", "input": "first", "files": files, "expected_tools": []},
            {"input": "second", "expected_tools": []},
            {
                "name": "talk",
                "turns": [
                    {"input": "third", "files": files[:1], "expected_tools": []},
                    {"input": "fourth", "turn_config": {"a": 1}},
                ],
            },
        ],
        [SUITE_METRIC],
    )
    project.write("echo.py", ECHO)
    project.write("a.txt", "a")
    finished, record = project.evaluate("--target", f"command:{sys.executable} echo.py")
    assert finished.code == 0
    both = ["a.txt", "https://example.org/b.pdf"]
    assert [_told(case) for case in record.cases] == [
        [{"name": "one", "input": "first", "files": both, "turn_config": {}}],
        [{"name": None, "input": "second", "files": [], "turn_config": {}}],
        [
            {"name": "talk", "input": "third", "files": ["a.txt"], "turn_config": {}},
            {"name": "talk", "input": "fourth", "files": [], "turn_config": {"a": 1}},
        ],
    ]
    assert [case.name for case in record.cases] == ["one", None, "talk"]


@pytest.mark.proves("AgentConfig: test_cases test_cases_file", "cases as a list, or as a mapping with test_cases")
def test_a_file_of_cases_takes_the_place_of_test_cases(project: Project) -> None:
    cases = [{"name": "one", "input": "?", "ground_truth": "Paris"}]
    project.answers([{"case": "one", "response": "Paris"}])
    for content in (cases, {"test_cases": cases}):
        project.suite([], test_cases=None, test_cases_file="data/cases.yaml")
        project.write("data/cases.yaml", json.dumps(content))
        finished, record = project.evaluate("--target", "recorded:answers.jsonl")
        assert finished.code == 0
        assert [case.source.file for case in record.cases] == ["data/cases.yaml"]
    project.suite(cases)
    _, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert [case.source.file for case in record.cases] == ["agent.yaml"]


@pytest.mark.proves("AgentConfig: evaluations", "EvaluationConfig: metrics", "Policy: metrics")
def test_metrics_of_the_suite_and_of_the_policy_file(project: Project) -> None:
    cases = [{"name": "one", "input": "?", "ground_truth": "Paris", "expected_tools": []}]
    project.answers([{"case": "one", "response": "Lyon", **NO_CALLS}])
    target = {"target": "recorded:answers.jsonl", "ground_truth": "unused"}
    codes = []
    for evaluations, policy in ((None, {}), ("here", {}), (None, {"metrics": [{"type": "standard", **EQUALITY}]})):
        project.suite(cases, evaluations={"metrics": [{"type": "standard", **EQUALITY}]} if evaluations else None)
        project.policy(**target, **policy)
        codes.append(project.run("run").code)
    assert codes == [0, 1, 1]
