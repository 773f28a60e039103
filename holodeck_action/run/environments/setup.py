"""Whether a run needs a Python for the suite's code, and how its packages are installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from holodeck_action.suite.model.targets import AnyTarget, ModelTarget, PythonTarget
from holodeck_action.suite.values import Suite
from holodeck_action.workers.permission import CodeAllowed


class ProjectPython(Struct, frozen=True):
    """A Python interpreter other than the program's own, with the project's packages.

    Attributes:
        interpreter: absolute path of the interpreter; links are kept, since the path decides which packages it sees.
        digest: digest of the environment's content, independent of its location.
    """

    interpreter: Path
    digest: str


class PackageSetup(Struct, frozen=True):
    """How to install packages for a suite, and where.

    Attributes:
        requirements: lines of `--requirements`; empty if the policy file decides.
        home: the user's home folder; None if the user has no home folder.
        cwd: absolute path of the folder that paths in `requirements` start from.
        code: the permission to run packages and interpreters.
        announce: called with a sentence about each slow operation.
        copy_of: the folder of a temporary copy of the repository, and that of the original; None if there is no copy.
    """

    requirements: tuple[str, ...]
    home: Path | None
    cwd: Path
    code: CodeAllowed
    announce: Callable[[str], None] = lambda sentence: None
    copy_of: tuple[Path, Path] | None = None

    def original_folder(self, folder: Path) -> Path:
        """Return the original of a folder in the temporary copy, which lacks the project's interpreters; return any
        other folder unchanged.
        """
        if self.copy_of is not None and folder.is_relative_to(self.copy_of[0]):
            return self.copy_of[1] / folder.relative_to(self.copy_of[0])
        return folder


def needs_python(suite: Suite, target: AnyTarget | None) -> bool:
    """Return whether a run needs Python for graders and own metrics, for the target, or for functions that the suite's
    model calls.

    A target of None is the suite's own model.
    """
    if isinstance(target, ModelTarget | None) and any(tool.type == "function" for tool in suite.agent.tools or ()):
        return True
    return isinstance(target, PythonTarget) or bool(suite.graders or suite.metric_classes)
