"""Packages that are installed for the code of a suite: by uv, before the run, once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project
from tests.workers.installing import NO_INDEX, bare_python, uv, wheel, with_uv, without_uv

AGENT = "import shop\n\ndef answer(messages):\n    return shop.PRICE\n"


def suite(project: Project, expected: str = "1 euro", /, **environment: Any) -> None:
    """A suite whose agent imports a package that is installed nowhere."""
    project.write("own.py", AGENT)
    project.suite([{"name": "a", "input": "?", "ground_truth": expected}])
    project.policy(target="python:own:answer", **({"environment": environment} if environment else {}))


def shop(project: Project, version: str = "1.0", price: str = "1 euro", folder: str = "wheels") -> Path:
    return wheel(project.folder / folder, "shop", version, f"PRICE = {price!r}\n")


def locked(project: Project) -> None:
    """A project with a lock file."""
    project.write(
        "pyproject.toml",
        '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["shop==1.0"]\n'
        '[dependency-groups]\ndev = ["not-there"]\n[tool.uv]\nno-index = true\nfind-links = ["wheels"]\n',
    )
    wheel(project.folder / "wheels", "not_there", "1.0", "")
    environ = project.environ(**with_uv(project.folder))
    subprocess.run([uv(), "lock", "--quiet"], cwd=project.folder, env=environ, check=True, timeout=60)


def run(project: Project, *arguments: str, **environ: str) -> Finished:
    return project.run("run", *arguments, **{**with_uv(project.folder), **environ})


def refused(project: Project, says: str, *arguments: str, **environ: str) -> None:
    for command in ("run", "validate"):
        found = project.run(command, *arguments, **{**with_uv(project.folder), **environ})
        assert found.code == 2, found.stdout
        assert says in found.stderr, found.stderr


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A wheel, a list of requirements and a lock file; tests copy it."""
    project = Project(tmp_path_factory.mktemp("ready"))
    shop(project)
    project.write("requirements.txt", f"{NO_INDEX}shop==1.0\n")
    locked(project)
    return project


@pytest.mark.full
@pytest.mark.proves("Environment: requirements project packages", "validate.--requirements", "run.--requirements")
@pytest.mark.parametrize(
    ("environment", "flags"),
    [
        ({"requirements": "requirements.txt"}, ()),
        ({"project": "pyproject.toml"}, ()),
        ({"packages": ["shop==1.0", "shop>=1"]}, ()),
        ({}, ("--requirements", "requirements.txt")),
        ({}, ("--requirements", "./uv.lock")),
        ({}, ("--requirements", "shop==1.0", "--requirements", "shop>=1")),
        ({"requirements": "not-there.txt"}, ("--requirements", "requirements.txt")),
    ],
)
def test_packages_are_installed_once(
    ready: Project, tmp_path: Path, environment: dict[str, Any], flags: tuple[str, ...]
) -> None:
    project = ready.copy_to(tmp_path)
    suite(project, **environment)
    first = run(project, *flags)
    assert first.code == 0, first.stderr
    assert "note: installing " in first.stderr
    assert " in " in first.stderr
    # Nothing could be installed now: there is no uv.
    for command in ("run", "validate"):
        again = project.run(command, *flags, **without_uv(project.folder / "nothing"))
        assert (again.code, "install" in again.stderr) == (0, False), again.stderr


@pytest.mark.full
def test_environments_are_kept_in_the_cache_of_the_user(project: Project) -> None:
    shop(project)
    project.write("requirements.txt", f"{NO_INDEX}shop==1.0\n")
    suite(project, requirements="requirements.txt")
    assert run(project).stderr.count("installing") == 1
    assert run(project, XDG_CACHE_HOME=str(project.folder / "other")).stderr.count("installing") == 1
    assert (project.folder / "other" / "holodeck-action" / "environments").is_dir()


