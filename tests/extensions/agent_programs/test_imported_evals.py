"""Evaluations of skills are imported, and decide about a recorded agent as their graders would."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.commands.project import Project
from tests.extensions.agent_programs.test_programs import install

pytestmark = [pytest.mark.full, pytest.mark.needs("importers")]
ANSWER = {"type": "regex", "pattern": "wrote (notes|no)\\.txt"}
FILE = {"type": "regex", "target": {"source": "file", "path": "notes.txt"}, "pattern": "^hello"}
BASH = {"type": "tool_used", "tool": "Bash"}
# Graders, each with one that the same run does not pass. The recorded agent wrote notes.txt and ran one command.
PAIRS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (ANSWER, ANSWER | {"match": "not_contains"}),
    (ANSWER | {"pattern": "WROTE", "flags": "i"}, ANSWER | {"pattern": "WROTE"}),
    (FILE, FILE | {"match": "not_contains"}),
    (FILE | {"pattern": "bye", "match": "not_contains"}, FILE | {"target": {"source": "file", "path": "no.txt"}}),
    ({"type": "file_exists", "path": "*.txt"}, {"type": "file_exists", "path": "src/**"}),
    (
        {"type": "file_exists", "path": "src/**", "exists": False},
        {"type": "file_exists", "path": "notes.txt", "exists": False},
    ),
    (BASH, {"type": "tool_used", "tool": "Read"}),
    ({"type": "tool_used", "tool": "Read", "min": 0, "max": 0}, BASH | {"min": 0, "max": 0}),
    (BASH | {"max": 1}, {"type": "tool_used", "tool": "Read", "max": 1}),
    (BASH | {"input_match": "notes"}, BASH | {"input_match": "rm -rf"}),
    (BASH | {"input_match": "rm -rf", "min": 0, "max": 0}, BASH | {"input_match": "notes", "min": 0, "max": 0}),
]
UNFIT: dict[str, dict[str, Any]] = {
    "matches are not counted": ANSWER | {"match": "count:2"},
    "the flags m of its pattern": ANSWER | {"flags": "m"},
    "it looks at trace": ANSWER | {"target": "trace"},
    "a quantifier without an atom": ANSWER | {"pattern": "*"},
    "the order of two calls": {"type": "tool_order", "before": "Read", "after": "Write"},
    "a stored transcript": {"type": "baseline", "baseline_file": "x", "criteria": "x"},
    "its least number of calls": BASH | {"min": 2},
    "for all arguments together": {"type": "tool_used", "tool": "Write", "input_match": "x"},
    "calls that match a pattern are not counted": BASH | {"input_match": "x", "max": 1},
    "the kind new is not known": {"type": "new"},
    "it has no path": {"type": "file_exists", "exists": False},
    "it has no pattern": {"type": "regex", "match": "not_contains"},
    "it has no tool": {"type": "tool_used", "min": 0, "max": 0},
    "it looks at mock_calls": {"type": "llm", "criteria": "x", "focus": "mock_calls"},
}


def case(project: Project, name: str, graders: list[dict[str, Any]], **more: Any) -> None:
    """Write a case of the plugin in the folder `plug`."""
    project.write("plug/.claude-plugin/plugin.json", "{}")
    named = [{"name": f"g{number}", **grader} for number, grader in enumerate(graders)]
    settings = {"schema_version": "1.0", "name": name, "execution": {"prompt": "Do it. SCN=work"}, "runs": 1, **more}
    project.write(f"plug/evals/{name}/case.yaml", yaml.safe_dump({**settings, "graders": named}))


def imported(project: Project, file: str, code: int, *options: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Import cases into the folder `new`, which must be valid; return the rows and the policy file."""
    finished = project.run("import", "evals", file, "-o", "new", "--report", "rows.json", *options)
    assert finished.code == code, finished.stdout + finished.stderr
    validated = project.run("validate", "new", **install(project, "claude"), ANTHROPIC_API_KEY="none")
    assert validated.code == 0, validated.stderr
    policy: dict[str, Any] = yaml.safe_load((project.folder / "new/holodeck-action.yaml").read_text())
    return json.loads((project.folder / "rows.json").read_text()), policy


def test_graders_decide_about_a_run_as_they_say(project: Project) -> None:
    case(project, "right", [right for right, _ in PAIRS])
    for number, (_, wrong) in enumerate(PAIRS):
        case(project, f"wrong {number}", [wrong])
    rows, policy = imported(project, "plug/evals", 0)
    assert policy == {
        "target": {"agent": "claude", "workspace": "../plug", "options": {"plugin-dir": ".", "max-turns": "10"}},
        "trials": {"repeat": 1},
        "limits": {"turn_timeout_s": 300},
    }
    assert {row["outcome"] for row in rows if row["asserts"]} == {"metric", "similar"}
    policy["target"] |= {"self_check": False}
    project.write("new/holodeck-action.yaml", yaml.safe_dump(policy))
    finished, record = project.evaluate("new", **install(project, "claude"))
    assert finished.code == 1, finished.stdout + finished.stderr
    names = {each.id: each.name for each in record.cases}
    found = {names[each["id"]]: each["outcome"] for each in project.verdict()["cases"]}
    assert found == {"right": "passed"} | {f"wrong {number}": "failed" for number in range(len(PAIRS))}


