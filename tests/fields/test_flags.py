"""Flags and arguments of the commands that no file has."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import jsonschema
import pytest

from tests.commands.project import Project
from tests.fields.bounds import unhurried
from tests.fields.runs import lettered
from tests.tables import walk


@pytest.mark.proves("gate: RESULTS --policy --output-dir")
def test_decide(project: Project) -> None:
    for letters, folder in (("P", "good"), ("P F", "bad")):
        lettered(project, letters)
        project.run("run", "-o", folder)
    assert [project.run("decide", f"{folder}/results.json").code for folder in ("good", "bad")] == [0, 1]
    assert not (project.folder / "again").exists()
    project.write("other.yaml", "gates: {min_pass_rate: 0.5}\n")
    assert project.run("decide", "bad/results.json", "--policy", "other.yaml", "-o", "again").code == 0
    assert [path.name for path in (project.folder / "again").iterdir()] == ["verdict.json"]


@pytest.mark.proves("run: --target")
def test_target(project: Project) -> None:
    lettered(project, "P")
    project.answers([{"case": "case 0", "response": "Lyon"}], "other.jsonl")
    assert project.run("run", "--target", "recorded:other.jsonl").code == 1


@pytest.mark.proves("run: --output-dir")
def test_output_dir(project: Project) -> None:
    lettered(project, "P")
    before = {path.name for path in project.folder.iterdir()}
    project.run("run")
    assert {path.name for path in project.folder.iterdir()} == before | {".holodeck"}
    project.run("run", "--output-dir", "there")
    assert {"results.json", "verdict.json"} <= {path.name for path in (project.folder / "there").iterdir()}


@pytest.mark.proves("CaseOverlay: tags", "run: --case --tag --limit --failed-from")
@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--case", "case-1", "--case", "*3"), ["case 1", "case 3"]),
        (("--tag", "slow", "--tag", "odd"), ["case 0", "case 1", "case 2"]),
        (("--limit", "3"), ["case 0", "case 1", "case 2"]),
        (("--failed-from", "before/results.json"), ["case 2", "case 3"]),
        (("--failed-from", "before/results.json", "--tag", "slow"), ["case 2"]),
    ],
)
def test_which_cases_run(project: Project, flags: tuple[str, ...], names: list[str]) -> None:
    tags = {"case 0": ["slow"], "case 1": ["odd"], "case 2": ["slow", "odd too"]}
    lettered(project, "P P F E", {"cases": {name: {"tags": found} for name, found in tags.items()}})
    if "--failed-from" in flags:
        project.run("run", "-o", "before")
    _, record = project.evaluate(*flags)
    assert [case.name for case in record.cases] == names


@pytest.mark.races
@pytest.mark.proves("run: --resume")
def test_resume(project: Project) -> None:
    unhurried(project, 600, cases=("quick", "slow"))
    with project.start("run", "-o", "out", "--concurrency", "1") as process:
        journal = project.out / "journal.jsonl"
        project.wait_until(lambda: journal.is_file() and journal.read_bytes().count(b"\n") > 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 4
    project.write("hurry", "")
    _, record = project.evaluate("--resume")
    assert (record.run.resumed_trials, len(record.cases)) == (1, 2)


@pytest.mark.proves("run: --allow-empty", "validate: --allow-empty")
@pytest.mark.parametrize("command", ["run", "validate"])
def test_allow_empty(project: Project, command: str) -> None:
    lettered(project, "")
    project.policy(target="command:cat")
    assert [project.run(command, *flags).code for flags in ((), ("--allow-empty",))] == [2, 0]


@pytest.mark.proves("run: --env-file", "validate: --env-file")
@pytest.mark.parametrize("command", ["run", "validate"])
def test_env_file(project: Project, command: str) -> None:
    lettered(project, "P")
    project.policy(target="recorded:${ANSWERS}")
    project.write("variables", "ANSWERS=answers.jsonl\n")
    assert [project.run(command, *flags).code for flags in ((), ("--env-file", "variables"))] == [2, 0]


@pytest.mark.needs
@pytest.mark.proves("run: --allow-path", "validate: --allow-path", "rejudge: --allow-path", "calibrate: --allow-path")
@walk("command", ["run", "validate", "rejudge absent.json", "calibrate labels.csv"])
def test_allow_path(tmp_path: Path, command: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "answers.jsonl").write_text('{"case": "case 0", "response": "Paris"}')
    project = Project(tmp_path / "checkout")
    project.folder.mkdir()
    lettered(project, "P")
    project.policy(target="recorded:../outside/answers.jsonl")
    project.write("labels.csv", "input,response,label\nq,a,pass\n")
    refused = "holodeck-action.yaml:2:12: target: the file is outside the checkout"
    found = [project.run(*command.split(), *flags) for flags in ((), ("--allow-path", str(outside)))]
    assert [refused in finished.stderr for finished in found] == [True, False]
    if command in ("run", "validate"):
        assert [finished.code for finished in found] == [2, 0]
        assert (
            "absent: the folder, which --allow-path names, does not exist"
            in project.run(command, "--allow-path", "absent").stderr
        )


@pytest.mark.needs
@pytest.mark.proves(
    "run: --allow-plain-http",
    "validate: --allow-plain-http",
    "rejudge: --allow-plain-http",
    "calibrate: --allow-plain-http",
)
@pytest.mark.parametrize("command", ["run", "validate", "rejudge absent.json", "calibrate labels.csv"])
def test_allow_plain_http(project: Project, command: str) -> None:
    lettered(project, "P")
    url = "http://agent.example/"
    project.policy(target={"type": "http", "url": url, "headers": {"authorization": "Bearer x"}})
    project.write("labels.csv", "input,response,label\nq,a,pass\n")
    more = ("--dry-run",) if command == "run" else ()
    found = [project.run(*command.split(), *more, *flags) for flags in ((), ("--allow-plain-http",))]
    assert ["unencrypted to agent.example" in finished.stderr for finished in found] == [True, False]
    if command in ("run", "validate"):
        assert [finished.code for finished in found] == [2, 0]


@pytest.mark.proves("run: SUITES", "validate: SUITES")
@pytest.mark.parametrize(("command", "said"), [("run", "Suite tested ({}/"), ("validate", "{}/agent.yaml: valid")])
def test_suites(project: Project, command: str, said: str) -> None:
    for name in ("one", "two"):
        lettered(Project(project.folder / name), "P")
    for arguments, names in ((("one",), ["one"]), (("two/agent.yaml", "one"), ["one", "two"]), (("t*/*.yaml",), [])):
        finished = project.run(command, *arguments)
        if names:
            assert finished.code == 0
            assert [name for name in ("one", "two") if said.format(name) in finished.stdout] == names
        else:
            # A glob means every file it finds: a policy file is no suite.
            assert finished.code == 2
            assert "two/holodeck-action.yaml:" in finished.stderr


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A folder with the results of two equal runs."""
    project = Project(tmp_path_factory.mktemp("reported"))
    lettered(project, "P F")
    for folder in ("one", "two"):
        project.run("run", "-o", folder)
    return project


