"""Runs the step of a workflow on the runner itself: installs the program's environment with uv, and executes it.

The script runs isolated, in a folder of the runner, on Python 3.9 or newer. It starts, imports and installs nothing of
the checkout: it checks the event first, and drops entries of PATH and variables that lead into the workspace. Of suites
it reads words alone, to choose among the program's own extras.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from holodeck_action.run.environments.extra_needs import describe_needs, expected_extras  # noqa: E402
from holodeck_action.text.option_lines import split_option_lines  # noqa: E402 - needs the folder
from holodeck_action.workers.environment import WITHHELD_VARIABLES, hide_variables, job_environment  # noqa: E402
from holodeck_action.workers.permission import CodeAllowed, CodeRefusedError, origin_of  # noqa: E402
from holodeck_action.workers.programs import folders_outside, leads_into, program_outside  # noqa: E402

INPUTS = "HOLODECK_ACTION_INPUTS"
OF_THE_JOB = "HOLODECK_ACTION_PYTHON"
INSTALLER = "HOLODECK_ACTION_INSTALLER"
INSTALLED = "HOLODECK_ACTION_EXTRAS"
BASE = ("github",)
"""The extras that every step needs: it publishes."""
_FOREIGN = (
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
    "VIRTUAL_ENV",
)
"""Variables of the job that are about other environments and projects."""
_SETTINGS = ("PIP_CONFIG_FILE", "UV_CONFIG_FILE")
"""Variables whose relative paths start in the workspace."""
_PAYLOAD_LIMIT = 25 * 1024 * 1024
"""Bytes of an event's payload; GitHub delivers none that is larger (webhook documentation, "Payload cap")."""


def main() -> None:
    """Replace this process with the program; given extras as arguments, install them and print the Python with them.

    Raises:
        OSError, subprocess.CalledProcessError: the program's environment cannot be created.
    """
    if sys.argv[1:]:
        # The program reads one stream.
        os.dup2(1, 2)
        _, python = _install(dict(os.environ), sys.argv[1:])
        print(python)
        return
    inputs: dict[str, str] = json.loads(os.environ[INPUTS])
    note = hide_variables((*WITHHELD_VARIABLES, INPUTS))
    if note is not None:
        print(f"note: {note}", flush=True)
    environ = {name: value for name, value in os.environ.items() if name != INPUTS}
    _check_event(inputs, environ)
    workspace = Path(environ["GITHUB_WORKSPACE"])
    uv, python, extras = _install_expected(environ, inputs)
    environ.setdefault(OF_THE_JOB, _python_of_the_job(environ["PATH"], workspace))
    # Packages of suites are installed with the same uv.
    environ["PATH"] = os.pathsep.join((environ["PATH"], str(Path(uv).parent)))
    environ.update({f"INPUT_{name.replace(' ', '_').upper()}": value for name, value in inputs.items()})
    environ.update({INSTALLER: f"{sys.executable}\n{Path(__file__).resolve()}", INSTALLED: ",".join(extras)})
    sys.stdout.flush()
    # -I ignores the job's PYTHON… variables, which are for the code of suites.
    os.execve(python, [python, "-Iu", str(ROOT / "entrypoint.py")], environ)  # noqa: S606 - no shell is needed


def _install_expected(environ: Mapping[str, str], inputs: Mapping[str, str]) -> tuple[str, str, Sequence[str]]:
    """Install the program with the extras that the suites seem to need; return the paths of uv and Python, and those.

    The program asks for what is missing when it has read the suites. Extras that cannot be installed are left to it,
    since it can report them on the pull request.
    """
    if _evaluates(inputs):
        suites = [line.strip() for line in inputs.get("suite", "").splitlines() if line.strip()]
        expected = expected_extras(environ["GITHUB_WORKSPACE"], suites)
        extras = sorted({*BASE, *(need.extra for need in expected)})
        if expected:
            print(f"note: {describe_needs(expected)}", flush=True)
        try:
            return (*_install(environ, extras), extras)
        except subprocess.CalledProcessError:
            if not expected:
                raise
    return (*_install(environ, BASE), BASE)


def _evaluates(inputs: Mapping[str, str]) -> bool:
    """Return whether the step evaluates suites of the checkout."""
    others = (inputs.get("publish", ""), inputs.get("merge", ""))
    return inputs.get("command", "").strip() != "compare" and not any(map(str.strip, others))


def _install(environ: Mapping[str, str], extras: Sequence[str]) -> tuple[str, str]:
    """Install the program's packages with extras; return the paths of uv, and of the Python that has the packages."""
    workspace = Path(environ["GITHUB_WORKSPACE"])
    own = Path(tempfile.mkdtemp(prefix="holodeck-action-", dir=environ.get("RUNNER_TEMP") or "/tmp"))  # noqa: S108
    os.chdir(own)
    seen = _installer_variables(environ, workspace)
    cache = _cache_folder(seen, own)
    uv = program_outside("uv", environ["PATH"], workspace) or _install_uv(cache, seen)
    folder = _environment_folder(cache, extras)
    _sync(uv, folder, extras, seen)
    return uv, str(folder / "bin" / "python")


