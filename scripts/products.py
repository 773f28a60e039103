"""The product at a commit: its files, and an interpreter that imports them and not this checkout."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Product:
    """A commit's files in `tree`, the interpreter that runs them, and its environment."""

    tree: Path
    python: str
    environ: Mapping[str, str]

    @property
    def command(self) -> tuple[str, ...]:
        """The command without arguments, by the entry point in the commit's pyproject.toml."""
        scripts = tomllib.loads((self.tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
        module, _, function = scripts["holodeck-action"].partition(":")
        start = f"import sys; sys.argv[0] = 'holodeck-action'; from {module} import {function}; sys.exit({function}())"
        return (self.python, "-c", start)

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line in a folder to its end."""
        return self.start((*self.command, *arguments), folder, self.environ)

    def start(
        self, command: tuple[str, ...], folder: Path, environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder to its end, with exactly this environment."""
        return subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )


def extract(commit: str, folder: Path, *paths: str) -> None:
    """Write the files of a commit, or only those at `paths`, to a folder."""
    packed = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def install(commit: str, folder: Path, environ: Mapping[str, str]) -> Product:
    """Install a commit into a new folder, with the packages of this interpreter.

    Raises:
        click.ClickException: the interpreter would import other files.
    """
    tree = folder / "tree"
    extract(commit, tree)
    product = Product(tree, interpreter(tree, folder / "environment"), environ)
    where = (product.python, "-c", "import holodeck_action; print(holodeck_action.__file__)")
    found = product.start(where, folder, environ).stdout
    if not found.startswith(str(tree)):
        raise click.ClickException(f"instead of {commit}, {found} would be run")
    return product


def copy_checkout(root: Path, tree: Path) -> None:
    """Copy all tracked and new files of a checkout, and its cache of types and its tools, into a new folder."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=root, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tree / name)
    for cache in (".mypy_cache", ".tools"):
        if (root / cache).is_dir():
            shutil.copytree(root / cache, tree / cache, symlinks=True)
    # Some checks list files with git.
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=tree, check=True)


def interpreter(tree: Path, environment: Path) -> str:
    """Create an interpreter that imports from a tree and from this interpreter's packages; return its path."""
    venv.create(environment, symlinks=True)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    # Python does not read .pth files in folders that a .pth file adds, so an editable install is not found.
    next(environment.glob("lib/python3*/site-packages")).joinpath("product.pth").write_text(
        "\n".join([str(tree), *packages]), encoding="utf-8"
    )
    for tool in Path(sys.prefix, "bin").iterdir():
        if not (environment / "bin" / tool.name).exists():
            (environment / "bin" / tool.name).symlink_to(tool)
    return str(environment / "bin" / "python")
