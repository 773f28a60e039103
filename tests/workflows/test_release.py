"""What a release checks and changes, and the commits and tags its workflow makes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts.release import IMAGE, ReleaseError, check, moving, notes, pinned
from tests.workflows.files import ROOT, bash, load, script

RELEASE = ROOT / ".github" / "workflows" / "release.yml"
ACTION_YML = (ROOT / "action.yml").read_text(encoding="utf-8")
CHANGELOG = "# Changelog\n\n## 1.2.3 (2026-11-30)\n\n* New.\n\n## 1.2.2 (2026-10-01)\n\n* Old.\n"


def test_the_changelog_section_of_the_version_becomes_the_notes() -> None:
    assert notes("1.2.3", CHANGELOG) == "* New.\n"
    assert notes("1.2.2", CHANGELOG) == "* Old.\n"


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "says"),
    [
        ("v1.2.4", "1.2.3", CHANGELOG, "the tag is v1.2.4, but holodeck_action/__init__.py says 1.2.3"),
        ("v1.2.4", "1.2.4", CHANGELOG, "0 headings"),
        ("v1.2.3", "1.2.3", CHANGELOG.replace("(2026-11-30)", "(unreleased)"), "(unreleased)"),
        ("v1.2.3", "1.2.3", CHANGELOG.replace("1.2.2", "1.2.3"), "2 headings"),
        ("v1.2.3", "1.2.3", CHANGELOG.replace("* New.", ""), "says nothing"),
        # A dot is a dot.
        ("v1.2.3", "1.2.3", CHANGELOG.replace("1.2.3", "1x2.3"), "0 headings"),
        ("1.2.3", "1.2.3", CHANGELOG, "is no version"),
        ("v1.2.3-rc.1", "1.2.3-rc.1", CHANGELOG, "is no version"),
        ("v1.2.3\n", "1.2.3\n", CHANGELOG, "is no version"),
        ("v01.2.3", "01.2.3", CHANGELOG, "is no version"),
    ],
)
def test_what_does_not_fit_is_refused(tag: str, version: str, changelog: str, says: str) -> None:
    check("v1.2.3", "1.2.3", CHANGELOG)
    with pytest.raises(ReleaseError, match=re.escape(says)):
        check(tag, version, changelog)


@pytest.mark.parametrize(
    ("tag", "tags", "major", "latest"),
    [
        ("v1.2.3", [], "v1", "true"),
        ("v1.10.0", ["v1", "v1.9.9", "v1.10.0", "v0.30.0", "nightly"], "v1", "true"),
        ("v1.9.10", ["v1", "v1.9.9", "v1.10.0"], "", "false"),
        ("v1.10.1", ["v1.10.0", "v2.0.0"], "v1", "false"),
        ("v1.0.0", ["v2.0.0-rc.1", "vendor", "v2"], "v1", "true"),
    ],
)
def test_a_fix_of_an_older_version_moves_nobody_back(tag: str, tags: list[str], major: str, latest: str) -> None:
    assert moving(tag, tags) == {"major": major, "latest": latest}


def test_action_yml_runs_the_image_of_its_tag() -> None:
    text = pinned("v1.2.3", ACTION_YML)
    assert yaml.safe_load(text)["runs"] == {"using": "docker", "image": f"docker://{IMAGE}:v1.2.3"}
    assert text.replace(f"docker://{IMAGE}:v1.2.3", "Dockerfile") == ACTION_YML
    assert pinned("v1.2.3", text) == text
    with pytest.raises(ReleaseError, match="no line `image: Dockerfile`"):
        pinned("v1.2.4", text)


def test_the_workflow_pushes_the_image_that_action_yml_runs() -> None:
    workflow = load(RELEASE)
    assert workflow["env"]["IMAGE"] == IMAGE
    # `env: TAG` and the tags of the build are the same name.
    assert workflow["env"]["TAG"] == "${{ github.ref_name }}"
    [build] = [step for step in workflow["jobs"]["image"]["steps"] if step.get("id") == "build"]
    assert build["with"]["tags"] == "${{ env.IMAGE }}:${{ github.ref_name }}"
    assert set(build["with"]["platforms"].split(",")) == {"linux/amd64", "linux/arm64"}
    assert workflow["jobs"]["tag"]["needs"] == ["check", "image"]
    assert workflow["jobs"]["image"]["needs"] == ["check", "test"]


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, as the runner has it")
def test_the_base_is_named_with_its_digest(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    asked = "buildx imagetools inspect python:3.12-slim --format {{json .Manifest}}"
    answer = '{"mediaType": "m", "digest": "sha256:1234", "size": 1}'
    _program(tmp_path, "docker", f"test \"$*\" = '{asked}'\necho '{answer}'")
    output = tmp_path / "output"
    ended = bash(script(RELEASE, "base"), tmp_path, _environ(tmp_path, GITHUB_OUTPUT=str(output)))
    assert ended.returncode == 0, ended.stderr
    assert output.read_text(encoding="utf-8") == "reference=python:3.12-slim@sha256:1234\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of a tagged commit of what the release needs, with a bare repository as its origin."""
    folder = tmp_path / "checkout"
    for name in ("action.yml", "scripts/__init__.py", "scripts/release.py", "holodeck_action/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "holodeck_action" / "__init__.py").write_text('__version__ = "1.2.3"\n', encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    _program(tmp_path, "gh", 'echo "gh $*" >>"$CALLS"\ntest "$1 $2" != "release view"')
    _git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "origin")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", ".")
    identity = ("-c", "user.name=octo", "-c", "user.email=octo@example.com")
    _git(folder, *identity, "commit", "--quiet", "--message=Work")
    for tag in ("v1.2.3", "v1.2.2", "v1"):
        _git(folder, *identity, "tag", "--annotate", "--message=Version", tag)
    _git(folder, "remote", "add", "origin", str(tmp_path / "origin"))
    _git(folder, "push", "--quiet", "--tags", "origin", "main")
    _git(folder, "checkout", "--quiet", "--detach")
    return folder


