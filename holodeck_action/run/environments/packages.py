"""Installs packages with uv into separate environments, which later runs reuse."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from holodeck_action.record.disk import UNSYNCED_DISK, open_lock, write_atomically
from holodeck_action.suite.checkout import MOST_FILE, MOST_TEXT, Checkout
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess
from holodeck_action.workers.programs import program_outside

INSTALL_TIMEOUT_S = 1800.0
"""Time limit of an installation, in seconds."""
_UNUSED_DAYS = 30
"""Days after which an unused environment is removed, at the next installation."""
_LAYOUT_VERSION = 1
"""Version of the environments' layout; environments of another version are not used."""
_COMPLETE_FILE = "holodeck-action.json"
"""File that marks an environment as complete and is written last; its modification time is that of the last use."""
_MAX_OUTPUT_BYTES = 64 * 1024
_UV = ("--quiet", "--no-progress", "--color", "never")
_INSTALL = ("pip", "install", "--compile-bytecode")
_BUILD_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files of a local package by which uv decides whether to install it again."""


class PackagesError(Exception):
    """Packages cannot be installed: one sentence, and in `output` the output of uv, which may contain secrets."""

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.output = output


class BasePython(Struct, frozen=True):
    """The Python for which packages are installed: its path, and a string that identifies its version and build."""

    interpreter: str
    identity: str


class Recipe(Struct, frozen=True):
    """The packages to install.

    Attributes:
        shown: the packages as the user wrote them.
        folder: absolute path of uv's working folder, from which relative paths in requirements start.
        arguments: arguments of `uv pip install`, or of `uv sync` if `locked`.
        locked: whether a project is installed from its uv.lock.
        content: strings that, together with the interpreter, determine the installed packages, such as texts of files.
        in_place: whether local packages are used from their own folders.
    """

    shown: str
    folder: Path
    arguments: tuple[str, ...]
    locked: bool
    content: tuple[str, ...]
    in_place: bool = False

    def digest(self, base: BasePython) -> str:
        """Return the key of the environment to install: hex SHA-256 over the recipe, Python and machine."""
        machine = (platform.system(), platform.machine(), *platform.libc_ver())
        place = str(self.folder) if self.in_place else ""
        parts = [_LAYOUT_VERSION, base.identity, *machine, self.locked, place, *self.arguments, *self.content]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def packages_recipe(packages: Sequence[str], folder: Path) -> Recipe:
    """Return the recipe for a list of packages."""
    return Recipe(", ".join(packages), folder, ("--", *packages), False, ())


def requirements_recipe(name: str, checkout: Checkout) -> Recipe:
    """Return the recipe for a requirements file and the files that it includes.

    Raises:
        PackagesError: a file cannot be read.
    """
    content: list[str] = []
    folders: list[Path] = []
    texts = _read_texts(name, checkout, content, folders)
    path = Path(os.path.normpath(checkout.folder / name))
    # Like pip: if one requirement has a hash, all need one.
    hashes = ("--require-hashes",) if any("--hash" in text for text in texts) else ()
    return Recipe(name, path.parent, (*hashes, "-r", path.name), False, tuple(content), bool(folders))


def project_recipe(name: str, checkout: Checkout) -> Recipe:
    """Return the recipe for a project with a pyproject.toml.

    Raises:
        PackagesError: the pyproject.toml cannot be read.
    """
    text = _read_text(name, checkout)
    folder = Path(os.path.normpath(checkout.folder / name)).parent
    lock = _find_uv_lock(folder, checkout)
    content = [_hash(text)]
    if lock is not None:
        locked = _read_text(lock, checkout)
        content += [_hash(locked), *_local_package_digests(folder / ".python-version")]
        in_place = re.search(r"source = \{ (editable|directory) =", locked) is not None
        return Recipe(name, folder, ("--locked", "--no-default-groups"), True, tuple(content), in_place)
    is_package = re.search(r"^[^\S\n]*\[build-system\]", text, re.MULTILINE) is not None
    arguments = ("-e", ".") if is_package else ("-r", Path(name).name)
    return Recipe(name, folder, arguments, False, tuple(content), is_package)


def _find_uv_lock(folder: Path, checkout: Checkout) -> Path | None:
    """Return the path of the uv.lock in a project's folder or in its workspace's; None if there is none."""
    for parent in (folder, *folder.parents):
        lock = parent / "uv.lock"
        if lock.is_file():
            return lock
        if checkout.roots is None or parent in checkout.roots:
            return None
    return None


_INCLUDED = lazy_pattern(r"(?:-r|--requirement|-c|--constraint)[\s=]*(\S.*)")
_LINKS = lazy_pattern(r"(?:-f|--find-links)[\s=]*(\S.*)")
_LOCAL = lazy_pattern(r"(?:-e|--editable)[\s=]+(\S.*)|.*@\s*file://(/\S*).*|([^\s;\[@]*[/\\.][^\s;\[]*).*")


def _read_texts(
    name: str, checkout: Checkout, content: list[str], folders: list[Path], enclosing_files: tuple[str, ...] = ()
) -> list[str]:
    """Return the texts of a requirements file and of the files that it includes.

    Appends texts and digests that determine the installation to `content`, and folders of local packages to `folders`.
    """
    if name in enclosing_files:
        return []
    text = _read_text(name, checkout)
    content.append(text)
    found = [text]
    folder = os.path.dirname(name)
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        included, local = _INCLUDED.fullmatch(line), _LOCAL.fullmatch(line)
        if included is not None and "://" not in included[1]:
            found += _read_texts(
                os.path.join(folder, included[1]), checkout, content, folders, (*enclosing_files, name)
            )
        elif (links := _LINKS.fullmatch(line)) is not None:
            content += _list_archives(Path(os.path.normpath(checkout.folder / folder / links[1])))
        elif local is not None and not line.startswith("--"):
            path = next(filter(None, local.groups()))
            place = Path(os.path.normpath(checkout.folder / folder / path.partition("[")[0]))
            content += _local_package_digests(place)
            folders += [place] if place.is_dir() else []
    return found


def _local_package_digests(path: Path) -> Iterator[str]:
    """Yield the digest of a package archive, or of each build file in a package's folder; unreadable files are
    omitted."""
    paths = [path / name for name in _BUILD_FILES] if path.is_dir() else [path]
    for each in paths:
        with suppress(OSError):
            yield read_file(each, MOST_FILE).digest()


def _list_archives(folder: Path) -> Iterator[str]:
    """Yield the name and size of each package archive in a folder; nothing if the path is not a folder."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        yield f"{entry.name} {entry.stat().st_size}"


