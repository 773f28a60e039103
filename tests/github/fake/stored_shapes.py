"""JSON of GitHub's real shape for commits, Git objects, workflow runs and artifacts."""

from __future__ import annotations

import base64
from typing import Any

from tests.github.fake.actions import Artifact, WorkflowRun
from tests.github.fake.contract import example
from tests.github.fake.git import FOLDER, Commit, GitStore


class StoredShapes:
    """Makes the JSON of one repository; `Shapes` says where it is."""

    __slots__ = ()

    @property
    def url(self) -> str:
        """The repository in the API."""
        raise NotImplementedError

    @property
    def page(self) -> str:
        """The repository's page."""
        raise NotImplementedError

    @property
    def number(self) -> int:
        """The repository's id."""
        raise NotImplementedError

    def commit(self, commit: Commit) -> dict[str, Any]:
        """Return a commit as it stands in lists."""
        shape: dict[str, Any] = example("commit-items")[0]
        person = {"name": "Alice", "email": "alice@example.com", "date": commit.date}
        return shape | {
            "url": f"{self.url}/commits/{commit.sha}",
            "sha": commit.sha,
            "html_url": f"{self.page}/commit/{commit.sha}",
            "comments_url": f"{self.url}/commits/{commit.sha}/comments",
            "commit": shape["commit"]
            | {
                "url": f"{self.url}/git/commits/{commit.sha}",
                "author": person,
                "committer": person,
                "message": commit.message,
                "tree": {"url": f"{self.url}/git/trees/{commit.tree}", "sha": commit.tree},
            },
            "parents": [{"url": f"{self.url}/commits/{parent}", "sha": parent} for parent in commit.parents],
        }

    def comparison(self, name: str, base: Commit, common: Commit, ahead: int, behind: int) -> dict[str, Any]:
        """Return how two commits relate, without the commits between them."""
        shape: dict[str, Any] = example("commit-comparison")
        status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
        return shape | {
            "url": f"{self.url}/compare/{name}",
            "base_commit": self.commit(base),
            "merge_base_commit": self.commit(common),
            "status": status,
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "files": [],
        }

    def git_commit(self, commit: Commit) -> dict[str, Any]:
        """Return a commit as a Git object."""
        person = {"name": "Alice", "email": "alice@example.com", "date": commit.date}
        return {
            **example("git-commit"),
            "sha": commit.sha,
            "url": f"{self.url}/git/commits/{commit.sha}",
            "html_url": f"{self.page}/commit/{commit.sha}",
            "author": person,
            "committer": person,
            "message": commit.message,
            "tree": {"url": f"{self.url}/git/trees/{commit.tree}", "sha": commit.tree},
            "parents": [
                {"url": f"{self.url}/git/commits/{sha}", "sha": sha, "html_url": f"{self.page}/commit/{sha}"}
                for sha in commit.parents
            ],
        }

    def tree(self, sha: str, git: GitStore, *, recursive: bool = False) -> dict[str, Any]:
        """Return a folder, or all files below it."""
        found = git.deep(sha) if recursive else git.trees[sha].items()
        entries = []
        for path, entry in found:
            kind = "tree" if entry.mode == FOLDER else "blob"
            size = {} if kind == "tree" else {"size": len(git.blobs[entry.sha])}
            url = f"{self.url}/git/{kind}s/{entry.sha}"
            entries.append({"path": path, "mode": entry.mode, "type": kind, "sha": entry.sha, "url": url, **size})
        return {"sha": sha, "url": f"{self.url}/git/trees/{sha}", "tree": entries, "truncated": False}

    def blob(self, sha: str, content: bytes) -> dict[str, Any]:
        """Return a file; GitHub breaks its Base64 into lines."""
        return {
            "sha": sha,
            "node_id": f"B_{sha[:8]}",
            "size": len(content),
            "url": f"{self.url}/git/blobs/{sha}",
            "content": base64.encodebytes(content).decode(),
            "encoding": "base64",
        }

    def ref(self, name: str, sha: str) -> dict[str, Any]:
        """Return a reference."""
        return {
            "ref": name,
            "node_id": f"REF_{sha[:8]}",
            "url": f"{self.url}/git/{name}",
            "object": {"type": "commit", "sha": sha, "url": f"{self.url}/git/commits/{sha}"},
        }

    def workflow_run(self, run: WorkflowRun) -> dict[str, Any]:
        """Return a run of a workflow."""
        shape: dict[str, Any] = example("workflow-run")
        return shape | {
            "id": run.id,
            "event": run.event,
            "path": run.path,
            "status": run.status,
            "conclusion": run.conclusion,
            "head_branch": run.head_branch,
            "head_sha": run.head_sha,
            "created_at": run.created_at,
            "updated_at": run.created_at,
            "run_started_at": run.created_at,
            "head_repository": shape["head_repository"] | {"id": run.head_repository_id},
        }

    def artifact(self, artifact: Artifact) -> dict[str, Any]:
        """Return an artifact."""
        url = f"{self.url}/actions/artifacts/{artifact.id}"
        run = artifact.run
        return {
            "id": artifact.id,
            "node_id": f"A_{artifact.id}",
            "name": artifact.name,
            "size_in_bytes": len(artifact.archive),
            "url": url,
            "archive_download_url": f"{url}/zip",
            "expired": artifact.expired,
            "created_at": artifact.created_at,
            "updated_at": artifact.created_at,
            "expires_at": artifact.created_at,
            "digest": artifact.digest,
            "workflow_run": {
                "id": run.id,
                "repository_id": self.number,
                "head_repository_id": run.head_repository_id,
                "head_branch": run.head_branch,
                "head_sha": run.head_sha,
            },
        }
