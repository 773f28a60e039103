"""What a release checks and changes, and the commits, tags and names that its workflow makes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts.release import IMAGE, ReleaseError, pin_image, release_notes, release_outputs
from tests.workflows.files import ROOT, bash, load, script

RELEASE = ROOT / ".github" / "workflows" / "release.yml"
ACTION_YML = (ROOT / "action.yml").read_text(encoding="utf-8")
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
IDENTITY = ("-c", "user.name=octo", "-c", "user.email=octo@example.com")
CHANGELOG = "# Changelog\n\n## 1.2.3 (2026-11-30)\n\n* New.\n\n## 1.2.2 (2026-10-01)\n\n* Old.\n"


def test_the_changelog_section_of_the_version_becomes_the_notes() -> None:
    assert release_notes("1.2.3", CHANGELOG) == "* New.\n"
    assert release_notes("1.2.2", CHANGELOG) == "* Old.\n"


@pytest.mark.parametrize(
    ("version", "changelog", "tags", "says"),
    [
        ("1.2.3", CHANGELOG, ["v1.2.3"], "v1.2.3 is released already, and a tag never moves"),
        ("1.2.4", CHANGELOG, [], "0 headings"),
        ("1.2.3", CHANGELOG.replace("(2026-11-30)", "(unreleased)"), [], "(unreleased)"),
        ("1.2.3", CHANGELOG.replace("1.2.2", "1.2.3"), [], "2 headings"),
        ("1.2.3", CHANGELOG.replace("* New.", ""), [], "the section for 1.2.3 in CHANGELOG.md is empty"),
        # A dot is a dot.
        ("1.2.3", CHANGELOG.replace("1.2.3", "1x2.3"), [], "0 headings"),
        ("v1.2.3", CHANGELOG, [], "is no version"),
        ("1.2.3-rc.1", CHANGELOG, [], "is no version"),
        ("1.2.3\n", CHANGELOG, [], "is no version"),
        ("01.2.3", CHANGELOG, [], "is no version"),
    ],
)
def test_what_does_not_fit_is_refused(version: str, changelog: str, tags: list[str], says: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(says)):
        release_outputs(version, changelog, tags)


@pytest.mark.parametrize(
    ("version", "tags", "major", "latest"),
    [
        ("1.2.3", [], "v1", "true"),
        ("1.10.0", ["v1", "v1.9.9", "v0.30.0", "nightly"], "v1", "true"),
        ("1.9.10", ["v1", "v1.9.9", "v1.10.0"], "", "false"),
        ("1.10.1", ["v1.10.0", "v2.0.0"], "v1", "false"),
        ("1.0.0", ["v2.0.0-rc.1", "vendor", "v2"], "v1", "true"),
    ],
)
def test_a_fix_of_an_older_version_moves_nobody_back(version: str, tags: list[str], major: str, latest: str) -> None:
    changelog = f"## {version} (2026-11-30)\n\n* New.\n"
    assert release_outputs(version, changelog, tags) == {"tag": f"v{version}", "major": major, "latest": latest}


def test_action_yml_runs_the_image_of_its_release() -> None:
    text = pin_image("1.2.3", DIGEST, ACTION_YML)
    assert yaml.safe_load(text)["runs"] == {"using": "docker", "image": f"docker://{IMAGE}@{DIGEST}", "args": []}
    assert text.replace(f"docker://{IMAGE}@{DIGEST} # v1.2.3", "Dockerfile") == ACTION_YML
    with pytest.raises(ReleaseError, match="does not have one line `image: Dockerfile`"):
        pin_image("1.2.4", DIGEST, text)
    with pytest.raises(ReleaseError, match="is no digest of an image"):
        pin_image("1.2.3", "", ACTION_YML)


def test_nothing_has_a_name_before_everything_is_built_and_tried() -> None:
    workflow = load(RELEASE)
    assert list(workflow["on"]) == ["workflow_dispatch"]
    assert workflow["env"]["IMAGE"] == IMAGE
    found = workflow["jobs"]
    build, slim = (step["with"] for step in found["image"]["steps"] if step.get("id") in ("build", "slim"))
    assert build | {"target": "slim"} == slim | {"no-cache": True, "context": build["context"]}
    assert set(build["platforms"].split(",")) == {"linux/amd64", "linux/arm64"}
    assert "tags" not in build
    assert "push-by-digest=true" in build["outputs"].split(",")
    assert found["image"]["needs"] == ["check", "test", "rehearse"]
    assert found["tag"]["needs"] == ["check", "image", "package"]
    assert "rewrite-timestamp=true" in build["outputs"].split(",")
    assert "SOURCE_DATE_EPOCH=${{ steps.time.outputs.epoch }}" in build["build-args"].splitlines()
    for job in ("names", "publish", "release"):
        assert "tag" in found[job]["needs"], job
    texts = RELEASE.read_text(encoding="utf-8")
    assert "--force" not in texts
    assert [name for name, job in found.items() if job.get("permissions", {}).get("contents") == "write"] == [
        "tag",
        "release",
    ]


def test_the_index_gets_what_was_tried_and_trusts_the_workflow() -> None:
    found = load(RELEASE)["jobs"]
    [upload] = [step["with"] for step in found["package"]["steps"] if "upload-artifact" in step.get("uses", "")]
    [download, publish] = found["publish"]["steps"]
    assert download["with"] == {"name": upload["name"], "path": "dist"}
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publish["with"]["attestations"] is True
    assert not {"user", "password", "repository-url"} & publish["with"].keys()
    assert found["publish"]["permissions"] == {"id-token": "write"}
    assert found["publish"]["environment"]["name"] == "pypi"


def test_the_documentation_is_published_after_the_tag_of_the_newest_version() -> None:
    found = load(RELEASE)["jobs"]
    assert "make docs" in [step.get("run") for step in found["docs"]["steps"]]
    assert found["docs"]["permissions"] == {"contents": "read"}
    assert found["pages"]["needs"] == ["check", "docs", "tag"]
    assert found["pages"]["if"] == "needs.check.outputs.latest == 'true'"
    assert found["pages"]["permissions"] == {"pages": "write", "id-token": "write"}


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
    """A checkout of main with what the release needs, and a bare repository as its origin."""
    folder = tmp_path / "checkout"
    for name in ("action.yml", "scripts/__init__.py", "scripts/release.py", "holodeck_action/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "holodeck_action" / "__init__.py").write_text('__version__ = "1.2.3"\n', encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    _program(tmp_path, "gh", 'echo "gh $*" >>"$CALLS"')
    _git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "origin")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", ".")
    _git(folder, *IDENTITY, "commit", "--quiet", "--message=Work")
    _git(folder, "tag", "v1.2.2")
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


COMMIT = "Commit action.yml, make the tag and move the branch"


def _release(checkout: Path, version: str, major: str) -> str:
    """Release a version from the newest commit of main, and return the commit of its tag."""
    _git(checkout, "fetch", "--quiet", "--tags", "origin")
    _git(checkout, "checkout", "--quiet", "--force", "--detach", "origin/main")
    (checkout / "holodeck_action/__init__.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    _run(COMMIT, checkout, TAG=f"v{version}", MAJOR=major, DIGEST=DIGEST)
    return _git(checkout.parent / "origin", "rev-parse", f"v{version}^{{commit}}")


def _work(checkout: Path) -> str:
    """Commit something to main."""
    _git(checkout, "checkout", "--quiet", "--force", "--detach", "origin/main")
    (checkout / "work").write_text(str(checkout.stat().st_mtime_ns), encoding="utf-8")
    _git(checkout, "add", "work")
    _git(checkout, *IDENTITY, "commit", "--quiet", "--message=Work")
    _git(checkout, "push", "--quiet", "origin", "HEAD:main")
    return _git(checkout, "rev-parse", "HEAD")


@pytest.mark.full
def test_the_tag_is_made_once_on_a_commit_that_only_changes_action_yml(checkout: Path) -> None:
    origin = checkout.parent / "origin"
    work = _git(origin, "rev-parse", "main")
    released = _release(checkout, "1.2.3", "v1")
    assert _git(origin, "rev-parse", "v1", f"{released}^") == f"{released}\n{work}"
    assert _git(origin, "diff", "--name-only", work, released) == "action.yml"
    runs = yaml.safe_load(_git(origin, "show", f"{released}:action.yml"))["runs"]
    assert runs["image"] == f"docker://{IMAGE}@{DIGEST}"
    assert _git(origin, "rev-parse", "main") == work
    assert _git(origin, "show", "--no-patch", "--format=%s|%an", released) == "Release v1.2.3|github-actions[bot]"

    # The job is run again.
    assert _release(checkout, "1.2.3", "v1") == released
    # Another image would need another version.
    _git(checkout, "checkout", "--quiet", "--force", "--detach", work)
    ended = bash(script(RELEASE, COMMIT), checkout, _environ(checkout.parent, MAJOR="v1", DIGEST=DIGEST[:-1] + "0"))
    assert ended.returncode == 1
    assert _git(origin, "rev-parse", "v1.2.3", "v1") == f"{released}\n{released}"


@pytest.mark.full
def test_the_branch_of_a_major_version_is_only_ever_fast_forwarded(checkout: Path) -> None:
    origin = checkout.parent / "origin"
    _git(origin, "config", "receive.denyNonFastForwards", "true")
    first = _release(checkout, "1.2.3", "v1")
    work = _work(checkout)
    second = _release(checkout, "1.3.0", "v1")
    assert _git(origin, "rev-parse", "v1", f"{second}^1", f"{second}^2") == f"{second}\n{work}\n{first}"
    assert _git(origin, "diff", "--name-only", work, second) == "action.yml"
    assert _git(origin, "rev-parse", "v1.2.3") == first
    _work(checkout)
    # A fix of an older version leaves the branch where it is.
    older = _release(checkout, "1.2.4", "")
    assert _git(origin, "rev-parse", "v1", f"{older}^") == f"{second}\n{_git(origin, 'rev-parse', 'main')}"


@pytest.mark.full
def test_the_first_job_says_what_is_released(checkout: Path) -> None:
    output = checkout.parent / "output"
    _run("check", checkout, GITHUB_OUTPUT=str(output))
    assert output.read_text(encoding="utf-8") == "tag=v1.2.3\nmajor=v1\nlatest=true\n"
    _release(checkout, "1.2.3", "v1")
    _git(checkout, "fetch", "--quiet", "--tags", "origin")
    ended = bash(script(RELEASE, "check"), checkout, _environ(checkout.parent, GITHUB_OUTPUT=str(output)))
    assert ended.returncode == 1
    assert ended.stderr.startswith("release: v1.2.3 is released already")


@pytest.mark.parametrize(
    ("there", "made"),
    [("", ["create"]), ("true", ["delete v1.2.3 --yes", "create"]), ("false", [])],
    ids=["new", "a draft is there", "done"],
)
def test_the_release_has_the_notes_of_the_changelog_and_the_package(
    checkout: Path, there: str, made: list[str]
) -> None:
    (checkout / "dist").mkdir()
    (checkout / "dist" / "shop.whl").touch()
    _program(
        checkout.parent, "gh", f'echo "gh $*" >>"$CALLS"\nif [ "$2" = view ]; then echo {there}; test -n "{there}"; fi'
    )
    _run("Make the release", checkout, LATEST="false")
    assert (checkout / "notes.md").read_text(encoding="utf-8") == "* New.\n"
    _, *calls = (checkout.parent / "calls").read_text(encoding="utf-8").splitlines()
    create = "create v1.2.3 --verify-tag --title v1.2.3 --notes-file notes.md --latest=false dist/shop.whl"
    assert calls == [f"gh release {create if call == 'create' else call}" for call in made]


@pytest.mark.parametrize(
    ("major", "latest", "names"),
    [
        ("v1", "true", ["v1.2.3", "v1.2.3-slim", "v1", "v1-slim", "latest", "slim"]),
        ("v1", "false", ["v1.2.3", "v1.2.3-slim", "v1", "v1-slim"]),
        ("", "false", ["v1.2.3", "v1.2.3-slim"]),
    ],
)
def test_the_images_get_their_names_from_their_digests(
    checkout: Path, major: str, latest: str, names: list[str]
) -> None:
    _program(checkout.parent, "docker", 'echo "$*" >>"$CALLS"')
    digests = {"DIGEST": DIGEST, "SLIM": DIGEST[::-1]}
    _run("Name it", checkout, IMAGE=IMAGE, MAJOR=major, LATEST=latest, **digests)
    assert (checkout.parent / "calls").read_text(encoding="utf-8").splitlines() == [
        f"buildx imagetools create --tag {IMAGE}:{name} {IMAGE}@{digests['SLIM' if 'slim' in name else 'DIGEST']}"
        for name in names
    ]
