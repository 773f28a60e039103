"""Test files and datasets of DeepEval are imported, validated and run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from holodeck_action.extensions.importers.deepeval.metrics import HINTS
from holodeck_action.suite.model.named_models import LARGE, SMALL
from tests.commands.project import Project
from tests.extensions.importers.accounts import account
from tests.llm.judging import asked_keys
from tests.llm.models import KEY, Answer, FakeModels

HERE = Path(__file__).parent / "deepeval"
ROOT = Path(__file__).parents[3]


def imported(project: Project, name: str, *arguments: str, code: int = 0) -> list[tuple[int, str, str, str]]:
    """Import a file into the folder `new`; return line, source, what it becomes and outcome of each row."""
    project.write(name, (HERE / name).read_bytes())
    finished = project.run("import", "deepeval", name, "-o", "new", "--report", "new/account.json", *arguments)
    assert finished.code == code, finished.stdout + finished.stderr
    validated = project.run("validate", "new")
    assert validated.code == 0, validated.stderr
    return [
        (row["line"], row["source"], row["becomes"].removeprefix("imported_graders:"), row["outcome"])
        for row in account(project, "new")
    ]


def verdicts(project: Project, code: int, **environ: str) -> dict[str, str]:
    finished, record = project.evaluate("new", **environ)
    assert finished.code == code, finished.stdout + finished.stderr
    names = {case.id: str(case.name) for case in record.cases}
    return {names[each["id"]]: each["outcome"] for each in project.verdict()["cases"]}


def suite(project: Project) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((project.folder / "new/agent.yaml").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.full
def test_answers_in_a_test_file_are_a_transcript(project: Project) -> None:
    assert imported(project, "plain.py") == [
        (5, "ExactMatchMetric", "line_5_exact_match", "grader"),
        (10, "PatternMatchMetric", "line_10_pattern_match", "grader"),
        (21, "PatternMatchMetric", "line_21_pattern_match", "grader"),
        (26, "PatternMatchMetric", "line_26_pattern_match", "grader"),
    ]
    assert verdicts(project, 1) == {
        "test_hours": "passed",
        "test_wrong_hours": "failed",
        "test_pattern": "passed",
        "test_half_a_pattern": "failed",
    }


@pytest.mark.full
def test_goldens_parameters_and_lists_make_cases(project: Project) -> None:
    rows = imported(project, "tables.py", code=1)
    # Nothing uses the cases of the comprehension.
    assert [row for row in rows if row[3] == "missing"] == [(14, "LLMTestCase", "", "missing")]
    assert verdicts(project, 1) == {
        "test_numbers 1": "passed",
        "test_numbers 2": "failed",
        "three": "passed",
        "test_list": "failed",
        "line 14: LLMTestCase": "error",
        "line 14: LLMTestCase (2)": "error",
    }


@pytest.mark.full
def test_rows_of_several_parameters_make_cases(project: Project) -> None:
    imported(project, "rows.py", code=1)
    assert verdicts(project, 1) == {
        "test_rows 1": "passed",
        "test_rows 2": "failed",
        "test_product 1": "passed",
        "test_product 2": "failed",
        "test_product 3": "failed",
        "test_product 4": "passed",
        "test_loop 1": "passed",
        "test_loop 2": "failed",
        # A row that is too short, and rows of a package that is not there.
        "test_short_row: code of the test": "error",
        "test_computed: code of the test": "error",
    }


@pytest.mark.full
def test_lists_by_name_and_expected_failures(project: Project) -> None:
    rows = imported(project, "refuses.py", code=1)
    assert [(line, source) for line, source, _, outcome in rows if outcome == "missing"] == [
        (30, "PatternMatchMetric"),
        (36, "FaithfulnessMetric"),
    ]
    contexts = {case["name"]: case.get("retrieval_context") for case in suite(project)["test_cases"]}
    assert contexts["test_one_text"] == ["We open at nine."]
    assert contexts["test_two_texts"] == ["We open at nine.", "We close at five."]
    assert contexts["test_texts_added_later"] == ["We open at nine.", "We close at five."]
    assert verdicts(project, 1) == {
        "test_one_text": "passed",
        "test_two_texts": "passed",
        "test_texts_added_later": "passed",
        "test_wrong": "failed",
        "test_not_yet": "failed",
    }


@pytest.mark.full
def test_tool_calls_are_graded_by_deepeval_itself(project: Project) -> None:
    rows = imported(project, "tools.py")
    assert {row[1:] for row in rows} == {("ToolCorrectnessMetric", "deepeval_tool_correctness", "metric")}
    assert verdicts(project, 1) == {"names": "passed", "order of names": "failed", "arguments": "failed"}


@pytest.mark.full
def test_judged_metrics_keep_their_settings(project: Project) -> None:
    rows = imported(project, "judged.py", code=1)
    assert [(source, becomes, outcome) for _, source, becomes, outcome in rows] == [
        ("GEval", "geval", "metric"),
        ("GEval", "geval", "metric"),
        ("GEval", "", "missing"),
        ("AnswerRelevancyMetric", "answer_relevancy", "metric"),
        ("FaithfulnessMetric", "faithfulness", "metric"),
        ("ContextualPrecisionMetric", "contextual_precision", "metric"),
        ("ContextualRecallMetric", "contextual_recall", "metric"),
        ("ContextualRelevancyMetric", "contextual_relevancy", "metric"),
        ("ToxicityMetric", "ToxicityMetric", "metric"),
        ("SummarizationMetric", "SummarizationMetric", "metric"),
        ("HallucinationMetric", "", "missing"),
        ("BiasMetric", "BiasMetric", "metric"),
    ]
    [case] = suite(project)["test_cases"]
    assert case["retrieval_context"] == ["We open at nine."]
    helpful, right = case["evaluations"][:2]
    assert helpful == {
        "type": "geval",
        "name": "Helpful",
        "criteria": "The answer helps.",
        "evaluation_params": ["input", "actual_output"],
        "threshold": 0.7,
        "model": {"provider": "openai", "name": "gpt-4.1"},
    }
    assert right["evaluation_steps"] == ["Read both.", "Compare them."]
    assert right["strict_mode"] is True
    thresholds = {entry["metric_type"]: entry["threshold"] for entry in case["evaluations"] if entry["type"] == "rag"}
    assert thresholds == {
        "answer_relevancy": 0.6,
        "faithfulness": 1.0,
        "contextual_precision": 0.5,
        "contextual_recall": 0.4,
        "contextual_relevancy": 0.5,
    }
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda request: Answer("I would rather not say."))
        found = verdicts(project, 1, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=models.openai_url)
        assert {request.model for request in models.requests} == {SMALL, "gpt-4.1"}
    # What has no equal fails the case, whatever the judges say.
    assert found == {"test_answer": "failed"}


@pytest.mark.full
@pytest.mark.needs("deepeval")
def test_every_metric_of_deepeval_has_the_equal_that_the_page_names(project: Project) -> None:
    from holodeck_action.extensions.deepeval.catalogue import metric_names

    page = (ROOT / "docs" / "importing.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `(\w+)` \| (.+) \|$", page.partition("| no equivalent | what to do |")[2].partition("\n\n")[0], re.M
    )
    assert dict(rows) == HINTS
    names = [name for name in metric_names() if name.endswith("Metric")]
    assert len(names) > 40
    first = {"PatternMatchMetric": "pattern='a', "}
    source = (
        "from deepeval import assert_test\nfrom deepeval.metrics import *\nfrom deepeval.test_case import LLMTestCase\n"
    )
    source = source.replace("import *", f"import {', '.join(names)}", 1)
    checks = [f"{name}({first.get(name, '')}threshold=0.5)" for name in names]
    case = "LLMTestCase(input='q', actual_output='a', expected_output='a')"
    source += f"\ndef test_all():\n    assert_test({case}, [{', '.join(checks)}])\n"
    project.write("all.py", source)
    finished = project.run("import", "deepeval", "all.py", "-o", "new", "--report", "new/account.json")
    assert finished.code == 1, finished.stderr
    missing = {row["source"]: row["note"] for row in account(project, "new") if row["outcome"] == "missing"}
    others = {name: note for name, note in missing.items() if name not in HINTS}
    assert {name for name in names if name in missing} == (HINTS.keys() & {*names}) | others.keys()
    # Of the rest a suite lacks something, such as speech, or the test file leaves out a required argument.
    told = (
        "cannot be used: it grades",
        "cannot be used: it needs MCP",
        "is missing (required)",
        "no literal expected_tools",
    )
    assert {name: note for name, note in others.items() if not any(words in note for words in told)} == {}
    assert len(names) - len(missing) > 25


@pytest.mark.full
def test_what_only_running_the_code_tells_is_told_with_its_line(project: Project) -> None:
    rows = imported(project, "dynamic.py", code=1)
    assert [(line, source) for line, source, _, outcome in rows if outcome == "missing"] == [
        (20, "PatternMatchMetric"),
        (21, "LLMTestCase"),
        (26, "actual_output"),
        (27, "LengthMetric"),
        (31, "input"),
        (32, "metrics of assert_test"),
        (38, "actual_output"),
        (41, "assert"),
        (42, "code of the test"),
    ]
    # Nothing answers in the place of the application.
    assert set(verdicts(project, 1).values()) <= {"failed", "error"}
    shutil.rmtree(project.folder / "new")
    imported(project, "dynamic.py", "--allow-missing")
    assert not [case for case in suite(project)["test_cases"] if "not_imported" in str(case)]


@pytest.mark.full
def test_conversations_become_turns_that_deepeval_grades(project: Project) -> None:
    rows = imported(project, "conversations.py")
    assert rows == [(16, "ConversationCompletenessMetric", "ConversationCompletenessMetric", "metric")]
    [case] = suite(project)["test_cases"]
    assert [turn["input"] for turn in case["turns"]] == ["Where is A-17?", "And when does it arrive?"]
    wishes = {"intentions": ["to know where it is"], "verdict": "no", "reason": "it was not told"}
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda request: Answer(json.dumps({key: wishes[key] for key in asked_keys(request)})))
        found = verdicts(project, 1, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=models.openai_url)
        assert len(models.requests) == 3
    assert set(found.values()) == {"failed"}


SAID = [
    {"role": "user", "content": "Where is A-17?"},
    {
        "role": "assistant",
        "content": "In Leeds.",
        "retrieval_context": ["A-17: Leeds"],
        "tools_called": [{"name": "find", "input_parameters": {"id": "A-17"}}],
    },
]
CONSTRUCTED = """
from deepeval import evaluate
from deepeval.metrics import TurnFaithfulnessMetric
from deepeval.test_case import ConversationalTestCase, ToolCall, Turn

