"""`stop: certain` asks no case that cannot change the exit code, and tells the same verdict as the whole run."""

from __future__ import annotations

import html
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from scripts.generated_suites import generated_suite
from tests.commands.project import Finished, Project
from tests.llm.models import KEY, FakeModels

AGENT = """
import os, time

def answer(messages):
    number = messages[-1]["content"].removeprefix("what is ").removesuffix("?")
    with open("asked", "a") as file:
        file.write(number + "\\n")
    time.sleep(600 if int(number) >= int(os.environ.get("HANG", "1000")) else float(os.environ.get("DELAY", "0")))
    return "wrong" if number in open("wrong").read().split() else number
"""
CERTAIN = ("--stop", "certain", "--concurrency", "1")


def agent_suite(project: Project, count: int, wrong: str, **policy: Any) -> None:
    project.numbered(count)
    project.write("agent.py", AGENT)
    project.write("wrong", wrong)
    project.policy(target="python:agent:answer", **policy)


def asked(project: Project) -> list[int]:
    path = project.folder / "asked"
    found = [int(line) for line in path.read_text().split()] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def waived(*numbers: int) -> list[dict[str, str]]:
    return [
        {"case": f"case {number}", "reason": "upstream", "owner": "@team", "expires": "2999-01-01"}
        for number in numbers
    ]


@pytest.mark.proves("run: --stop", "Policy: stop")
def test_with_default_gates_a_run_ends_at_its_first_failing_case(project: Project) -> None:
    agent_suite(project, 30, "5 9", stop="certain", limits={"concurrency": 1})
    finished, record = project.evaluate()
    assert finished.code == 1
    # The next cases are asked while an answer is graded.
    assert len(asked(project)) < 12
    assert record.certain is not None
    assert record.certain.counted == tuple(f"case-{number}" for number in range(6))
    assert record.stopped is None
    assert [len(case.trials) for case in record.cases] == [1] * 6 + [0] * 24
    assert not (project.out / "journal.jsonl").exists()
    end = "stopped after 6 of 30 cases: 1 failure decides (stop: never runs all)"
    assert f"FAILED: tested · 5 of 6 passed, all must pass · case 5: equality: 'wrong' differs from '5' · {end}" in (
        finished.stdout
    )
    assert "? not determined: stopped (min_completeness)" in finished.stdout
    assert end in project.run("report", "out/results.json", "--format", "markdown").stdout
    assert end in html.unescape((project.out / "report.html").read_text())
    project.run("run", "-o", "out", "--stop", "never")
    assert len(asked(project)) == 30


@pytest.mark.full
def test_a_passing_run_asks_all_cases_and_has_the_usual_record(project: Project) -> None:
    agent_suite(project, 8, "")
    whole = project.evaluate()[1]
    finished, record = project.evaluate(*CERTAIN)
    assert (finished.code, record.certain) == (0, None)
    assert canonical_json(record) == canonical_json(whole)


def test_a_passing_run_ends_before_its_quarantined_cases(project: Project) -> None:
    agent_suite(project, 9, "2 4", quarantine=waived(2, 3, 4))
    finished, record = project.evaluate(*CERTAIN)
    assert finished.code == 0, finished.stdout
    assert asked(project)[:6] == [0, 1, 5, 6, 7, 8]
    assert record.certain is not None
    assert "6 of 6 passed · stopped after 6 of 9 cases: the other cases cannot change the verdict" in finished.stdout


@pytest.mark.full
@pytest.mark.parametrize("concurrency", ["2", "7", "30"])
def test_the_record_does_not_depend_on_how_many_cases_ran_beside(project: Project, concurrency: str) -> None:
    gates = {"min_pass_rate": 0.8, "metrics": {"equality": {"min_mean": 0.7}}}
    agent_suite(project, 30, "1 5 9 13 14 15 16 17 20", gates=gates)
    alone = project.evaluate(*CERTAIN)[1]
    assert alone.certain is not None
    assert alone.certain.counted[-1] == "case-16"
    finished, record = project.evaluate("--stop", "certain", "--concurrency", concurrency, DELAY="0.002")
    assert finished.code == 1
    assert canonical_json(record) == canonical_json(alone)
    assert record.certain is not None
    assert not {*record.certain.counted} & {*record.certain.not_counted}