@pytest.mark.full
@pytest.mark.races
def test_environments_that_nobody_used_for_long_are_removed(project: Project) -> None:
    """When another one is installed; one that is used meanwhile stays, and each use counts."""
    kept = project.folder / "cache" / "holodeck-action" / "environments"
    versions = ("1.0", "2.0", "3.0", "4.0")
    suite(project, requirements="requirements.txt")
    for version in versions:
        shop(project, version)

    def installs(version: str) -> bool:
        project.write("requirements.txt", f"{NO_INDEX}shop=={version}\n")
        ran = run(project, XDG_CACHE_HOME=str(project.folder / "cache"))
        assert ran.code == 0, ran.stderr
        return "installing" in ran.stderr

    folders: dict[str, Path] = {}
    for version in versions[:3]:
        assert installs(version)
        (folders[version],) = {each for each in kept.iterdir() if each.is_dir()} - {*folders.values()}
    unfinished = kept / ("0" * 32)
    unfinished.mkdir()
    unfinished.with_suffix(".lock").touch()
    long_ago = time.time() - 31 * 24 * 60 * 60
    for each in (unfinished, *(folder / "holodeck-action.json" for folder in folders.values())):
        os.utime(each, (long_ago, long_ago))
    assert not installs("2.0")
    with folders["3.0"].with_suffix(".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert installs("4.0")
    assert {version for version, folder in folders.items() if folder.exists()} == {"2.0", "3.0"}
    assert not unfinished.exists()


def test_without_packages_the_module_is_missing(project: Project) -> None:
    suite(project)
    found = run(project)
    assert found.code == 2
    assert "shop" in found.stderr


def test_a_project_without_lock(project: Project) -> None:
    shop(project)
    suite(project, project="pyproject.toml")
    project.write(
        "pyproject.toml",
        '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["shop"]\n'
        '[tool.uv]\nno-index = true\nfind-links = ["wheels"]\n',
    )
    assert run(project).code == 0
    assert not (project.folder / "uv.lock").exists()


@pytest.mark.full
def test_a_stale_lock_is_refused_with_uvs_words(project: Project) -> None:
    shop(project)
    locked(project)
    suite(project, project="pyproject.toml")
    file = project.folder / "pyproject.toml"
    file.write_text(file.read_text().replace("shop==1.0", "shop==2.0"))
    refused(project, "environment.project: uv cannot install pyproject.toml: ")


@pytest.mark.full
@pytest.mark.parametrize("changed", ["requirements.txt", "more.txt", "local wheel"])
def test_what_is_changed_is_installed(project: Project, changed: str) -> None:
    shop(project)
    shop(project, "2.0", "2 euro")
    local = shop(project, "3.0", "1 euro", folder="local")
    lines = {"requirements.txt": "shop==1.0", "more.txt": "-r more.txt", "local wheel": f"./local/{local.name}"}
    project.write("more.txt", "shop==1.0\n")
    project.write("requirements.txt", f"{NO_INDEX}{lines[changed]}  # the shop\n")
    suite(project, requirements="requirements.txt")
    assert run(project).code == 0
    if changed == "local wheel":
        shop(project, "3.0", "2 euro", folder="local")
    else:
        file = project.folder / changed
        file.write_text(file.read_text().replace("shop==1.0", "shop==2.0"))
    suite(project, "2 euro", requirements="requirements.txt")
    second = run(project)
    assert (second.code, "installing" in second.stderr) == (0, True), second.stderr


@pytest.mark.full
def test_hashes_are_held(project: Project) -> None:
    path = shop(project)
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    suite(project, requirements="requirements.txt")
    project.write("requirements.txt", f"{NO_INDEX}shop==1.0 --hash=sha256:{'0' * 64}\n")
    refused(project, "environment.requirements: uv cannot install requirements.txt: ")
    project.write("requirements.txt", f"{NO_INDEX}shop==1.0 --hash=sha256:{right}\n")
    assert run(project).code == 0
    wheel(project.folder / "wheels", "other", "1.0", "")
    project.write("requirements.txt", f"{NO_INDEX}other==1.0\nshop==1.0 --hash=sha256:{right}\n")
    refused(project, "all requirements must have a hash")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("nothing-like-this==3\n", "nothing-like-this was not found in the provided package locations"),
        ("not a requirement\n", "uv cannot install requirements.txt: "),
        ("-r gone.txt\n", "environment.requirements: gone.txt: there is no such file"),
        ("-r /etc/hostname\n", "environment.requirements: /etc/hostname cannot be read: it is outside"),
        (None, "environment.requirements: requirements.txt: there is no such file"),
    ],
)
def test_an_environment_that_cannot_be_made_ends_the_run(project: Project, lines: str | None, says: str) -> None:
    suite(project, requirements="requirements.txt")
    shop(project)
    (project.folder / ".git").mkdir()
    if lines is not None:
        project.write("requirements.txt", NO_INDEX + lines)
    project.write("holodeck-action.yaml", "target: python:own:answer\nenvironment:\n  requirements: requirements.txt\n")
    refused(project, says)
    refused(project, "holodeck-action.yaml:3:17: environment.requirements: ")
    assert "uv cannot" not in run(project, "--target", "recorded:x.jsonl").stderr


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "environment: is empty: give one of requirements, project, packages or interpreter"),
        ({"packages": ["a"], "project": "p"}, "environment: has project and packages: give one of"),
        ({"packages": ["--index-url=http://x"]}, "environment.packages[0]: "),
        ({"packages": []}, "environment.packages: "),
    ],
)
def test_a_wrong_environment_is_refused(project: Project, environment: dict[str, Any], says: str) -> None:
    suite(project)
    project.policy(target="python:own:answer", environment=environment)
    refused(project, says)


