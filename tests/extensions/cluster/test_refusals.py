"""What does not go with a cluster is refused by name, before anything is connected or run."""

from __future__ import annotations

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

HERE = "tcp://127.0.0.1:1"


@pytest.mark.proves("run: --cluster-insecure")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--cluster", HERE, "--replay", "tape"),
            "--replay applies to this machine and cannot be combined with --cluster",
        ),
        (("--cluster", HERE, "--record", "tape"), "--record applies to this machine"),
        (("--cluster", HERE, "--cache", "kept"), "--cache applies to this machine"),
        (("--cluster", HERE, "--against", "."), "--against applies to this machine"),
        (("--cluster", HERE, "--allow-path", "."), "--allow-path applies to this machine"),
        (("--cluster-insecure",), "--cluster-insecure applies to the workers of --cluster"),
        (("--cluster-env", "KEY"), "--cluster-env applies to the workers of --cluster"),
        (("--cluster", HERE, "--cluster-env", "NOBODY_SETS_IT"), "--cluster-env NOBODY_SETS_IT: there is no such var"),
        (("--cluster", "tcp://10.0.0.1:8786"), "over tcp:// anyone who can reach the scheduler can read the traffic"),
    ],
)
def test_what_does_not_go_with_a_cluster(project: Project, arguments: tuple[str, ...], said: str) -> None:
    project.numbered(3)
    finished = project.run("run", *arguments)
    assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
    assert said in finished.errors[0]


def test_a_scheduler_that_is_not_there_is_named(project: Project) -> None:
    project.numbered(3)
    project.policy(target="command:cat")
    # Dask leaves threads behind.
    finished = project.run_process("run", "--cluster", "tls://localhost:1")
    assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
    assert "no usable Dask scheduler was found there" in finished.errors[0]


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8786", "http://a:1", "tcp://a", "tcp://a:b", "tcp://u:p@a:1", "tcp://a:1/x"]
)
def test_an_address_has_a_form(project: Project, address: str) -> None:
    project.numbered(3)
    finished = project.run("run", "--cluster", address)
    assert finished.code == 2
    assert "tcp://HOST:PORT or tls://HOST:PORT" in finished.stderr


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"cache": {"mode": "cache"}}, "--cluster cannot be combined with recorded or cached model calls"),
        ({"baseline": {"source": "merge-base"}}, "--cluster cannot be combined with merge-base"),
    ],
)
def test_what_the_policy_file_asks_for(project: Project, policy: dict[str, object], said: str) -> None:
    project.numbered(3)
    project.policy(target="recorded:answers.jsonl", **policy)
    finished = project.run("run", "--cluster", HERE)
    assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
    assert said in finished.errors[0]


def test_recorded_answers_without_a_judge_are_evaluated_in_the_coordinator(project: Project) -> None:
    project.numbered(3, wrong=frozenset({1}))
    alone = project.run("run", "-o", "alone")
    # There is no scheduler: whatever connects fails.
    finished = project.run("run", "-o", "here", "--cluster", HERE)
    assert (alone.code, finished.code) == (1, 1), finished.stderr
    assert finished.stderr.count("--cluster is not used: the answers are recorded") == 1
    records = [read_record(project.folder / folder / "results.json") for folder in ("alone", "here")]
    assert canonical_json(records[0]) == canonical_json(records[1])


@pytest.mark.full
def test_recorded_answers_with_a_judge_go_to_the_cluster(project: Project) -> None:
    project.numbered(3)
    criteria = {"type": "geval", "name": "polite", "criteria": "Is the answer polite?", "threshold": 0.5}
    cases = [{"name": f"case {n}", "input": f"what is {n}?", "ground_truth": str(n)} for n in range(3)]
    project.suite(cases, [criteria])
    finished = project.run_process("run", "--cluster", "tls://localhost:1", OPENAI_API_KEY="sk-not-used-at-all")
    assert finished.code == 2, finished.stderr
    assert "no usable Dask scheduler was found there" in finished.stderr
