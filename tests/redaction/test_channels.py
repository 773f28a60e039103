"""The hardest samples, and a key of each known form, planted wherever a suite lets them in: no eight letters and digits
of a declared one in a row are left, and no twelve of another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from holodeck_action.text.redaction import MASK
from tests.commands.project import Finished, Project
from tests.github.events import HEAD
from tests.github.fake import FakeGitHub
from tests.github.steps import ALL, Scene
from tests.redaction.planting import ENCODINGS, UNDECLARED, leaked, pieces_of, undeclared_pieces
from tests.reports.pages import told

TOKEN = "sk-7Lq2zV/mZ8dxK+4711Rt?>~_Qx"
PASSWORD = "hx7!Kp9wQ2_zLm4tVb8"
VARIABLES = {"SHOP_PAT": TOKEN, "DATABASE": f"postgresql://shop:{PASSWORD}@db.example/shop"}
PIECES = pieces_of(TOKEN) | pieces_of(PASSWORD) | undeclared_pieces()

CUTS = (40, 60, 80, 120, 200, 255, 300, 500, 800, 1000, 1200, 2000, 4000, 4096, 8000, 8192)
"""Where texts are cut, in characters; a few more stand between them."""

CODE = """
import json, os, signal, sys

SECRETS = (os.environ["SHOP_PAT"], os.environ["DATABASE"].split(":")[2].split("@")[0])
SAMPLES = json.loads(open("samples.json").read())


def text(name):
    name = "all" if name == "stop" else name
    if name in SAMPLES:
        return SAMPLES[name]
    before = int(name) - 13
    # The first cut leaves most of it at the end of the text, the second at the beginning of its last characters.
    return "y" * before + SECRETS[0] + SECRETS[1] + "z" * before


def answer(messages):
    name = messages[-1]["content"]
    if name == "stop":
        os.kill(os.getppid(), signal.SIGTERM)
        name = "all"
    print(text(name), file=sys.stderr)
    if name.endswith("00"):
        raise ValueError(text(name))
    return {
        "response": text(name),
        "tool_invocations": [{"name": "look", "args": {text(name): 1}, "result": text(name), "error": text(name)}],
        "retrieval_context": [text(name)],
    }


def explains(ctx):
    from holodeck.lib.test_runner.code_grader import GraderResult

    print(text(ctx.turn_input))
    return GraderResult(score=0.0, reason=text(ctx.turn_input), details={text(ctx.turn_input): [text(ctx.turn_input)]})


def raises(ctx):
    print(text(ctx.turn_input))
    raise RuntimeError(text(ctx.turn_input))


if __name__ == "__main__":
    name = json.loads(input())["input"]
    print(text(name), file=sys.stderr)
    if name.endswith("00"):
        sys.exit(3)
    print(text(name))
    input()