def test_lines_that_go_together_with_nothing_are_refused(project: Project) -> None:
    suite(project)
    flags = ("--requirements", "shop", "--requirements", "./wheels")
    refused(project, "--requirements: './wheels' is not allowed (allowed: a requirements .txt, ", *flags)


def test_without_uv_and_without_a_folder(project: Project) -> None:
    shop(project)
    project.write("requirements.txt", f"{NO_INDEX}shop\n")
    suite(project, requirements="requirements.txt")
    refused(project, "installing packages needs uv, which is not on the PATH", **without_uv(project.folder / "none"))
    refused(project, "no folder is known to install packages in: set HOME, or XDG_CACHE_HOME", HOME="")
    project.write("file", "")
    refused(project, "packages cannot be installed in ", XDG_CACHE_HOME=str(project.folder / "file"))


@pytest.mark.full
def test_a_broken_environment_is_made_again(project: Project) -> None:
    """One whose making was cut off, and one whose interpreter is gone."""
    shop(project)
    project.write("requirements.txt", f"{NO_INDEX}shop\n")
    suite(project, requirements="requirements.txt")
    assert run(project).code == 0
    (made,) = (project.folder / "home/.cache/holodeck-action/environments").glob("*/holodeck-action.json")
    shutil.rmtree(next(made.parent.glob("lib/*/site-packages")))
    made.unlink()
    assert "installing" in run(project).stderr
    (made.parent / "bin" / "python").unlink()
    (made.parent / "bin" / "python").symlink_to("/nowhere")
    last = run(project)
    assert (last.code, "installing" in last.stderr) == (0, True)


