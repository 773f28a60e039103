"""Commands on a record that is read case by case: they do the same as with one that is read as a whole."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import CaseRecord, TurnRecord
from holodeck_action.record.result_files import read_record
from holodeck_action.record.stored_cases import StoredCases
from tests.commands.project import Finished, Project
from tests.record.records import resealed

CASES = 17
"""Their contexts of 1 MB are more than a record may have that is read as a whole."""
BLEU = {"type": "standard", "metric": "bleu", "threshold": 0.5}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run with long contexts in large.json, and in whole.json, whose lines are not those that this version writes."""
    project = Project(tmp_path_factory.mktemp("large"))
    cases = [{"name": f"case {n}", "input": f"what is {n}?", "ground_truth": str(n)} for n in range(CASES)]
    project.suite(cases, [BLEU, {"type": "standard", "metric": "equality"}])
    project.answers([{"case": f"case {n}", "response": str(n) if n % 3 else "wrong"} for n in range(CASES)])
    project.policy(
        target="recorded:answers.jsonl",
        quarantine=[{"case": "case 3", "reason": "upstream", "owner": "@team", "expires": "2999-01-01"}],
    )
    project.write("labels.csv", "case,label\n" + "".join(f"case {n},{n % 2}\n" for n in range(12)))
    finished, record = project.evaluate("--no-html")
    assert finished.code == 1
    large = replace(record, cases=tuple(map(_with_context, record.cases)))
    write_results(project.out, large, decide(large))
    content = project.write("large.json", (project.out / "results.json").read_bytes()).read_bytes()
    project.write("whole.json", resealed(json.loads(content)))
    assert isinstance(read_record(project.folder / "large.json").cases, StoredCases)
    assert isinstance(read_record(project.folder / "whole.json").cases, tuple)
    return project


def _with_context(case: CaseRecord) -> CaseRecord:
    def wide(turn: TurnRecord) -> TurnRecord:
        return replace(turn, retrieval_context=("x" * 1_000_000,))

    return replace(case, trials=tuple(replace(each, turns=tuple(map(wide, each.turns))) for each in case.trials))


def _import(project: Project, file: str) -> tuple[Finished, Any]:
    finished = project.run("history", "import", file, "--into", "past")
    line = json.loads((project.folder / "past" / "history.jsonl").read_bytes())
    shutil.rmtree(project.folder / "past")
    return finished, line


def _rejudge(project: Project, file: str) -> tuple[Finished, Any]:
    finished = project.run("rejudge", file, "-o", "again", "--no-html")
    return finished, canonical_json(read_record(project.folder / "again" / "results.json"))


def _told(*arguments: str) -> Callable[[Project, str], tuple[Finished, Any]]:
    return lambda project, file: (project.run(*(file if each == "FILE" else each for each in arguments)), None)


COMMANDS: dict[str, Callable[[Project, str], tuple[Finished, Any]]] = {
    "export": _told("export", "FILE", "--format", "honeyhive"),
    "history import": _import,
    "rejudge": _rejudge,
    "calibrate": _told("calibrate", "labels.csv", "--results", "FILE", "--metric", "bleu", "--format", "json"),
    "verify": _told("verify", "FILE"),
    "failed-from": _told("run", "--failed-from", "FILE", "--dry-run"),
}


NEEDED = {"export": "honeyhive", "history import": "history", "calibrate": "calibration", "verify": "reference"}


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(NEEDED.get(name, "none"))) for name in COMMANDS]
)
def test_a_command_does_the_same_however_its_record_is_read(made: Project, tmp_path: Path, name: str) -> None:
    done = []
    for file in ("large.json", "whole.json"):
        shutil.copytree(made.folder, tmp_path / file, ignore=shutil.ignore_patterns("out", "large.json", "whole.json"))
        project = Project(tmp_path / file)
        (project.folder / "given.json").hardlink_to(made.folder / file)
        finished, more = COMMANDS[name](project, "given.json")
        said = re.sub(r'"created_at": "[^"]*"', "", finished.stdout)
        assert finished.code in (0, 1), finished.stderr
        assert said
        done.append((finished.code, said, more))
    assert done[0] == done[1]
