"""What an imported file names is read in its checkout only: no link, no pipe, nothing of Git or of the system."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Project
from tests.extensions.importers.accounts import account
from tests.extensions.importers.mutations import CANARY

pytestmark = pytest.mark.full

OUTSIDE = "is outside the checkout (allowed: files of the checkout; copy it there)"
PIPE = "is not a regular file (a pipe, a device or a socket)"
GIT = "belongs to Git's data, which may hold credentials, and is not a file of the repository"
TEST = {"vars": {"q": "hello"}, "assert": [{"type": "contains", "value": "hello"}]}
CONTENTS = {
    "txt": CANARY,
    "csv": f"q,__expected\n{CANARY},{CANARY}\n",
    "yaml": json.dumps([{**TEST, "vars": {"q": CANARY}}]),
    "json": json.dumps([{**TEST, "vars": {"q": CANARY}}]),
    "jsonl": json.dumps({**TEST, "vars": {"q": CANARY}}),
    "py": f"def get_assert(output, context):\n    return '{CANARY}'\n",
    "js": f"module.exports = () => '{CANARY}'\n",
}
LISTS: dict[str, list[Any]] = {
    "prompts": ["{{q}}", "FILE.txt", "PATH.txt", {"id": "FILE.yaml", "label": "mine"}],
    "providers": ["echo", "FILE.py", {"id": "python:PATH.py:call"}, {"id": "python:FILE.py"}],
    "scenarios": ["FILE.yaml", {"config": [{}], "tests": "FILE.csv"}],
    "tests": [
        TEST,
        {**TEST, "vars": {"q": "FILE.txt"}},
        {**TEST, "vars": "PATH.yaml"},
        {**TEST, "vars": ["FILE.yaml"]},
        "FILE.csv",
        "PATH.yaml",
        "FILE.json",
        "FILE.jsonl",
        {**TEST, "assert": ["FILE.yaml"]},
        {**TEST, "assert": [{"type": "contains", "value": "FILE.txt"}]},
        {**TEST, "assert": [{"type": "contains-any", "value": ["hello", "FILE.txt"]}]},
        {**TEST, "assert": [{"type": "is-json", "value": "FILE.json"}]},
        {**TEST, "assert": [{"type": "python", "value": "FILE.py"}]},
        {**TEST, "assert": [{"type": "javascript", "value": "FILE.js"}]},
    ],
}
"""Lists in a configuration that name files: each item with FILE or PATH is one place."""
SINGLE = """
prompts: {"PATH.txt": mine}
providers: "FILE.py"
tests: [{vars: {q: hello}, assert: [{type: contains, value: hello}]}]
"""
DEFAULTS = """
tests: "FILE.csv"
defaultTest: "FILE.yaml"
"""
WAYS: dict[str, tuple[str, str]] = {
    "up": ("../outside/secret", OUTSIDE),
    "absolute": ("HERE/outside/secret", OUTSIDE),
    "through a link": ("link", OUTSIDE),
    "through a link to a folder": ("links/secret", OUTSIDE),
    "a pattern outside": ("../outside/*", OUTSIDE),
    "a pattern through a link": ("links/s*", OUTSIDE),
    "a pattern that finds a link": ("lin[k]", OUTSIDE),
    "Git's data": (".git/secret", GIT),
    "a pipe": ("pipe", PIPE),
}


@pytest.fixture
def checkout(tmp_path: Path, project: Project) -> Project:
    """A checkout beside a folder that is none of its business, with ways out of it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = Project(tmp_path / "checkout")
    (inside.folder / ".git").mkdir(parents=True)
    for kind, text in CONTENTS.items():
        (outside / f"secret.{kind}").write_text(text)
        inside.write(f".git/secret.{kind}", text)
        (inside.folder / f"link.{kind}").symlink_to(outside / f"secret.{kind}")
        os.mkfifo(inside.folder / f"pipe.{kind}")
    (inside.folder / "links").symlink_to(outside)
    return inside


def configured(project: Project, configuration: dict[str, Any], name: str = "c.yaml") -> None:
    whole = {"prompts": ["{{q}}"], "providers": ["echo"], **configuration}
    project.write(name, json.dumps(whole))


def written(project: Project, folder: str = "new") -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((project.folder / folder).rglob("*.*")))


def named(text: str, path: str) -> str:
    return text.replace("FILE", f"file://{path}").replace("PATH", path)


def refused_lines(project: Project, text: str) -> dict[str, set[int]]:
    """Import a configuration; the lines that are refused, by the reason. Nothing that is hidden is told or written."""
    project.write("c.yaml", text)
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", "--report", "new/account.json")
    assert finished.code == 1, finished.stderr
    assert CANARY not in finished.stdout + finished.stderr + written(project)
    rows = account(project, "new")
    return {each: {row["line"] for row in rows if each in row["note"]} for each in (OUTSIDE, GIT, PIPE)}


@pytest.mark.parametrize("keys", [("prompts",), ("providers",), ("scenarios", "tests")])
def test_no_file_out_of_reach_is_read_from_lists(keys: tuple[str, ...], checkout: Project, tmp_path: Path) -> None:
    # One value of each other key is enough.
    lines = [f"{key}: {json.dumps(items[:1])}" for key, items in LISTS.items() if key not in (*keys, "scenarios")]
    expected: dict[str, set[int]] = {OUTSIDE: set(), GIT: set(), PIPE: set()}
    for key in keys:
        lines.append(f"{key}:")
        for item in map(json.dumps, LISTS[key]):
            for path, reason in WAYS.values():
                lines.append(f"- {named(item, path.replace('HERE', str(tmp_path)))}")
                if "FILE" in item or "PATH" in item:
                    expected[reason].add(len(lines))
    assert refused_lines(checkout, "\n".join(lines)) == expected


