"""Trials of Harbor, and trajectories in ATIF."""

from __future__ import annotations

import json
import shutil
from typing import Any

from holodeck_action.record.record import Usage
from holodeck_action.record.result_files import read_record
from tests.extensions.results.conftest import DATA, Shelf

RESULTS = "jobs/*/result.json"


def _take(shelf: Shelf) -> None:
    shutil.copytree(DATA / "harbor", shelf.project.folder / "jobs", ignore=shutil.ignore_patterns("*.txt"))


def _change(shelf: Shelf, file: str, **changes: Any) -> None:
    path = shelf.project.folder / "jobs" / file
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def test_rewards_need_a_mark_and_an_agent_that_ran_out_of_time_is_an_error(shelf: Shelf) -> None:
    _take(shelf)
    # Its reward is 1 all the same.
    shown = {"acme/late": "error", "acme/unverified": "error", "acme/two": "informational"}
    assert shelf.gate(RESULTS, "--cases", "5").code == 3
    assert shelf.outcomes() == {**shown, "acme/hello": "informational", "acme/sum": "informational"}
    assert shelf.gate(RESULTS, "--cases", "5", "--pass-at", "reward=1").code == 1
    # Harbor attempts each task equally often, and the file of a second attempt is missing for these.
    lacking = {"acme/sum": "failed", "acme/two": "informational"}
    assert {name: shelf.outcomes()[name] for name in lacking} == lacking
    hello = next(case for case in read_record(shelf.project.folder / "out").cases if case.name == "acme/hello")
    turn = hello.trials[0].turns[0]
    assert (len(hello.trials), turn.response, turn.usage) == (2, "It is there.", Usage(250, 15, 0.03))
    assert [(call.name, call.result) for call in turn.tool_invocations or ()] == [("Write", "done")]
    shutil.rmtree(shelf.project.folder / "jobs" / "hello__2")
    # A file that is named twice is no second trial.
    assert shelf.gate(RESULTS, "jobs/hello__1/result.json", "--cases", "5").code == 3
    assert {len(case.trials) for case in read_record(shelf.project.folder / "out").cases if case.trials} == {1}
    for name in ("sum__3", "late__4", "unverified__5", "two__6"):
        shutil.rmtree(shelf.project.folder / "jobs" / name)
    assert shelf.gate(RESULTS, "--cases", "1", "--pass-at", "1").code == 0
    shutil.copytree(DATA / "harbor" / "sum__3", shelf.project.folder / "jobs" / "sum__3")
    _change(
        shelf, "sum__3/result.json", task_name="acme/hello", step_results=[{"exception_info": {"exception_type": "E"}}]
    )
    assert shelf.gate(RESULTS, "--cases", "2", "--pass-at", "1").code == 3


def test_a_trial_that_is_missing_leaves_its_case_undecided(shelf: Shelf) -> None:
    _take(shelf)
    for name in ("late__4", "unverified__5", "two__6"):
        shutil.rmtree(shelf.project.folder / "jobs" / name)
    _change(shelf, "sum__3/result.json", verifier_result={"rewards": {"reward": 1.0}})
    assert shelf.gate(RESULTS, "--cases", "2", "--pass-at", "1").code == 3
    assert shelf.outcomes() == {"acme/hello": "passed", "acme/sum": "skipped"}


def test_a_trajectory_has_an_answer_and_no_verdict(shelf: Shelf) -> None:
    _take(shelf)
    file = "jobs/hello__1/agent/trajectory.json"
    nothing = shelf.gate(file, "--cases", "1")
    assert (nothing.code, "no case asserts anything" in nothing.stderr) == (2, True)
    shelf.project.suite([{"name": "write", "input": "Write hello.txt.", "ground_truth": "It is there."}])
    for target in (file, "jobs/hello__1/result.json"):
        assert shelf.project.run("run", "--target", f"results:{target}", "-o", "out").code == 0
    # Two trials of one task answer two trials of the case; the answers differ.
    assert (
        shelf.project.run("run", "--target", "results:jobs/hello__*/result.json", "--repeat", "2", "-o", "out").code
        == 1
    )
    _change(shelf, "hello__2/result.json", agent_info={"name": "another"})
    mixed = shelf.project.run("run", "--target", "results:jobs/hello__*/result.json", "-o", "out")
    assert (mixed.code, "give those of one agent" in mixed.stdout) == (3, True), mixed.stdout
    steps = json.loads((shelf.project.folder / file).read_text(encoding="utf-8"))["steps"]
    copied = [{**step, "is_copied_context": step["source"] == "agent"} for step in steps]
    for changes in ({"steps": steps[:2]}, {"continued_trajectory_ref": "more.json"}, {"steps": copied}):
        whole = (DATA / "harbor" / "hello__1" / "agent" / "trajectory.json").read_text(encoding="utf-8")
        shelf.project.write(file, whole)
        _change(shelf, file.removeprefix("jobs/"), **changes)
        assert shelf.project.run("run", "--target", f"results:{file}", "-o", "out").code == 3


def test_unknown_versions_and_sources_are_refused_by_name(shelf: Shelf) -> None:
    trajectory = "hello__1/agent/trajectory.json"
    for file, changes, sentence in (
        ("hello__1/result.json", {"schema_version": 2}, "is of version 2 of Harbor's trials"),
        (trajectory, {"schema_version": "ATIF-v2.0"}, "of the version 'ATIF-v2.0' (known: ATIF-v1.0 to ATIF-v1.8)"),
        (trajectory, {"steps": [{"source": "oracle"}]}, "a step of the unknown source 'oracle'"),
        (trajectory, {"steps": 3}, "is not a valid file of its format"),
    ):
        shutil.rmtree(shelf.project.folder / "jobs", ignore_errors=True)
        _take(shelf)
        _change(shelf, file, **changes)
        ended = shelf.gate("jobs/hello__1/result.json", "--cases", "1", "--pass-at", "1")
        assert (ended.code, sentence in ended.stderr) == (2, True), ended.stderr
    shelf.project.write(f"jobs/{trajectory}", "{")
    ended = shelf.gate("jobs/hello__1/result.json", "--cases", "1", "--pass-at", "1")
    assert (ended.code, "has a file agent/trajectory.json that cannot be read" in ended.stderr) == (2, True)
