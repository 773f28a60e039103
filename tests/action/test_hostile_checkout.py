"""The Action without a container, in a checkout whose files pretend to be what it starts or imports."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.action.composite import FOLDER, Ended, path_with, run
from tests.action.step import ROOT
from tests.commands.project import Project
from tests.github.events import event_environ
from tests.workers.installing import NO_INDEX, bare_python, uv, wheel

TOKEN = f"ghs_{uuid.uuid4().hex}"
ANOTHER = f"ghp_{uuid.uuid4().hex}"
"""A token that the job gives as a variable."""
MODULES = ("ensurepip", "json", "logging", "pip", "runpy", "sitecustomize", "subprocess", "usercustomize", "venv")
PROGRAMS = ("env", "git", "python", "python3", "python3.13", "readlink", "uv")
FORK, OWN = "pull_request_target.fork", "pull_request"
REFUSED = "would give a fork's code the secrets and a token that can write"
NOT_INSTALLED = "the program's environment cannot be made"
QUIET = {"comment": "off", "check": "false"}

OF_THE_MACHINE = """#!/bin/sh
# uv, except that what it would download for the program is that of the tests.
if [ "$1" != sync ]; then exec {uv} "$@"; fi
cat /proc/$PPID/environ > "{seen}.parent"
env > "{seen}"
pwd > "{seen}.folder"
mkdir -p "$(dirname "$UV_PROJECT_ENVIRONMENT")"
test -e "$UV_PROJECT_ENVIRONMENT" || ln -s "{environment}" "$UV_PROJECT_ENVIRONMENT"
"""


class Hostile:
    """A job on a machine with a Python and perhaps uv, in a checkout of hostile files that note when they run."""

    def __init__(self, project: Project) -> None:
        self.folder, self.ran, self.seen = project.folder, project.folder / "ran", project.folder / "seen"
        self.ran.mkdir()
        self.workspace = Project(project.folder / "workspace")
        self.tools = bare_python(project.folder / "job").parent
        self.action = FOLDER
        for name in MODULES:
            self.workspace.write(f"{name}.py", f"open({str(self.ran / name)!r}, 'w').close()\n")
        for name in PROGRAMS:
            path = self.workspace.write(name, f"#!/bin/sh\n: > {shlex.quote(str(self.ran / name))}\nexit 7\n")
            path.chmod(0o755)
        self.workspace.write("uv.toml", "this = is not = TOML\n")
        self.workspace.write(".python-version", "2.7\n")
        self.workspace.suite([{"name": "a", "input": "?", "ground_truth": "1"}])
        self.workspace.answers([{"case": "a", "response": "1"}])
        self.workspace.policy(target="recorded:answers.jsonl")

    @property
    def wrapper(self) -> str:
        """The machine's uv, which notes what it sees."""
        return OF_THE_MACHINE.format(uv=uv(), seen=self.seen, environment=Path(sys.executable).parents[1])

    @property
    def with_uv(self) -> str:
        """A PATH on which the machine has uv, too."""
        return path_with(self.tools, ("uv", self.wrapper))

    @property
    def without_uv(self) -> str:
        """A PATH without uv, on which Python can make virtual environments."""
        python = self.tools / "python3"
        python.unlink()
        python.symlink_to(Path(sys.executable).resolve())
        return f"{self.tools}:/usr/bin:/bin"

    def job(self, event: str, path: str, inputs: Mapping[str, str] | None = None, /, **more: str) -> Ended:
        """Run the step of an event, with Python's variables leading into the checkout."""
        environ = {
            **event_environ(event, self.folder),
            "GITHUB_API_URL": "http://127.0.0.1:9",
            "PATH": path,
            "HOME": str(self.folder / "home"),
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_TOKEN": ANOTHER,
            "PYTHONPATH": str(self.workspace.folder),
            "PYTHONSTARTUP": str(self.workspace.folder / "sitecustomize.py"),
            **more,
        }
        (self.folder / "temp").mkdir(exist_ok=True)
        return run(self.workspace.folder, {**QUIET, **(inputs or {})}, environ, TOKEN, folder=self.action)

    def has_run(self) -> list[str]:
        """What of the checkout has run."""
        return sorted(path.name for path in self.ran.iterdir())


@pytest.fixture
def hostile(project: Project) -> Hostile:
    return Hostile(project)


def linked_programs(hostile: Hostile) -> str:
    """Return a folder outside of the checkout whose programs are links into it."""
    folder = hostile.folder / "links"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).symlink_to(hostile.workspace.folder / name)
    return str(folder)


def linked_folder(hostile: Hostile) -> str:
    """Return a folder outside of the checkout that is a link to it."""
    (hostile.folder / "linked").symlink_to(hostile.workspace.folder)
    return str(hostile.folder / "linked")


