"""The identity of a run: only a run with the same identity can resume its journal."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from holodeck_action import __version__
from holodeck_action.record.record import SCHEMA_VERSION
from holodeck_action.run.used_files import content_digest
from holodeck_action.suite.checkout import MOST_FILE, MOST_TEXT, MOST_TRANSCRIPT, Checkout, head_commit
from holodeck_action.suite.model.targets import (
    AddedTarget,
    AnyTarget,
    ConversationsTarget,
    PythonTarget,
    RecordedTarget,
)
from holodeck_action.suite.values import Suite
from holodeck_action.targets.factory import describe_target


def file_digests(suite: Suite, target: AnyTarget, target_files: Checkout) -> dict[str, str]:
    """Return digests of the files that trials depend on, except the suite's own, by a description of the file.

    The files are a recorded target's transcript, the modules of the target and the graders, and the files of cases.

    Raises:
        OSError: a file cannot be read.
    """
    found = {}
    if isinstance(target, ConversationsTarget):
        found[f"the conversations {Path(target.path).name}"] = target.digest
    elif isinstance(target, RecordedTarget):
        found[f"the transcript {Path(target.path).name}"] = content_digest(target_files, target.path, MOST_TRANSCRIPT)
    elif isinstance(target, AddedTarget):
        found |= target.digests(target_files)
    for file in named_modules(suite, target):
        # Relative, so that names are the same in every checkout.
        name = os.path.relpath(file, suite.checkout.folder)
        found[f"the module {name}"] = content_digest(suite.checkout, file, MOST_TEXT)
    for name in attached_files(suite):
        found[f"the file {name}"] = content_digest(suite.checkout, name, MOST_FILE)
    return found


def run_identity(
    suite: Suite,
    target: AnyTarget,
    target_files: Checkout,
    digests: Mapping[str, str],
    environment: str | None = None,
) -> dict[str, object]:
    """Return the inputs that determine a run's trials: JSON values by name; messages name the values that differ.

    The inputs cover the suite's files, the values of its variables, the target, the commit, and other files by their
    `digests` (see `file_digests`). Files that modules import are recorded in the journal itself. `environment` is the
    digest of the packages installed for the code; None if no packages are installed.
    """
    # The description of the target omits options and queries, which may be secret; the digest covers them.
    # Relative, so that a checkout elsewhere can continue.
    folder = os.path.relpath(target_files.folder, suite.folder)
    target_hash = hashlib.sha256(f"{folder} {target.model_dump_json()}".encode("utf-8", "surrogatepass"))
    code = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        code.update(f"{name} {digest}\n".encode("utf-8", "surrogatepass"))
    return {
        "cases": _cases_digest(suite),
        "code": code.hexdigest(),
        "commit": head_commit(suite.folder),
        "digest": suite.digest,
        **({} if environment is None else {"environment": environment}),
        "suite": suite.name,
        "target": describe_target(target),
        "target_digest": target_hash.hexdigest(),
        "tool": __version__,
        "version": SCHEMA_VERSION,
    }


def _cases_digest(suite: Suite) -> str:
    """Return a digest of the cases' ids, contents and metrics after the substitution of variables."""
    digest = hashlib.sha256()
    metrics: dict[int, bytes] = {}
    for case in suite.cases:
        digest.update(f"\n{case.id} {case.content_hash}".encode("utf-8", "surrogatepass"))
        for turn in case.turns:
            for spec in turn.metrics:
                if id(spec.config) not in metrics:
                    metrics[id(spec.config)] = spec.config.model_dump_json().encode()
                digest.update(metrics[id(spec.config)])
    return digest.hexdigest()


def named_modules(suite: Suite, target: AnyTarget) -> Iterable[Path]:
    """Return the files of the modules of a suite's target and graders, except installed packages."""
    answering = [target.reference] if isinstance(target, PythonTarget) else []
    return grading_modules(suite, answering).values()


def grading_modules(suite: Suite, further: Iterable[str]) -> dict[str, Path]:
    """Return the file of the module of each reference `module.path:callable` to a suite's graders and metric classes,
    and of further ones; without installed packages."""
    references = sorted({*suite.graders, *suite.metric_classes, *further})
    return {each: file for each in references if (file := _module_file(suite, each)) is not None}


def _module_file(suite: Suite, reference: str) -> Path | None:
    module = reference.partition(":")[0].replace(".", "/")
    # The folders in which workers look first; a module elsewhere is an installed package.
    files = (f"{module}.py", f"{module}/__init__.py")
    found = (folder / file for folder in (suite.folder, suite.checkout.cwd) for file in files)
    return next(filter(Path.is_file, found), None)


def attached_files(suite: Suite) -> Iterable[str]:
    """Return the paths of the files that cases attach, except URLs, and of those that their metrics name."""
    turns = [turn for case in suite.cases for turn in case.turns]
    named = {file.path for turn in turns for file in turn.files if file.path is not None}
    metrics = {id(spec.config): spec.config for turn in turns for spec in turn.metrics}.values()
    return sorted(named.union(*(metric.attached_files(suite.folder) for metric in metrics)))
