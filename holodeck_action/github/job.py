"""The workflow job of a run: the base branch in its event, and access to GitHub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holodeck_action.github.rest.payload import is_repository
from holodeck_action.suite.checkout import origin, repository_root
from holodeck_action.workers.permission import LOCAL_ORIGIN, CodeAllowed

if TYPE_CHECKING:
    from holodeck_action.github.bases.branches import TreeEntry
    from holodeck_action.github.bases.merge_base import BaseBranch, NoCommit, WantedCommit
    from holodeck_action.github.bases.stored_results import Ancestry
    from holodeck_action.github.rest.api import Api
    from holodeck_action.reports.page.viewer_index import PageLinks


def page_links(environ: Mapping[str, str]) -> PageLinks:
    """Return the links from a page to the repository and the workflow run; no links outside of a workflow."""
    from holodeck_action.reports.page.viewer_index import NO_LINKS, PageLinks

    server = (environ.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")
    repository, run = environ.get("GITHUB_REPOSITORY"), environ.get("GITHUB_RUN_ID", "")
    if not is_repository(repository) or not server.startswith("https://"):
        return NO_LINKS
    home = f"{server}/{repository}"
    return PageLinks(home, f"{home}/actions/runs/{run}" if run.isdecimal() else None)


def event_permission(environ: Mapping[str, str], folders: Sequence[Path], *, accepted: bool) -> CodeAllowed:
    """Return the permission to run code of checkouts as far as it is known without calling GitHub.

    Raises:
        CodeRefusedError: the job can have secrets, and the code is or may be a fork's.
    """

    def refuse_call(folder: Path) -> Api:
        from holodeck_action.github.rest.objects import ApiError

        raise ApiError("GitHub was not asked", "invalid", None)

    return _permission(environ, folders, refuse_call, accepted=accepted)


def _permission(
    environ: Mapping[str, str], folders: Sequence[Path], api: Callable[[Path], Api], *, accepted: bool
) -> CodeAllowed:
    if environ.get("GITHUB_ACTIONS") != "true":
        return CodeAllowed(LOCAL_ORIGIN)
    from holodeck_action.github.event import event_destination
    from holodeck_action.github.lookup import evaluation_permission, find_pulls
    from holodeck_action.github.own_checkout import find_doubt

    destination = event_destination(environ)
    return evaluation_permission(
        destination,
        lambda: find_pulls(destination, api(folders[0])),
        lambda is_known: find_doubt(folders, is_known, api, environ),
        accepted=accepted,
    )


class Job:
    """Access to GitHub for a run, as a context manager. Each fact is requested from GitHub when it is first needed, and
    only once.

    Most runs need no such facts, so modules are imported when they are used.

    Attributes:
        environ: the environment variables of the job, or of the user.
        token: token for GitHub; empty if there is no token.
        pause: waits for a number of seconds.
        now: returns the current time, with its time zone.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        token: str,
        pause: Callable[[float], None],
        now: Callable[[], datetime],
    ) -> None:
        self.environ, self.token, self.pause, self.now = environ, token, pause, now
        self._apis: dict[str, Api] = {}
        self._wanted: dict[tuple[str | None, Path], WantedCommit | NoCommit] = {}
        self._branches: dict[tuple[Api, str], Sequence[TreeEntry] | None] = {}
        self._ancestries: dict[tuple[Api, WantedCommit], Ancestry] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for api in self._apis.values():
            api.close()

    @cached_property
    def base(self) -> BaseBranch:
        """The base branch in the job's event."""
        from holodeck_action.github.bases.merge_base import base_branch

        return base_branch(self.environ)

    def api(self, folder: Path) -> Api:
        """Return the API client for the workflow's repository; outside of a workflow, for the checkout's repository.

        Raises:
            ApiError: there is no token, or the repository is unknown; the message has a remedy.
        """
        from holodeck_action.github.rest.api import connect
        from holodeck_action.github.rest.objects import ApiError

        repository = self._repository(folder)
        if repository not in self._apis:
            if self.token and not is_repository(repository):
                raise ApiError("the repository is unknown: set GITHUB_REPOSITORY", "invalid", None)
            url = self.environ.get("GITHUB_API_URL") or None
            self._apis[repository] = connect(self.token, url, repository, pause=self.pause)
        return self._apis[repository]

    def permission(self, folders: Sequence[Path], *, accepted: bool) -> CodeAllowed:
        """Return the permission to run code of checkouts; outside of a workflow it is always granted.

        Args:
            folders: folders of suites in the checkouts.
            accepted: whether the workflow's author accepts the risk (option `allow-unsafe-forks`).

        Raises:
            CodeRefusedError: the job has secrets, and the code is or may be a fork's.
        """
        return _permission(self.environ, folders, self.api, accepted=accepted)

    def commit_to_compare(self, evaluated: str | None, folder: Path) -> WantedCommit | NoCommit:
        """Return the commit to compare with; see `wanted_commit`.

        Args:
            evaluated: the commit that is checked out; None if it is unknown.
            folder: a folder in the checkout.
        """
        from holodeck_action.github.bases.merge_base import wanted_commit
        from holodeck_action.github.rest.objects import ApiError

        root = repository_root(folder) or folder
        if (evaluated, root) not in self._wanted:
            try:
                api = self.api(folder)
            except ApiError:
                # The checkout may have the merge base.
                api = None
            self._wanted[evaluated, root] = wanted_commit(evaluated, self.base, api, root, self.environ)
        return self._wanted[evaluated, root]

    def branch_entries(self, api: Api, name: str) -> Sequence[TreeEntry] | None:
        """Return the entries of a branch's tree, as read at the first call; see `branches.branch_entries`.

        Raises:
            ApiError: GitHub gave no answer.
        """
        from holodeck_action.github.bases.branches import branch_entries

        if (api, name) not in self._branches:
            self._branches[api, name] = branch_entries(api, name)
        return self._branches[api, name]

    def ancestry(self, api: Api, commit: WantedCommit) -> Ancestry:
        """Return the wanted commit and its ancestors, whose results may serve as the base.

        Raises:
            ApiError: GitHub gave no answer.
        """
        from holodeck_action.github.bases.merge_base import first_parents
        from holodeck_action.github.bases.stored_results import Ancestry

        if (api, commit) not in self._ancestries:
            self._ancestries[api, commit] = Ancestry.of(commit, first_parents(api, commit.commit))
        return self._ancestries[api, commit]

    def _repository(self, folder: Path) -> str:
        given = self.environ.get("GITHUB_REPOSITORY", "").strip()
        root = repository_root(folder)
        return given or (origin(root) if root is not None else None) or ""
