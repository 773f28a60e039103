"""What a run is, for its journal: a journal of anything else is not continued."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from holodeck_action import __version__
from holodeck_action.record.record import SCHEMA_VERSION
from holodeck_action.suite.checkout import MOST_FILE, MOST_TEXT, MOST_TRANSCRIPT, Checkout, head_commit
from holodeck_action.suite.loader import graders
from holodeck_action.suite.model.targets import AnyTarget, PythonTarget, RecordedTarget
from holodeck_action.suite.values import Suite
from holodeck_action.targets.factory import describe

_CHUNK = 1 << 20


def file_digests(suite: Suite, target: AnyTarget, target_files: Checkout) -> dict[str, str]:
    """Return the digests of the files that trials depend on besides the suite's own, by what to call each.

    These are a transcript, the modules named as target or grader, and the files that cases give.

    Raises:
        OSError: a file cannot be read.
    """
    found = {}
    if isinstance(target, RecordedTarget):
        found[f"the transcript {Path(target.path).name}"] = _digest(target_files, target.path, MOST_TRANSCRIPT)
    for file in named_modules(suite, target):
        # Relative, so that a checkout elsewhere has the same names.
        name = os.path.relpath(file, suite.checkout.folder)
        found[f"the module {name}"] = _digest(suite.checkout, file, MOST_TEXT)
    for name in _given(suite):
        found[f"the file {name}"] = _digest(suite.checkout, name, MOST_FILE)
    return found


def run_identity(
    suite: Suite,
    target: AnyTarget,
    target_files: Checkout,
    digests: Mapping[str, str],
    environment: str | None = None,
) -> dict[str, object]:
    """Return what journaled trials depend on, JSON values by name; names are shown when they differ.

    Covers the suite's files, what its variables stand for, the target, the commit, and other files by their `digests`
    (see `file_digests`); what modules import in turn is in the journal itself, as the processes that import it tell.
    `environment` tells the packages of that code apart, where it has its own.
    """
    # The described target omits options and queries, which may be secret: the digest tells them apart.
    # Relative, so that a checkout elsewhere goes on as well.
    folder = os.path.relpath(target_files.folder, suite.folder)
    asked = hashlib.sha256(f"{folder} {target.model_dump_json()}".encode("utf-8", "surrogatepass"))
    code = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        code.update(f"{name} {digest}\n".encode("utf-8", "surrogatepass"))
    return {
        "cases": _cases(suite),
        "code": code.hexdigest(),
        "commit": head_commit(suite.folder),
        "digest": suite.digest,
        **({} if environment is None else {"environment": environment}),
        "suite": suite.name,
        "target": describe(target),
        "target_digest": asked.hexdigest(),
        "tool": __version__,
        "version": SCHEMA_VERSION,
    }


def _cases(suite: Suite) -> str:
    """Digest ids, contents and metrics of the cases as they are after substitution, which the files do not show."""
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


def named_modules(suite: Suite, target: AnyTarget) -> Iterator[Path]:
    """Yield the files of the modules that a suite names as target or grader, where they are no installed packages."""
    references = sorted({*graders(suite), *([target.reference] if isinstance(target, PythonTarget) else [])})
    for reference in references:
        module = reference.partition(":")[0].replace(".", "/")
        # Where the workers look for it; elsewhere it is an installed package.
        files = (f"{module}.py", f"{module}/__init__.py")
        found = (folder / file for folder in (suite.folder, suite.checkout.cwd) for file in files)
        yield from islice(filter(Path.is_file, found), 1)


def _given(suite: Suite) -> Iterable[str]:
    """Return the files of the cases; what a URL stands for is not looked at."""
    named = {file.path for case in suite.cases for turn in case.turns for file in turn.files if file.path is not None}
    return sorted(named)


def _digest(files: Checkout, name: str | Path, most: int) -> str:
    digest = hashlib.sha256()
    with files.open(name, most) as content:
        while part := content.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()


_MOST_FILES = 10_000
"""Files that are followed: user code says which they are, and might go on forever."""
_LONGEST_PATH = 4_096


class ImportedFiles:
    """Collects the files that worker processes say they have imported, each once, with its digest."""

    def __init__(self, checkout: Checkout, named: Iterable[Path] = ()) -> None:
        """Begin with none.

        Args:
            checkout: the suite's; what lies outside of it is not followed.
            named: files that the identity of the run covers already.
        """
        self._checkout = checkout
        self._named = frozenset(os.path.relpath(path, checkout.folder) for path in named)
        self._digests: dict[str, str | None] = {}
        self._listener: Callable[[Mapping[str, str | None]], None] = _nobody

    def __call__(self, paths: Sequence[str]) -> None:
        """Take note of files, given by absolute paths; those known already are passed over."""
        found: dict[str, str | None] = {}
        for path in paths[: _MOST_FILES - len(self._digests)]:
            # Relative, so that a checkout elsewhere goes on as well.
            name = os.path.relpath(path, self._checkout.folder) if len(path) <= _LONGEST_PATH else ""
            if name and name not in self._digests and name not in self._named:
                found[name] = self._digest(name)
        self._digests |= found
        if found:
            self._listener(found)

    def take(self, digests: Mapping[str, str | None]) -> None:
        """Take note of files that were imported from a copy of the checkout elsewhere, with their digests there."""
        found = {name: digest for name, digest in digests.items() if name not in self._digests}
        self._digests |= found
        if found:
            self._listener(found)

    def tell(self, listener: Callable[[Mapping[str, str | None]], None]) -> None:
        """Tell of the files known so far, and of others as they come."""
        if self._digests:
            listener(self._digests)
        self._listener = listener

    @property
    def digests(self) -> Mapping[str, str]:
        """The digests of the files known so far, by their paths from the suite; of those that could be read."""
        return {name: digest for name, digest in self._digests.items() if digest is not None}

    def changed(self, imported: Mapping[str, str | None]) -> list[str]:
        """Return which of some files do not hold any more what they held when they were imported."""
        return sorted(name for name, digest in imported.items() if self._digest(name) != digest)

    def _digest(self, name: str) -> str | None:
        """Digest a file as it is now; None where it is gone or out of reach."""
        try:
            return self._checkout.read(name, MOST_FILE).digest()
        except (OSError, ValueError):
            return None


def _nobody(found: Mapping[str, str | None]) -> None:
    pass