@pytest.mark.full
@pytest.mark.races
def test_two_runs_at_once_install_once(project: Project) -> None:
    shop(project)
    project.write("requirements.txt", f"{NO_INDEX}shop\n")
    suite(project, requirements="requirements.txt")
    started = [project.start("run", **with_uv(project.folder)) for _ in range(2)]
    ended = [process.communicate(timeout=100) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    assert len([*(project.folder / "home/.cache/holodeck-action/environments").glob("*.lock")]) == 1


def test_credentials_of_an_index_are_shown_nowhere(project: Project) -> None:
    suite(project, requirements="requirements.txt")
    secret = "hunter2hunter2"
    index = f"http://me:{secret}@127.0.0.1:9/simple"
    project.write("requirements.txt", f"--index-url {index}\nshop\n")
    found = run(project, UV_OFFLINE="", UV_HTTP_RETRIES="0")
    assert found.code == 2
    assert "uv cannot install requirements.txt" in found.stderr
    assert secret not in found.stderr + found.stdout


def test_what_runs_while_installing_sees_no_token_of_the_job(project: Project) -> None:
    """A package that is built runs code: here one whose build writes what it sees."""
    project.write(
        "lib/pyproject.toml",
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "shop"\nversion = "1.0"\n',
    )
    built = shop(project)
    project.write(
        "lib/backend.py",
        "import json, os, shutil\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        f"    json.dump(dict(os.environ), open({str(project.folder / 'seen.json')!r}, 'w'))\n"
        f"    return os.path.basename(shutil.copy({str(built)!r}, folder))\n",
    )
    project.write("requirements.txt", "--no-index\n./lib\n")
    suite(project, requirements="requirements.txt")
    assert run(project, GITHUB_TOKEN="ghs_" + "x" * 36, VISIBLE="yes").code == 0
    seen = json.loads((project.folder / "seen.json").read_text())
    assert "GITHUB_TOKEN" not in seen
    assert seen["VISIBLE"] == "yes"


@pytest.mark.full
@pytest.mark.proves("rejudge.--requirements", "calibrate.--requirements")
def test_graders_have_the_packages_when_answers_are_graded_again(project: Project) -> None:
    shop(project)
    project.write("requirements.txt", f"{NO_INDEX}shop\n")
    project.write("checks.py", "import shop\n\ndef grade(context):\n    return context.agent_response == shop.PRICE\n")
    project.suite([{"name": "a", "input": "?"}], [{"type": "code", "grader": "checks:grade"}])
    project.answers([{"case": "a", "response": "1 euro"}])
    project.policy(target="recorded:answers.jsonl")
    flags = ("--requirements", "requirements.txt")
    assert run(project, *flags, "-o", "out").code == 0
    assert project.run("rejudge", "out/results.json").code == 2
    assert project.run("rejudge", "out/results.json", *flags).code == 0
    project.write("labels.csv", "case,label\na,pass\n")
    assert "shop" in project.run("calibrate", "labels.csv", "--metric", "grade").stderr
    calibrated = project.run("calibrate", "labels.csv", *flags, "--metric", "grade")
    assert "shop" not in calibrated.stderr, calibrated.stderr


@pytest.mark.full
def test_a_run_is_not_continued_with_other_packages(project: Project) -> None:
    shop(project)
    shop(project, "2.0")
    requirements = project.write("requirements.txt", f"{NO_INDEX}shop==1.0\n")
    suite(project, requirements="requirements.txt")
    project.suite([{"name": name, "input": name, "ground_truth": "1 euro"} for name in "ab"])
    slow = "if 'b' in messages[0]['content'] and not os.path.exists('quick'): time.sleep(600)"
    project.write("own.py", f"import os, shop, time\ndef answer(messages):\n    {slow}\n    return shop.PRICE\n")

    def attempt(seconds: float) -> tuple[int, int]:
        ended = run(project, "-o", "out", "--run-timeout", f"{seconds}", "--concurrency", "1")
        return ended.code, sum(len(case.trials) for case in read_record(project.out / "results.json").cases)

    assert ever_longer(attempt, lambda ended: ended == (4, 1)) == (4, 1)
    project.write("quick", "")
    requirements.write_text(f"{NO_INDEX}shop==2.0\n")
    changed = run(project, "-o", "out", "--resume")
    assert changed.code == 2
    assert "environment" in changed.stderr
    requirements.write_text(f"{NO_INDEX}shop==1.0\n")
    assert run(project, "-o", "out", "--resume").code == 0


def test_an_existing_environment_of_the_project(project: Project) -> None:
    """What a workflow has installed itself is used as it is."""
    shop(project)
    python = bare_python(project.folder / ".venv")
    install = [
        str(uv()),
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--find-links",
        "wheels",
        "--python",
        str(python),
        "shop",
    ]
    environ = project.environ(**with_uv(project.folder))
    subprocess.run(install, cwd=project.folder, env=environ, check=True, timeout=60)
    suite(project, interpreter=".venv/bin/python")
    assert project.run("run", **without_uv(project.folder / "none")).code == 0
    suite(project)
    assert project.run("run", "--requirements", ".venv/bin/python", **without_uv(project.folder / "none")).code == 0
