"""Finds the closure of a run: the files and settings of the checkout that can change its verdict (`record.closure`)."""

from __future__ import annotations

import platform
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.record.closure import WRITTEN, Closure, Digests
from holodeck_action.run.identity import attached_files, grading_modules
from holodeck_action.run.options.settings import ModelCalls
from holodeck_action.run.run import FoundBase, Run, join_sides
from holodeck_action.run.used_files import file_digest, file_name
from holodeck_action.suite.checkout import MOST_TRANSCRIPT, Checkout, repository_root
from holodeck_action.suite.values import Suite


def add_closures(run: Run) -> Run:
    """Return a run and its base that have ended, with their closures in their records."""
    before = run.base.results.results.record.run.closure if isinstance(run.base, FoundBase) else None
    head = _closure_of(run, {} if before is None else before.code)
    closures = (head if side.as_base is None else _closure_beside(side, head) for side in run.sides)
    return join_sides([_with_closure(side, each) for side, each in zip(run.sides, closures, strict=True)])


def _with_closure(side: Run, closure: Closure) -> Run:
    record = side.record
    return replace(side, ended=replace(record, run=replace(record.run, closure=side.redactor.value(closure))))


def _closure_of(side: Run, before: Digests) -> Closure:
    """Return the closure of a suite whose grading code ran; `before` is the grading code of the base."""
    suite, used = side.suite, side.resources.used
    used.add_code(side.used)
    files = _grader_files(suite, side.case_functions)
    used.add_code([str(suite.folder / name) for name in files.values()])
    code = used.code
    return replace(
        _settings_of(side, side.settings.calls),
        code=code,
        graders=files,
        shared=used.shared,
        unused={
            # What the base's run wrote itself was not in its checkout.
            name: WRITTEN if before[name] == WRITTEN else used.digest(name)
            for name in sorted(before.keys() - code.keys())
        },
    )


def _closure_beside(side: Run, head: Closure) -> Closure:
    """Return the closure of a base whose answers the head graded: its own files of the same names."""
    suite = side.suite
    files = _grader_files(suite, side.case_functions)
    side.resources.used.add_code(side.used)
    names = sorted({*head.code, *files.values(), *side.resources.used.code})
    assert side.as_base is not None
    return replace(
        _settings_of(side, side.as_base.calls),
        code={name: _digest_beside(suite.checkout, name, head) for name in names},
        graders=files,
    )


def _digest_beside(checkout: Checkout, name: str, head: Closure) -> str | None:
    found = file_digest(checkout, name)
    return WRITTEN if found is None and head.code.get(name) == WRITTEN else found


def _grader_files(suite: Suite, case_functions: Iterable[str]) -> dict[str, str]:
    """Return the file of each reference to grading code, without installed packages."""
    files = grading_modules(suite, case_functions)
    return {each: file_name(suite.checkout, str(file)) for each, file in files.items()}


def _settings_of(side: Run, calls: ModelCalls) -> Closure:
    """Return a closure with the recordings that answer, the files of cases and the surroundings."""
    suite = side.suite
    attached = {file_name(suite.checkout, str(suite.folder / name)): name for name in attached_files(suite)}
    found = Closure(
        attached={shown: file_digest(suite.checkout, name) for shown, name in sorted(attached.items())},
        surroundings=_surroundings(side),
    )
    replayed = calls.mode == "replay"
    folder = calls.folder if replayed else calls.cache
    if folder is None or (side.resources.wire is None and not (replayed and side.records_answers)):
        return found
    name = file_name(suite.checkout, str(folder))
    evidence = dict(_recordings(suite.checkout, name))
    if not replayed:
        # Other cached answers are those of earlier runs, which the workflow keeps.
        committed = _committed_files(side, folder)
        evidence = {file: digest for file, digest in evidence.items() if committed is None or file in committed}
        if not evidence:
            return found
    return replace(found, answers=name, answers_source=suite.cache_mark, evidence=evidence)


def _committed_files(side: Run, folder: Path) -> Container[str] | None:
    """Return the files of a folder that the commit has which is checked out; None if all files count as committed."""
    checkout = side.suite.checkout
    root = repository_root(checkout.folder)
    if root is None:
        # A merge base is written without Git's data.
        return () if side.as_base is None else None
    # Most runs have no cache.
    from holodeck_action.github.bases.local_git import run_git

    listed = run_git(root, side.environ, "ls-tree", "-r", "-z", "--name-only", "HEAD", "--", str(folder))
    # If Git cannot tell, all files count.
    return None if listed is None else {file_name(checkout, str(root / path)) for path in listed.split("\0") if path}


def _recordings(checkout: Checkout, folder: str) -> Iterator[tuple[str, str | None]]:
    for pattern in (f"{folder}/*.json*", f"{folder}/verdicts/*.json"):
        try:
            for path in checkout.matching_files(pattern):
                name = file_name(checkout, str(path))
                yield name, file_digest(checkout, name, MOST_TRANSCRIPT)
        except (OSError, ValueError):
            # A folder outside of the checkout belongs to the workflow.
            continue


def _surroundings(side: Run) -> Mapping[str, str]:
    python, agent = side.python, side.resources.agent
    return {
        "holodeck-action": __version__,
        "Python": platform.python_version(),
        **({} if python is None else {"the packages of its code": python.digest[:12]}),
        **({} if agent is None else agent.surroundings),
    }