"""


def planted(project: Project, target: str, names: Iterable[str], *, declared: bool = True) -> None:
    """Write a suite whose answers, graders, tools and errors repeat the secrets, one case for each name."""
    # Base64 of something longer shows what stands beside the secret, too: that is no part of it.
    secrets = (TOKEN, PASSWORD) if declared else ()
    written = [write(secret) for secret in secrets for write in ENCODINGS.values()]
    samples = {"all": "\n".join([*written, UNDECLARED])}
    project.write("samples.json", json.dumps(samples))
    project.write("planted.py", CODE)
    project.suite(
        [
            {"name": f"case {name}", "input": name, "ground_truth": "7", "expected_tools": ["absent", "look"]}
            for name in names
        ],
        [
            {"type": "standard", "metric": "equality"},
            {"type": "standard", "metric": "numeric"},
            {"type": "standard", "metric": "f1_score", "threshold": 0.9},
            {"type": "code", "grader": "planted:explains"},
            {"type": "code", "grader": "planted:raises"},
        ],
    )
    project.policy(target=target)


def files_of(folder: Path) -> dict[str, str]:
    """The files of a run, by name."""
    return {
        str(path.relative_to(folder)): told(path.read_bytes().decode("utf-8", "replace"))
        for path in folder.rglob("*")
        if path.is_file()
    }


def leaks(places: Mapping[str, str]) -> dict[str, list[str]]:
    return {place: found for place, text in places.items() if (found := leaked(text, PIECES))}


def printed(finished: Iterable[Finished]) -> dict[str, str]:
    return {
        f"{stream} {number}": told(getattr(each, stream))
        for number, each in enumerate(finished)
        for stream in ("stdout", "stderr")
    }


@pytest.mark.full
def test_no_piece_of_a_secret_is_posted_written_or_logged(hub: FakeGitHub, project: Project) -> None:
    scene = Scene(hub, Project(project.folder / "workspace"))
    planted(scene.project, "python:planted:answer", ["all", *map(str, CUTS)])
    scene.show_diff()
    ended = scene.workflow.job(inputs=ALL, SHOP_PAT=TOKEN, DATABASE=VARIABLES["DATABASE"])
    assert ended.code == 1, ended.text
    # The commands that hide them from the log are the one place where they have to stand.
    log = [line for line in ended.output.decode().splitlines() if not line.startswith("::add-mask::")]
    sent = {f"request {number}": str(call) for number, call in enumerate(hub.requests)}
    texts = {f"GitHub {number}": text for number, text in enumerate(scene.texts())}
    written = files_of(scene.project.folder / "holodeck-results")
    assert "it raised RuntimeError" in written["results.json"]
    assert any(MASK in text for text in texts.values())
    assert scene.repository.check_runs(HEAD)
    places = {"log": "\n".join(log), "summary": ended.summary, "outputs": str(ended.outputs)}
    assert leaks({**places, **sent, **texts, **written}) == {}


@pytest.mark.full
@pytest.mark.races
def test_no_piece_of_a_secret_is_in_a_report_or_a_journal(project: Project) -> None:
    planted(project, "python:planted:answer", ["all", *map(str, CUTS), "stop"])
    options = ("--concurrency", "1", "--history", "past")
    # Stopped before its end, it leaves its journal.
    run = project.run_process("run", "-o", "out", *options, **VARIABLES)
    assert run.code == 1, run.stdout + run.stderr
    assert "the run stopped" in run.stdout
    assert MASK in files_of(project.out)["journal.jsonl"]
    record = "out/results.json"
    shown = [
        project.run("report", record, "--format", name, **VARIABLES)
        for name in ("markdown", "html", "junit", "json", "csv", "console")
    ]
    shown.append(project.run("export", record, "--format", "honeyhive", **VARIABLES))
    assert all(each.code == 0 and each.stdout for each in shown)
    again = project.run("rejudge", record, "-o", "again", **VARIABLES)
    history = files_of(project.folder / "past")
    assert history.keys() == {"history.jsonl"}
    written = {**files_of(project.out), **files_of(project.folder / "again"), **history}
    assert leaks({**written, **printed([run, *shown, again])}) == {}


@pytest.mark.full
def test_no_piece_of_a_secret_is_left_of_what_a_command_prints(project: Project) -> None:
    planted(project, "command:python3 planted.py", map(str, CUTS))
    finished = project.run("run", "-o", "out", **VARIABLES)
    record = files_of(project.out)["results.json"]
    assert "its last line on stderr" in record
    assert "not JSON" in record
    assert leaks({**files_of(project.out), **printed([finished])}) == {}


def test_no_piece_of_a_secret_is_in_a_configuration_error(project: Project) -> None:
    planted(project, "python:planted:answer", ["all"])
    project.write(
        "planted.py", "import os\nraise ValueError(os.environ['SHOP_PAT'] + 'x' * 1960 + os.environ['DATABASE'])\n"
    )
    commands = (["validate"], ["run", "-o", "out"], ["run", "--dry-run"], ["decide", TOKEN], ["run", "--case", TOKEN])
    finished = [project.run(*arguments, **VARIABLES) for arguments in commands]
    assert [each.code for each in finished] == [2] * len(commands)
    assert MASK in finished[0].stderr
    assert leaks(printed(finished)) == {}
