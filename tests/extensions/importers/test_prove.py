"""`import --prove` gives promptfoo and the imported graders the same answers, and tells where they differ."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Finished, Project

STAND_IN = Path(__file__).with_name("stand_in.py")
PROGRAM = "node_modules/.bin/promptfoo"


def configured(project: Project, *assertions: dict[str, Any], output: str | None = "a liar") -> None:
    """Write a configuration whose only case has these assertions, each on a line of its own."""
    case = {"vars": {"q": "a"}, **({} if output is None else {"providerOutput": output})}
    lines = ",\n".join(json.dumps(each) for each in assertions)
    start = json.dumps({"prompts": ["{{q}}"], "providers": ["openai:gpt-4o"]})
    project.write("c.json", f'{start[:-1]}, "tests": [{json.dumps(case)[:-1]}, "assert": [\n{lines}]}}]}}\n')


def installed(project: Project, name: str = PROGRAM) -> None:
    """Put the stand-in to where npm installs promptfoo."""
    program = project.write(name, f"#!{sys.executable}\n{STAND_IN.read_text(encoding='utf-8')}")
    program.chmod(0o755)


def prove(project: Project, *arguments: str, **environ: str) -> Finished:
    return project.run("import", "promptfoo", "c.json", "--prove", *arguments, **environ)


@pytest.mark.full
@pytest.mark.proves("import.--prove", "import.--answers")
def test_each_assertion_and_answer_is_compared_without_a_model(project: Project) -> None:
    assertions = ({"type": "contains", "value": "{{q}}"}, {"type": "llm-rubric", "value": "is polite"})
    configured(project, *assertions, {"type": "not-starts-with", "value": "b"}, {"type": "starts-with", "value": 1})
    configuration = (project.folder / "c.json").read_text(encoding="utf-8").replace("{{q}}", "a")
    project.write("c.json", configuration.replace('["a"]', '["{{q}}"]'))
    project.write("answers.jsonl", '"b"\n""\n{"response": "1 b"}\n')
    installed(project)
    finished = prove(project, "--answers", "answers.jsonl", OPENAI_API_KEY="sk-of-the-job-4711")
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.stdout.splitlines() == [
        "assertion                 answer    promptfoo  here    equal",
        'c.json:2 contains         "a liar"  passes     passes  yes',
        'c.json:2 contains         "b"       fails      fails   yes',
        'c.json:2 contains         "1 b"     fails      fails   yes',
        'c.json:4 not-starts-with  "a liar"  passes     passes  yes',
        'c.json:4 not-starts-with  "b"       fails      fails   yes',
        'c.json:4 not-starts-with  "1 b"     passes     passes  yes',
        'c.json:5 starts-with      "a liar"  fails      fails   yes',
        'c.json:5 starts-with      "b"       fails      fails   yes',
        'c.json:5 starts-with      "1 b"     fails      fails   yes',
        "9 pairs: 9 equal, 0 different",
        "not compared: c.json:3 llm-rubric: it needs a model or has no equivalent",
    ]
    # No secret of the job and no folder of the user is at hand, nothing is sent, and nothing is written.
    seen = json.loads((project.folder / "node_modules/.bin/seen.json").read_text(encoding="utf-8"))
    assert "OPENAI_API_KEY" not in seen
    assert seen["HOME"] != str(project.folder / "home")
    assert (seen["PROMPTFOO_DISABLE_TELEMETRY"], seen["HTTPS_PROXY"]) == ("1", "http://127.0.0.1:9")
    assert {path.name for path in project.folder.iterdir()} <= {"c.json", "answers.jsonl", "node_modules", "home"}


@pytest.mark.full
def test_a_difference_ends_with_1(project: Project) -> None:
    configured(project, {"type": "contains", "value": "liar"}, {"type": "contains", "value": "a"})
    installed(project)
    finished = prove(project)
    assert finished.code == 1
    assert 'c.json:2 contains  "a liar"  fails      passes  NO\n' in finished.stdout
    assert "2 pairs: 1 equal, 1 different\n" in finished.stdout


@pytest.mark.full
def test_promptfoo_of_the_path_is_found_and_none_is_downloaded(project: Project, tmp_path: Path) -> None:
    configured(project, {"type": "contains", "value": "a"})
    finished = prove(project, PATH=str(tmp_path))
    assert finished.errors == [
        "--prove needs promptfoo, which is not installed: run `npm install promptfoo`; nothing is downloaded here"
    ]
    assert finished.code == 2
    installed(project, "tools/promptfoo")
    assert prove(project, PATH=str(project.folder / "tools")).code == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("exit 3", "promptfoo gave no results; run it by hand to see why"),
        ('for last; do :; done; echo "{}" > "$last"', "promptfoo gave results in an unknown form"),
        (
            'for last; do :; done; echo \'{"results": {"results": []}}\' > "$last"',
            "c.json: 1 pairs have no verdict in one of the programs",
        ),
    ],
)
def test_what_promptfoo_does_not_tell_is_no_equality(program: str, said: str, project: Project) -> None:
    configured(project, {"type": "contains", "value": "a"})
    project.write(PROGRAM, f"#!/bin/sh\n{program}\n").chmod(0o755)
    finished = prove(project)
    assert (finished.code, finished.stdout, finished.errors) == (2, "", [said])


def test_what_cannot_be_compared_is_told(project: Project) -> None:
    installed(project)
    configured(project, {"type": "contains", "value": "a"}, output=None)
    assert prove(project).errors == [
        "c.json: no assertion has a recorded answer: give cases a providerOutput, or answers with --answers"
    ]
    configured(project, {"type": "llm-rubric", "value": "a"})
    assert prove(project).errors == ["c.json: nothing can be compared: every assertion needs a model"]
    project.write("answers.jsonl", '"a"\n5\n')
    assert prove(project, "--answers", "answers.jsonl").errors == [
        'answers.jsonl:2: is not an answer (expected: a text as JSON, or {"response": text})'
    ]
    finished = project.run("import", "promptfoo", "c.json", "--answers", "answers.jsonl")
    assert finished.errors == ["--answers needs --prove"]
    finished = project.run("import", "deepeval", "c.py", "--prove")
    assert finished.errors == ["--prove compares only with promptfoo, not with deepeval; leave out --prove"]


@pytest.mark.skipif(shutil.which("promptfoo") is None, reason="promptfoo is not installed")
def test_promptfoo_itself_agrees(project: Project) -> None:
    configured(project, {"type": "regex", "value": "^.$"}, {"type": "is-json"}, {"type": "javascript", "value": "1"})
    project.write("answers.jsonl", '"\\ud83d\\ude00"\n"{}"\n"x"\n')
    finished = prove(project, "--answers", "answers.jsonl")
    assert finished.code == 0, finished.stdout + finished.stderr
