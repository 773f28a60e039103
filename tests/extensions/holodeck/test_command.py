"""The command `test` of HoloDeck's documents, and `run --verbose`."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import ExitStack, suppress

import pytest

from tests.commands.project import Project

pytestmark = pytest.mark.needs("start")


@pytest.fixture
def shop(project: Project) -> Project:
    """The suite that `init` writes: one passing case without, and one with a tool call."""
    assert project.run("init").code == 0
    return project


@pytest.mark.full
@pytest.mark.proves("run: --verbose")
@pytest.mark.proves("test: --verbose")
@pytest.mark.parametrize("command", ["run", "test"])
def test_verbose_prints_each_metric_and_the_tools_of_passing_cases(shop: Project, command: str) -> None:
    plain = shop.run(command)
    assert "find_order" not in plain.stdout
    told = shop.run(command, "--verbose")
    assert (plain.code, told.code) == (0, 0)
    blocks = told.stdout.split("\n\n")
    assert blocks[:2] == [
        '✓ Return window  [passed]  agent.yaml:14:5\n      tools: none\n      ✓ contains "30 days": 1.00 (threshold 1)',
        "✓ Where is my order  [passed]  agent.yaml:19:5\n"
        '      tools: find_order(order="A-17")\n'
        '      ✓ tool find_order(order="A-17")\n'
        '      ✓ contains "Thursday": 1.00 (threshold 1)',
    ]
    assert told.stdout.endswith(plain.stdout)


def test_verbose_tells_trials_turns_and_outcomes_apart(project: Project) -> None:
    project.write(
        "agent.yaml",
        "name: x\nmodel: {provider: openai, name: none}\ninstructions: {inline: x}\ntest_cases:\n"
        "  - name: Two turns\n    turns: [{input: a, expect: [{contains: a}]}, {input: b, expect: [{contains: z}]}]\n",
    )
    project.write("echo.py", "def answer(messages):\n    return messages[-1]['content'] + '\\x1b[31m'\n")
    done = project.run("run", "--target", "python:echo:answer", "--repeat", "2", "--min-pass", "1", "--verbose")
    assert done.code == 1
    lines = [line.strip() for line in done.stdout.split("\n\n")[0].splitlines()]
    trial = ["turn 0", '✓ contains "a": 1.00 (threshold 1)', "turn 1", '✗ contains "z": 0.00 (threshold 1)']
    assert lines[0] == "✗ Two turns  [failed]  agent.yaml:5:5"
    assert [line for line in lines[1:] if "tools" not in line] == [
        *("trial 1 of 2: failed", *trial),
        *("trial 2 of 2: failed", *trial),
    ]


@pytest.mark.full
@pytest.mark.proves("test: ACTION_AND_SUITES --output --format --timeout --parallel-test-cases --limit")
def test_the_documents_command_runs_ours(shop: Project) -> None:
    done = shop.run("test", "agent.yaml", "--verbose", "--output", "report.md", "--format", "markdown")
    assert done.code == 0
    assert [line for line in done.stderr.splitlines() if line.startswith("note: this is")] == [
        "note: this is holodeck-action run agent.yaml --verbose",
        "note: this is holodeck-action report --format markdown -o report.md",
    ]
    assert (shop.folder / "report.md").read_text(encoding="utf-8").startswith("## ✅ my-agent\n\n**2 of 2 passed**")
    # The suffix chooses the format, else it is JSON.
    for name, start in (("a.markdown", "## "), ("b.json", "{"), ("c", "{")):
        assert shop.run("test", "run", "--output", name).code == 0
        assert (shop.folder / name).read_text(encoding="utf-8").startswith(start)
    given = ("--timeout", "7", "--parallel-test-cases", "1", "-n", "1", "--output", "one.json")
    one = shop.run("test", "run", "agent.yaml", *given)
    assert "run agent.yaml --turn-timeout 7 --concurrency 1 --limit 1\n" in one.stderr
    assert json.loads((shop.folder / "one.json").read_text(encoding="utf-8"))["counts"]["passed"] == 1
    assert shop.run("test", "validate", "agent.yaml").stdout == "agent.yaml: valid: 2 cases, 2 turns\n"


@pytest.mark.full
def test_the_exit_code_is_that_of_the_run_and_no_old_report_stands_for_it(shop: Project) -> None:
    assert shop.run("test", "--output", "report.md").code == 0
    agent = shop.folder / "my_agent.py"
    agent.write_text(agent.read_text(encoding="utf-8").replace("Thursday", "Thursday, not before"), encoding="utf-8")
    shop.write("holodeck-action.yaml", "target: python:my_agent:answer\ntrials: {repeat: 1}\n")
    policy = "name: x\nmodel: {provider: openai, name: none}\ninstructions: {inline: x}\ntest_cases: []\n"
    shop.write("empty.yaml", policy)
    (shop.folder / "report.md").unlink()
    assert shop.run("test", "empty.yaml", "--output", "report.md").code == 2
    assert not (shop.folder / "report.md").exists()
    # What cannot be kept cannot be reported: the file of an earlier run must not take its place.
    shutil.rmtree(shop.folder / ".holodeck")
    shop.write(".holodeck", "")
    unkept = shop.run("test", "--output", "report.md")
    assert (unkept.code, (shop.folder / "report.md").exists()) == (3, False)
    assert "error: report.md: not written, since the run's results could not be kept" in unkept.stderr


@pytest.mark.proves("test: --host --port --no-browser")
def test_view_takes_the_options_of_the_dashboard(shop: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as stack:
        # What listens on a port keeps the page from being served, which would not end.
        port = str(taken.getsockname()[1])
        told = shop.run("test", "view", "--port", port, "--host", "127.0.0.1", "--no-browser")
        assert (told.code, f"note: this is holodeck-action view --port {port} --no-browser\n" in told.stderr) == (
            2,
            True,
        )
        with suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 8501)))
        told = shop.run("test", "view", "agent.yaml")
        assert (told.code, "note: this is holodeck-action view --port 8501\n" in told.stderr) == (2, True)
    shop.write("agents/agent.yaml", "")
    assert "write cd agents first" in shop.run("test", "view", "agents/agent.yaml").stderr
    assert "leave it out" in shop.run("test", "view", "--host", "0.0.0.0").stderr


@pytest.mark.proves("test: --quiet --force-ingest --numeric-patience --textual-max-trials --textual-patience")
@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        (("--quiet",), "write holodeck-action run > report.txt"),
        (("-f",), "leave it out, each run reads the files of tools again"),
        (("view", "--seed"), "write holodeck-action run, then holodeck-action view"),
        (("optimize", "--numeric-patience", "3"), "leave it out, a race drops weak values early"),
        (("optimize", "--textual-max-trials", "3"), "textual axes are not optimized: leave out"),
        (("optimize", "--textual-patience", "3"), "textual axes are not optimized: leave out"),
        (("optimize", "--limit", "3"), "--limit has no effect on optimize; leave it out"),
        (("run", "--seed", "3"), "--seed has no effect on run; leave it out"),
        (("--format", "json"), "--format is the format of the file that --output names; give both"),
        (("validate", "--limit", "3"), "--limit has no effect on validate; leave it out"),
        (("run", "--port", "1"), "--port has no effect on run; leave it out"),
        (("a.yaml", "b.yaml"), "write holodeck-action run for several"),
    ],
)
def test_what_has_no_equal_is_refused_with_what_to_write(shop: Project, arguments: tuple[str, ...], way: str) -> None:
    refused = shop.run("test", *arguments)
    assert (refused.code, way in refused.stderr, "this is" in refused.stderr) == (2, True, False), refused.stderr


@pytest.mark.needs("race")
@pytest.mark.proves("test: --max-cycles --numeric-max-trials --seed --output-dir")
def test_optimize_takes_the_options_of_the_document(shop: Project) -> None:
    """The suite has no axes: what is asked of it is what was written."""
    flags = ("--max-cycles", "2", "--numeric-max-trials", "8", "--seed", "7", "-o", "tuned")
    told = shop.run("test", "optimize", "agent.yaml", *flags)
    ours = "agent.yaml --max-cycles 2 --numeric-max-trials 8 --seed 7 --output-dir tuned"
    assert f"note: this is holodeck-action optimize {ours}\n" in told.stderr
    assert (told.code, "evaluations.optimizer is missing" in told.stderr) == (2, True)
    assert "'many' is not a valid integer" in shop.run("test", "optimize", "--seed", "many").stderr