def _report(project: Project, *arguments: str, results: str = "one") -> str:
    finished = project.run("report", f"{results}/results.json", *arguments)
    assert finished.code == 0
    return finished.stdout


STARTS = {
    "console": "Suite tested",
    "markdown": "#",
    "html": "<!doctype html>",
    "junit": "<?xml",
    "json": "{",
    "csv": "case,",
}


@pytest.mark.proves("report: --format")
@pytest.mark.parametrize("format_", STARTS)
def test_report(reported: Project, format_: str) -> None:
    assert _report(reported, "--format", format_).lower().startswith(STARTS[format_].lower())


@pytest.mark.proves("report: --output")
def test_report_into_a_file(reported: Project) -> None:
    assert _report(reported, "--output", "shown") == ""
    assert (reported.folder / "shown").read_text().startswith(STARTS["console"])


@pytest.mark.proves("report: RESULTS --canonical")
def test_canonical_reports_of_equal_runs_are_equal(reported: Project) -> None:
    found = {
        flags: len({_report(reported, "--format", "json", *flags, results=results) for results in ("one", "two")})
        for flags in ((), ("--canonical",))
    }
    assert found == {(): 2, ("--canonical",): 1}


@pytest.mark.full
@pytest.mark.proves("run: --template", "report: --template")
def test_template(project: Project) -> None:
    lettered(project, "P F")
    project.write("mine.md", "All of {{ 1 + 1 }} cases.\n")
    project.run("run", "-o", "out", "--template", "mine.md")
    assert (project.out / "report.md").read_text() == "All of 2 cases.\n"
    given = project.run("report", "out/results.json", "--format", "markdown", "--template", "mine.md")
    assert given.stdout == "All of 2 cases.\n"


@pytest.mark.full
@pytest.mark.proves("schema: DOCUMENT")
@pytest.mark.parametrize(
    ("document", "holds"),
    [
        ("agent", "test_cases_file"),
        ("policy", "quarantine"),
        ("results", "provenance"),
        ("verdict", "pass_rate"),
        ("report", "attention"),
        ("judge-card", "disagreements"),
        ("history", "suite_digest"),
    ],
)
def test_schema(project: Project, document: str, holds: str) -> None:
    schema = json.loads(project.run("schema", document).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert holds in schema["properties"]