found = ToolCall(name="find", input_parameters={"id": "A-17"})
answer = Turn(role="assistant", content="In Leeds.", retrieval_context=["A-17: Leeds"], tools_called=[found])
talk = ConversationalTestCase(
    turns=[Turn(role="user", content="Where is A-17?"), answer], expected_outcome="The user knows the place."
)
evaluate([talk], [TurnFaithfulnessMetric()])
"""
GOLDEN = {"scenario": "A user looks for a parcel.", "expected_outcome": "The user knows the place."}


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "content", "code"),
    [
        ("test_talk.py", CONSTRUCTED, 0),
        ("talks.json", json.dumps([{**GOLDEN, "turns": SAID}]), 1),
        ("talks.json", json.dumps([{**GOLDEN, "turns": json.dumps(SAID)}]), 1),
    ],
)
def test_turns_keep_what_was_retrieved_called_and_expected(
    project: Project, file: str, content: str, code: int
) -> None:
    project.write(file, content)
    finished = project.run("import", "deepeval", file, "-o", "new")
    assert finished.code == code, finished.stderr
    [case] = suite(project)["test_cases"]
    assert (case["input"], case["ground_truth"]) == ("Where is A-17?", "The user knows the place.")
    assert case["retrieval_context"] == ["A-17: Leeds"]
    [row] = map(json.loads, (project.folder / "new" / "imported_answers.jsonl").read_text().splitlines())
    assert (row["response"], row["tool_invocations"]) == ("In Leeds.", [{"name": "find", "args": {"id": "A-17"}}])


@pytest.mark.full
@pytest.mark.parametrize("turns", [None, "{", [SAID[1]], [SAID[0], {"role": "assistant", "content": 7}]])
def test_a_golden_without_turns_that_alternate_says_what_to_write(project: Project, turns: object) -> None:
    # A golden with a scenario has a user to simulate (below).
    project.write("talks.json", json.dumps([{"context": ["A-17: Leeds"], "turns": turns}]))
    finished = project.run("import", "deepeval", "talks.json")
    assert finished.code == 1
    assert "it has neither an input nor turns of user and assistant in turn" in finished.stdout


@pytest.mark.full
@pytest.mark.parametrize(("name", "cases"), [("goldens.json", 2), ("goldens.csv", 1)])
def test_datasets_have_cases_and_no_metrics(name: str, cases: int, project: Project) -> None:
    rows = imported(project, name, code=1)
    assert {row[1:] for row in rows} == {("no metric", "", "missing")}
    written = suite(project)["test_cases"]
    assert len(written) == cases
    assert written[0]["ground_truth"] == "At nine."
    assert written[0]["retrieval_context"] == (["We open at nine."] if name == "goldens.json" else ["one", "two"])
    assert set(verdicts(project, 1).values()) == {"failed"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("test_x.py", "def test(:\n", "test_x.py:1:1: is not Python"),
        ("test_x.py", "x = 1\n", "test_x.py: has no test case"),
        ("test_x.txt", "", "test_x.txt: is not a test file or dataset of DeepEval"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused(name: str, content: str, said: str, project: Project) -> None:
    project.write(name, content)
    finished = project.run("import", "deepeval", name, "-o", "new")
    assert (finished.code, finished.stdout) == (2, "")
    assert said in finished.stderr
    assert not (project.folder / "new").exists()


@pytest.mark.full
@pytest.mark.needs("simulation")
def test_conversational_goldens_become_simulated_users(project: Project) -> None:
    rows = imported(project, "simulated.py", code=1)
    assert [row[1:] for row in rows] == [("no metric", "", "missing")] * 2
    first, second = suite(project)["test_cases"]
    model = {"provider": "openai", "name": LARGE}
    assert first["simulate"] == {
        "scenario": "Ada wants her money back for a kettle.",
        "user_description": "Ada, in a hurry.",
        "expected_outcome": "The 30 euros are refunded.",
        "model": model,
    }
    assert (second["name"], second["simulate"]) == ("Bo", {"scenario": "Bo asks for a grinder.", "model": model})


@pytest.mark.full
@pytest.mark.needs("simulation")
def test_a_dataset_of_conversational_goldens_becomes_simulated_users(project: Project) -> None:
    goldens = [
        {"scenario": "Ada wants money.", "expectedOutcome": "She gets it.", "userDescription": "Ada", "turns": []},
        {"scenario": "Bo asks.", "turns": [{"role": "user", "content": "Hello"}]},
    ]
    project.write("goldens.json", json.dumps(goldens))
    finished = project.run("import", "deepeval", "goldens.json", "-o", "new")
    assert finished.code == 1, finished.stderr
    assert project.run("validate", "new").code == 0
    first, second = suite(project)["test_cases"]
    assert {**first["simulate"], "model": ""} == {
        "scenario": "Ada wants money.",
        "user_description": "Ada",
        "expected_outcome": "She gets it.",
        "model": "",
    }
    assert second["simulate"]["scenario"] == "Bo asks."
    assert "put the user's messages into user_script" in finished.stdout + finished.stderr


@pytest.mark.full
def test_the_documented_loop_over_goldens_imports(project: Project) -> None:
    project.write(
        "shop/__init__.py", "import torch\nNAMES = ['tea', 'kettle']\ndef answer(name): return name.upper()\n"
    )
    shared = "import pytest\nfrom deepeval.metrics import AnswerRelevancyMetric\n"
    project.write("conftest.py", f"{shared}@pytest.fixture\ndef relevant(): return AnswerRelevancyMetric()\n")
    rows = imported(project, "loop.py", code=1)
    assert rows == [
        (4, "AnswerRelevancyMetric", "answer_relevancy", "metric"),
        (16, "ExactMatchMetric", "line_16_exact_match", "grader"),
        (28, "code of the test", "", "missing"),
        (28, "ExactMatchMetric", "", "missing"),
        (31, "code at the top level", "", "missing"),
    ]
    cases = {case["name"]: len(case["evaluations"]) for case in suite(project)["test_cases"]}
    assert cases == {
        "line 31: code at the top level": 1,
        "test_shop 1": 2,
        "test_shop 2": 2,
        "test_golden: code of the test": 1,
    }


@pytest.mark.full
def test_a_file_that_ends_its_process_is_not_imported(project: Project) -> None:
    project.write("ends.py", "import os\nos._exit(3)\n")
    finished = project.run("import", "deepeval", "ends.py", "-o", "new")
    told = "ends.py: running it ended with code 3 before its tests; run it by hand to see why"
    assert (finished.code, finished.errors) == (2, [told])