@pytest.mark.full
def test_nothing_of_the_checkout_is_taken_for_the_machines(hostile: Hostile) -> None:
    """On an ordinary event, wherever PATH leads first: the step works, and nothing of the checkout runs."""
    first = (str(hostile.workspace.folder), "", ".", linked_folder(hostile), linked_programs(hostile))
    ended = hostile.job(OWN, os.pathsep.join((*first, hostile.with_uv)))
    assert hostile.has_run() == [], ended.log
    assert (ended.code, ended.outputs["verdict"]) == (0, "passed"), ended.log
    folder = Path(hostile.seen.with_suffix(".folder").read_text().strip())
    assert folder.is_relative_to(hostile.folder / "temp")


@pytest.mark.full
def test_packages_are_installed_with_the_uv_of_the_machine(hostile: Hostile) -> None:
    """Once the code may run. What builds a package sees a hostile PATH as it is, for it is code of the checkout."""
    wheel(hostile.workspace.folder / "wheels", "goods", "1.0", "WORDS = '1'\n")
    hostile.workspace.write("packages.txt", f"{NO_INDEX}goods\n")
    hostile.workspace.write("own.py", "import goods\ndef answer(messages):\n    return goods.WORDS\n")
    (hostile.workspace.folder / "uv.toml").unlink()
    for name in MODULES:
        (hostile.workspace.folder / f"{name}.py").unlink()
    inputs = {"args": "--requirements packages.txt", "target": "python:own:answer"}
    ended = hostile.job(OWN, f"{hostile.workspace.folder}:{hostile.with_uv}", inputs, UV_OFFLINE="1")
    assert (ended.code, ended.outputs["verdict"]) == (0, "passed"), ended.log
    assert hostile.has_run() == []


@pytest.mark.parametrize("has_uv", [True, False])
def test_a_forks_event_is_refused_before_anything_is_made(hostile: Hostile, has_uv: bool) -> None:
    path = hostile.with_uv if has_uv else hostile.without_uv
    summary = hostile.folder / "summary"
    ended = hostile.job(FORK, f"{hostile.workspace.folder}:{path}", GITHUB_STEP_SUMMARY=str(summary))
    assert hostile.has_run() == [], ended.log
    assert (ended.code, ended.outputs["verdict"], ended.outputs["exit-code"]) == (2, "invalid", "2")
    unseen = {"args": "--no-summary", "github-token": ""}
    texts = ended.log, summary.read_text()
    hostile.job(FORK, f"{hostile.workspace.folder}:{path}", unseen, GITHUB_STEP_SUMMARY=str(summary))
    assert summary.read_text() == texts[1]
    for text in texts:
        assert REFUSED in text
        assert "`--allow-unsafe-forks` (in a workflow step" in text
    assert not hostile.seen.exists()
    assert not (hostile.folder / "home").exists()


@pytest.mark.full
def test_without_uv_pip_and_venv_are_those_of_python(hostile: Hostile) -> None:
    """What the index offers as uv has not the hash of the release: the real pip says so.

    Python's variables lead into the checkout in the test below.
    """
    version = (ROOT / "requirements" / "image.txt").read_text().partition("\nuv==")[2].split()[0]
    links = wheel(hostile.folder / "links", "uv", version, "").parent
    plain = {"PYTHONPATH": "", "PYTHONSTARTUP": ""}
    ended = hostile.job(OWN, hostile.without_uv, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(links), **plain)
    assert hostile.has_run() == [], ended.log
    assert (ended.code, "DO NOT MATCH THE HASHES" in ended.log) == (2, True), ended.log
    assert f"::error title=holodeck-action::{NOT_INSTALLED}: python ended with 1" in ended.log
    assert (ended.outputs["verdict"], ended.outputs["exit-code"]) == ("invalid", "2")


@pytest.mark.full
def test_without_uv_it_is_installed_once(hostile: Hostile) -> None:
    """By its hash, here that of a package of the tests, and kept for later jobs."""
    links = hostile.folder / "index"
    found = wheel(links, "uv", "1.0", "")
    with zipfile.ZipFile(found, "a") as archive:
        program = zipfile.ZipInfo("uv-1.0.data/scripts/uv")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, hostile.wrapper)
    requirement = f"uv==1.0 --hash=sha256:{hashlib.sha256(found.read_bytes()).hexdigest()}\n"
    copy = Project(hostile.folder / "action")
    copy.write("runner/start.py", (FOLDER / "start.py").read_bytes())
    copy.write("requirements/image.txt", f"first==1\n{requirement}")
    for name in ("entrypoint.py", "holodeck_action", "uv.lock"):
        (copy.folder / name).symlink_to(ROOT / name)
    hostile.action = copy.folder / "runner"
    path = f"{hostile.workspace.folder}:{hostile.without_uv}"
    for index in (str(links), ""):
        ended = hostile.job(OWN, path, PIP_NO_INDEX="1", PIP_FIND_LINKS=index)
        assert (ended.code, ended.outputs["verdict"]) == (0, "passed"), ended.log
        assert hostile.has_run() == []
        assert hostile.seen.exists()
        hostile.seen.unlink()