@pytest.mark.full
def test_cases_that_failed_on_the_base_come_first_and_a_stopped_run_is_no_base(project: Project) -> None:
    agent_suite(project, 12, "7 9")
    project.run("run", "-o", "base")
    asked(project)
    finished, record = project.evaluate("--baseline", "file:base", *CERTAIN)
    # The run may end before the second one is asked.
    assert asked(project)[:2] in ([7], [7, 9])
    assert finished.code == 1
    assert record.certain is not None
    states = {gate["name"]: (gate["state"], gate["reason"]) for gate in project.verdict()["gates"]}
    assert states["max_regressions"] == ("undetermined", "not determined: stopped")
    refused = project.run("run", "-o", "again", "--baseline", "file:out")
    assert refused.code == 2
    (error,) = refused.errors
    assert error.endswith(
        "is of a run that stopped when its exit code was certain, so not all of its cases count; "
        "give the results.json of a run that asked all cases"
    )
    refused = project.run("compare", "out/results.json", "base/results.json")
    assert refused.code == 2
    assert refused.errors[0].startswith("out/results.json: is of a run that stopped when its exit code was certain")
    # The other way round, the cases that count are compared.
    compared = project.run("compare", "base/results.json", "out/results.json")
    assert compared.code == 3
    assert "INCOMPLETE: no compared case got worse than on the base" in compared.stdout
    assert not [output for output in (finished.stdout, compared.stdout) if "Unlike the base" in output]


@pytest.mark.needs
def test_flaky_cases_of_the_history_come_before_others(project: Project) -> None:
    agent_suite(project, 8, "5", trials={"repeat": 2, "min_pass": 1, "stop_when_decided": False})
    project.write("agent.py", AGENT.replace('return "wrong" if', 'return "wrong" if os.path.getsize("asked") % 4 and'))
    project.run("run", "-o", "out", "--concurrency", "1", "--history", "past")
    asked(project)
    agent_suite(project, 8, "5")
    project.run("run", "-o", "out", "--history", "past", *CERTAIN)
    assert asked(project)[0] == 5


def test_a_push_to_the_default_branch_asks_all_cases(project: Project) -> None:
    agent_suite(project, 6, "1")
    project.write("event.json", json.dumps({"ref": "refs/heads/main", "repository": {"default_branch": "main"}}))
    event = {"GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}
    finished, record = project.evaluate(*CERTAIN, GITHUB_EVENT_PATH=str(project.folder / "event.json"), **event)
    assert record.certain is None
    assert len(asked(project)) == 6
    assert "stop: certain has no effect on the default branch" in finished.stderr


@pytest.mark.full
@pytest.mark.races
def test_a_killed_run_is_resumed_to_the_same_record(project: Project) -> None:
    agent_suite(project, 40, "20 21")
    whole = project.evaluate(*CERTAIN)[1]
    asked(project)
    process = project.start("run", "-o", "killed", *CERTAIN, HANG="8")
    journal = project.folder / "killed" / "journal.jsonl"
    project.wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == 9)
    # The case that hangs is asked when those before it are already in the journal.
    project.wait_until(lambda: len((project.folder / "asked").read_text().split()) == 9)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert asked(project) == [*range(9)]
    finished = project.run("run", "-o", "killed", "--resume", *CERTAIN)
    record = read_record(project.folder / "killed" / "results.json")
    assert finished.code == 1
    assert record.run.resumed_trials == 8
    assert canonical_json(record) == canonical_json(whole)


