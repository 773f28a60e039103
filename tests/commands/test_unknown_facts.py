"""What nobody told is neither none nor zero: in gates, reports and the page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.facts import LARGEST
from tests.commands.project import Project


@pytest.fixture
def project(tmp_path: Any) -> Project:
    return Project(tmp_path)


def test_a_limit_on_times_is_refused_for_a_transcript_that_tells_none(project: Project) -> None:
    project.numbered(2)
    project.policy(target="recorded:answers.jsonl", gates={"p95_latency_ms": 1000})
    for arguments in (("run",), ("validate",)):
        done = project.run(*arguments)
        assert done.code == 2, done.stderr
        assert "gates.p95_latency_ms cannot be judged" in done.stderr
        assert "no row of answers.jsonl has duration_ms" in done.stderr


def test_times_of_reading_a_transcript_are_nobodys(project: Project) -> None:
    project.numbered(3)
    project.answers(
        [{"case": f"case {n}", "response": str(n), **({"duration_ms": 7} if n == 0 else {})} for n in range(3)]
    )
    project.policy(target="recorded:answers.jsonl", gates={"p95_latency_ms": 1000})
    done, record = project.evaluate()
    assert done.code == 3, done.stderr
    assert "2 answers did not report this time" in done.stdout
    timings = [turn.timing for turn in record.turns]
    assert [(each.duration_ms, each.model_ms) for each in timings if each] == [(None, 7.0), (None, None), (None, None)]
    project.policy(target="recorded:answers.jsonl")
    project.answers([{"case": f"case {n}", "response": str(n)} for n in range(3)])
    project.evaluate()
    assert project.run("history", "add", "out/results.json", "--to", "lines.jsonl").code in (0, 2)
    report = json.loads((project.out / "report.json").read_text()) if (project.out / "report.json").exists() else None
    if report is not None:
        assert all(case["duration_ms"] is None for case in report["cases"])


TOO_MUCH: dict[str, dict[str, Any]] = {
    "cost_usd": {"cost_usd": 1e308},
    "cost_usd of a model": {"usage": {"cost_usd": 1e308}},
    "cost_usd of two models": {"usage": [{"cost_usd": LARGEST}, {"cost_usd": LARGEST}]},
    "tokens": {"usage": {"prompt_tokens": 10**300, "completion_tokens": 1}},
    "tokens of two models": {"usage": [{"prompt_tokens": LARGEST}, {"prompt_tokens": LARGEST}]},
    "duration_ms": {"duration_ms": 1e308},
    "first_token_ms": {"first_token_ms": 1e308},
    "score of a chunk": {"retrieved_chunks": [{"id": "a", "score": -1e308}]},
    "bytes of a tool": {"tool_invocations": [{"name": "a", "bytes": 2**60}]},
    "duration of a tool": {"tool_invocations": [{"name": "a", "duration_ms": 1e300}]},
}


def test_a_number_that_no_sum_could_hold_is_an_error_of_its_case(project: Project) -> None:
    cases = {**TOO_MUCH, "as much as may be": {"cost_usd": LARGEST, "duration_ms": LARGEST}}
    project.suite([{"name": name, "input": "?", "ground_truth": "x"} for name in cases])
    project.answers([{"case": name, "response": "x", **told} for name, told in cases.items()])
    project.policy(target="recorded:answers.jsonl")
    done, record = project.evaluate()
    assert done.code == 3, done.stderr
    errors = {case.name: turn.error for case in record.cases for turn in case.turns}
    assert errors.pop("as much as may be") is None
    for name, error in errors.items():
        assert error is not None, name
        assert (error.code, str(LARGEST) in error.message) == ("bad_reply", True), name


def test_a_record_with_such_a_number_is_not_read(project: Project) -> None:
    project.numbered(1)
    project.answers([{"case": "case 0", "response": "0", "cost_usd": 1.5}])
    project.evaluate()
    results = project.out / "results.json"
    results.write_text(results.read_text().replace('"cost_usd":1.5', '"cost_usd":1e308'))
    done = project.run("decide", "out/results.json")
    assert done.code == 2
    assert "cost_usd" in done.stderr


def test_a_limit_on_flaky_cases_runs_every_trial_and_says_so(project: Project) -> None:
    project.suite([{"name": "a", "input": "?", "ground_truth": "yes"}])
    project.answers([{"case": "a", "trial": at, "response": said} for at, said in enumerate(("yes", "no"))])
    policy = {"target": "recorded:answers.jsonl", "trials": {"repeat": 2, "min_pass": 1}}
    project.policy(**policy)
    done, record = project.evaluate()
    assert (done.code, len(record.cases[0].trials)) == (0, 1)
    project.policy(**policy, gates={"max_flaky": 0})
    done, record = project.evaluate()
    assert (done.code, len(record.cases[0].trials)) == (1, 2)
    assert "all trials of each case are run, because gates.max_flaky" in " ".join(record.notices)


def test_no_metric_that_passes_makes_up_for_what_another_one_lacks(project: Project) -> None:
    evaluations = [{"type": "tool_correctness", "threshold": 0.5}, {"type": "standard", "metric": "equality"}]
    project.suite(
        [
            {"name": "a", "input": "?", "ground_truth": "x", "evaluations": evaluations},
            {"name": "b", "input": "?", "ground_truth": "x"},
        ]
    )
    gates = {"min_completeness": 0.5}
    cases = {"a": {"expected_trajectory": [{"name": "find"}]}}
    project.policy(target="recorded:answers.jsonl", gates=gates, cases=cases)
    rows: list[dict[str, Any]] = [{"case": name, "response": "x", "tool_invocations": []} for name in "ab"]
    for told, code, outcome in ((rows, 1, "failed"), ([{**rows[0], "tool_invocations": None}, rows[1]], 3, "error")):
        project.answers(told)
        done, _ = project.evaluate()
        assert done.code == code, done.stdout
        assert project.verdict()["cases"][0]["outcome"] == outcome
    assert "1 evaluation has an unknown input, which no gate tolerates" in done.stdout