@pytest.mark.full
@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"args": "--allow-unsafe-forks"}, 0),
        ({"publish": "results"}, 2),
        ({"merge": "results"}, 2),
        ({"command": "compare", "args": "results"}, 2),
    ],
)
def test_what_is_allowed_or_evaluates_nothing_goes_on(hostile: Hostile, inputs: dict[str, str], code: int) -> None:
    ended = hostile.job(FORK, hostile.with_uv, inputs)
    assert REFUSED not in ended.log
    assert hostile.seen.exists()
    assert ended.code == code, ended.log


@pytest.mark.full
@pytest.mark.parametrize("event", ["issue_comment", "pull_request_target"])
def test_what_the_event_does_not_tell_the_program_asks(hostile: Hostile, event: str) -> None:
    """Nothing of the checkout runs before it has."""
    path = f"{hostile.workspace.folder}:{hostile.with_uv}"
    more = {} if event == "issue_comment" else {"GITHUB_EVENT_PATH": str(hostile.folder / "gone")}
    ended = hostile.job(event, path, **more)
    assert hostile.has_run() == [], ended.log
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    assert "the checkout is not known to be this repository's own" in ended.log
    assert hostile.seen.exists()


@pytest.mark.full
def test_no_token_is_in_the_variables_of_what_runs(hostile: Hostile) -> None:
    """Neither in those of uv, nor in those of the process that starts it."""
    ended = hostile.job(OWN, hostile.with_uv)
    assert ended.code == 0, ended.log
    for file in (hostile.seen, hostile.seen.with_suffix(".parent")):
        variables = file.read_bytes()
        assert b"RUNNER_TEMP=" in variables
        assert TOKEN.encode() not in variables
        assert ANOTHER.encode() not in variables
    assert not re.search(rb"^PYTHON", hostile.seen.read_bytes(), re.MULTILINE)


@pytest.mark.full
def test_places_in_the_checkout_are_none_of_the_programs(hostile: Hostile) -> None:
    """A cache, a home or settings in the workspace would be the checkout's."""
    names = ("XDG_CACHE_HOME", "UV_CACHE_DIR", "UV_CONFIG_FILE", "PIP_CONFIG_FILE", "CONDA_PREFIX", "HOME")
    linked = linked_folder(hostile)
    starts = (str(hostile.workspace.folder), linked)
    places = {name: f"{starts[number % 2]}/{name.lower()}" for number, name in enumerate(names)}
    ended = hostile.job(OWN, hostile.with_uv, None, **places)
    assert ended.code == 0, ended.log
    assert not [start for start in starts if start in hostile.seen.read_text()]
    assert hostile.has_run() == []
    ended = hostile.job(OWN, hostile.with_uv, UV_CONFIG_FILE="uv.toml", UV_WORKING_DIR=".", UV_CACHE_DIR="/kept")
    assert ended.code == 0, ended.log
    kept = set(re.findall(r"^UV_\w+", hostile.seen.read_text(), re.MULTILINE))
    assert kept == {"UV_CACHE_DIR", "UV_NO_BUILD", "UV_PROJECT_ENVIRONMENT"}


@pytest.mark.full
def test_a_virtual_environment_of_the_job_stays_the_python_of_suites(hostile: Hostile) -> None:
    """One in the workspace that is active: suites run in it, once they may. The step itself does not."""
    python = bare_python(hostile.workspace.folder / ".venv")
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    (packages / "goods.py").write_text("WORDS = '1'\n")
    planted = f"import sys; open({str(hostile.ran)!r} + '/' + str(sys.flags.isolated), 'w')\n"
    (packages / "planted.pth").write_text(planted)
    for name in MODULES:
        (hostile.workspace.folder / f"{name}.py").unlink()
    hostile.workspace.write("own.py", "import goods\ndef answer(messages):\n    return goods.WORDS\n")
    hostile.workspace.policy(target="python:own:answer")
    path = f"{python.parent}:{hostile.with_uv}"
    refused = hostile.job(FORK, path)
    assert (refused.code, hostile.has_run()) == (2, []), refused.log
    ended = hostile.job(OWN, path)
    assert (ended.code, ended.outputs["verdict"]) == (0, "passed"), ended.log
    # The question for its version is isolated, the worker is not.
    assert hostile.has_run() == ["0", "1"]


def test_a_machine_without_python_outside_of_the_checkout(hostile: Hostile) -> None:
    for name in ("bash", "readlink"):
        (hostile.tools / name).symlink_to(f"/usr/bin/{name}")
    for name in ("python", "python3"):
        (hostile.tools / name).unlink()
    ended = hostile.job(OWN, f"{hostile.workspace.folder}:{hostile.tools}")
    assert (ended.code, ended.outputs["verdict"]) == (2, "invalid")
    assert "::error title=holodeck-action::PATH has no python3 outside of the workspace" in ended.log
    assert hostile.has_run() == []
