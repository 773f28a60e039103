"""Packages installed by uv into an environment of their own, which later runs find again."""

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
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess
from holodeck_action.workers.programs import program_outside

LONGEST_S = 1800.0
"""Seconds that an installation may take."""
_UNUSED_DAYS = 30
"""Days after which an environment that no run has used is removed, when another one is installed."""
_LAYOUT = 1
"""Changed when environments of earlier versions are not to be used any more."""
_DONE = "holodeck-action.json"
"""Written last into an environment: one without it is not complete. Its time says when it was used last."""
_TAIL = 64 * 1024
_UV = ("--quiet", "--no-progress", "--color", "never")
_INSTALL = ("pip", "install", "--compile-bytecode")
_BUILD_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files of a local package by which uv, too, tells whether it has to be installed again."""


class PackagesError(Exception):
    """Packages that cannot be had; the message is one sentence, `words` is what uv says, which may hold secrets."""

    def __init__(self, sentence: str, words: str = "") -> None:
        super().__init__(sentence)
        self.words = words


class Base(Struct, frozen=True):
    """The Python for which packages are installed: its path, and what tells it apart from others."""

    interpreter: str
    identity: str


class Recipe(Struct, frozen=True):
    """What is installed.

    Attributes:
        shown: it, as the reader wrote it.
        folder: where uv starts, absolute: relative paths in requirements begin here.
        arguments: of `uv pip install`; of `uv sync` where `locked`.
        locked: whether a project is installed as its uv.lock says.
        content: everything that decides what is installed, besides the interpreter.
        in_place: whether packages are used where they stand, in `folder` or beside it.
    """

    shown: str
    folder: Path
    arguments: tuple[str, ...]
    locked: bool
    content: tuple[str, ...]
    in_place: bool = False

    def digest(self, base: Base) -> str:
        """Return what tells environments apart: sha256 hex over content, Python and machine."""
        machine = (platform.system(), platform.machine(), *platform.libc_ver())
        place = str(self.folder) if self.in_place else ""
        parts = [_LAYOUT, base.identity, *machine, self.locked, place, *self.arguments, *self.content]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def of_packages(packages: Sequence[str], folder: Path) -> Recipe:
    """Return the recipe of a list of packages."""
    return Recipe(", ".join(packages), folder, ("--", *packages), False, ())


def of_requirements(name: str, files: Checkout) -> Recipe:
    """Return the recipe of a requirements file, with the files that it includes.

    Raises:
        PackagesError: one of them cannot be read.
    """
    content: list[str] = []
    folders: list[Path] = []
    texts = _texts(name, files, content, folders)
    path = Path(os.path.normpath(files.folder / name))
    # As pip does: where one requirement has a hash, all need one.
    hashes = ("--require-hashes",) if any("--hash" in text for text in texts) else ()
    return Recipe(name, path.parent, (*hashes, "-r", path.name), False, tuple(content), bool(folders))


def of_project(name: str, files: Checkout) -> Recipe:
    """Return the recipe of a project.

    Raises:
        PackagesError: its pyproject.toml cannot be read.
    """
    text = _read(name, files)
    folder = Path(os.path.normpath(files.folder / name)).parent
    lock = _lock_of(folder, files)
    content = [_hash(text)]
    if lock is not None:
        locked = _read(lock, files)
        content += [_hash(locked), *_of_local(folder / ".python-version")]
        in_place = re.search(r"source = \{ (editable|directory) =", locked) is not None
        return Recipe(name, folder, ("--locked", "--no-default-groups"), True, tuple(content), in_place)
    is_package = re.search(r"^\s*\[build-system\]", text, re.MULTILINE) is not None
    arguments = ("-e", ".") if is_package else ("-r", Path(name).name)
    return Recipe(name, folder, arguments, False, tuple(content), is_package)


def _lock_of(folder: Path, files: Checkout) -> Path | None:
    """Return the uv.lock of a project: beside it, or that of the workspace that it is a member of."""
    for parent in (folder, *folder.parents):
        lock = parent / "uv.lock"
        if lock.is_file():
            return lock
        if files.roots is None or parent in files.roots:
            return None
    return None


_INCLUDED = re.compile(r"(?:-r|--requirement|-c|--constraint)[\s=]*(\S.*)")
_LINKS = re.compile(r"(?:-f|--find-links)[\s=]*(\S.*)")
_LOCAL = re.compile(r"(?:-e|--editable)[\s=]+(\S.*)|.*@\s*file://(/\S*).*|([^\s;\[@]*[/\\.][^\s;\[]*).*")


def _texts(
    name: str, files: Checkout, content: list[str], folders: list[Path], above: tuple[str, ...] = ()
) -> list[str]:
    """Return the texts of a requirements file and of those it includes.

    What decides what is installed is appended to `content`, folders of local packages to `folders`.
    """
    if name in above:
        return []
    text = _read(name, files)
    content.append(text)
    found = [text]
    folder = os.path.dirname(name)
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        included, local = _INCLUDED.fullmatch(line), _LOCAL.fullmatch(line)
        if included is not None and "://" not in included[1]:
            found += _texts(os.path.join(folder, included[1]), files, content, folders, (*above, name))
        elif (links := _LINKS.fullmatch(line)) is not None:
            content += _listed(Path(os.path.normpath(files.folder / folder / links[1])))
        elif local is not None and not line.startswith("--"):
            path = next(filter(None, local.groups()))
            place = Path(os.path.normpath(files.folder / folder / path.partition("[")[0]))
            content += _of_local(place)
            folders += [place] if place.is_dir() else []
    return found


def _of_local(path: Path) -> Iterator[str]:
    """Yield what decides whether a local package is installed again: an archive's content, or how a folder is built."""
    paths = [path / name for name in _BUILD_FILES] if path.is_dir() else [path]
    for each in paths:
        with suppress(OSError):
            yield read_file(each, MOST_FILE).digest()


