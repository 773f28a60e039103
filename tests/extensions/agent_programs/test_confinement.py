"""Coding-agent programs are confined as well as the machine can."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from tests.commands.project import Project

LOOKER = """echo done > done.txt
cat "$0/agent.yaml" > /dev/null && printf "reads "
: > "$0/left.txt" && printf "writes "
cat "/proc/$1/environ" > /dev/null && printf "spies "
echo looked
"""
WRAPPERS = {"bubblewrap": "bwrap", "own user": "setpriv", "no": ""}


def works(kind: str) -> bool:
    """Whether this machine can confine by a kind."""
    if kind == "own user":
        return os.geteuid() == 0
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    try:
        return kind == "no" or subprocess.run(words, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.full
@pytest.mark.parametrize("kind", WRAPPERS)
@pytest.mark.proves("AgentTarget.confine")
def test_a_program_is_confined_as_well_as_the_machine_can(project: Project, kind: str) -> None:
    """The wrappers of stronger kinds do not work here; where the kind itself does not, the next one is tested."""
    kinds = [*WRAPPERS][[*WRAPPERS].index(kind) :]
    for broken in [*WRAPPERS][: -len(kinds)]:
        project.write(f"bin/{WRAPPERS[broken]}", "#!/bin/sh\nexit 1\n").chmod(0o755)
    environ = {"PATH": f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = shlex.join(["/bin/bash", "-c", LOOKER, str(project.folder), str(os.getpid())])
    network = {"run": "cat done.txt && readlink /proc/self/ns/net", "stdout": {"contains": "done"}}
    checks = [{"contains": "looked"}, {"file": {"path": "done.txt", "contains": "done"}}, {"command": network}]
    project.suite([{"name": "look", "input": "x", "expect": checks}], evaluations=None)
    project.policy(target={"agent": "command", "command": command})
    finished, record = project.evaluate(**environ)
    (turn,) = record.cases[0].trials[0].turns
    assert finished.code == 0, finished.stdout
    assert turn.metadata is not None
    confined = next(kind for kind in kinds if works(kind))
    assert turn.metadata["agent"]["confined"] == confined
    (result,) = turn.metadata["workspace"]["commands"].values()
    assert (result["stdout"] == f"done\n{os.readlink('/proc/self/ns/net')}\n") == (confined != "bubblewrap")
    done = (turn.response or "").split()
    assert "spies" in done or confined != "no"
    assert not {"spies", "reads"} & {*done} or confined != "bubblewrap"
    assert not {"spies"} & {*done} or confined != "own user"
    assert (project.folder / "left.txt").exists() == (confined == "no")
    project.policy(target={"agent": "command", "command": command, "confine": "require"})
    finished, record = project.evaluate(**environ)
    assert (finished.code == 0) == (confined == "bubblewrap")
    if confined != "bubblewrap":
        error = record.cases[0].trials[0].error
        assert error is not None
        assert "confine: require needs bubblewrap (bwrap), which is not installed or not allowed" in error.message
