"""`decide`: a record judged again, and results files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Project


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("made"))
    project.numbered(10, frozenset({3, 7}))
    assert project.run("run", "-o", "out").code == 1
    return project


@pytest.fixture
def judged(made: Project, tmp_path: Path) -> Project:
    """Ten cases, two of them wrong, in out/results.json."""
    return made.copy_to(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 1),
        (["--min-pass-rate", "0.8"], 0),
        (["--min-pass-rate", "0.81"], 1),
        (["--min-pass-rate", "0.8", "--min-pass-rate-lower-bound", "0.49"], 0),
        (["--min-pass-rate", "0.8", "--min-pass-rate-lower-bound", "0.5"], 1),
        (["--policy", "lenient.yaml"], 0),
        (["--policy", "lenient.yaml", "--min-pass-rate", "0.9"], 1),
        (["--policy", "mean.yaml"], 1),
    ],
)
def test_other_gates_give_another_verdict_without_running_anything(
    judged: Project, arguments: list[str], code: int
) -> None:
    judged.write("lenient.yaml", "gates: {min_pass_rate: 0.8, metrics: {equality: {min_mean: 0.8}}}")
    judged.write("mean.yaml", "gates: {min_pass_rate: 0.8, metrics: {equality: {min_mean: 0.9}}}")
    (judged.folder / "answers.jsonl").unlink()
    finished = judged.run("decide", "out/results.json", "-o", "again", *arguments)
    assert finished.code == code, finished.stdout
    verdict = json.loads((judged.folder / "again" / "verdict.json").read_bytes())
    assert verdict["exit_code"] == code
    assert verdict["record_digest"] == judged.verdict()["record_digest"]


def test_the_verdict_of_a_run_is_repeated_exactly(judged: Project) -> None:
    finished = judged.run("decide", "out/results.json", "-o", "again")
    assert finished.code == 1
    assert (judged.folder / "again" / "verdict.json").read_bytes() == (judged.out / "verdict.json").read_bytes()


def test_gates_of_the_run_may_name_metrics_of_cases_that_did_not_run(project: Project) -> None:
    first = {"name": "first", "input": "1", "ground_truth": "1", "evaluations": [{"type": "length", "max_words": 1}]}
    project.suite([first, {"name": "second", "input": "2", "ground_truth": "2"}])
    project.answers([{"case": "first", "response": "one or two"}, {"case": "second", "response": "2"}])
    gates = {"min_pass_rate": 1, "metrics": {"equality": {"min_mean": 0.5}}}
    project.policy(target="recorded:answers.jsonl", gates=gates, stop="certain", ground_truth="unused")
    assert project.run("run", "agent.yaml", "-o", "out").code == 1
    assert project.run("decide", "out", "-o", "again").code == 1
    again = json.loads((project.folder / "again" / "verdict.json").read_bytes())
    assert again == project.verdict()


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("gates: {min_pass_rat: 1}", 'policy.yaml:1:9: gates.min_pass_rat: unknown key, did you mean "min_pass_rate"?'),
        ("gates: {metrics: {blue: {min_mean: 0.5}}}", "there is no metric 'blue' (there are: equality)"),
        (
            "gates: {max_regressions: 1}",
            "max_regressions needs results that are compared with a base",
        ),
        ("gates: [", "policy.yaml:2:1: is not valid YAML"),
    ],
)
def test_a_policy_that_cannot_be_applied_is_refused(judged: Project, policy: str, sentence: str) -> None:
    judged.write("policy.yaml", policy)
    finished = judged.run("decide", "out/results.json", "--policy", "policy.yaml")
    assert finished.code == 2
    assert finished.stdout == ""
    assert sentence in finished.stderr


def test_a_policy_that_is_not_there_is_refused(judged: Project) -> None:
    finished = judged.run("decide", "out/results.json", "--policy", "none.yaml")
    assert finished.code == 2
    assert "none.yaml: does not exist" in finished.stderr


def changed(results: dict[str, Any], change: str) -> dict[str, Any]:
    case = results["cases"][0]
    match change:
        case "version":
            results["schema_version"] = 99
        case "missing":
            del case["trials"][0]["turns"]
        case "type":
            case["repeat"] = "many"
        case "twice":
            results["cases"].append(case)
        case "NaN":
            case["trials"][0]["turns"][0]["evaluations"][0]["score"] = float("nan")
        case "infinite":
            case["weight"] = float("inf")
        case "status":
            case["trials"][0]["turns"][0]["evaluations"][0]["status"] = "fine"
    return results


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "version",
            "schema_version is 99, this version reads 1 to 3; use the version of holodeck-action that wrote it",
        ),
        ("missing", "not a results file: cases.0.trials.0: missing required field turns"),
        ("type", "not a results file: cases.0.repeat: "),
        ("twice", "not a results file: two of its cases have the same id"),
        ("NaN", "not a results file: it holds NaN"),
        ("infinite", "not a results file: it holds Infinity"),
        ("status", "not a results file: cases.0.trials.0.turns.0.evaluations.0.status: "),
    ],
)
def test_a_file_that_is_no_record_is_refused(judged: Project, change: str, sentence: str) -> None:
    results = changed(json.loads((judged.out / "results.json").read_bytes()), change)
    judged.write("changed.json", json.dumps(results))
    finished = judged.run("decide", "changed.json", "--min-pass-rate", "0.1")
    assert finished.code == 2, finished.stdout
    assert finished.stdout == ""
    assert f"error: changed.json: {sentence}" in finished.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "its schema_version or its suite is missing"),
        (b"null", "its schema_version or its suite is missing"),
        (b'{"schema_version": 1}', "its schema_version or its suite is missing"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff\xfe", "not a results file"),
    ],
)
def test_a_file_that_is_something_else_is_refused(project: Project, content: bytes, sentence: str) -> None:
    project.write("other.json", content)
    finished = project.run("decide", "other.json")
    assert finished.code == 2
    assert "error: other.json: not a results file: " in finished.stderr
    assert sentence in finished.stderr


def test_other_files_of_a_run_are_no_results(judged: Project) -> None:
    for name in ("out/verdict.json", "agent.yaml", "answers.jsonl", "none.json"):
        finished = judged.run("decide", name)
        assert finished.code == 2
        assert finished.stdout == ""
        assert f"error: {name}: " in finished.stderr


def test_a_half_written_file_is_refused(judged: Project) -> None:
    content = (judged.out / "results.json").read_bytes()
    judged.write("half.json", content[: len(content) // 2])
    assert judged.run("decide", "half.json").code == 2


def test_a_partial_record_stays_stopped_whatever_the_gates(project: Project) -> None:
    project.numbered(2)
    project.policy(target="command:sleep 600")
    assert project.run("run", "-o", "out", "--run-timeout", "1").code == 4
    assert (
        project.run(
            "decide", "out/results.json", "--max-errors", "1", "--min-pass-rate", "0", "--min-completeness", "0"
        ).code
        == 4
    )