def _listed(folder: Path) -> Iterator[str]:
    """Yield what a folder of archives offers; nothing where it is none, such as a URL."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        yield f"{entry.name} {entry.stat().st_size}"


def _read(name: str | Path, files: Checkout) -> str:
    try:
        return files.read(name, MOST_TEXT).text()
    except FileNotFoundError:
        raise PackagesError(f"{name}: there is no such file") from None
    except OSError as error:
        raise PackagesError(f"{name}: it cannot be read: {error.strerror}") from None
    except ForeignError as error:
        raise PackagesError(f"{name}: it {error}") from None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def environments_folder(environ: Mapping[str, str], home: Path | None) -> Path:
    """Return where environments are kept: below the user's cache folder.

    Raises:
        PackagesError: there is none.
    """
    given = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "holodeck-action" / "environments"
    if home is None or not home.is_absolute():
        raise PackagesError("there is no folder to install packages in: set HOME, or XDG_CACHE_HOME to a folder")
    cache = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    return home.joinpath(*cache, "holodeck-action", "environments")


def find(recipe: Recipe, base: Base, folder: Path) -> Path | None:
    """Return the interpreter of an environment that is complete, and note its use; None where it is to be installed."""
    environment = folder / recipe.digest(base)[:32]
    try:
        with _locked(_lock_file(environment), fcntl.LOCK_SH | fcntl.LOCK_NB):
            return _used(environment)
    except BlockingIOError:
        # It is being installed or removed.
        return None
    except OSError:
        # The folder cannot be written, so that nothing is removed from it either.
        return _complete(environment)


def _used(environment: Path) -> Path | None:
    python = _complete(environment)
    if python is not None:
        os.utime(environment / _DONE)
    return python


def _complete(environment: Path) -> Path | None:
    python = environment / "bin" / "python"
    # The interpreter is a link, which may lead to one that is gone.
    return python if (environment / _DONE).is_file() and python.exists() else None


def install(recipe: Recipe, base: Base, folder: Path, environ: Mapping[str, str], code: CodeAllowed) -> Path:
    """Make an environment, and return its interpreter; one that another process makes meanwhile is waited for.

    Args:
        recipe: what is installed.
        base: for which Python; a locked project says itself which one it needs.
        folder: where environments are kept.
        environ: the job's environment; uv sees it without the job's tokens.
        code: the permission: what a package is built with runs.

    Raises:
        PackagesError: uv is missing, the folder cannot be written, or uv cannot install them.
    """
    path, workspace = environ.get("PATH", os.defpath), environ.get("GITHUB_WORKSPACE")
    # In a workflow that of the machine, before one that the project has as a dependency.
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
        with _locked(_lock_file(environment), fcntl.LOCK_EX):
            ready = _used(environment)
            if ready is None:
                shutil.rmtree(environment, ignore_errors=True)
                _fill(environment, recipe, base, uv, environ, code)
                done = json.dumps({"installed": recipe.shown}) + "\n"
                write_atomically(environment / _DONE, [done.encode()], disk=UNSYNCED_DISK)
        _remove_unused(folder)
    except OSError as error:
        raise PackagesError(
            f"packages cannot be installed in {folder}: {error.strerror}; set XDG_CACHE_HOME to a writable folder"
        ) from None
    return ready or environment / "bin" / "python"


def _remove_unused(folder: Path) -> None:
    """Remove environments that were not used for long; one whose lock somebody else holds stays."""
    limit = time.time() - _UNUSED_DAYS * 24 * 60 * 60
    for lock in folder.glob("*.lock"):
        environment = lock.with_suffix("")
        done = environment / _DONE
        with suppress(OSError), _locked(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if (done if done.exists() else environment).stat().st_mtime < limit:
                # First what makes it complete: nobody takes a part of it for the whole.
                done.unlink(missing_ok=True)
                shutil.rmtree(environment)


def _lock_file(environment: Path) -> Path:
    return environment.with_suffix(".lock")


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    handle = open_lock(path)
    try:
        fcntl.flock(handle, operation)
        yield
    finally:
        os.close(handle)


def _fill(
    environment: Path, recipe: Recipe, base: Base, uv: str, environ: Mapping[str, str], code: CodeAllowed
) -> None:
    seen = {name: value for name, value in job_environment(environ).items() if name != "VIRTUAL_ENV"}
    if recipe.locked:
        seen["UV_PROJECT_ENVIRONMENT"] = str(environment)
        _run([uv, *_UV, "sync", "--compile-bytecode", *recipe.arguments], recipe, seen, code)
        return
    _run([uv, *_UV, "venv", "--no-project", "--python", base.interpreter, str(environment)], recipe, seen, code)
    python = ("--python", str(environment / "bin" / "python"))
    _run([uv, *_UV, *_INSTALL, *python, *recipe.arguments], recipe, seen, code)


def _run(arguments: Sequence[str], recipe: Recipe, environ: Mapping[str, str], code: CodeAllowed) -> None:
    """Run uv.

    Raises:
        PackagesError: with uv's own words.
    """
    with tempfile.TemporaryFile() as said:
        out = said.fileno()
        ended = KillableProcess(arguments, environ, code=code, folder=recipe.folder, stdout=out, stderr=out).wait(
            LONGEST_S
        )
        if ended is None:
            raise PackagesError(f"uv did not install {recipe.shown} in {LONGEST_S:g} s")
        if ended != 0:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL))
            words = " ".join(said.read().decode("utf-8", "replace").split()).removeprefix("error: ")
            raise PackagesError(f"uv cannot install {recipe.shown}", words or f"it ended with code {ended}")
