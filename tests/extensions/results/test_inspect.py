"""Logs that Inspect wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.extensions.results.conftest import DATA, Shelf


def test_epochs_are_trials_and_errors_stay_in_the_denominator(shelf: Shelf) -> None:
    ended = shelf.gate(shelf.take("inspect/sums.eval"))
    assert (ended.code, ended.stderr) == (1, "")
    # Inspect's own accuracy is .5, its status is success.
    assert shelf.outcomes() == {"sums: two": "passed", "sums: three": "failed", "sums: broken": "error"}
    record = read_record(shelf.project.folder / "out")
    turns = {case.id: case.trials[0].turns[0] for case in record.cases}
    two, broken = turns["sums-two"], turns["sums-broken"]
    assert [len(case.trials) for case in record.cases] == [2, 2, 2]
    assert (two.response, two.ground_truth) == ("the answer is 4", "4")
    assert two.tool_invocations is not None
    assert [(call.name, call.args, call.result) for call in two.tool_invocations] == [("add", {"a": 2, "b": 2}, "4")]
    assert broken.error is not None
    assert broken.error.message == "RuntimeError('provider 500')"
    assert "whether the exam changed since the base is unknown" in ended.stdout


def test_when_every_sample_is_in_error_nothing_passes(shelf: Shelf) -> None:
    def broken(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**sample, "scores": {}, "error": {"message": "down"}} for sample in samples]

    assert shelf.gate(shelf.change("inspect/good.json", samples=broken)).code == 3
    assert shelf.gate(shelf.change("inspect/good.json", samples=broken), "--min-completeness", "0").code == 3


@pytest.mark.proves("gate: --pass-at")
def test_a_number_passes_from_its_mark_on_and_a_judge_that_failed_is_an_error(shelf: Shelf) -> None:
    file = shelf.take("inspect/graded.json")
    assert shelf.gate(file).code == 3
    for mark, outcome in (("0.75", "passed"), ("closeness=0.8", "failed")):
        shelf.gate(file, "--pass-at", mark)
        assert shelf.outcomes()["graded: two"] == outcome
    evaluations = {each.evaluator_name: each for each in read_record(shelf.project.folder / "out").cases[1].evaluations}
    unclear = evaluations["closeness"]
    assert (unclear.status, unclear.error and unclear.error.message) == ("failed", "grader_failed")


REFUSED: dict[str, dict[str, Any]] = {
    "is of version 9 of Inspect's logs": {"version": 9},
    "has the unknown status 'maybe'": {"status": "maybe"},
    "has no samples": {"samples": None},
    "is not a valid file of its format": {"samples": [{"id": []}]},
}


def test_unknown_versions_and_statuses_are_refused_by_name(shelf: Shelf) -> None:
    for sentence, changes in REFUSED.items():
        ended = shelf.gate(shelf.change("inspect/good.json", **changes))
        assert (ended.code, sentence in ended.stderr) == (2, True), ended.stderr


def test_a_run_that_did_not_end_or_lacks_samples_or_is_of_another_commit_does_not_pass(shelf: Shelf) -> None:
    assert shelf.gate(shelf.take("inspect/good.json")).code == 0
    assert shelf.gate(shelf.change("inspect/good.json", status="cancelled")).code == 4
    more = json.loads((DATA / "inspect" / "good.json").read_text(encoding="utf-8"))["eval"]
    more["dataset"] |= {"samples": 2}
    assert shelf.gate(shelf.change("inspect/good.json", eval=more)).code == 3
    more["dataset"] |= {"samples": 1}
    more["config"]["epochs"] = 3
    assert shelf.gate(shelf.change("inspect/good.json", eval=more)).code == 3
    more["config"]["epochs"] = 1
    more["revision"] = {"type": "git", "origin": "x", "commit": "abc1234"}
    shelf.project.write(".git/HEAD", "f" * 40 + "\n")
    refused = shelf.gate(shelf.change("inspect/good.json", eval=more))
    assert (refused.code, "is of commit abc1234, and ffffffffffff is checked out" in refused.stderr) == (2, True)
    assert shelf.gate("changed.json", "--accept-stored").code == 0


@pytest.mark.full
def test_an_archive_is_read_within_bounds(shelf: Shelf) -> None:
    import io
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b"0" * 210_000_000)
    shelf.project.write("bomb.eval", packed.getvalue())
    assert "unpacks to too many bytes" in shelf.gate("bomb.eval").stderr
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("other.json", b"{}")
    shelf.project.write("other.zip", packed.getvalue())
    assert "is a zip file without header.json" in shelf.gate("other.zip").stderr
