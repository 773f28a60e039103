"""Standard streams that are closed, full, slow or of another encoding never cost the results."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.text.plain import one_line
from tests.commands.project import COMMAND, Project

FULL = Path("/dev/full")
PROGRAM = shlex.join(COMMAND)


def shell(project: Project, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which `$RUN` is the program."""
    return subprocess.run(
        ["bash", "-c", script],
        cwd=project.folder,
        env=project.environ(RUN=PROGRAM, **environ),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "wrong", "code"),
    [
        ("$RUN run -o out | true; exit ${PIPESTATUS[0]}", frozenset[int](), 0),
        ("$RUN run -o out 2>&1 | true; exit ${PIPESTATUS[0]}", frozenset({1}), 1),
        ("$RUN run -o out >&-", frozenset({1}), 1),
        ("$RUN run -o out 2>&-", frozenset[int](), 0),
        ("$RUN run -o out <&- >&- 2>&-", frozenset[int](), 0),
        ("$RUN run -o out 2>/dev/full", frozenset[int](), 0),
    ],
)
def test_a_reader_who_leaves_changes_neither_verdict_nor_results(
    project: Project, script: str, wrong: frozenset[int], code: int
) -> None:
    project.numbered(40, wrong)
    ended = shell(project, script)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert project.verdict()["exit_code"] == code
    assert not (project.out / "journal.jsonl").exists()


@pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize(("wrong", "code"), [(frozenset[int](), 3), (frozenset({1}), 1)])
def test_a_verdict_that_cannot_be_printed_is_no_pass(project: Project, wrong: frozenset[int], code: int) -> None:
    project.numbered(3, wrong)
    ended = shell(project, "$RUN run -o out >/dev/full")
    assert ended.returncode == code
    assert "error: standard output could not be written: No space left on device" in ended.stderr
    assert project.verdict()["counts"]["passed"] == 3 - len(wrong)


def test_a_report_in_another_encoding_is_escaped(project: Project) -> None:
    project.suite([{"name": "größe", "input": "wie groß?", "ground_truth": "groß"}])
    project.answers([{"case": "größe", "response": "klein"}])
    project.policy(target="recorded:answers.jsonl")
    finished = project.run_process("run", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="")
    assert finished.code == 1
    assert "gr\\xf6\\xdfe" in finished.stdout
    assert finished.stdout.isascii()


def read_terminal(master: int, process: subprocess.Popen[bytes]) -> str:
    output = b""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            output += part
        elif process.poll() is not None:
            break
    return output.decode("utf-8", "replace")


