"""Conversations in configurations of promptfoo become cases with turns."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import yaml

from tests.commands.project import Project
from tests.extensions.importers.accounts import account

pytestmark = pytest.mark.full

CHAT = """[
{"role": "system", "content": "Be brief."},
{% for completion in _conversation %}
{"role": "user", "content": "{{ completion.input }}"},
{"role": "assistant", "content": "{{ completion.output }}"},
{% endfor %}
{"role": "user", "content": "{{ question }}"}
]"""
RELEVANT = {"type": "conversation-relevance", "threshold": 0.8}


def asked(question: str, conversation: str | None = None, *checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {} if conversation is None else {"metadata": {"conversationId": conversation}}
    return {"vars": {"question": question}, **metadata, "assert": list(checks), **more}


def imported(project: Project, *tests: dict[str, Any], code: int = 0, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    """Import a configuration; return agent.yaml and the account."""
    written = {"prompts": ["file://chat.json"], "providers": ["openai:gpt-4o-mini"], "tests": list(tests), **more}
    project.write("chat.json", CHAT)
    project.write("talks.yaml", yaml.safe_dump(written, sort_keys=False))
    shutil.rmtree(project.folder / "new", ignore_errors=True)
    finished = project.run("import", "promptfoo", "talks.yaml", "-o", "new", "--report", "new/account.json")
    assert finished.code == code, finished.stdout + finished.stderr
    validated = project.run("validate", "new")
    assert validated.code == 0, validated.stderr
    return yaml.safe_load((project.folder / "new" / "agent.yaml").read_text()), account(project, "new")


def test_cases_of_a_conversation_become_its_turns(project: Project) -> None:
    suite, _ = imported(
        project,
        asked("Who founded it?", "one", {"type": "contains", "value": "Ann"}, RELEVANT, description="founder"),
        asked("Where is Leeds?", "two", {"type": "contains", "value": "England"}),
        asked("Where does she live?", "one", {"type": "llm-rubric", "value": "It is a town."}, RELEVANT),
    )
    assert suite["instructions"] == {"inline": "Be brief."}
    first, second = suite["test_cases"]
    assert (first["name"], second["input"]) == ("founder", "Where is Leeds?")
    assert [turn["input"] for turn in first["turns"]] == ["Who founded it?", "Where does she live?"]
    assert first["turns"][0]["expect"] == [{"contains": "Ann"}]
    # The metric of the whole conversation moves to the last turn, once.
    assert "evaluations" not in first["turns"][0]
    rubric, relevance = first["turns"][1]["evaluations"]
    assert rubric["criteria"] == "It is a town."
    assert relevance == {
        "type": "deepeval",
        "metric": "TurnRelevancyMetric",
        "threshold": 0.8,
        "options": {"window_size": 5},
    }


def test_without_an_id_all_cases_are_one_conversation_and_each_scenario_is_its_own(project: Project) -> None:
    check = {"type": "contains", "value": "a"}
    tests = [asked("One?", None, check), asked("Two?", None, check)]
    suite, _ = imported(project, *tests)
    assert [[turn["input"] for turn in case["turns"]] for case in suite["test_cases"]] == [["One?", "Two?"]]
    scenarios = [{"config": [{}], "tests": tests}, {"config": [{}], "tests": tests[:1]}]
    suite, _ = imported(project, scenarios=scenarios)
    first, second = suite["test_cases"]
    assert (len(first["turns"]), second["input"]) == (2, "One?")


def test_a_recorded_conversation_becomes_a_transcript(project: Project) -> None:
    said = [{"input": "Where is it?", "output": "In Leeds."}, {"input": "When?", "output": "Tomorrow."}]
    check = {**RELEVANT, "config": {"windowSize": 2}}
    suite, rows = imported(project, {"vars": {"_conversation": said}, "assert": [check]})
    (case,) = suite["test_cases"]
    assert [turn["input"] for turn in case["turns"]] == ["Where is it?", "When?"]
    assert case["evaluations"][0]["options"] == {"window_size": 2}
    answers = (project.folder / "new" / "imported_answers.jsonl").read_text()
    assert answers.index("In Leeds.") < answers.index("Tomorrow.")
    assert "recorded:" in (project.folder / "new" / "holodeck-action.yaml").read_text()
    assert [row["becomes"] for row in rows if row["source"] == "conversation-relevance"] == ["TurnRelevancyMetric"]


@pytest.mark.parametrize(
    ("test", "more", "reason"),
    [
        (
            {"vars": {"_conversation": [{"input": "a"}]}, "assert": [RELEVANT]},
            {},
            "must be a list of mappings with the texts input and output",
        ),
        (
            {
                "vars": {"_conversation": [{"input": "a", "output": "b"}]},
                "assert": [{"type": "contains", "value": "a"}],
            },
            {},
            "only conversation-relevance grades _conversation",
        ),
        (asked("a?", None, RELEVANT, options={"disableConversationVar": True}), {}, "does not see the earlier ones"),
        (
            asked("a?", None, RELEVANT),
            {"prompts": ["{% for each in _conversation %}{{ each.output }}{% endfor %} {{ question }}"]},
            "does not repeat earlier cases (_conversation) as messages",
        ),
        (asked("a?", None, RELEVANT), {"providers": ["exec:cat"]}, "would get earlier cases (_conversation) twice"),
        (asked("a?", None, {**RELEVANT, "rubricPrompt": "x"}), {}, "write a geval metric with scope: conversation"),
        (
            asked("a?", None, {**RELEVANT, "config": {"windowSize": "x"}}),
            {},
            "windowSize is not a whole number above 0",
        ),
        (asked("a?", None, {**RELEVANT, "type": "not-conversation-relevance"}), {}, "cannot be negated"),
    ],
)
def test_a_conversation_that_cannot_be_turns_says_why(
    project: Project, test: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    _, rows = imported(project, test, code=1, **more)
    assert [row["outcome"] for row in rows if reason in row["note"]] == ["missing"]
