"""`report`, `run --template` and the files a run writes, through the command line."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from lxml import etree

from tests.commands.project import COMMAND, Project
from tests.reports.parsing import check_inert

FORMATS = ("markdown", "html", "junit", "json", "csv", "console")
OMITTED = {"csv": "the table holds outcomes, scores and reasons; inputs and answers are in out/results.json"}
"""What a format that has no place for it does not hold."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of 5 cases, 2 of them wrong, that has been run."""
    project = Project(tmp_path_factory.mktemp("ran"))
    project.numbered(5, wrong=frozenset({1, 3}))
    assert project.run("run", "-o", "out").code == 1
    return project.folder


@pytest.fixture
def evaluated(project: Project, ran: Path) -> Project:
    """A copy of that project."""
    shutil.copytree(ran, project.folder, dirs_exist_ok=True)
    return project


def test_a_run_writes_the_reports_beside_its_results(evaluated: Project) -> None:
    assert sorted(path.name for path in evaluated.out.iterdir()) == [
        ".finished.jsonl",
        "junit.xml",
        "report.html",
        "report.md",
        "results.json",
        "verdict.json",
    ]
    report = (evaluated.out / "report.md").read_text()
    assert report.startswith("## ❌ tested\n\n**3 of 5 passed, all must pass**")
    assert "\n❌ <b>case 1</b> · " in report
    root = etree.parse(evaluated.out / "junit.xml").getroot()
    assert [item.get("name") for item in root.iter("testcase") if item.find("failure") is not None] == [
        "case 1",
        "case 3",
    ]


def test_reports_of_an_earlier_run_are_not_left_behind(evaluated: Project) -> None:
    (evaluated.out / "report.md").unlink()
    (evaluated.out / "report.md").mkdir()
    finished = evaluated.run("run", "-o", "out")
    assert finished.code == 2
    assert "report.md: cannot be replaced" in finished.stderr


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_comes_out_of_a_record(evaluated: Project, name: str) -> None:
    said = f"note: {OMITTED[name]}\n" if name in OMITTED else ""
    shown = evaluated.run("report", "out/results.json", "--format", name)
    assert (shown.code, shown.stderr) == (0, said)
    assert "case 3" in shown.stdout
    written = evaluated.run("report", "out/results.json", "--format", name, "-o", "report")
    assert (written.code, written.stdout, written.stderr) == (0, "", said)
    assert (evaluated.folder / "report").read_text() == shown.stdout


@pytest.mark.full
def test_canonical_reports_of_two_runs_are_equal(evaluated: Project) -> None:
    evaluated.run("run", "-o", "again", "--concurrency", "1")
    for name in FORMATS:
        # The seed of this process is another one, by chance or by a variable of the tests.
        first = evaluated.run("report", "out/results.json", "--format", name, "--canonical")
        again = ("report", "again/results.json", "--format", name, "--canonical")
        second = evaluated.run(*again, PYTHONHASHSEED="4294967295")
        assert first.stdout == second.stdout != ""


def test_the_json_report_keeps_to_the_printed_schema(evaluated: Project) -> None:
    schema = json.loads(evaluated.run("schema", "report").stdout)
    jsonschema.validate(json.loads(evaluated.run("report", "out/results.json", "--format", "json").stdout), schema)


@pytest.mark.full
def test_a_template_makes_the_report(evaluated: Project) -> None:
    evaluated.write("own.md.j2", "{{ report.counts.failed }} of {{ report.suite|code }} failed\n")
    assert evaluated.run("report", "out/results.json", "--format", "markdown", "--template", "own.md.j2").stdout == (
        "2 of `tested` failed\n"
    )
    finished = evaluated.run("run", "-o", "out", "--template", "own.md.j2")
    assert finished.code == 1
    assert (evaluated.out / "report.md").read_text() == "2 of `tested` failed\n"


@pytest.mark.full
def test_a_template_with_an_error_gives_one_sentence_and_the_built_in_report(evaluated: Project) -> None:
    evaluated.write("own.md.j2", "fine\n{{ report.nope }}\n")
    built_in = evaluated.run("report", "out/results.json", "--format", "markdown").stdout
    shown = evaluated.run("report", "out/results.json", "--format", "markdown", "--template", "own.md.j2")
    assert (shown.code, shown.stdout) == (0, built_in)
    assert shown.stderr.startswith("note: own.md.j2:2: there is no field 'nope' here (there are: version, suite, ")
    assert shown.stderr.endswith("; the built-in report is used instead\n")
    finished = evaluated.run("run", "-o", "out", "--template", "own.md.j2")
    assert finished.code == 1
    assert finished.stderr.count("own.md.j2:2: there is no field 'nope' here") == 1
    assert (evaluated.out / "report.md").read_text().startswith("## ❌ tested\n\n**3 of 5 passed, all must pass**")