def test_a_replay_has_the_same_bytes_though_other_cases_ran_beside(project: Project, models: FakeModels) -> None:
    project.numbered(24)
    project.policy(stop="certain")
    answers = {f"what is {number}?": str(number) for number in range(24) if number != 9}
    models.answer(lambda request: next((text for asked, text in answers.items() if asked in str(request.body)), "?"))
    # The verdict of case 9 is known before the last cases are asked, on a busy machine, too.
    late = {f"what is {number}?" for number in range(13, 24)}
    models.latency = lambda request: 2.0 if any(asked in str(request.body) for asked in late) else 0.0
    service = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
    finished, record = project.evaluate("--record", "tape", "--concurrency", "4", **service)
    assert finished.code == 1, finished.stdout + finished.stderr
    assert record.certain is not None
    assert len(record.certain.counted) == 10
    assert len(models.requests) < 24
    said = [
        project.run("report", "out/results.json", "--canonical", "--format", form).stdout for form in ("json", "html")
    ]
    for concurrency in ("1", "12"):
        again, replayed = project.evaluate("--replay", "tape", "--concurrency", concurrency, **service)
        assert again.code == 1
        assert canonical_json(replayed) == canonical_json(record)
        shown = [
            project.run("report", "out/results.json", "--canonical", "--format", form) for form in ("json", "html")
        ]
        assert [each.stdout for each in shown] == said


def run_shard(project: Project, number: int, folder: str) -> Finished:
    return project.run("run", "--shard", f"{number}/2", "-o", folder, *CERTAIN)


def test_a_shard_stops_only_on_what_is_certain_whatever_the_others_find(project: Project) -> None:
    agent_suite(project, 40, " ".join(map(str, range(40))), gates={"min_pass_rate": 0.7})
    assert run_shard(project, 1, "one").code == 0
    assert len(asked(project)) < 20
    end = read_record(project.folder / "one" / "results.json").certain
    assert end is not None
    # Only 12 of all 40 cases may fail.
    assert len(end.counted) == 13
    project.write("wrong", "")
    assert run_shard(project, 2, "two").code == 0
    assert len(asked(project)) == 20
    merged = project.run("merge", "one", "two", "-o", "merged")
    assert merged.code == 1, merged.stdout + merged.stderr
    record = read_record(project.folder / "merged" / "results.json")
    assert record.certain is not None
    assert len(record.certain.counted) == 33
    assert "stopped after 33 of 40 cases: 13 failures decide" in merged.stdout


def test_other_gates_and_other_grades_of_a_stopped_run(project: Project) -> None:
    agent_suite(project, 10, "2")
    project.evaluate(*CERTAIN)
    other = project.run("decide", "out/results.json", "--min-pass-rate", "0.5", "--min-completeness", "0")
    assert other.code == 3
    assert "min_pass_rate is not determined: stopped" in other.stdout
    again = project.run("rejudge", "out/results.json", "-o", "again")
    assert again.code == 1
    record = read_record(project.folder / "again" / "results.json")
    assert record.certain is not None
    assert record.certain.counted == ("case-0", "case-1", "case-2")


def test_validate_says_what_the_gates_allow(project: Project) -> None:
    agent_suite(project, 3, "", stop="certain", gates={"max_errors": 1, "p95_latency_ms": 500})
    assert project.run("validate").stdout.endswith(
        "agent.yaml: stop: certain: a certain violation of min_pass_rate or max_errors ends a run early; "
        "p95_latency_ms can be judged only after the last case; "
        "a run that passes ends early at most before its quarantined cases\n"
    )


@pytest.mark.parametrize("number", range(24))
def test_generated_suites_have_the_exit_code_of_the_whole_run(project: Project, number: int) -> None:
    for name, content in generated_suite(number).items():
        project.write(name, content)
    whole = project.run("run", "-o", "whole")
    stopped = project.run("run", "-o", "out", *CERTAIN)
    assert stopped.code == whole.code, stopped.stdout
    if whole.code not in (0, 1, 3):
        return
    verdicts = [json.loads((project.folder / folder / "verdict.json").read_bytes()) for folder in ("whole", "out")]
    assert verdicts[0]["outcome"] == verdicts[1]["outcome"]
    record = read_record(Path(project.out / "results.json"))
    assert record.certain is None or whole.code != 3
