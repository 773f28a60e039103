"""Starts the step of a workflow on the runner itself: makes the program's environment with uv, and becomes the program.

It runs under the job's own Python, any from 3.9 on, in which the code of suites then runs too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from holodeck_action.workers.environment import job_environment  # noqa: E402 - needs the folder above

INPUTS = "HOLODECK_ACTION_INPUTS"
_FOREIGN = ("UV_PROJECT_ENVIRONMENT", "UV_PYTHON", "VIRTUAL_ENV")
"""Variables of the job that are about other environments."""


def main() -> None:
    """Become the program.

    Raises:
        OSError, subprocess.CalledProcessError: its environment cannot be made.
    """
    inputs = json.loads(os.environ[INPUTS])
    environ = {name: value for name, value in os.environ.items() if name != INPUTS}
    environ.setdefault("HOLODECK_ACTION_PYTHON", sys.executable)
    seen = {name: value for name, value in job_environment(environ).items() if name not in _FOREIGN}
    uv = shutil.which("uv") or _installed_uv(seen)
    folder = _folder(seen)
    _sync(uv, folder, seen)
    # Packages of suites are installed with the same uv.
    environ["PATH"] = os.pathsep.join((environ["PATH"], str(Path(uv).parent)))
    environ.update({f"INPUT_{name.replace(' ', '_').upper()}": value for name, value in inputs.items()})
    python = str(folder / "bin" / "python")
    sys.stdout.flush()
    # Nothing of the job's PYTHON… variables, which are for the code of suites.
    os.execve(python, [python, "-Esu", str(ROOT / "entrypoint.py")], environ)  # noqa: S606 - no shell is needed


def _folder(environ: dict[str, str]) -> Path:
    """Return the folder of the program's environment, which later jobs on this machine find again."""
    digest = hashlib.sha256((ROOT / "uv.lock").read_bytes() + str(ROOT).encode()).hexdigest()[:16]
    default = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home().joinpath(*default))
    return Path(cache) / "holodeck-action" / "program" / digest


def _sync(uv: str, folder: Path, environ: dict[str, str]) -> None:
    """Install what the program needs in the versions and with the hashes of uv.lock; nothing where it is there."""
    # rouge-score is of use to `verify` alone, and would have to be built.
    packages = ["--no-dev", "--all-extras", "--no-install-project", "--no-install-package", "rouge-score"]
    # Before 3.13 Python cannot wait for processes on macOS as the program does.
    python = ["--python", ">=3.13"] if sys.platform == "darwin" else []
    subprocess.run(
        [uv, "sync", "--quiet", "--frozen", "--compile-bytecode", "--project", str(ROOT), *packages, *python],
        env={**environ, "UV_PROJECT_ENVIRONMENT": str(folder), "UV_NO_BUILD": "1"},
        check=True,
    )


def _installed_uv(environ: dict[str, str]) -> str:
    """Install the uv of the image, checked by its hashes, where the machine has none."""
    text = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    found = re.search(r"^uv==.*(?:\n .*)*", text, re.MULTILINE)
    assert found is not None
    folder = Path(environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "holodeck-action-uv"
    uv = folder / "bin" / "uv"
    if uv.exists():
        return str(uv)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], env=environ, check=True)
    (folder / "uv.txt").write_text(found[0] + "\n", encoding="utf-8")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    checked = ["--require-hashes", "--only-binary", ":all:", "-r", str(folder / "uv.txt")]
    subprocess.run([*pip, *checked], env=environ, check=True)
    return str(uv)


def fail(reason: str) -> None:
    """End the step as one that could not be evaluated."""
    output = os.environ.get("GITHUB_OUTPUT")
    if output:
        with open(output, "a", encoding="utf-8") as file:
            file.write("verdict=invalid\nexit-code=2\n")
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
