"""Compares a committed results file with the file of the commit that the run is compared with.

A pull request that replaces the results chooses by which base it is judged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from holodeck_action.decide.compared_terms import strictest_reaction
from holodeck_action.github.bases.branches import FOLDER, LINK, SUBMODULE, TreeEntry
from holodeck_action.github.bases.commit_files import CommitFiles, CommitFilesError
from holodeck_action.github.bases.merge_base import NoCommit
from holodeck_action.github.job import Job
from holodeck_action.record.record import ReplacedResults
from holodeck_action.record.result_files import RESULTS_FILE, BaseResults
from holodeck_action.run.run import Run
from holodeck_action.suite.cases.sources import POLICY_NAMES
from holodeck_action.suite.checkout import MOST_YAML, repository_root
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.base_sources import parse_source
from holodeck_action.suite.model.policy import Reaction
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.lazy_patterns import lazy_pattern

_POINTER = lazy_pattern(r"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n")
_LONGEST_POINTER = 1024
_SHA256_DIGITS = 64


def find_replaced(
    suite: Run, evaluated: str | None, named: Path, results: BaseResults, file: Path, job: Job
) -> ReplacedResults | None:
    """Return whether the results file differs, or may differ, from that of the commit that the run is compared with.

    The file of the commit is the one that its policy file names, else the one at the same path.

    Args:
        suite: the suite whose base is the file.
        evaluated: the commit that is evaluated; None if it is unknown.
        named: absolute path of the base as it is named: the results file, or its folder.
        results: the content of the results file.
        file: absolute path of the results file.
        job: the CI job, used to find the commit.

    Returns:
        None if the file is the same, the commit has no such file, the file is not in the suite's repository, or the run
        is one of the default branch itself.
    """
    root = repository_root(suite.suite.folder)
    path = None if root is None else _path_in(root, named)
    if root is None or path is None or evaluated is None or _is_of_default_branch(evaluated, job):
        return None
    source = SourceMark(Path(os.path.relpath(file, suite.suite.folder)).as_posix(), 1, 1)
    wanted = job.commit_to_compare(evaluated, suite.suite.folder)
    if isinstance(wanted, NoCommit):
        return ReplacedResults(source, wanted.sentence)
    if wanted.commit == evaluated:
        return None
    files = CommitFiles(job, root, wanted.commit)
    try:
        settings = tuple(_baselines_before(files, suite, root))
        named_before = _paths_named(settings, suite, root) if suite.base_files is suite.suite.checkout else ()
        found = (_find_results(files, each) for each in (*named_before, path))
        before = next(filter(None, found), None)
        if before is None:
            return None
        if before.mode == SUBMODULE:
            return ReplacedResults(source, f"{before.path} is a submodule, whose files are not compared")
        if before.mode == LINK and _path_in(root, Path(os.path.realpath(file))) is None:
            # Both files are outside the repository, where no commit has them.
            return None
        if _is_same(files, before, results.content):
            return None
        return ReplacedResults(source, on_loosened=_strictest_reaction(settings))
    except CommitFilesError as error:
        return ReplacedResults(source, str(error))


def _is_of_default_branch(evaluated: str, job: Job) -> bool:
    # A run that a user starts on the default branch may check out a pull request.
    own = job.base.on_default_branch and evaluated == job.environ.get("GITHUB_SHA")
    return own or job.base.before is not None


def _path_in(root: Path, file: Path) -> str | None:
    """Return the path of a file from the root of the repository, with `/`; None if the file is not in it."""
    real = Path(os.path.realpath(root))
    for above, path in ((root, file), (real, file), (real, os.path.realpath(file))):
        normal = Path(os.path.normpath(path))
        if normal.is_relative_to(above):
            return normal.relative_to(above).as_posix()
    return None


def _baselines_before(files: CommitFiles, suite: Run, root: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the section `baseline` of the commit's policy file, unchecked; nothing if there is none."""
    for name in POLICY_NAMES:
        path = _path_in(root, suite.suite.folder / name)
        policy = None if path is None else files.find(path)
        content = None if policy is None else files.read(policy, MOST_YAML)
        if content is None:
            continue
        try:
            section = read_yaml(content, file=name, environ=suite.environ).root["baseline"]
        except (ForeignError, KeyError, TypeError, ValueError, AttributeError):
            # The commit's file is invalid or has no such section.
            continue
        if isinstance(section, Mapping):
            yield section


def _paths_named(settings: Iterable[Mapping[str, Any]], suite: Run, root: Path) -> Iterator[str]:
    """Yield the paths of the results files that are named in sections `baseline`."""
    for section in settings:
        try:
            kind, named = parse_source(section["source"])
        except (KeyError, TypeError, ValueError, AttributeError):
            # The section does not name a source.
            continue
        path = _path_in(root, suite.suite.folder / named) if kind == "file" else None
        if path is not None:
            yield path


def _strictest_reaction(settings: Iterable[Mapping[str, Any]]) -> Reaction | None:
    written = [section.get("on_loosened") for section in settings]
    reactions = [each for each in get_args(Reaction) if each in written]
    return strictest_reaction(reactions) if reactions else None


def _find_results(files: CommitFiles, path: str) -> TreeEntry | None:
    """Return the entry of a results file, or of the one in a folder; None if the commit has none."""
    if path == ".":
        return files.find(RESULTS_FILE)
    found = files.find(path)
    return files.find(f"{found.path}/{RESULTS_FILE}") if found is not None and found.mode == FOLDER else found


def _is_same(files: CommitFiles, before: TreeEntry, content: bytes) -> bool:
    if _blob_name(content, before.sha) == before.sha:
        return True
    stored = files.read(before, _LONGEST_POINTER)
    # A file in Git LFS: the commit has a pointer with the digest of the file.
    pointer = None if stored is None else _POINTER.match(f"{stored.lossy_text()}\n")
    if pointer is None:
        return False
    return pointer[1] == hashlib.sha256(content).hexdigest()


def _blob_name(content: bytes, sample: str) -> str:
    """Return the hash by which Git names a file's content; `sample` is another hash, whose length tells the
    algorithm."""
    digest = hashlib.sha256() if len(sample) == _SHA256_DIGITS else hashlib.sha1(usedforsecurity=False)
    digest.update(f"blob {len(content)}\0".encode())
    digest.update(content)
    return digest.hexdigest()
