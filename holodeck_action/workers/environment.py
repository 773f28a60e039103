"""Environment variables of processes with user code: those of the job, without tokens and runner command files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

WITHHELD_VARIABLES = frozenset(
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
"""Variables that processes with user code do not get.

They contain tokens of the job, or paths of the files through which a step can change later steps."""


DEFAULT_VARIABLES = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1"}
"""Default values, which the job's environment overrides. With these values, DeepEval in a grader sends no telemetry."""


def job_environment(environ: Mapping[str, str], interpreter: Path | None = None) -> dict[str, str]:
    """Return the environment of a process with code of the checkout.

    Args:
        environ: the job's environment.
        interpreter: absolute path of the project's Python, whose virtual environment is activated in the result; None
            if the process uses the Python that runs this program.
    """
    seen = DEFAULT_VARIABLES | {name: value for name, value in environ.items() if name not in WITHHELD_VARIABLES}
    if interpreter is not None:
        programs = interpreter.parent
        seen["PATH"] = f"{programs}{os.pathsep}{seen.get('PATH', os.defpath)}"
        seen.pop("PYTHONHOME", None)
        if (programs.parent / "pyvenv.cfg").is_file():
            seen["VIRTUAL_ENV"] = str(programs.parent)
    return seen


def hide_variables(names: Iterable[str]) -> str | None:
    """Overwrite variables in `/proc/PID/environ` of this process, which every process of the same user can read.

    `os.environ` is a copy of that memory and keeps the variables.

    Returns:
        A warning if the variables can still be read, otherwise None.
    """
    given = [name for name in names if os.environ.get(name)]
    if not given:
        return None
    failed = "variables with the job's tokens could not be hidden from code of the suite"
    try:
        # Imported late: most processes have nothing to hide.
        import ctypes

        entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        hidden = {os.fsencode(name) for name in given}
        index = 0
        while address := entries[index]:
            name, _, value = ctypes.string_at(address).partition(b"=")
            if name in hidden:
                ctypes.memset(address + len(name) + 1, 0, len(value))
            index += 1
        left = _visible_variables() & {os.fsencode(f"{name}={os.environ[name]}") for name in given}
    except (ImportError, OSError, ValueError, AttributeError) as error:
        return f"{failed}: {error}"
    return failed if left else None


def _visible_variables() -> set[bytes]:
    """Return the variables in `/proc/self/environ` as `NAME=value`; empty if there is no `/proc`."""
    shown = Path("/proc/self/environ")
    return set(shown.read_bytes().split(b"\0")) if shown.exists() else set()
