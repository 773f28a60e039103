"""Packages to install without an index: wheels made by hand in a folder, and the uv that installs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parents[2] / ".tools" / "bin"
NO_INDEX = "--no-index\n--find-links wheels\n"


@cache
def uv() -> Path:
    """The uv of `make setup`, or the one on the PATH."""
    found = shutil.which("uv", path=f"{_HERE}{os.pathsep}{os.environ['PATH']}")
    assert found is not None, "these tests need uv: run `make setup`"
    return Path(found)


def with_uv(folder: Path) -> dict[str, str]:
    """Variables with which the program finds uv, which is cut off from the network."""
    return {
        "PATH": f"{uv().parent}{os.pathsep}{os.environ['PATH']}",
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "UV_OFFLINE": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def without_uv(folder: Path) -> dict[str, str]:
    """Variables with which the program finds no uv."""
    folder.mkdir(exist_ok=True)
    return {"PATH": str(folder)}


def wheel(
    folder: Path, name: str, version: str, code: str, requires: tuple[str, ...] = (), module: str | None = None
) -> Path:
    """Write the wheel of a package with one module, of the same name unless another is given."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{module or name}.py": code,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{about}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return path


def bare_python(folder: Path, python: str = sys.executable) -> Path:
    """Make a virtual environment without packages."""
    # Without a cache: there may be no HOME.
    options = ("--quiet", "--no-cache", "--no-project", "--python", python)
    subprocess.run([uv(), "venv", *options, folder], check=True, timeout=60)
    return folder / "bin" / "python"


@cache
def interpreters() -> dict[str, str]:
    """The Pythons of this machine from 3.9 on, one of each version."""
    named = filter(None, (shutil.which(f"python3.{minor}") for minor in range(9, 16)))
    # The shims of pyenv start a shell, and what they start is in its folder.
    paths = [path for path in named if "/shims/" not in path]
    paths += [*map(str, Path.home().glob(".pyenv/versions/3.*/bin/python")), sys.executable]
    found = {}
    for path in paths:
        probe = "import sys; sys.version_info >= (3, 9) and print('%d.%d' % sys.version_info[:2])"
        answer = subprocess.run([path, "-IS", "-c", probe], capture_output=True, text=True, timeout=60)
        if answer.returncode == 0 and answer.stdout:
            found[answer.stdout.strip()] = path
    return dict(sorted(found.items(), key=lambda item: int(item[0].partition(".")[2])))
