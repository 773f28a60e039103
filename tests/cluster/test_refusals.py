"""What does not go with a cluster is refused by name, before anything is connected or run."""

from __future__ import annotations

import pytest

from tests.cli.project import Project

HERE = "tcp://127.0.0.1:1"


@pytest.mark.proves("run: --cluster-insecure")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cluster", HERE, "--replay", "tape"), "--replay is about this machine and does not go with --cluster"),
        (("--cluster", HERE, "--record", "tape"), "--record is about this machine"),
        (("--cluster", HERE, "--cache", "kept"), "--cache is about this machine"),
        (("--cluster", HERE, "--against", "."), "--against is about this machine"),
        (("--cluster", HERE, "--allow-path", "."), "--allow-path is about this machine"),
        (("--cluster-insecure",), "--cluster-insecure is about the workers of --cluster"),
        (("--cluster-env", "KEY"), "--cluster-env is about the workers of --cluster"),
        (("--cluster", HERE, "--cluster-env", "NOBODY_SETS_IT"), "--cluster-env NOBODY_SETS_IT: there is no such var"),
        (("--cluster", "tcp://10.0.0.1:8786"), "over tcp:// whoever reaches the scheduler reads what is sent"),
    ],
)
def test_what_does_not_go_with_a_cluster(project: Project, arguments: tuple[str, ...], said: str) -> None:
    project.numbered(3)
    finished = project.run("run", *arguments)
    assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
    assert said in finished.errors[0]


def test_a_scheduler_that_is_not_there_is_named(project: Project) -> None:
    project.numbered(3)
    # Dask leaves threads behind.
    finished = project.run_process("run", "--cluster", "tls://localhost:1")
    assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
    assert "no scheduler of Dask can be used there" in finished.errors[0]


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
        ({"cache": {"mode": "cache"}}, "--cluster does not go with recorded or kept model calls"),
        ({"baseline": {"source": "merge-base"}}, "--cluster does not go with merge-base"),
    ],
)
def test_what_the_policy_file_asks_for(project: Project, policy: dict[str, object], said: str) -> None:
    project.numbered(3)
    project.policy(target="recorded:answers.jsonl", **policy)
    finished = project.run("run", "--cluster", HERE)
    assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
    assert said in finished.errors[0]
