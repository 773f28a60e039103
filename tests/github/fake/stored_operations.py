"""The calls about commits, Git objects, workflow runs and artifacts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.github.fake.actions import Artifact
from tests.github.fake.answers import Answer, RefusedError, Request, invalid, listed, message, not_found, page_of
from tests.github.fake.git import EMPTY_TREE, FOLDER, Commit, Entry
from tests.github.fake.limits import Problem

_REPO = "/repos/{owner}/{repo}"
STORAGE = "/storage"
"""Where files are that downloads lead to: another service than the API, to which no token is to be sent."""


def stored(request: Request, kind: str, key: str) -> Answer:
    """Lead to a file of the storage."""
    address = f"{request.api.removesuffix('/api/v3')}{STORAGE}/{request.repository.name}/{kind}/{key}?sig=secret"
    return Answer(302, None, {"Location": address})


# Commits.


def _known(request: Request, ref: str) -> Commit:
    store = request.repository.git
    sha = store.resolve(ref)
    if sha is None or sha not in store.commits:
        raise not_found()
    return store.commits[sha]


def _commits(request: Request) -> Answer:
    git = request.repository.git
    start = _known(request, request.query.get("sha", request.repository.default_branch))
    return listed(request, git.ancestors(start.sha), request.shapes.commit)


def _branches_where_head(request: Request) -> Answer:
    git, sha = request.repository.git, request.operation.variables["commit_sha"]
    if sha not in git.commits:
        raise RefusedError(message(422, f"No commit found for SHA: {sha}"))
    names = [name.removeprefix("refs/heads/") for name, at in git.refs.items() if at == sha and "/heads/" in name]
    commit = {"sha": sha, "url": f"{request.shapes.url}/commits/{sha}"}
    return Answer(200, [{"name": name, "commit": commit, "protected": False} for name in sorted(names)])


def _compare(request: Request) -> Answer:
    git = request.repository.git
    base, separator, head = request.operation.variables["basehead"].partition("...")
    if not separator:
        raise not_found()
    one, other = _known(request, base), _known(request, head)
    common = git.merge_base(one.sha, other.sha)
    if common is None:
        raise RefusedError(message(404, f"No common ancestor between {base} and {head}."))
    theirs, ours = git.ancestors(one.sha), git.ancestors(other.sha)
    ahead = [commit for commit in reversed(ours) if commit not in theirs]
    behind = [commit for commit in theirs if commit not in ours]
    shown, headers = page_of(request, ahead, request.shapes.commit)
    shape = request.shapes.comparison(f"{base}...{head}", one, git.commits[common], len(ahead), len(behind))
    return Answer(200, {**shape, "commits": shown}, headers)


# Git objects.


def _create_blob(request: Request) -> Answer:
    content = request.body["content"]
    encoding = request.body.get("encoding", "utf-8")
    try:
        data = base64.b64decode(content, validate=True) if encoding == "base64" else content.encode()
    except binascii.Error:
        raise _unprocessable("content is not valid Base64") from None
    sha = request.repository.git.write_blob(data)
    return Answer(201, {"sha": sha, "url": f"{request.shapes.url}/git/blobs/{sha}"})


def _blob(request: Request) -> Answer:
    sha = request.operation.variables["file_sha"]
    content = request.repository.git.blobs.get(sha)
    if content is None:
        raise not_found()
    return Answer(200, request.shapes.blob(sha, content))


def _create_tree(request: Request) -> Answer:
    git, base = request.repository.git, request.body.get("base_tree", EMPTY_TREE)
    invalid("Tree", _tree_problems(request, base))
    changes: dict[str, Entry | None] = {}
    for item in request.body["tree"]:
        sha = item["sha"] if "sha" in item else git.write_blob(item["content"].encode())
        changes[item["path"]] = None if sha is None else Entry(item["mode"], sha)
    present = {path for path, _ in git.files(base)}
    if any(entry is None and path not in present for path, entry in changes.items()):
        raise _unprocessable("GitRPC::BadObjectState")
    return Answer(201, request.shapes.tree(git.changed(base, changes), git))


def _tree_problems(request: Request, base: str) -> Iterator[Problem]:
    git = request.repository.git
    if base not in git.trees:
        yield Problem("base_tree", "base_tree is not a tree")
    for item in request.body["tree"]:
        if "path" not in item or "mode" not in item or ("sha" in item) == ("content" in item):
            yield Problem("tree", "an entry has a path, a mode, and either sha or content")
        elif item.get("sha") is not None and item["sha"] not in (git.trees if item["mode"] == FOLDER else git.blobs):
            yield Problem("tree.sha", "tree.sha is not a valid object")
        parts = item.get("path", "-").split("/")
        if not all(parts) or {".", "..", ".git"} & set(parts):
            yield Problem("tree.path", "tree.path contains a malformed path component")


def _tree(request: Request) -> Answer:
    git = request.repository.git
    name = request.operation.variables["tree_sha"]
    commit = git.resolve(name)
    sha = git.commits[commit].tree if commit is not None else name
    if sha not in git.trees:
        raise not_found()
    return Answer(200, request.shapes.tree(sha, git, recursive="recursive" in request.query))


def _create_commit(request: Request) -> Answer:
    git, body = request.repository.git, request.body
    parents = body.get("parents", [])
    if body["tree"] not in git.trees or any(parent not in git.commits for parent in parents):
        raise _unprocessable("Tree SHA or a parent does not exist")
    commit = git.commits[git.write_commit(body["tree"], parents, body["message"])]
    return Answer(201, request.shapes.git_commit(commit))


def _git_commit(request: Request) -> Answer:
    commit = request.repository.git.commits.get(request.operation.variables["commit_sha"])
    if commit is None:
        raise not_found()
    return Answer(200, request.shapes.git_commit(commit))


def _ref(request: Request) -> Answer:
    name = f"refs/{request.operation.variables['ref']}"
    if name not in request.repository.git.refs:
        raise not_found()
    return Answer(200, request.shapes.ref(name, request.repository.git.refs[name]))


def _create_ref(request: Request) -> Answer:
    git, name, sha = request.repository.git, request.body["ref"], request.body["sha"]
    if not name.startswith("refs/") or name.count("/") < 2 or sha not in git.commits:
        raise _unprocessable("Reference name or object is not valid")
    if name in git.refs:
        raise _unprocessable("Reference already exists")
    _not_protected(request, name)
    git.refs[name] = sha
    return Answer(201, request.shapes.ref(name, sha))


def _update_ref(request: Request) -> Answer:
    git, name, sha = request.repository.git, f"refs/{request.operation.variables['ref']}", request.body["sha"]
    if name not in git.refs:
        raise _unprocessable("Reference does not exist")
    if sha not in git.commits:
        raise _unprocessable("Object does not exist")
    _not_protected(request, name)
    if not request.body.get("force", False) and git.refs[name] not in {item.sha for item in git.ancestors(sha)}:
        raise _unprocessable("Update is not a fast forward")
    git.refs[name] = sha
    return Answer(200, request.shapes.ref(name, sha))


def _not_protected(request: Request, name: str) -> None:
    if name in request.repository.protected:
        raise RefusedError(message(422, "Changes must be made through a pull request."))


def _unprocessable(text: str) -> RefusedError:
    return RefusedError(message(422, text))


# Workflow runs and artifacts.


def _run(request: Request) -> Answer:
    run = request.repository.actions.runs.get(request.number("run_id"))
    if run is None:
        raise not_found()
    return Answer(200, request.shapes.workflow_run(run))


def _artifacts(request: Request) -> Answer:
    name = request.query.get("name")
    found = [item for item in request.repository.actions.artifacts.values() if name in (None, item.name)]
    shown, headers = page_of(request, found[::-1], request.shapes.artifact)
    return Answer(200, {"total_count": len(found), "artifacts": shown}, headers)


def _artifact_of(request: Request) -> Artifact:
    artifact = request.repository.actions.artifacts.get(request.number("artifact_id"))
    if artifact is None:
        raise not_found()
    return artifact


def _archive(request: Request) -> Answer:
    artifact = _artifact_of(request)
    if request.operation.variables["archive_format"] != "zip":
        raise not_found()
    if artifact.expired:
        raise RefusedError(message(410, "Artifact has expired"))
    return stored(request, "artifact", str(artifact.id))


OPERATIONS: Mapping[tuple[str, str], Callable[[Request], Answer]] = {
    ("GET", f"{_REPO}/commits"): _commits,
    ("GET", f"{_REPO}/commits/{{commit_sha}}/branches-where-head"): _branches_where_head,
    ("GET", f"{_REPO}/compare/{{basehead}}"): _compare,
    ("POST", f"{_REPO}/git/blobs"): _create_blob,
    ("GET", f"{_REPO}/git/blobs/{{file_sha}}"): _blob,
    ("POST", f"{_REPO}/git/trees"): _create_tree,
    ("GET", f"{_REPO}/git/trees/{{tree_sha}}"): _tree,
    ("POST", f"{_REPO}/git/commits"): _create_commit,
    ("GET", f"{_REPO}/git/commits/{{commit_sha}}"): _git_commit,
    ("GET", f"{_REPO}/git/ref/{{ref}}"): _ref,
    ("POST", f"{_REPO}/git/refs"): _create_ref,
    ("PATCH", f"{_REPO}/git/refs/{{ref}}"): _update_ref,
    ("GET", f"{_REPO}/actions/runs/{{run_id}}"): _run,
    ("GET", f"{_REPO}/actions/artifacts"): _artifacts,
    ("GET", f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}"): _archive,
}


def file_of(repositories: Mapping[str, Any], path: str) -> bytes | None:
    """Return a file of the storage, by the path of its address; None where there is none."""
    parts = path.removeprefix(f"{STORAGE}/").split("/")
    repository = repositories.get("/".join(parts[:2]))
    if repository is None or len(parts) != 4:
        return None
    kind, key = parts[2:]
    if kind == "artifact" and key.isdecimal() and int(key) in repository.actions.artifacts:
        archive: bytes = repository.actions.artifacts[int(key)].archive
        return archive
    return None
