"""Results to compare with from the artifacts of earlier workflow runs of the base branch.

An artifact is as trustworthy as its run: only those of runs of this repository on the base branch are looked at, that a
push, a schedule or a person with write access started, and what an artifact says of its commit must be what GitHub
says.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from datetime import datetime

from holodeck_action.github.api import PER_PAGE, Api
from holodeck_action.github.objects import ApiError
from holodeck_action.github.stored_objects import Artifact
from holodeck_action.github.stored_results import (
    Ancestry,
    NoResultsError,
    StoredResults,
    SuitePlace,
    checked,
    found_results,
    reading,
    shown,
)
from holodeck_action.github.zip_files import MOST_PACKED, ZipError, results_files
from holodeck_action.results.result_files import BaseResults
from holodeck_action.results.stored_cases import RecordError

DEFAULT_NAME = "holodeck-results"
MOST_PAGES = 5
"""Pages of 100 artifacts that are looked through."""
MOST_DOWNLOADS = 30
_EVENTS = ("push", "schedule", "workflow_dispatch")


class ArtifactResults:
    """The artifacts of a name; each is downloaded once, however many suites are looked for.

    The artifact `NAME` goes before those whose names begin with `NAME-`, as the jobs of a matrix make them.
    """

    def __init__(self, api: Api, name: str, now: Callable[[], datetime]) -> None:
        self._api, self._name, self._now = api, name or DEFAULT_NAME, now
        self._lists: dict[str | None, tuple[Artifact, ...]] = {}
        self._trusted: dict[int, bool] = {}
        self._archive: tuple[int, bytes] | None = None

    def find(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        """Return the newest results of a suite at the wanted commit, or at the nearest commit before it.

        Raises:
            NoResultsError: there are none, or GitHub did not give them.
        """
        with reading("the artifacts of earlier runs", "actions: read"):
            return self._nearest(suite, ancestry)

    def _nearest(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        problems: list[str] = []
        for listed in (self._name, None):
            candidates = self._candidates(listed, ancestry)
            for artifact in [item for item in candidates if not item.expired][:MOST_DOWNLOADS]:
                found = self._in(artifact, suite, problems)
                if found is not None:
                    return found_results(found, artifact.sha, ancestry, self._now(), problems)
            problems += [f"artifact {item.id} ({shown(item.name)}) has expired" for item in candidates if item.expired]
        where = f"artifact {shown(self._name)} of a completed run on {shown(ancestry.wanted.branch)}"
        if problems:
            raise NoResultsError(f"no {where} can be used: {problems[0]}; evaluate that branch again")
        raise NoResultsError(
            f"no {where} has results of this suite for {ancestry.named}: let a workflow evaluate pushes to "
            f"{shown(ancestry.wanted.branch)} and upload the output folder under this name"
        )

    def _candidates(self, listed: str | None, ancestry: Ancestry) -> list[Artifact]:
        """Return the artifacts that may be used, the nearest first, and of one commit the newest."""
        if listed not in self._lists:
            self._lists[listed] = tuple(self._listed(listed))
        found = [item for item in self._lists[listed] if self._fits(item, ancestry, exact=listed is not None)]
        return sorted(found, key=lambda artifact: (ancestry.distances[artifact.sha], -artifact.id))

    def _listed(self, name: str | None) -> Iterator[Artifact]:
        for page in range(1, MOST_PAGES + 1):
            artifacts = self._api.artifacts(name, page)
            yield from (artifact for artifact in artifacts if artifact is not None)
            if len(artifacts) < PER_PAGE:
                return

    def _fits(self, artifact: Artifact, ancestry: Ancestry, *, exact: bool) -> bool:
        # The branch of a fork may have the name of ours.
        named = artifact.name == self._name if exact else artifact.name.startswith(f"{self._name}-")
        return (
            named and artifact.own and artifact.branch == ancestry.wanted.branch and artifact.sha in ancestry.distances
        )

    def _in(self, artifact: Artifact, suite: SuitePlace, problems: list[str]) -> BaseResults | None:
        """Return the results of a suite in an artifact; None where it has none, or none that can be used."""
        found: list[BaseResults] = []
        try:
            if not self._trusts(artifact.run_id):
                return None
            for name, content in results_files(self._download(artifact)):
                results = checked(content, shown(name), suite, artifact.sha)
                if results is not None:
                    found.append(results)
            if len(found) > 1:
                raise ZipError("has two results of this suite")
        except (ZipError, RecordError) as error:
            problems.append(f"artifact {artifact.id} ({shown(artifact.name)}) {shown(str(error))}")
            return None
        return found[0] if found else None

    def _trusts(self, run_id: int) -> bool:
        """Tell whether a run has ended, and was started by something that only people of the repository do."""
        if run_id not in self._trusted:
            run = self._api.workflow_run(run_id)
            self._trusted[run_id] = run.status == "completed" and run.event in _EVENTS
        return self._trusted[run_id]

    def _download(self, artifact: Artifact) -> bytes:
        """Return the archive of an artifact; the last one is kept: it may have the results of several suites."""
        if self._archive is not None and self._archive[0] == artifact.id:
            return self._archive[1]
        if artifact.size > MOST_PACKED:
            raise ZipError(f"is larger than {MOST_PACKED:,} bytes")
        packed = io.BytesIO()
        try:
            self._api.download_artifact(artifact.id, MOST_PACKED, packed)
        except ApiError as error:
            if error.kind not in ("not_found", "invalid"):
                raise
            # It has expired or was deleted since it was listed.
            raise ZipError(f"cannot be downloaded: {error}") from None
        digest = hashlib.sha256(packed.getbuffer()).hexdigest()
        if artifact.digest is not None and artifact.digest != f"sha256:{digest}":
            raise ZipError("is not what was uploaded")
        self._archive = artifact.id, packed.getvalue()
        return self._archive[1]
