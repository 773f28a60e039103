"""The environment that foreign code sees: the job's, without what acts in our name: tokens and the runner's files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

WITHHELD = frozenset(
    {
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL",
        "ACTIONS_RUNTIME_TOKEN",
        "GH_TOKEN",
        "GITHUB_ENV",
        "GITHUB_OUTPUT",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_TOKEN",
        "INPUT_GITHUB-TOKEN",
        "INPUT_GITHUB_TOKEN",
    }
)
"""Variables that carry the job's own authority, or name the files by which a step changes the steps after it."""


DEFAULTS = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1"}
"""Variables that the job may set otherwise: a grader that uses DeepEval tells nobody of it."""


def job_environment(environ: Mapping[str, str], interpreter: Path | None = None) -> dict[str, str]:
    """Return `environ` for a process that runs code of the checkout: all but `WITHHELD`, and `DEFAULTS` below it.

    Args:
        environ: the job's environment.
        interpreter: the project's own Python, absolute, whose environment the process finds as if it were activated;
            None for ours.
    """
    seen = DEFAULTS | {name: value for name, value in environ.items() if name not in WITHHELD}
    if interpreter is not None:
        programs = interpreter.parent
        seen["PATH"] = f"{programs}{os.pathsep}{seen.get('PATH', os.defpath)}"
        seen.pop("PYTHONHOME", None)
        if (programs.parent / "pyvenv.cfg").is_file():
            seen["VIRTUAL_ENV"] = str(programs.parent)
    return seen