@pytest.mark.parametrize("configuration", [SINGLE, DEFAULTS], ids=["single", "defaults"])
@pytest.mark.parametrize("way", ["a pattern through a link", "Git's data", "a pipe"])
def test_no_file_out_of_reach_is_read_from_a_single_place(way: str, configuration: str, checkout: Project) -> None:
    path, reason = WAYS[way]
    text = named(configuration, path)
    found = refused_lines(checkout, text)
    assert found.pop(reason) == {number for number, line in enumerate(text.splitlines(), 1) if path in line}
    assert [*found.values()] == [set(), set()]


def test_a_key_of_the_job_reaches_no_file(checkout: Project) -> None:
    paths = ("/proc/self/environ", "../../../../../../../../proc/self/environ", "/proc/*/environ")
    configured(checkout, {"tests": [{**TEST, "vars": {"q": f"file://{path}"}} for path in paths]})
    finished = checkout.run_interpreter("import", "promptfoo", "c.yaml", "-o", "new", OPENAI_API_KEY=f"sk-{CANARY}")
    assert finished.code == 1
    for path in paths:
        assert f"the file {path} {OUTSIDE}" in finished.stdout
    assert CANARY not in finished.stdout + finished.stderr + written(checkout)


def test_templates_reach_no_file(checkout: Project) -> None:
    for text in ("{% include '../outside/secret.txt' %}", "{% import 'link.txt' as x %}", "{% extends 'link.txt' %}"):
        configured(checkout, {"tests": [{**TEST, "vars": {"q": text}}]})
        finished = checkout.run("import", "promptfoo", "c.yaml", "-o", f"new/{len(text)}")
        assert finished.code == 1
        assert "the template cannot be rendered: no loader for this environment specified" in finished.stdout
        assert CANARY not in finished.stdout + written(checkout)


def test_what_is_in_the_checkout_is_read(checkout: Project) -> None:
    checkout.write("shared/ask.txt", "Please answer: {{q}}")
    checkout.write("shared/cases/a.yaml", json.dumps([TEST]))
    checkout.write("shared/cases/deep/b.yaml", json.dumps([{**TEST, "vars": {"q": "file://../shared/hello.txt"}}]))
    checkout.write("shared/hello.txt", "hello")
    (checkout.folder / "suite").mkdir()
    (checkout.folder / "suite/ask.txt").symlink_to("../shared/ask.txt")
    # Neither of them is a way to more cases.
    (checkout.folder / "shared/cases/loop").symlink_to(".")
    (checkout.folder / "shared/cases/out").symlink_to(checkout.folder.parent / "outside")
    tests = f"file://{checkout.folder}/shared/cases/**/*.yaml"
    configured(checkout, {"prompts": ["ask.txt"], "tests": tests}, "suite/c.yaml")
    finished = checkout.run("import", "promptfoo", "suite/c.yaml", "-o", "new", "--report", "new/account.json")
    assert finished.code == 0, finished.stdout
    asserting = [(row["file"], row["cases"]) for row in account(checkout, "new") if row["asserts"]]
    assert asserting == [("../shared/cases/a.yaml", 1), ("../shared/cases/deep/b.yaml", 1)]
    assert written(checkout).count("input: 'Please answer: hello'") == 2


def test_the_imported_file_itself_may_be_anywhere(checkout: Project, tmp_path: Path) -> None:
    configured(Project(tmp_path), {"tests": "file://secret.csv"}, "outside/c.yaml")
    finished = checkout.run("import", "promptfoo", "../outside/c.yaml", "-o", "new")
    assert finished.code == 0, finished.stdout
    assert CANARY in written(checkout)
    # What it names is not read in our working folder: that is not its checkout.
    (checkout.folder / "mine.csv").write_text(CONTENTS["csv"])
    configured(Project(tmp_path), {"tests": f"file://{checkout.folder}/mine.csv"}, "outside/c.yaml")
    finished = checkout.run("import", "promptfoo", "../outside/c.yaml", "-o", "other")
    assert (finished.code, OUTSIDE in finished.stdout) == (1, True)
    finished = checkout.run("import", "promptfoo", "pipe.yaml", "-o", "other")
    assert (finished.code, finished.errors) == (2, [f"pipe.yaml: cannot be read: it {PIPE}"])


def test_a_prompt_that_looks_like_no_file_is_a_text(checkout: Project) -> None:
    configured(checkout, {"prompts": ["/help {{q}}", "/help", "../.."], "providers": ["echo"], "tests": [TEST]})
    assert checkout.run("import", "promptfoo", "c.yaml", "-o", "new").code == 0
    assert "input: /help hello" in written(checkout)
    assert "input: ../.." in written(checkout)


def test_a_schema_that_refers_to_an_address_downloads_nothing(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        schema = {"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"}
        check = {"type": "is-json", "value": schema}
        project.write(
            "c.json",
            json.dumps(
                {"prompts": ["{{q}}"], "providers": ["echo"], "tests": [{"vars": {"q": "{}"}, "assert": [check]}]}
            ),
        )
        assert project.run("import", "promptfoo", "c.json", "-o", "new").code == 0
        suite = project.folder / "new" / "agent.yaml"
        finished = project.run("run", str(suite), "-o", "out")
        with pytest.raises(TimeoutError):
            server.accept()
    assert finished.code in (1, 3), finished.stderr