def _read_text(name: str | Path, checkout: Checkout) -> str:
    try:
        return checkout.read(name, MOST_TEXT).text()
    except FileNotFoundError:
        raise PackagesError(f"{name}: there is no such file") from None
    except OSError as error:
        raise PackagesError(f"{name} cannot be read: {error.strerror}") from None
    except ForeignError as error:
        raise PackagesError(f"{name} {error}") from None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def environments_folder(environ: Mapping[str, str], home: Path | None) -> Path:
    """Return the folder for all installed environments, in the user's cache folder.

    Raises:
        PackagesError: the user has no cache folder.
    """
    given = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "holodeck-action" / "environments"
    if home is None or not home.is_absolute():
        raise PackagesError("no folder is known to install packages in: set HOME, or XDG_CACHE_HOME to a folder")
    cache = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return home.joinpath(*cache, "holodeck-action", "environments")


def use_interpreter(recipe: Recipe, base: BasePython, folder: Path) -> Path | None:
    """Return the interpreter of an installed environment and mark the environment as used.

    None if the environment is not installed.
    """
    environment = folder / recipe.digest(base)[:32]
    try:
        with _hold_lock(_lock_file(environment), fcntl.LOCK_SH | fcntl.LOCK_NB):
            return _mark_used(environment)
    except BlockingIOError:
        # Another process is installing or removing it.
        return None
    except OSError:
        # The folder is not writable, so nothing is removed from it either.
        return _complete_interpreter(environment)


def _mark_used(environment: Path) -> Path | None:
    python = _complete_interpreter(environment)
    if python is not None:
        os.utime(environment / _COMPLETE_FILE)
    return python


def _complete_interpreter(environment: Path) -> Path | None:
    python = environment / "bin" / "python"
    # The interpreter may be a dangling link.
    return python if (environment / _COMPLETE_FILE).is_file() and python.exists() else None