def on_a_terminal(project: Project, *arguments: str, **environ: str) -> tuple[int, str]:
    """Run on a pseudo-terminal; return the exit code and all that was written to it."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=project.folder,
            env=project.environ(**{"TERM": "xterm-256color", "COLUMNS": "100", **environ}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        ) as process:
            os.close(slave)
            shown = read_terminal(master, process)
            return process.wait(timeout=60), shown
    finally:
        os.close(master)


def test_a_terminal_gets_a_bar_and_the_reasons(project: Project) -> None:
    project.numbered(5, frozenset({3}))
    code, shown = on_a_terminal(project, "run")
    assert code == 1
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "5/5" in plain
    assert "[1/5]" not in plain
    assert "✗ case 3  [failed]" in plain
    assert "wrong" in plain
    assert "4 passed, 1 failed" in plain


def test_a_log_gets_a_line_per_case_and_the_reasons(project: Project) -> None:
    project.numbered(3, frozenset({1}))
    finished = project.run("run")
    lines = [re.fullmatch(r"\[(\d)/3\] (\w+) +(case \d)", line) for line in finished.stderr.splitlines()]
    shown = [line.groups() for line in lines if line is not None]
    assert [position for position, _, _ in shown] == ["1", "2", "3"]
    assert {title: outcome for _, outcome, title in shown} == {
        "case 0": "passed",
        "case 1": "failed",
        "case 2": "passed",
    }
    assert "✗ case 1  [failed]" in finished.stdout
    assert "answer:   wrong" in finished.stdout


# What hostile text would like to reach a terminal or a workflow runner's log, at the start of a line if it can.
HOSTILE = (
    "::error file=a.py::forged\u202e\u2066\u200b",
    "\r\n  ::add-mask::x\x1b]0;title\x07\x1b[2J\x1b[31m",
    "\u2028::error::forged\x00\x08\x0b\x0c\x7f\x85\x9b31m",
    "##[group]forged\n##[error]forged\n::error::forged",
)


def no_line_is_obeyed(text: str) -> None:
    for line in text.split("\n"):
        assert not line.lstrip().startswith("::"), line
        assert "##[" not in line
        assert not any(
            ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u2028\u2029\u202e\u2066\u200b" for char in line
        ), line


def hostile_suite(project: Project, hostile: str) -> None:
    """A suite that puts a hostile text wherever one can stand."""
    name = f"{hostile} case"
    project.write("checks.py", f"def grade(context):\n    raise ValueError({hostile!r})\n")
    project.suite(
        [
            {"name": name, "input": hostile + "?", "ground_truth": hostile + "!", "expected_tools": ["refund"]},
            {
                "name": "graded",
                "input": hostile,
                "evaluations": [{"type": "code", "grader": "checks:grade", "name": hostile}],
            },
            {"name": "lost", "input": "x", "ground_truth": "x"},
        ],
        name=hostile + " suite",
    )
    calls = [{"name": hostile, "args": {hostile: [hostile]}, "result": hostile, "error": hostile}]
    project.answers(
        [
            {"case": name, "response": hostile, "tool_invocations": calls},
            {"case": "graded", "response": hostile, hostile: 1},
            {"case": hostile + "nobody", "response": hostile},
        ]
    )
    project.policy(
        target="recorded:answers.jsonl",
        quarantine=[{"case": "lost", "reason": hostile, "owner": hostile, "expires": "2999-01-01"}],
    )


@pytest.mark.full
@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_that_is_shown_is_obeyed(project: Project, hostile: str) -> None:
    hostile_suite(project, hostile)
    finished = project.run("run", "-o", "out", "--case", "*")
    assert finished.code == 1, finished.stdout + finished.stderr
    no_line_is_obeyed(finished.stdout)
    no_line_is_obeyed(finished.stderr)
    again = project.run("decide", "out/results.json")
    no_line_is_obeyed(again.stdout)
    code, shown = on_a_terminal(project, "run")
    assert code == 1
    # The terminal's own sequences are there, but none of the text's.
    assert not any(
        part in shown for part in ("\x1b]0", "\x1b[2J\x1b[31m", "\u202e", "\u2066", "\u200b", "\x9b", "\x07")
    )


@pytest.mark.parametrize("hostile", HOSTILE[:3])
def test_several_suites_and_their_folders_are_not_obeyed(project: Project, hostile: str) -> None:
    folder = hostile.strip().replace("\x00", "")
    project.numbered(1)
    project.suite([{"name": "a", "input": "q", "ground_truth": "q"}], name=hostile + " suite")
    for place in (folder, "plain"):
        for file in ("agent.yaml", "holodeck-action.yaml"):
            project.write(f"{place}/{file}", (project.folder / file).read_bytes())
    project.answers([{"case": "a", "response": "q"}], name=f"{folder}/answers.jsonl")
    project.answers([{"case": "a", "response": "wrong"}], name="plain/answers.jsonl")
    for command in (["validate"], ["run", "-o", "out"]):
        finished = project.run(*command, "*/agent.yaml")
        assert finished.code == (0 if command == ["validate"] else 1), finished.stderr
        no_line_is_obeyed(finished.stdout)
        no_line_is_obeyed(finished.stderr)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_error_is_obeyed(project: Project, hostile: str) -> None:
    project.numbered(1)
    project.policy(target=f"recorded:{hostile}x.jsonl".replace("\x00", ""))
    for arguments in (
        ["run"],
        ["run", "--target", f"{hostile}".replace("\x00", "")],
        ["run", "--case", hostile.replace("\x00", "")],
    ):
        finished = project.run(*arguments)
        assert finished.code == 2
        no_line_is_obeyed(finished.stderr)
        no_line_is_obeyed(finished.stdout)


BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TEXTS = st.text() | st.lists(st.sampled_from([*HOSTILE, *BIDI, "a", " ", "\n", "::", "##[", "#", "["])).map("".join)


@given(TEXTS, st.integers(1, 50))
def test_one_line_is_one_visible_line_that_nothing_obeys(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert len(shown.splitlines()) <= 1
    assert "##[" not in shown
    assert not shown.startswith("::")
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} or char in BIDI for char in shown)
    assert len(shown.removesuffix(f" … ({len(text):,} characters)")) <= limit


def test_python_itself_is_the_program(project: Project) -> None:
    """The tests run what the console script runs."""
    script = Path(sys.executable).with_name("holodeck-action")
    if script.exists():
        assert (
            subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout
            == project.run("--version").stdout
        )
