"""Reports of a record that is read case by case: the same as of one that is read as a whole, and never in memory."""

from __future__ import annotations

import json
from datetime import date
from itertools import cycle, islice

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.record import Record, SuiteIdentity
from holodeck_action.record.result_files import read_record
from holodeck_action.record.stored_cases import INDEXED_FROM, StoredCases
from holodeck_action.suite.model.policy import QuarantineEntry
from tests.commands.project import Project
from tests.record.records import case, record, resealed

FORMATS = ("console", "markdown", "html", "junit", "json", "csv")
KINDS = ("P", "F", "E", "PPF", "S", "", "PP")
CASES = 120


def made() -> Record:
    """Cases of every kind, with texts that make the file a large one."""
    text = "An answer that goes on. " * (INDEXED_FROM // CASES // 24)
    cases = []
    for number, letters in enumerate(islice(cycle(KINDS), CASES)):
        one = case(letters, repeat=max(1, len(letters)), name=f"case {number}", asserting=number % 11 != 5)
        trials = tuple(
            replace(trial, turns=tuple(replace(turn, ground_truth=f"{number} {text}") for turn in trial.turns))
            for trial in one.trials
        )
        cases.append(replace(one, trials=trials, tags=("odd",) if number % 2 else ()))
    entry = QuarantineEntry(case="case 8", reason="known", owner="@me", expires=date(2999, 1, 1))
    return record(*cases, quarantine=(entry,), suite=SuiteIdentity("large", "agent.yaml", "digest"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same record in out/results.json, and in whole.json, whose lines are not those that this version writes."""
    project = Project(tmp_path_factory.mktemp("large"))
    run = made()
    project.out.mkdir()
    write_results(project.out, run, decide(run))
    project.write("whole.json", resealed(json.loads((project.out / "results.json").read_bytes())))
    assert isinstance(read_record(project.out / "results.json").cases, StoredCases)
    assert isinstance(read_record(project.folder / "whole.json").cases, tuple)
    return project


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "canonical"),
    # The report is made canonical before it has a format.
    [*((name, ()) for name in FORMATS), ("json", ("--canonical",)), ("markdown", ("--canonical",))],
)
def test_a_report_is_the_same_however_its_record_is_read(both: Project, name: str, canonical: tuple[str, ...]) -> None:
    shown = []
    for place, file in enumerate(("out/results.json", "whole.json")):
        project = both
        project.write("results.json", (both.folder / file).read_bytes())
        ended = project.run("report", "results.json", "--format", name, *canonical, "-o", f"{place}.{name}")
        assert (ended.code, ended.stdout) == (0, ""), ended.stderr
        shown.append((project.folder / f"{place}.{name}").read_bytes())
    assert shown[0] == shown[1]
    assert len(shown[0]) > 1000