def _program(folder: Path, name: str, text: str) -> None:
    """Put a stand-in for a program of the runner on the path."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/sh\nset -e\n{text}\n", encoding="utf-8")
    (folder / "bin" / name).chmod(0o755)


def _environ(folder: Path, **more: str) -> dict[str, str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "TAG": "v1.2.3", "CALLS": str(folder / "calls"), "GH_TOKEN": "ghs_token", **more}


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _run(step: str, checkout: Path, **more: str) -> str:
    ended = bash(script(RELEASE, step), checkout, _environ(checkout.parent, **more))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_tags_end_on_a_commit_that_only_changes_action_yml(checkout: Path) -> None:
    origin = checkout.parent / "origin"
    work = _git(origin, "rev-parse", "main")
    _run("Commit action.yml and move the tags", checkout, MAJOR="v1")
    released = _git(origin, "rev-parse", "v1.2.3^{commit}")
    assert _git(origin, "rev-parse", "v1^{commit}", f"{released}^") == f"{released}\n{work}"
    assert _git(origin, "rev-parse", "main", "v1.2.2^{commit}") == f"{work}\n{work}"
    assert _git(origin, "diff", "--name-only", work, released) == "action.yml"
    runs = yaml.safe_load(_git(origin, "show", f"{released}:action.yml"))["runs"]
    assert runs["image"] == f"docker://{IMAGE}:v1.2.3"

    _git(checkout, "checkout", "--quiet", work)  # the job is run again
    _run("Commit action.yml and move the tags", checkout, MAJOR="v1")
    assert _git(origin, "rev-parse", "v1.2.3") == released


def test_an_older_version_leaves_the_major_tag_alone(checkout: Path) -> None:
    origin = checkout.parent / "origin"
    before = _git(origin, "rev-parse", "v1")
    _run("Commit action.yml and move the tags", checkout, MAJOR="")
    assert _git(origin, "rev-parse", "v1") == before
    assert _git(origin, "rev-parse", "v1.2.3^{commit}^") == _git(origin, "rev-parse", "main")


def test_the_first_job_says_which_tags_move(checkout: Path) -> None:
    output = checkout.parent / "output"
    _run("moving", checkout, GITHUB_OUTPUT=str(output))
    assert output.read_text(encoding="utf-8") == "major=v1\nlatest=true\n"


def test_the_release_has_the_notes_of_the_changelog(checkout: Path) -> None:
    _run("Make the release", checkout, LATEST="false")
    assert (checkout / "notes.md").read_text(encoding="utf-8") == "* New.\n"
    calls = (checkout.parent / "calls").read_text(encoding="utf-8").splitlines()
    assert calls[-1] == "gh release create v1.2.3 --verify-tag --title v1.2.3 --notes-file notes.md --latest=false"


def test_a_wrong_tag_ends_the_release(checkout: Path) -> None:
    ended = bash('python3 -m scripts.release check "$TAG"', checkout, _environ(checkout.parent, TAG="v1.2.4"))
    assert ended.returncode == 1
    assert ended.stderr.startswith("release: the tag is v1.2.4, but")
