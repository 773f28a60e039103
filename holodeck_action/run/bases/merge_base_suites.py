"""Base suites from the merge base, which run at the same time as the checked-out suites."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from holodeck_action.github.bases.commit_files import CommitFilesError
from holodeck_action.github.bases.merge_base import NoCommit
from holodeck_action.github.job import Job
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.record import BaseRun
from holodeck_action.run.bases.base_suites import pair_suites, with_agent
from holodeck_action.run.bases.commit_trees import CommitTree, CommitTrees
from holodeck_action.run.loading import LoadedSuite, SuiteContext, load_suite_at
from holodeck_action.run.run import MissingBase, Run
from holodeck_action.suite.checkout import Checkout, repository_root
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.suite.model.targets import AnyTarget, HttpTarget
from holodeck_action.targets.factory import describe_target


def suites_at_merge_base(suites: Sequence[Run], job: Job, trees: CommitTrees) -> Sequence[Run]:
    """Return the suites; those that are to be compared with their merge base have it as their base.

    For a base that cannot run there is a `MissingBase` with the reason.

    Args:
        suites: the suites.
        job: the CI job, used to find the merge base.
        trees: writes the files of the commit.
    """
    return [
        replace(item, base=_prepare_base_suite(item, job, trees))
        if item.settings.baseline.source == MERGE_BASE
        else item
        for item in suites
    ]


def _prepare_base_suite(suite: Run, job: Job, trees: CommitTrees) -> Run | MissingBase:
    folder, commit = suite.suite.folder, suite.commit
    if suite.stored is not None:
        return MissingBase("stored answers that are graded again can only be compared with a file")
    wanted = job.commit_to_compare(commit, folder)
    root = repository_root(folder)
    if isinstance(wanted, NoCommit):
        return MissingBase(wanted.sentence)
    if root is None:
        return MissingBase("the suite is not in a repository: run it in a checkout")
    short = wanted.commit[:12]
    if job.base.on_default_branch and wanted.commit == commit:
        return MissingBase(f"commit {short} would be compared with itself")
    try:
        tree = trees.tree(root, wanted.commit)
        base_context = _context_at(tree.folder, root, suite)
        place = _place_in(tree, suite, root, commit)
        loaded = _load_base(tree.folder, place, base_context)
        changed = replace(with_agent(suite, loaded), variant=f"base, commit {short}")
    except CommitFilesError as error:
        return MissingBase(str(error))
    except FileNotFoundError as error:
        return MissingBase(f"the suite did not exist at commit {short}: {error.filename} is not in it")
    except (ConfigurationError, TargetError) as error:
        lines = error.lines if isinstance(error, ConfigurationError) else (f"target: {error}",)
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        return MissingBase(f"the suite of commit {short} cannot be run: {lines[0]}{more}")
    former = () if place == _place(suite, root) else (f"the suite was at {place} in commit {short}: it was renamed",)
    own_base = _own_base_notice(short, is_own_base=wanted.commit == commit)
    notices = (*_notices(tree, changed.target), *former, *own_base)
    run = BaseRun(MERGE_BASE, wanted.commit, wanted.commit, 0, notices, wanted.branch)
    folder_before = None if suite.repository_folder is None else posixpath.dirname(place)
    return pair_suites(suite, changed, run, folder_before, is_required=False)


def _context_at(tree: Path, root: Path, suite: Run) -> SuiteContext:
    """Return the environment, folders and permissions of a suite in the folder of another commit.

    The environment is that of the checked-out suite, with the variables of its env file.
    """
    here = Path(os.path.realpath(suite.context.cwd))
    inner = tree / here.relative_to(root) if here.is_relative_to(root) else tree
    cwd = inner if inner.is_dir() else tree
    context = suite.context.with_flags(env_file=None)
    return replace(context, environ=suite.environ, cwd=cwd, copy_of=(tree, root))


def _place(suite: Run, root: Path) -> str:
    """Return the path of a suite's file from the root of the repository."""
    return (suite.suite.folder.relative_to(root) / suite.suite.file).as_posix()


def _place_in(tree: CommitTree, suite: Run, root: Path, commit: str | None) -> str:
    """Return the path of a suite's file in an earlier commit: the same one, or that from which Git sees it renamed.

    Raises:
        FileNotFoundError: the earlier commit has no such file.
    """
    place = _place(suite, root)
    if (tree.folder / place).is_file():
        return place
    former = None if commit is None else tree.former_path(commit, place)
    if former is None or not (tree.folder / former).is_file():
        raise FileNotFoundError(2, os.strerror(2), place)
    return former


def _load_base(tree: Path, place: str, base_context: SuiteContext) -> LoadedSuite:
    """Load the suite at a path in another commit. Raises: `ConfigurationError` if the suite is invalid."""
    path = tree / place
    allowed = (Path(os.path.realpath(folder)) for folder in base_context.flags.allow_paths)
    return load_suite_at(path, Checkout(path.parent, (tree, *allowed), base_context.cwd), base_context)


def _notices(tree: CommitTree, target: AnyTarget) -> Iterator[str]:
    yield from tree.notices
    if isinstance(target, HttpTarget):
        service = describe_target(target)
        yield f"the same service, {service}, answers for both commits, so differences are not due to the change"


def _own_base_notice(short_hash: str, *, is_own_base: bool) -> Iterator[str]:
    if is_own_base:
        yield f"commit {short_hash} is its own merge base, so only uncommitted changes differ"