def test_what_has_no_equal_is_named_and_cannot_pass(project: Project) -> None:
    settings = {"context": {"scaffold_script": "x.sh"}, "execution": {"prompt": "SCN=work", "env": {"A": "b"}}}
    case(project, "first", list(UNFIT.values()), **settings)
    case(project, "second", [ANSWER], runs=2)
    project.write("plug/evals/second/mocks/shop/orders.md", "none")
    project.write("plug/evals/third/prompt.md", "---\nallowed_tools: [Read]\nruns: 1\n---\n\n \n")
    project.write("plug/evals/third/graders/says.md", "---\r\ntype: regex\r\n---\r\nwrote\r\n")
    rows, policy = imported(project, "plug/evals", 1)
    missing = {(row["file"], row["line"], row["source"]): row["note"] for row in rows if row["outcome"] == "missing"}
    for reason, grader in UNFIT.items():
        assert any(reason in note for (_, _, source), note in missing.items() if source == grader["type"]), reason
    settings_missing = {(file.split("/")[1], source) for file, _, source in missing} - {
        ("first", grader["type"]) for grader in UNFIT.values()
    }
    assert settings_missing == {
        ("first", "context"),
        ("first", "env"),
        ("second", "runs"),
        ("second", "mocks"),
        ("third", "prompt"),
    }
    lines = (project.folder / "plug/evals/first/case.yaml").read_text().splitlines()
    # Each at its own line.
    at = [line for file, line, source in missing if source in {each["type"] for each in UNFIT.values()}]
    assert len(set(at)) == len(UNFIT)
    assert all(lines[line - 1].startswith("- ") for line in at)
    policy["target"] |= {"self_check": False}
    project.write("new/holodeck-action.yaml", yaml.safe_dump(policy))
    finished, _ = project.evaluate("new", **install(project, "claude"))
    assert finished.code == 1, finished.stderr
    assert [each["outcome"] for each in project.verdict()["cases"]] == ["failed", "failed", "error"]


SKILL = ".claude/skills/refunds/evals/evals.json"


def test_cases_of_a_skill_become_judged_cases_in_its_repository(project: Project) -> None:
    listed = [
        {"id": 1, "prompt": "Refund order 7.", "expected_output": "A receipt", "assertions": ["It names order 7"]},
        {"id": "late", "prompt": "Refund order 8.", "expected_output": "A refusal", "should_trigger": True},
        {"id": 3, "prompt": "Hi.", "should_trigger": False, "expectations": [{"type": "contains", "value": "Hi"}]},
    ]
    project.write(SKILL, json.dumps({"skill_name": "refunds", "evals": listed}))
    _, policy = imported(project, SKILL, 0)
    assert policy["target"] == {"agent": "claude", "workspace": ".."}
    suite = yaml.safe_load((project.folder / "new/agent.yaml").read_text())
    first, late, third = suite["test_cases"]
    judged = [each["expect"][-1]["metrics"][0]["criteria"] for each in (first, late)]
    assert judged == ["It names order 7", "A refusal"]
    assert late["expect"][0] == {"skill": {"used": "refunds"}}
    assert third["expect"] == [{"skill": {"never": "refunds"}}, {"contains": "Hi"}]
    # `expected_output` describes an answer, and is none to compare with.
    assert "ground_truth" not in first
    broken = [
        {"id": 1, "prompt": "Hi.", "files": ["a.csv"]},
        {"prompt": 5, "assertions": [{"a": 1}]},
        {"prompt": "Hi."},
    ]
    project.write("alone/evals/evals.json", json.dumps({"evals": broken}))
    finished = project.run("import", "evals", "alone/evals/evals.json", "-o", "third")
    assert finished.code == 1
    for told in ("the skill", "files", "no assertion", "prompt", "it is not a text"):
        assert told in finished.stdout, told
    for content, told in (("[]", "has no evals"), ('{"evals": {}}', "has no evals"), ("{", "evals.json")):
        project.write("alone/evals/evals.json", content)
        refused = project.run("import", "evals", "alone/evals/evals.json", "-o", "none")
        assert (refused.code, told in refused.stderr) == (2, True), refused.stderr
    assert "has no case" in project.run("import", "evals", "alone", "-o", "none").stderr
    project.write("alone/one/case.yaml", "graders: 5\nexecution: {prompt: Hi}\n")
    assert "graders is not a list" in project.run("import", "evals", "alone", "-o", "none").stderr
