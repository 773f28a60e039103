"""Workflow runs and the artifacts that they uploaded."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.github.fake.records import Ledger


@dataclass(slots=True)
class WorkflowRun:
    """A run of a workflow; `head_repository_id` is another repository's for one of a fork."""

    id: int
    event: str
    status: str
    conclusion: str | None
    head_branch: str
    head_sha: str
    head_repository_id: int
    created_at: str
    path: str


@dataclass(slots=True)
class Artifact:
    """What a run uploaded; `archive` is its zip file."""

    id: int
    name: str
    run: WorkflowRun
    archive: bytes
    created_at: str
    expired: bool = False

    @property
    def digest(self) -> str:
        """What GitHub says of the archive."""
        return f"sha256:{hashlib.sha256(self.archive).hexdigest()}"


@dataclass(slots=True)
class Actions:
    """The runs and artifacts of a repository."""

    ledger: Ledger
    repository_id: int
    runs: dict[int, WorkflowRun] = field(default_factory=dict)
    artifacts: dict[int, Artifact] = field(default_factory=dict)

    def add_run(
        self,
        head_sha: str,
        *,
        branch: str = "main",
        event: str = "push",
        status: str = "completed",
        conclusion: str | None = "success",
        head_repository_id: int | None = None,
        path: str = ".github/workflows/evaluate.yml",
    ) -> WorkflowRun:
        """Let a workflow have run on a commit, in this repository unless the id of another one is given."""
        repository = self.repository_id if head_repository_id is None else head_repository_id
        ended = conclusion if status == "completed" else None
        run = WorkflowRun(self.ledger.id(), event, status, ended, branch, head_sha, repository, self.ledger.now(), path)
        self.runs[run.id] = run
        return run

    def upload(
        self, run: WorkflowRun, content: Mapping[str, bytes] | bytes, name: str = "holodeck-results"
    ) -> Artifact:
        """Upload files by path, or an archive as it is."""
        archive = content if isinstance(content, bytes) else zipped(content)
        artifact = Artifact(self.ledger.id(), name, run, archive, self.ledger.now())
        self.artifacts[artifact.id] = artifact
        return artifact


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a zip file as actions/upload-artifact makes it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()
