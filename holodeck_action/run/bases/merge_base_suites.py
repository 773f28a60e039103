"""Suites as they were at the commit that they are compared with, which run beside what is checked out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from holodeck_action.github.bases.merge_base import NoCommit
from holodeck_action.github.job import Job
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.record import BaseRun
from holodeck_action.run.bases.base_suites import BaseSuite, beside
from holodeck_action.run.bases.baselines import MissingBase, evaluated_commit, folder_of
from holodeck_action.run.bases.commit_trees import CommitTree, CommitTrees, TreeError
from holodeck_action.run.loading import Loaded, Surroundings, load_at, with_python
from holodeck_action.run.preflight import Prepared, check_python_target, target_of
from holodeck_action.run.settings import Flags
from holodeck_action.suite.checkout import Checkout, repository_root
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.suite.model.targets import AnyTarget, HttpTarget
from holodeck_action.targets.factory import describe


def suites_at_merge_base(
    prepared: Sequence[Prepared], flags: Flags, around: Surroundings, job: Job, trees: CommitTrees
) -> tuple[BaseSuite | MissingBase | None, ...]:
    """Return what runs beside the suites that are compared with their merge base; None for the others.

    Whatever is wrong with it is the trouble of a base, which may be missing.

    Args:
        prepared: the suites.
        flags: the command line.
        around: the outside world.
        job: knows which commit it is.
        trees: writes its files.
    """
    return tuple(
        _beside(item, flags, around, job, trees) if item.settings.baseline.source == MERGE_BASE else None
        for item in prepared
    )


def _beside(
    item: Prepared, flags: Flags, around: Surroundings, job: Job, trees: CommitTrees
) -> BaseSuite | MissingBase:
    folder, commit = item.suite.folder, evaluated_commit(item)
    if item.stored is not None:
        return MissingBase("nothing runs beside answers that are graded again: compare them with a file")
    wanted = job.wanted(commit, folder)
    root = repository_root(folder)
    if isinstance(wanted, NoCommit):
        return MissingBase(wanted.sentence)
    if root is None:
        return MissingBase("the suite is in no repository: run it in a checkout")
    short = wanted.commit[:12]
    if job.base.own and wanted.commit == commit:
        return MissingBase(f"commit {short} is itself what it would be compared with")
    try:
        tree = trees.tree(root, wanted.commit)
        world = _at(tree.folder, root, item, around)
        loaded = _loaded(item, tree.folder, root, world)
        target, files = target_of(loaded.suite, flags, world)
        loaded = with_python(loaded, world, target)
        check_python_target(loaded, target)
    except TreeError as error:
        return MissingBase(str(error))
    except FileNotFoundError as error:
        return MissingBase(f"the suite did not exist at commit {short}: {error.filename} is not in it")
    except (ConfigurationError, TargetError) as error:
        lines = error.lines if isinstance(error, ConfigurationError) else (f"target: {error}",)
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        return MissingBase(f"the suite of commit {short} cannot be run: {lines[0]}{more}")
    changed = replace(
        item,
        suite=loaded.suite,
        environ=loaded.environ,
        python=loaded.python,
        target=target,
        target_files=files,
        variant=f"base, commit {short}",
    )
    notices = (*_notices(tree, target), *_of_itself(short, itself=wanted.commit == commit))
    run = BaseRun(MERGE_BASE, wanted.commit, wanted.commit, 0, notices, wanted.branch)
    return beside(item, changed, flags, run, folder_of(item), required=False)


def _at(tree: Path, root: Path, item: Prepared, around: Surroundings) -> Surroundings:
    """Return the outside world as a suite sees it whose checkout is another folder.

    Variables that a file which is not under version control gave to the checked-out suite are those of both.
    """
    here = Path(os.path.realpath(around.cwd))
    inner = tree / here.relative_to(root) if here.is_relative_to(root) else tree
    cwd = inner if inner.is_dir() else tree
    return replace(around, environ=item.environ, cwd=cwd, env_file=None, copy_of=(tree, root))


def _loaded(item: Prepared, tree: Path, root: Path, world: Surroundings) -> Loaded:
    """Load the suite that stands at the same place.

    Raises:
        FileNotFoundError: there is none.
        ConfigurationError: it is not valid.
    """
    place = item.suite.folder.relative_to(root) / item.suite.file
    path = tree / place
    if not path.is_file():
        raise FileNotFoundError(2, os.strerror(2), place.as_posix())
    allowed = (Path(os.path.realpath(folder)) for folder in world.allowed.paths)
    return load_at(path, Checkout(path.parent, (tree, *allowed), world.cwd), world)


def _notices(tree: CommitTree, target: AnyTarget) -> Iterator[str]:
    yield from tree.notices
    if isinstance(target, HttpTarget):
        yield f"the same service answers for both commits, {describe(target)}: what differs is not due to the change"


def _of_itself(short: str, *, itself: bool) -> Iterator[str]:
    if itself:
        yield f"commit {short} is its own merge base: only what is not committed differs"