def _check_event(inputs: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """End the step if the event has secrets and is known to be about a fork.

    If only GitHub can tell, the program asks it before reading anything of the checkout.
    """
    if not _evaluates(inputs):
        return
    flags = {line.option for line in split_option_lines(inputs.get("args", "")) if line.is_flag}
    origin = origin_of(environ.get("GITHUB_EVENT_NAME", "").strip(), _payload(environ))
    try:
        CodeAllowed(origin, accepted="allow-unsafe-forks" in flags)
    except CodeRefusedError as error:
        if origin.fork:
            fail(str(error), summary="no-summary" not in flags)


def _payload(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the event's payload; None if it cannot be read."""
    try:
        with open(environ.get("GITHUB_EVENT_PATH", ""), "rb") as file:
            payload = json.loads(file.read(_PAYLOAD_LIMIT))
    except (OSError, ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def _installer_variables(environ: Mapping[str, str], workspace: Path) -> dict[str, str]:
    """Return the variables for uv and pip: the job's, without tokens and without settings of its Pythons.

    Variables that name a place in the workspace are dropped: caches, settings and programs there are the checkout's.
    """
    root = os.path.realpath(workspace)

    def is_inside(name: str, value: str) -> bool:
        if str(workspace) in value or root in value:
            return True
        return leads_into(value, root) if os.path.isabs(value) else name in _SETTINGS

    seen = {
        name: value
        for name, value in job_environment(environ).items()
        if name not in _FOREIGN and not name.startswith("PYTHON") and not is_inside(name, value)
    }
    # uv searches PATH for Pythons.
    folders = [folder for folder in folders_outside(environ["PATH"], workspace) if os.access(folder, os.X_OK)]
    usable = [folder for folder in folders if not any(leads_into(each, root) for each in Path(folder).glob("python*"))]
    return {**seen, "PATH": os.pathsep.join(usable)}


def _python_of_the_job(path: str, workspace: Path) -> str:
    """Return the Python for code of suites: this one, or an active virtual environment's in the workspace."""
    root = os.path.realpath(workspace)
    for folder in path.split(os.pathsep):
        python = Path(folder, "python3")
        if python.is_absolute() and os.access(python, os.X_OK):
            if not leads_into(python, root):
                break
            if (python.parent.parent / "pyvenv.cfg").is_file():
                return str(python)
    return sys.executable


def _cache_folder(seen: Mapping[str, str], own: Path) -> Path:
    """Return the cache folder that jobs on this machine share; this job's own folder if there is no home."""
    if os.path.isabs(seen.get("XDG_CACHE_HOME", "")):
        return Path(seen["XDG_CACHE_HOME"]) / "holodeck-action"
    if not os.path.isabs(seen.get("HOME", "")):
        return own
    default = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return Path(seen["HOME"]).joinpath(*default, "holodeck-action")


def _environment_folder(cache: Path, extras: Sequence[str]) -> Path:
    """Return the folder of the program's environment: each lock, Python and set of extras has its own."""
    content = (str(ROOT), sys.version, sys.base_prefix, *sorted(extras))
    digest = hashlib.sha256((ROOT / "uv.lock").read_bytes() + "\0".join(content).encode()).hexdigest()[:16]
    return cache / "program" / digest


def _sync(uv: str, folder: Path, extras: Sequence[str], seen: Mapping[str, str]) -> None:
    """Install the program's packages with the versions and hashes of uv.lock; installed ones stay."""
    packages = ["--no-dev", "--no-install-project", *(f"--extra={extra}" for extra in extras)]
    # Before 3.13 Python cannot wait for processes on macOS as the program does.
    python = ["--python", ">=3.13"] if sys.platform == "darwin" else []
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another job of this machine may install the same environment.
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            [uv, "sync", "--quiet", "--frozen", "--project", str(ROOT), *packages, *python],
            env={**seen, "UV_PROJECT_ENVIRONMENT": str(folder), "UV_NO_BUILD": "1"},
            check=True,
        )


def _install_uv(cache: Path, seen: Mapping[str, str]) -> str:
    """Install the image's version of uv, checked by its hashes, on a machine without uv; return its path."""
    text = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    found = re.search(r"^uv==.*(?:\n .*)*", text, re.MULTILINE)
    assert found is not None
    uv = cache / "uv" / hashlib.sha256(found[0].encode()).hexdigest()[:16] / "uv"
    if uv.exists():
        return str(uv)
    environment, requirements = Path("uv-environment").resolve(), Path("uv.txt").resolve()
    subprocess.run([sys.executable, "-I", "-m", "venv", str(environment)], env=seen, check=True)
    requirements.write_text(found[0] + "\n", encoding="utf-8")
    pip = [str(environment / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    checked = ["--require-hashes", "--only-binary", ":all:", "-r", str(requirements)]
    subprocess.run([*pip, *checked], env=seen, check=True)
    uv.parent.mkdir(parents=True, exist_ok=True)
    # Another job of this machine may look for it meanwhile: the rename makes it appear all at once.
    part = uv.with_name(f"uv-{os.getpid()}")
    shutil.copy2(environment / "bin" / "uv", part)
    os.replace(part, uv)
    return str(uv)


def fail(reason: str, *, summary: bool = False) -> None:
    """End the step as one that could not be evaluated; with `summary`, also say so in the job summary.

    If the program asked for extras, it says so itself.
    """
    if sys.argv[1:]:
        print(reason)
        sys.exit(2)
    texts = {"GITHUB_OUTPUT": "verdict=invalid\nexit-code=2\n"}
    if summary:
        texts["GITHUB_STEP_SUMMARY"] = f"### holodeck-action: nothing was evaluated\n\n```\n{reason}\n```\n"
    for name, text in texts.items():
        if os.environ.get(name):
            with open(os.environ[name], "a", encoding="utf-8") as file:
                file.write(text)
    escaped = reason.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::error title=holodeck-action::{escaped}", flush=True)
    sys.exit(2)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        fail(f"the program's environment cannot be made: {Path(error.cmd[0]).name} ended with {error.returncode}")
    except OSError as error:
        fail(f"the program's environment cannot be made: {error}")