def install_environment(
    recipe: Recipe, base: BasePython, folder: Path, environ: Mapping[str, str], code: CodeAllowed
) -> Path:
    """Install an environment, or wait until another process has installed it; return the path of its interpreter.

    Args:
        recipe: the packages to install.
        base: the Python to install for; a locked project chooses its own.
        folder: the folder of all environments.
        environ: the job's environment; uv gets it without the job's tokens.
        code: the permission to run code, such as build scripts of packages.

    Raises:
        PackagesError: uv is missing, the folder cannot be written, or uv cannot install the packages.
    """
    path, workspace = environ.get("PATH", os.defpath), environ.get("GITHUB_WORKSPACE")
    # In a workflow, prefer the machine's uv to one that the project installs.
    outside = program_outside("uv", path, Path(workspace)) if workspace else None
    uv = outside or shutil.which("uv", path=path)
    if uv is None:
        raise PackagesError(
            "installing packages needs uv, which is not on the PATH: install it (https://docs.astral.sh/uv), or name a "
            "Python that has the packages (environment.interpreter)"
        )
    environment = folder / recipe.digest(base)[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _hold_lock(_lock_file(environment), fcntl.LOCK_EX):
            ready = _mark_used(environment)
            if ready is None:
                shutil.rmtree(environment, ignore_errors=True)
                _build(environment, recipe, base, uv, environ, code)
                done = json.dumps({"installed": recipe.shown}) + "\n"
                write_atomically(environment / _COMPLETE_FILE, [done.encode()], disk=UNSYNCED_DISK)
        _remove_unused(folder)
    except OSError as error:
        raise PackagesError(
            f"packages cannot be installed in {folder}: {error.strerror}; set XDG_CACHE_HOME to a writable folder"
        ) from None
    return ready or environment / "bin" / "python"


def _remove_unused(folder: Path) -> None:
    """Remove environments unused for `_UNUSED_DAYS` days, except those that another process has locked."""
    limit = time.time() - _UNUSED_DAYS * 24 * 60 * 60
    for lock in folder.glob("*.lock"):
        environment = lock.with_suffix("")
        done = environment / _COMPLETE_FILE
        with suppress(OSError), _hold_lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if (done if done.exists() else environment).stat().st_mtime < limit:
                # First the file that marks it as complete, so that a rest is never used.
                done.unlink(missing_ok=True)
                shutil.rmtree(environment)


def _lock_file(environment: Path) -> Path:
    return environment.with_suffix(".lock")


@contextmanager
def _hold_lock(path: Path, operation: int) -> Iterator[None]:
    handle = open_lock(path)
    try:
        fcntl.flock(handle, operation)
        yield
    finally:
        os.close(handle)


def _build(
    environment: Path, recipe: Recipe, base: BasePython, uv: str, environ: Mapping[str, str], code: CodeAllowed
) -> None:
    seen = {name: value for name, value in job_environment(environ).items() if name != "VIRTUAL_ENV"}
    if recipe.locked:
        seen["UV_PROJECT_ENVIRONMENT"] = str(environment)
        _run_uv([uv, *_UV, "sync", "--compile-bytecode", *recipe.arguments], recipe, seen, code)
        return
    _run_uv([uv, *_UV, "venv", "--no-project", "--python", base.interpreter, str(environment)], recipe, seen, code)
    python = ("--python", str(environment / "bin" / "python"))
    _run_uv([uv, *_UV, *_INSTALL, *python, *recipe.arguments], recipe, seen, code)


def _run_uv(arguments: Sequence[str], recipe: Recipe, environ: Mapping[str, str], code: CodeAllowed) -> None:
    """Run uv with the given arguments, in the recipe's folder.

    Raises:
        PackagesError: uv failed or took too long.
    """
    with tempfile.TemporaryFile() as output:
        out = output.fileno()
        ended = KillableProcess(arguments, environ, code=code, folder=recipe.folder, stdout=out, stderr=out).wait(
            INSTALL_TIMEOUT_S
        )
        if ended is None:
            raise PackagesError(f"uv did not install {recipe.shown} in {INSTALL_TIMEOUT_S:g} s")
        if ended != 0:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
            text = " ".join(output.read().decode("utf-8", "replace").split()).removeprefix("error: ")
            raise PackagesError(f"uv cannot install {recipe.shown}", text or f"it ended with code {ended}")