def test_a_template_that_is_not_there_is_known_before_anything_runs(evaluated: Project) -> None:
    before = (evaluated.out / "results.json").read_bytes()
    finished = evaluated.run("run", "-o", "out", "--template", "nope.j2")
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.stderr == (
        "error: nope.j2: cannot be read: No such file or directory; give the file of a Jinja template\n"
    )
    assert (evaluated.out / "previous" / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("nope.json",),
            "error: nope.json: cannot be read: No such file or directory; give the results.json of a run\n",
        ),
        (("agent.yaml",), "error: agent.yaml: not a results file: "),
        (
            ("out/results.json", "--format", "html", "--template", "agent.yaml"),
            "error: --template renders Markdown and cannot be combined with ",
        ),
        (("out/results.json", "-o", "no/such/folder"), "error: no/such/folder: cannot be written: No such file"),
        (("out/results.json", "--format", "pdf"), "Usage: "),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(
    evaluated: Project, arguments: tuple[str, ...], sentence: str
) -> None:
    finished = evaluated.run("report", *arguments)
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.stderr.startswith(sentence)


def test_a_device_is_written_to_and_not_replaced(evaluated: Project) -> None:
    pipe = evaluated.folder / "pipe"
    os.mkfifo(pipe)
    with evaluated.start("report", "out/results.json", "--format", "csv", "-o", "pipe") as process:
        content = pipe.read_text()
        process.communicate(timeout=60)
    assert content.startswith("case,title,")
    assert pipe.is_fifo()


def test_a_report_that_cannot_be_written_does_not_change_the_verdict(project: Project) -> None:
    project.numbered(2)
    # Room for the results, not for a report: the folder's file of that name cannot be replaced by the run's.
    project.write(
        "agent.py",
        "import os\n"
        "def answer(conversation):\n"
        "    os.makedirs('out/report.md/taken', exist_ok=True)\n"
        "    return conversation[-1]['content'][len('what is '):-1]\n",
    )
    finished = project.run("run", "-o", "out", "--target", "python:agent:answer")
    assert finished.code == 0
    assert "note: out/report.md: could not be written: Is a directory; the verdict stands\n" in finished.stderr
    assert (project.out / "junit.xml").is_file()


def test_hostile_answers_through_a_run(project: Project) -> None:
    answer = "</details> @octocat <img src=x>\n```\n::error::boo\n| a |\x1b[31m\u202e ##[error]x https://evil.example"
    project.suite([{"name": f"a {answer}", "input": answer, "ground_truth": "x"}])
    project.policy(target="recorded:answers.jsonl")
    project.answers([{"case": f"a {answer}", "response": answer}])
    finished = project.run("run", "-o", "out")
    assert finished.code == 1, finished.stderr
    check_inert((project.out / "report.md").read_text(), "octocat")
    etree.parse(project.out / "junit.xml")


def test_a_terminal_gets_colours_and_the_same_words(evaluated: Project) -> None:
    plain = evaluated.run("report", "out/results.json").stdout
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "report", "out/results.json"],
        cwd=evaluated.folder,
        env=evaluated.environ(TERM="xterm-256color", COLUMNS="200"),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        shown = _read(ours)
        process.communicate(timeout=60)
    os.close(ours)
    assert "\x1b[" in shown
    bare = "".join(part.partition("m")[2] if position else part for position, part in enumerate(shown.split("\x1b[")))
    for line in plain.splitlines():
        if "  failed  error" not in line:
            assert " ".join(line.split()) in " ".join(bare.split())


def _read(descriptor: int) -> str:
    content = b""
    while select.select([descriptor], [], [], 60)[0]:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:
            # The other end is closed: the process is done.
            break
        if not chunk:
            break
        content += chunk
    return content.decode()


def test_a_report_can_be_made_anywhere(evaluated: Project, tmp_path: Path) -> None:
    finished = evaluated.run(
        "report", str(evaluated.out / "results.json"), "--format", "html", "-o", str(tmp_path / "a.html")
    )
    assert finished.code == 0
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
