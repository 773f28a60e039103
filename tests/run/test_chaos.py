"""Whatever the disk does and whenever the process dies: what stands in the folder is whole, and never a green lie."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_results
from tests.commands.project import Project

TIMES = int(os.environ.get("CHAOS_TIMES", "1"))
"""So many times the faults of an ordinary run of the tests."""
THIRDS, RACES = 18, 2
CODES = {True: 1, False: 0}
RUN = ["run", "-o", "out"]
FILES = {"junit.xml", "report.html", "report.md", "results.json", "verdict.json"}
"""The files that a run writes."""

Ended = dict[str, Any]
Serve = Callable[..., list[Ended]]


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Project]:
    """A folder with green results of two cases and a suite of six now, by whether one of them fails."""
    made = {}
    for failing in (True, False):
        project = Project(tmp_path_factory.mktemp(f"failing-{failing}"))
        project.numbered(2)
        assert project.run(*RUN).code == 0
        project.numbered(6, frozenset({4} if failing else ()))
        assert project.run("run", "-o", "undisturbed").code == CODES[failing]
        made[failing] = project
    return made


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Runs the command line on a disk that fails, several at the same time."""
    environ = Project(tmp_path_factory.mktemp("home")).environ(PYTHONPATH=str(Path(__file__).parents[2]))
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.run.failing_disk"],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def served(folder: Path, *tasks: tuple[str, int, str], arguments: list[str]) -> list[Ended]:
        assert server.stdin is not None
        assert server.stdout is not None
        given = [{"arguments": [*arguments, *more.split()], "how": how, "at": at} for how, at, more in tasks]
        server.stdin.write(json.dumps({"folder": str(folder), "tasks": given}) + "\n")
        server.stdin.flush()
        ended: list[Ended] = json.loads(server.stdout.readline())
        return ended

    yield served
    server.communicate()


def whole(out: Path) -> tuple[bytes, str | None]:
    """The canonical record in a folder, checked, and its digest."""
    found = read_results(out / "results.json")
    return canonical_json(found.record), found.digest


def check_folder(before: Path, out: Path, undisturbed: bytes, *, failing: bool) -> set[str]:
    """What stands there is the old or the new, each whole, and never both; green is only what is.

    Returns:
        The names of what is new.
    """
    old = {name: (before / name).read_bytes() for name in FILES}
    there = {name: (out / name).read_bytes() for name in FILES if (out / name).exists()}
    left = {name for name, held in there.items() if held == old[name]}
    new = there.keys() - left
    assert not (left and (new or (out / "journal.jsonl").exists())), (left, new)
    for name in left:
        assert there[name] == old[name]
    record, digest = whole(out) if "results.json" in new else (undisturbed, None)
    assert record == undisturbed
    if "verdict.json" in new:
        verdict = json.loads(there["verdict.json"])
        if verdict["results_digest"] is None:
            assert verdict["exit_code"] != 0
        else:
            assert verdict["exit_code"] == CODES[failing]
            assert verdict["results_digest"] == digest
    # Nothing of the run before is lost either.
    kept = {name for name in FILES if (out / "previous" / name).exists()}
    assert left | kept == FILES
    for name in kept:
        assert (out / "previous" / name).read_bytes() == old[name]
    return new


@pytest.mark.full
@pytest.mark.races
def test_every_fault_leaves_the_old_or_the_new_and_is_resumed(
    suites: dict[bool, Project], serve: Serve, tmp_path: Path
) -> None:
    chance = random.Random(11)
    calls = {}
    for failing, project in suites.items():
        copy = project.copy_to(tmp_path / f"counted-{failing}")
        (counted,) = serve(copy.folder, ("kill", 10**9, ""), arguments=RUN)
        assert counted["code"] == CODES[failing], counted["stderr"]
        calls[failing] = counted["calls"]
    seen = set()
    for number in range(THIRDS * TIMES):
        # Each way, with and without a failing case, in the beginning, the middle and the end of what the disk does.
        how, failing = ("kill", "once", "full")[number % 3], number // 3 % 2 == 1
        at = 1 + int(calls[failing] * (number // 6 % 3 + chance.random()) / 3)
        project = suites[failing].copy_to(tmp_path / "run")
        undisturbed, _ = whole(project.folder / "undisturbed")
        (ended,) = serve(project.folder, (how, at, ""), arguments=RUN)
        told = (failing, how, at, ended)
        new = check_folder(suites[failing].out, project.out, undisturbed, failing=failing)
        if how == "kill":
            assert ended["code"] in (-9, CODES[failing]), told
        else:
            assert "Traceback" not in ended["stderr"], told
            assert ended["code"] in (CODES[failing], 2, 3), told
        if ended["code"] == 0:
            assert "results.json" in new, told
            assert project.verdict()["exit_code"] == 0, told
        if ended["code"] == 3:
            assert "results could not be written: No space left on device" in ended["stderr"], told
            assert (project.out / "journal.jsonl").exists(), told
        seen.add(ended["code"])
        (resumed,) = serve(project.folder, ("never", 0, "--resume"), arguments=RUN)
        assert resumed["code"] == CODES[failing], (told, resumed)
        assert whole(project.out) == (undisturbed, project.verdict()["results_digest"]), told
        extra = {path.name for path in project.out.iterdir()} - FILES
        assert extra <= {"previous", "journal.previous.jsonl", ".finished.jsonl"}, told
        shutil.rmtree(project.folder)
    assert seen >= {-9, 1, 3}


@pytest.mark.full
@pytest.mark.races
def test_of_two_writers_one_is_refused_and_what_stands_is_whole(
    suites: dict[bool, Project], serve: Serve, tmp_path: Path
) -> None:
    for _ in range(RACES * TIMES):
        project = suites[True].copy_to(tmp_path / "run")
        undisturbed, _ = whole(project.folder / "undisturbed")
        ended = serve(project.folder, ("never", 0, ""), ("never", 0, ""), ("never", 0, "--resume"), arguments=RUN)
        codes = sorted(each["code"] for each in ended)
        assert codes[0] == 1, ended
        assert set(codes) <= {1, 2}, ended
        for each in ended:
            assert each["code"] == 1 or "another run is writing into this folder" in each["stderr"], ended
        assert whole(project.out) == (undisturbed, project.verdict()["results_digest"])
        assert project.verdict()["exit_code"] == 1
        assert {path.name for path in project.out.iterdir()} == FILES | {"previous", ".finished.jsonl"}
        shutil.rmtree(project.folder)
