"""Below an error stands the line that it is about, with a caret, and nothing secret or obeyed in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.commands.project import Finished, Project
from tests.commands.test_streams import HOSTILE, no_line_is_obeyed, on_a_terminal
from tests.tables import walk

SUITE = """\
name: tested
model: {provider: openai, name: gpt-4o}
instructions: {inline: Answer.}
evaluations: {metrics: [{type: standard, metric: equality}]}
test_cases:
  - {name: one, input: q, ground_truth: q}
"""


def shown(finished: Finished) -> list[str]:
    """The lines of excerpts."""
    return [line for line in finished.stderr.splitlines() if re.match(r" *\d* \| ", line)]


def broken(project: Project, old: str, new: str) -> Finished:
    assert old in SUITE
    project.write("agent.yaml", SUITE.replace(old, new))
    finished = project.run("validate")
    assert finished.code == 2, finished.stdout
    return finished


def test_the_line_of_an_error_is_shown_with_a_caret_below_its_place(project: Project) -> None:
    finished = broken(project, "ground_truth: q", "tgas: [a], 漢字: 3")
    assert finished.stderr.splitlines() == [
        'error: agent.yaml:6:27: test_cases[0].tgas: unknown key (allowed: evaluations, expect, expected_tools, files, ground_truth, ground_truths, input, name, retrieval_context, simulate, turns) (case "one")',  # noqa: E501
        "    6 |   - {name: one, input: q, tgas: [a], 漢字: 3}",
        "      |                           ^^^^",
        'error: agent.yaml:6:38: test_cases[0].漢字: unknown key (allowed: evaluations, expect, expected_tools, files, ground_truth, ground_truths, input, name, retrieval_context, simulate, turns) (case "one")',  # noqa: E501
        # Each of the two signs takes two columns.
        "    6 |   - {name: one, input: q, tgas: [a], 漢字: 3}",
        "      |                                      ^^^^",
    ]


@walk("sign", ["0a1b9f3c", "0123456789", '" ', "' ", " ", "-", "abcXyz"])
def test_the_line_of_an_error_may_be_long(project: Project, sign: str) -> None:
    """With anything quadratic, one of these would run into the timeout of the test run."""
    assert "agent.yaml:6:" in broken(project, "ground_truth: q", f"tgas: a, b: {sign * 15_000}").stderr


def test_a_place_at_the_end_of_a_line_has_one_caret(project: Project) -> None:
    assert shown(broken(project, "name: tested", "name:")) == ["    1 | name:", "      |      ^"]


def test_what_is_found_after_loading_has_its_line_too(project: Project) -> None:
    project.write("agent.yaml", SUITE)
    project.write(
        "holodeck-action.yaml", "target: python:nowhere:answer\ngates:\n  min_pass_rate: 0\n  max_errors: null\n"
    )
    finished = project.run("run")
    assert finished.code == 2
    assert shown(finished) == ["    1 | target: python:nowhere:answer", "      |         ^^^^^^"]
    project.write("cases.csv", "input,expected_tools,ground_truth\nq,[not json,x\n")
    project.write("agent.yaml", SUITE[: SUITE.index("test_cases")] + "test_cases_file: cases.csv\n")
    assert shown(project.run("validate"))[0] == "    2 | q,[not json,x"


def test_each_tool_that_cannot_be_used_is_told_and_annotated_at_its_line(project: Project) -> None:
    """In the log, as an annotation of the workflow, and for the check run, with file, line and column."""
    tools = [
        "  - {type: function, name: one, description: One, file: gone.py, function: act}",
        "  - {type: function, name: two, description: Two, file: shop.py, function: akt}",
    ]
    project.write("shop.py", "def act(order: str) -> str:\n    return order\n")
    project.write("agent.yaml", "\n".join((SUITE + "tools:", *tools, "")))
    project.write(".git/HEAD", "ref: refs/heads/main\n")
    finished = project.run("validate", GITHUB_ACTIONS="true", GITHUB_REPOSITORY="octo/shop")
    assert finished.code == 2
    assert [error.partition(": ")[0] for error in finished.errors] == ["agent.yaml:8:5", "agent.yaml:9:5"]
    assert [line.partition(" | ")[2] for line in shown(finished)] == [tools[0], "    ^", tools[1], "    ^"]
    annotations = [line for line in finished.stderr.splitlines() if line.startswith("::error ")]
    assert [re.findall(r"file=(\S+),line=(\d+),col=(\d+),title=.*tools\[(\d)", line)[0] for line in annotations] == [
        ("agent.yaml", "8", "5", "0"),
        ("agent.yaml", "9", "5", "1"),
    ]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('model: {provider: openai, name: gpt-4o, api_key: "planted-secret-1", colour: red}', "colour: red}"),
        ("model: {provider: openai, name: gpt-4o, api_key: planted-secret-1, colour: red}", "api_key: ***"),
        ("colour: [--token=planted-secret-1, 'postgres://me:planted-secret-1@db/x']", "postgres://***@db"),
        # Nothing is known of the values of a file that cannot be read.
        ("model: {provider: openai, name: gpt-4o, api_key: planted-secret-1, colour: : red}", "api_key: ***"),
        ("api_key: planted-secret-1: x", "api_key: ***"),
        ("api_key: 'planted-secret-1' x", "api_key: ***"),
        ("api_key: |\n  planted\n planted-secret-1: : x", ""),
        ("headers:\n  Authorization:\n    - planted-secret-1: x: y", ""),
        ('password: "planted\nplanted-secret-1" x', ""),
    ],
)
def test_no_value_of_a_secret_key_is_shown(project: Project, line: str, kept: str) -> None:
    finished = broken(project, "model: {provider: openai, name: gpt-4o}", line)
    assert "planted" not in finished.stdout + finished.stderr
    assert kept in "".join(shown(finished))
    assert bool(shown(finished)) == bool(kept)


@pytest.mark.parametrize(
    "policy",
    [
        "secrets: [planted-literal-77]\ntarget: python:a:b planted-literal-77\nplanted-literal-77: 1\n",
        "secrets:\n# of the shop\n- 'planted-literal-77'  # old\ntarget: [python planted-literal-77\nx: 1\n",
        "gates: {min_pass_rate: planted-literal-77}\nsecrets:\n  - planted-literal-77\n  - {a: 1}\n",
    ],
    ids=["unknown key", "no YAML", "bad values"],
)
def test_no_secret_that_the_policy_lists_is_shown(project: Project, policy: str) -> None:
    project.write("agent.yaml", SUITE)
    project.write("holodeck-action.yaml", policy)
    finished = project.run("validate")
    assert finished.code == 2
    assert shown(finished)
    assert "planted" not in finished.stdout + finished.stderr


def test_no_secret_of_the_environment_and_no_line_of_other_files_is_shown(project: Project) -> None:
    project.write("agent.yaml", SUITE.replace("ground_truth: q", "tgas: planted-secret-1"))
    finished = project.run("validate", MY_TOKEN="planted-secret-1")
    assert shown(finished)[0].endswith("tgas: ***}")
    # A file of variables, and the user's own configuration, are no files of the suite.
    project.write("agent.yaml", SUITE)
    project.write("more.env", "planted-secret-1\n")
    finished = project.run("validate", "--env-file", "more.env")
    assert (finished.code, shown(finished)) == (2, [])
    assert "more.env:1:1" in finished.stderr
    project.write("home/.holodeck/config.yaml", "providers: [planted-secret-1\n")
    finished = project.run("validate")
    assert (finished.code, shown(finished)) == (2, [])
    assert "~/.holodeck/config.yaml:1:12" in finished.stderr
    assert "planted" not in finished.stderr


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_in_a_line_is_obeyed(project: Project, hostile: str) -> None:
    finished = broken(
        project, "ground_truth: q", f"tgas: {json.dumps(hostile, ensure_ascii=False)}".replace("\r\n", "\\n")
    )
    no_line_is_obeyed(finished.stderr)
    assert shown(finished)


@pytest.mark.full
def test_a_long_line_is_cut_around_the_place_and_sentences_wrap_on_a_terminal(project: Project) -> None:
    long = ", ".join(f"key{number}: {number}" for number in range(3000))
    finished = broken(project, "ground_truth: q", f"tgas: {{{long}}}, inptu: 1, {long}")
    assert all(len(line) <= 130 for line in shown(finished))
    line, caret = shown(finished)[2:4]
    assert line[caret.index("^") :].startswith("inptu")
    assert caret.strip(" |") == "^^^^^"
    project.write("agent.yaml", SUITE.replace("ground_truth", "tgas"))
    code, seen = on_a_terminal(project, "validate", COLUMNS="50")
    assert code == 2
    assert "\x1b[1;31merror:\x1b[0m agent.yaml:6:27: test_cases[0].tgas:" in seen
    rows = re.sub(r"\x1b\[[0-9;]*m", "", seen).splitlines()
    assert all(len(row) <= 50 for row in rows), rows
    assert [row[:7] for row in rows[1:4]] == ["       "] * 3
    assert rows[-1].endswith("^^^^")


def test_many_errors_of_one_place_share_the_line(project: Project, tmp_path: Path) -> None:
    cases = "".join(f"  - {{name: c{number}, input: q, inptu: q}}\n" for number in range(120))
    finished = broken(project, "  - {name: one, input: q, ground_truth: q}\n", cases)
    assert finished.stderr.count("error: ") == 120
    assert len(shown(finished)) == 2 * 50
