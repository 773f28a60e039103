"""The environment that foreign code sees: the job's, without what acts in our name: tokens and the runner's files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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


def hide_variables(names: Iterable[str]) -> str | None:
    """Overwrite variables where the system shows those of this process.

    `/proc/PID/environ` is the memory in which the process got its variables, and every process of the same user can
    read it: code of a suite, too. `os.environ` is a copy and keeps them.

    Returns:
        A sentence where they can still be read; None where not.
    """
    given = [name for name in names if os.environ.get(name)]
    if not given:
        return None
    failed = "variables with the job's tokens could not be hidden from code of the suite"
    try:
        # Only where there is something to hide.
        import ctypes

        entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        hidden = {os.fsencode(name) for name in given}
        index = 0
        while address := entries[index]:
            name, _, value = ctypes.string_at(address).partition(b"=")
            if name in hidden:
                ctypes.memset(address + len(name) + 1, 0, len(value))
            index += 1
        left = _shown_variables() & {os.fsencode(f"{name}={os.environ[name]}") for name in given}
    except (ImportError, OSError, ValueError, AttributeError) as error:
        return f"{failed}: {error}"
    return failed if left else None


def _shown_variables() -> set[bytes]:
    """Return the variables that the system shows of this process; none where it shows no process."""
    shown = Path("/proc/self/environ")
    return set(shown.read_bytes().split(b"\0")) if shown.exists() else set()
