"""The value of a secret variable is written into no file: the import is refused, and says where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.project import Project

SECRET = "sk-Zq8vT2nLx4Rb7Wd1"
ENVIRON = {"SHOP_API_KEY": SECRET}
WAY_OUT = "holds the value of SHOP_API_KEY; nothing was written: write {{ env.SHOP_API_KEY }} in its place"
TEST: dict[str, Any] = {"vars": {"q": "hello"}, "assert": [{"type": "contains", "value": "hello"}]}


def configured(project: Project, **more: Any) -> None:
    whole = {"prompts": ["{{q}}"], "providers": ["echo"], "tests": [TEST], **more}
    project.write("c.yaml", json.dumps(whole, indent=1))


def lines_with(project: Project, text: str) -> list[int]:
    """The numbers of the lines of the configuration that hold a text, in any case."""
    lines = (project.folder / "c.yaml").read_text(encoding="utf-8").lower().splitlines()
    return [number for number, line in enumerate(lines, 1) if text.lower() in line]


@pytest.mark.full
@pytest.mark.parametrize(
    "configuration",
    [
        {
            "description": f"with {SECRET}",
            "prompts": [f"Use {SECRET} for {{{{q}}}}"],
            "tests": [
                {**TEST, "description": f"with {SECRET}"},
                {**TEST, "vars": {"q": f"Bearer {SECRET}"}},
                {**TEST, "providerOutput": f"your key is {SECRET}"},
                {**TEST, "assert": [{"type": "contains", "value": SECRET.upper()}]},
                {**TEST, "assert": [{"type": "python", "value": f"output == '{SECRET}'"}]},
                {**TEST, "assert": [{"type": "llm-rubric", "value": f"repeats {SECRET}"}]},
                {**TEST, "assert": [{"type": SECRET, "value": "x"}]},
            ],
        },
        {
            "providers": [
                f"exec:./ask --key {SECRET}",
                {"id": "file://ask.py", "config": {"apiKey": SECRET}},
                {"id": "openai:gpt-4o", "config": {"apiBaseUrl": f"https://shop:{SECRET}@host.example/v1"}},
                {"id": "echo", "label": f"label {SECRET}"},
                "echo",
            ]
        },
    ],
    ids=["tests", "providers"],
)
def test_a_key_is_refused_where_it_stands(configuration: dict[str, Any], project: Project) -> None:
    project.write("ask.py", "def call_api(prompt, options, context):\n    return {'output': prompt}\n")
    configured(project, **configuration)
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", "--report", "account.md", **ENVIRON)
    assert (finished.code, finished.stdout) == (2, "")
    lines = lines_with(project, SECRET)
    assert len(lines) == json.dumps(configuration).lower().count(SECRET.lower())
    assert sorted(finished.errors) == sorted(f"c.yaml:{line}: {WAY_OUT}" for line in lines)
    assert not (project.folder / "new").exists()
    assert not (project.folder / "account.md").exists()


@pytest.mark.full
def test_a_key_in_a_file_that_is_named_is_refused_there(project: Project) -> None:
    project.write("tables/rows.csv", f"q,__expected\nhello,hello\nthe key is {SECRET},{SECRET}\n")
    project.write("note.txt", f"first\nsecond {SECRET}\n")
    configured(project, tests=["file://tables/rows.csv", {**TEST, "vars": {"q": "file://note.txt"}}])
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", **ENVIRON)
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.errors == [f"tables/rows.csv:3: {WAY_OUT}", f"note.txt:2: {WAY_OUT}"]


@pytest.mark.full
def test_a_key_that_is_put_together_is_refused_where_it_would_be_written(project: Project) -> None:
    variables = {name: SECRET[5 * at : 5 * at + 5] for at, name in enumerate("abcd")}
    configured(project, prompts=["{{a}}{{b}}{{c}}{{d}}"], tests=[{**TEST, "vars": variables}])
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", **ENVIRON)
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.errors[0].startswith("new/agent.yaml:")
    assert finished.errors[0].endswith(WAY_OUT)
    assert not (project.folder / "new").exists()


@pytest.mark.full
def test_a_key_that_nothing_is_made_of_is_no_hindrance(project: Project) -> None:
    configured(project, providers=[{"id": "openai:gpt-4o", "config": {"apiKey": SECRET}}])
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", **ENVIRON)
    assert finished.code == 0
    assert SECRET not in (project.folder / "new/agent.yaml").read_text(encoding="utf-8")
    # What looks like a key is none to write, though no variable says so.
    configured(project, prompts=[f"Use {SECRET}"])
    refused = project.run("import", "promptfoo", "c.yaml", "-o", "other")
    assert refused.code == 2
    assert "c.yaml:3: holds what looks like a key" in refused.stderr


@pytest.mark.full
def test_many_places_are_counted(project: Project) -> None:
    configured(project, tests=[{**TEST, "vars": {"q": f"{SECRET} {number}"}} for number in range(13)])
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", **ENVIRON)
    assert finished.code == 2
    assert len(finished.errors) == 11
    assert finished.errors[-1] == "3 more places hold a secret"


PROVIDER = """
def call_api(prompt, options, context):
    return {"output": "opened" if options["config"] == {"keys": ["Bearer sk-Zq8vT2nLx4Rb7Wd1"]} else "closed"}
