"""Which commit a run is compared with: scripted histories on the fake, and real clones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.github.bases.commit_objects import ObjectLimits, ObjectsError, fetch_objects
from holodeck_action.github.bases.local_git import SideRepository
from holodeck_action.github.bases.merge_base import NoCommit, WantedCommit, base_branch, first_parents, wanted_commit
from holodeck_action.github.rest.api import Api, connect
from holodeck_action.github.rest.objects import ApiError
from tests.github.events import event_environ
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.fake.actions import Artifact
from tests.github.raw import answer, serving
from tests.github.workflow import REPOSITORY

BOT = "github-actions[bot]"
TOKEN = "ghs_reader"


@pytest.fixture
def repo(hub: FakeGitHub) -> Repository:
    hub.add_token(TOKEN, Token(BOT, permissions={"contents": "read", "actions": "read"}))
    return hub.add_repository(REPOSITORY)


@pytest.fixture
def api(hub: FakeGitHub, repo: Repository) -> Iterator[Api]:
    with connect(TOKEN, hub.url, REPOSITORY, pause=lambda _: None) as api:
        yield api


def wanted(
    api: Api | None, evaluated: str | None, folder: Path, event: str = "", **overrides: Any
) -> WantedCommit | NoCommit:
    fields = {name.replace("__", "."): value for name, value in overrides.items()}
    folder.mkdir(exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    if event:
        environ |= event_environ(event, folder, overrides=fields)
    return wanted_commit(evaluated, base_branch(environ), api, folder, environ)


def history(repo: Repository) -> dict[str, str]:
    """`main`: 0 ← 1 ← 2; `topic` left it at 1; `test` is the test merge of both heads."""
    git = repo.git
    names = {"0": git.commit({"agent.yaml": "0"})}
    names["1"] = git.commit({"agent.yaml": "1"}, names["0"])
    names["2"] = git.commit({"agent.yaml": "2"}, names["1"])
    names["topic"] = git.commit({"new": "x"}, names["1"])
    names["test"] = git.commit({"new": "x"}, names["2"], names["topic"])
    git.refs["refs/heads/main"] = names["2"]
    return names


def test_a_pull_request_is_compared_with_where_it_left_its_base(repo: Repository, api: Api, tmp_path: Path) -> None:
    names = history(repo)
    assert wanted(api, names["topic"], tmp_path, "pull_request") == WantedCommit(names["1"], "main")
    # The test merge commit holds what main has meanwhile: that is no change of the pull request.
    assert wanted(api, names["test"], tmp_path, "pull_request") == WantedCommit(names["2"], "main")


def test_a_rebased_pull_request_has_another_base(repo: Repository, api: Api, tmp_path: Path) -> None:
    names = history(repo)
    rebased = repo.git.commit({"new": "x"}, names["2"])
    assert wanted(api, rebased, tmp_path, "pull_request") == WantedCommit(names["2"], "main")


def test_a_pull_request_to_another_branch(repo: Repository, api: Api, tmp_path: Path) -> None:
    names = history(repo)
    repo.git.refs["refs/heads/release/1.x"] = names["0"]
    found = wanted(api, names["topic"], tmp_path, "pull_request", pull_request__base__ref="release/1.x")
    assert found == WantedCommit(names["0"], "release/1.x")


def test_a_push_to_the_default_branch_is_compared_with_what_was_there(
    repo: Repository, api: Api, hub: FakeGitHub, tmp_path: Path
) -> None:
    names = history(repo)
    environ = event_environ("push", tmp_path, overrides={"before": names["0"]}, GITHUB_REF="refs/heads/main")
    found = wanted_commit(names["2"], base_branch(environ), api, tmp_path, environ)
    assert found == WantedCommit(names["0"], "main")
    assert base_branch(environ).on_default_branch
    assert hub.requests == []


def test_other_runs_are_compared_with_the_default_branch(repo: Repository, api: Api, tmp_path: Path) -> None:
    names = history(repo)
    found = wanted(api, names["topic"], tmp_path, "push", before=names["0"])
    assert found == WantedCommit(names["1"], "main")
    assert wanted(api, names["2"], tmp_path, "schedule") == WantedCommit(names["2"], "main")
    assert wanted(api, names["topic"], tmp_path) == WantedCommit(names["1"], "main")
    queued = wanted(api, names["test"], tmp_path, "merge_group")
    assert queued == WantedCommit(names["2"], "main")


def test_it_says_why_there_is_none(repo: Repository, api: Api, hub: FakeGitHub, tmp_path: Path) -> None:
    names = history(repo)
    strange = repo.git.commit({"other": "root"})

    def sentence(evaluated: str | None, api: Api | None = api) -> str:
        found = wanted(api, evaluated, tmp_path, "pull_request")
        assert isinstance(found, NoCommit)
        return found.sentence

    assert "the evaluated commit is unknown" in sentence(None)
    assert "fetch-depth: 0" in sentence(strange)
    assert "fetch-depth: 0" in sentence("9" * 40)
    assert "fetch-depth: 0" in sentence(names["topic"], None)
    hub.add_token(TOKEN, Token(BOT, permissions={}))
    assert "add contents: read to the permissions: of the job" in sentence(names["topic"])


def test_first_parents_pass_over_what_was_merged(repo: Repository, api: Api, hub: FakeGitHub) -> None:
    git = repo.git
    line = [git.commit({"agent.yaml": "0"})]
    for number in range(130):
        side = git.commit({f"side{number}": "x"}, line[0])
        line.append(git.commit({}, line[-1], side))
    assert first_parents(api, line[-1]) == tuple(reversed(line[-101:]))
    assert first_parents(api, line[3]) == tuple(reversed(line[:4]))
    assert [call.query.get("page", "1") for call in hub.requests] == ["1", "2", "1"]


# Real clones.


def git(folder: Path, *arguments: str) -> str:
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **identity}
    done = subprocess.run(("git", *arguments), cwd=folder, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository whose `topic` left `main` at the first commit."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    git(origin, "commit", "-q", "--allow-empty", "-m", "0")
    git(origin, "checkout", "-q", "-b", "topic")
    git(origin, "commit", "-q", "--allow-empty", "-m", "topic")
    git(origin, "checkout", "-q", "main")
    git(origin, "commit", "-q", "--allow-empty", "-m", "1")
    git(tmp_path, "clone", "-q", f"file://{origin}", "clone")
    git(clone, "checkout", "-q", "topic")
    return clone


@pytest.mark.parametrize("event", ["", "pull_request"])
def test_a_clone_knows_without_github(clone: Path, event: str) -> None:
    head, left = git(clone, "rev-parse", "HEAD"), git(clone, "rev-parse", "origin/main~1")
    base = {"pull_request__base__sha": git(clone, "rev-parse", "origin/main")} if event else {}
    assert wanted(None, head, clone, event, **base) == WantedCommit(left, "main")
    # An earlier step of the workflow can move the branches of its checkout, but not change the event.
    for branch in ("refs/remotes/origin/main", "refs/heads/main"):
        git(clone, "update-ref", branch, head)
    assert wanted(None, head, clone, event, **base) == WantedCommit(left if event else head, "main")
    found = wanted(None, head, clone, "push") if event else NoCommit("leave github-token to its default")
    assert isinstance(found, NoCommit)
    assert "leave github-token to its default" in found.sentence


def test_a_shallow_clone_asks_github_or_says_what_to_do(
    clone: Path, repo: Repository, api: Api, hub: FakeGitHub, tmp_path: Path
) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", "-b", "topic", f"file://{tmp_path / 'origin'}", "shallow")
    head = git(shallow, "rev-parse", "HEAD")
    found = wanted(None, head, shallow, "pull_request")
    assert isinstance(found, NoCommit)
    assert "fetch-depth: 0" in found.sentence
    left = repo.git.commit({})
    repo.git.commit({}, left, sha=head)
    repo.git.refs["refs/heads/main"] = left
    assert wanted(api, head, shallow, "pull_request") == WantedCommit(left, "main")


def test_nothing_that_the_repository_names_runs(clone: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.askPass"):
        git(clone, "config", key, str(hook))
    head = git(clone, "rev-parse", "HEAD")
    assert isinstance(wanted(None, head, clone), WantedCommit)
    assert not (tmp_path / "ran").exists()


# The files of a commit.


def store_of(folder: Path, *known: bytes) -> SideRepository:
    """A new repository beside one that has files of these contents."""
    git(folder, "init", "-q", "checkout")
    for content in known:
        (folder / "checkout" / "file").write_bytes(content)
        git(folder / "checkout", "hash-object", "-w", "file")
    store = SideRepository.of(folder / "objects.git", folder / "checkout", "0" * 40, {"PATH": os.environ["PATH"]})
    assert store is not None
    return store


def test_the_objects_of_a_commit_are_those_of_git(repo: Repository, api: Api, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    sha = repo.git.commit(
        {"agent.yaml": "name: a\n", "prompts/system.md": "be kind", "prompts/deep/x": "", "a b": "\r\n"}
    )
    tree = fetch_objects(api, sha, store)
    bare = store.git
    assert git(bare, "ls-tree", "-r", "--name-only", tree).split("\n") == [
        "a b",
        "agent.yaml",
        "prompts/deep/x",
        "prompts/system.md",
    ]
    assert git(bare, "show", f"{tree}:prompts/system.md") == "be kind"
    assert git(bare, "fsck", "--full", "--strict", "--no-dangling") == ""


def test_what_the_checkout_has_is_not_asked_for(hub: FakeGitHub, repo: Repository, api: Api, tmp_path: Path) -> None:
    sha = repo.git.commit({"a": "x", "b": "y", "c": "x"})
    before = len(hub.requests)
    fetch_objects(api, sha, store_of(tmp_path, b"x"))
    paths = [call.path.rsplit("/", 2)[-2] for call in hub.requests[before:]]
    assert paths == ["commits", "trees", "blobs"]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ObjectLimits(files=1), "lacks 2 files of commit .*, of at most 1"),
        (ObjectLimits(size=20_000), "that the checkout lacks are larger than 20,000 bytes"),
        (ObjectLimits(written=60_000), "are larger than 60,000 bytes"),
    ],
)
def test_a_commit_that_is_too_large(
    hub: FakeGitHub, repo: Repository, api: Api, tmp_path: Path, limits: ObjectLimits, reason: str
) -> None:
    sha = repo.git.commit({"a": "x" * 50_000, "b": "y", "c": "x" * 50_000})
    with pytest.raises(ObjectsError, match=reason):
        fetch_objects(api, sha, store_of(tmp_path), limits)
    assert not any("/git/blobs/" in call.path for call in hub.requests)


def forged_tree(repo: Repository, **changes: object) -> dict[str, Any]:
    """A list of files whose first entry is another one."""
    (name,) = (name for name, content in repo.git.blobs.items() if content == b"x")
    entry = {"path": "a", "mode": "100644", "type": "blob", "sha": name, "size": 1, **changes}
    return {"sha": "1" * 40, "url": "", "truncated": False, "tree": [entry]}


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "b"},
        {"path": "../a"},
        {"path": "folder/a"},
        {"path": "\ud800"},
        {"mode": "100755"},
        {"mode": "120000"},
        {"mode": "060000"},
        {"mode": "\n"},
        {"sha": "1" * 40},
    ],
    ids=str,
)
def test_a_list_that_is_not_that_of_the_tree(
    hub: FakeGitHub, repo: Repository, api: Api, tmp_path: Path, changes: Mapping[str, Any]
) -> None:
    sha = repo.git.commit({"a": "x"})
    hub.fail(Fault("GET", "/git/trees/", status=200, body=forged_tree(repo, **changes)))
    with pytest.raises(ObjectsError, match=f"commit {sha[:12]} "):
        fetch_objects(api, sha, store_of(tmp_path))


def test_a_file_that_is_another_one(hub: FakeGitHub, repo: Repository, api: Api, tmp_path: Path) -> None:
    sha = repo.git.commit({"a": "x"})
    shape = {"sha": "1" * 40, "node_id": "", "size": 1, "url": "", "content": "eQ==", "encoding": "base64"}
    hub.fail(Fault("GET", "/git/blobs/", status=200, body=shape))
    with pytest.raises(ObjectsError, match="GitHub returned another file"):
        fetch_objects(api, sha, store_of(tmp_path))


def test_a_list_that_is_cut_short(hub: FakeGitHub, repo: Repository, api: Api, tmp_path: Path) -> None:
    sha = repo.git.commit({"a": "x"})
    hub.fail(Fault("GET", "/git/trees/", status=200, body={**forged_tree(repo), "truncated": True}, times=None))
    with pytest.raises(ApiError, match="truncated"):
        fetch_objects(api, sha, store_of(tmp_path))


# Files that GitHub keeps outside of its API.


@pytest.fixture
def artifact(repo: Repository) -> Artifact:
    return repo.actions.upload(repo.actions.add_run("1" * 40), b"content")


def downloaded(api: Api, artifact: Artifact) -> bytes:
    return api.download_artifact(artifact.id, 1000)


def test_trouble_of_the_storage_is_tried_again(hub: FakeGitHub, api: Api, artifact: Artifact) -> None:
    hub.fail(Fault("GET", "^/storage/", status=503))
    hub.fail(Fault("GET", "^/storage/", drop="after"))
    assert downloaded(api, artifact) == b"content"
    hub.fail(Fault("GET", "^/storage/", status=403, times=None))
    with pytest.raises(ApiError, match="its storage answered 403") as raised:
        downloaded(api, artifact)
    assert "sig=" not in str(raised.value)


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x", "file:///etc/passwd", "", "http://["])
def test_a_download_that_leads_to_no_file(hub: FakeGitHub, api: Api, artifact: Artifact, location: str) -> None:
    hub.fail(Fault("GET", "/zip$", status=302, body=b"", headers={"Location": location}))
    with pytest.raises(ApiError, match=r"cannot be (used|downloaded)"):
        downloaded(api, artifact)


def test_a_repository_that_was_renamed() -> None:
    """The API's own redirects are followed with the token, the one to the storage without it."""

    def script(number: int, text: str) -> list[bytes]:
        if text.startswith("GET /repos/"):
            return [answer("", "Location: /repositories/1/actions/artifacts/7/zip", status=301)]
        if text.startswith("GET /repositories/"):
            return [answer("", "Location: /_storage/octo/shop?token=key", status=302)]
        return [answer(b"content")]

    with serving(script) as (url, requests), connect(TOKEN, url, REPOSITORY, pause=lambda _: None) as api:
        assert api.download_artifact(7, 1000) == b"content"
    assert [TOKEN in text for text in requests] == [True, True, False]
