"""A run that does not fit into memory writes, decides and resumes what a small one does."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from holodeck_action.record.canonical import canonical_json, record_digest
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_results
from holodeck_action.record.stored_cases import INDEXED_FROM, LazyCases
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project

CASES = 40
LENGTH = 700_000

AGENT = f"""
import os, time

def answer(messages):
    number = int(messages[-1]["content"].removeprefix("what is ").removesuffix("?"))
    time.sleep(600 if number > 35 and os.path.exists("hangs") else 0)
    return str(number) if number % 3 == 0 else str(number) + ' "trials":[] ' * ({LENGTH} // 13)
"""


def write_suite(project: Project) -> Project:
    """Cases of which two of three answers are wrong, and a megabyte long."""
    project.numbered(CASES)
    project.policy(
        target="python:agent:answer",
        limits={"concurrency": 3},
        cases={"case 4": {"tags": ["slow"], "weight": 2}},
        quarantine=[{"case": "case 5", "reason": "upstream", "owner": "@team", "expires": "2999-01-01"}],
    )
    project.write("agent.py", AGENT)
    return project


@dataclass(frozen=True)
class Whole:
    """A run's output folder, and what the command printed."""

    out: Path
    ran: Finished


@pytest.fixture
def large(project: Project) -> Project:
    return write_suite(project)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An undisturbed run of the suite; nothing may change it."""
    project = write_suite(Project(tmp_path_factory.mktemp("whole")))
    ran = project.run("run", "-o", "out")
    assert ran.code == 1, ran.stderr
    return Whole(project.out, ran)


def stored(folder: Path) -> Record:
    path = folder / "results.json"
    assert path.stat().st_size > INDEXED_FROM / 2
    found = read_results(path)
    assert found.record_digest == record_digest(found.record)
    return found.record


@pytest.mark.full
def test_a_large_run_writes_what_its_small_parts_write_together(large: Project, whole: Whole) -> None:
    record = stored(whole.out)
    assert isinstance(record.cases, LazyCases)
    folders = []
    for number in (1, 2, 3):
        folders.append(f"shards/{number}")
        # A part is small enough to be in memory.
        assert large.run("run", "--shard", f"{number}/3", "-o", folders[-1]).code == 0
        assert (large.folder / folders[-1] / "results.json").stat().st_size < INDEXED_FROM
    assert large.run("merge", *folders, "-o", "merged").code == 1
    assert canonical_json(record) == canonical_json(stored(large.folder / "merged"))
    shutil.copytree(whole.out, large.folder / "whole")
    decided = large.run("decide", "whole/results.json", "-o", "again")
    assert decided.code == 1
    verdicts = [json.loads((large.folder / name / "verdict.json").read_bytes()) for name in ("whole", "again")]
    assert verdicts[0] == verdicts[1]
    assert len(verdicts[0]["cases"]) == CASES
    assert decided.stdout.splitlines()[-1] == whole.ran.stdout.splitlines()[-1]


@pytest.mark.full
def test_a_large_run_is_resumed(large: Project, whole: Whole) -> None:
    large.write("hangs", "")

    def attempt(seconds: float) -> tuple[Finished, Record]:
        finished = large.run("run", "-o", "out", "--run-timeout", f"{seconds}")
        return finished, read_results(large.out / "results.json").record

    stopped, partial = ever_longer(attempt, lambda ran: sum(1 for case in ran[1].cases if case.trials) == 36)
    assert stopped.code == 1, stopped.stderr
    assert partial.stopped is not None
    (large.folder / "hangs").unlink()
    resumed = large.run("run", "-o", "out", "--resume")
    assert resumed.code == 1, resumed.stderr
    record = stored(large.out)
    assert record.run.resumed_trials == 36
    assert canonical_json(record) == canonical_json(stored(whole.out))


@pytest.mark.parametrize("damage", ["case", "last case", "digest", "cut", "swapped"])
def test_a_large_file_that_was_changed_is_refused(large: Project, whole: Whole, damage: str) -> None:
    lines = (whole.out / "results.json").read_bytes().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.startswith(b'{"id"'))
    match damage:
        case "case":
            lines[first] = lines[first].replace(b'"score":1.0', b'"score":0.0')
        case "last case":
            del lines[first + CASES - 1]
        case "digest":
            lines[-2] = lines[-2].replace(b'"digest": "', b'"digest": "0')[:-3] + b'"\n'
        case "cut":
            lines = lines[:-1]
        case "swapped":
            lines[first], lines[first + 1] = lines[first + 1], lines[first]
    large.write("out/results.json", b"".join(lines))
    refused = large.run("decide", "out/results.json")
    assert refused.code == 2
    assert refused.stderr.startswith(f"error: out{os.sep}results.json: ")
    assert "Traceback" not in refused.stderr


def test_windows_line_ends_of_a_large_file_do_not_matter(large: Project, whole: Whole) -> None:
    large.write("out/results.json", (whole.out / "results.json").read_bytes().replace(b"\n", b"\r\n"))
    assert large.run("decide", "out/results.json").code == 1


@pytest.mark.full
def test_a_large_run_survives_a_full_disk(large: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(gone))
    gone.rmdir()
    assert large.run("run", "-o", "out").code == 1
    assert isinstance(stored(large.out).cases, LazyCases)


@pytest.mark.full
def test_what_a_large_suite_asks_is_recorded_as_it_stands_there(project: Project) -> None:
    expected = [f"{number} ä\u2028" + "w" * (INDEXED_FROM // CASES) for number in range(CASES)]
    asked = [{"name": f"case {at}", "input": f"é{at}?", "ground_truth": text} for at, text in enumerate(expected)]
    project.suite([], test_cases=None, test_cases_file="cases.jsonl")
    project.write("cases.jsonl", "".join(f"{json.dumps(case)}\n" for case in asked))
    project.answers([{"case": f"case {at}", "response": text} for at, text in enumerate(expected)])
    project.policy(target="recorded:answers.jsonl")
    ran = project.run("run", "-o", "out")
    assert ran.code == 0, ran.stderr
    turns = [turn for case in stored(project.out).cases for turn in case.turns]
    assert [turn.input for turn in turns] == [case["input"] for case in asked]
    assert [turn.ground_truth for turn in turns] == expected