"""
PROGRAM = """
import json, sys
key, prompt, options, context = sys.argv[1:]
wanted = "sk-Zq8vT2nLx4Rb7Wd1"
print("opened" if key == wanted and json.loads(options)["config"] == {"a": wanted} else key)
"""


@pytest.mark.full
def test_the_way_out_leads_out(project: Project) -> None:
    project.write("ask.py", PROVIDER)
    project.write("program.py", PROGRAM)
    configured(
        project,
        providers=[
            {"id": "file://ask.py", "label": "one", "config": {"keys": ["Bearer {{ env.SHOP_API_KEY }}"]}},
            {
                "id": "exec:python3 program.py {{ env.SHOP_API_KEY }}",
                "label": "two",
                "config": {"a": "{{env.SHOP_API_KEY}}"},
            },
        ],
        tests=[{**TEST, "assert": [{"type": "equals", "value": "opened"}]}],
    )
    imported = project.run("import", "promptfoo", "c.yaml", "-o", "new", **ENVIRON)
    assert imported.code == 0, imported.stdout
    finished = project.run("run", "new/one", "new/two", **ENVIRON)
    assert finished.code == 0, finished.stdout + finished.stderr
    # Without the variable nothing is asked with a placeholder for a key.
    finished = project.run("run", "new/one", "new/two")
    assert finished.code == 3
    assert "SHOP_API_KEY" in finished.stdout


@pytest.mark.full
def test_a_key_in_a_test_file_of_deepeval_is_refused(project: Project) -> None:
    project.write(
        "test_shop.py",
        f"""from deepeval import *
case = LLMTestCase(input="the key?", actual_output="no",
                   expected_output="{SECRET}")
assert_test(case, [ExactMatchMetric()])
""",
    )
    finished = project.run("import", "deepeval", "test_shop.py", "-o", "new", **ENVIRON)
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.errors == [
        "test_shop.py:3: holds the value of SHOP_API_KEY; nothing was written: take it out of the file"
    ]
    assert not (project.folder / "new").exists()


@pytest.mark.full
def test_the_account_on_the_console_is_redacted(project: Project) -> None:
    prompt = {"raw": "{{q}}", "config": {SECRET: 1}}
    configured(project, prompts=[prompt], providers=["openai:gpt-4o"])
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", **ENVIRON)
    assert finished.code == 0
    assert "not used: ***; a suite has the same settings for all prompts" in finished.stdout
    # In a file it would stay.
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "other", "--report", "account.json", **ENVIRON)
    assert finished.errors == [f"c.yaml:{line}: {WAY_OUT}" for line in lines_with(project, SECRET)]
