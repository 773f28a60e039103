"""The self-check of a program before the first case: can it write a file, run a command and answer on this machine?

A scripted server on loopback takes the place of the model, so that no key is used and nothing is paid for.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

from holodeck_action import __version__
from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch
from holodeck_action.extensions.agent_programs.environment import offline
from holodeck_action.extensions.agent_programs.machine import Machine
from holodeck_action.extensions.agent_programs.program import Finished
from holodeck_action.extensions.agent_programs.scripted_server import FILE, serving, work
from holodeck_action.text.foreign import Redact

_LIMIT_S = 180.0
_MOST_BYTES, _MOST_CALLS = 1_000_000, 20
_PROMPT = "Do the scripted task. SCN=work"
_SHOWN = "ok-42"
_KEY = "scripted-key"


async def check_program(machine: Machine, adapter: Adapter, folder: Path, shared: Path, redact: Redact) -> str | None:
    """Return the problem of the program on this machine, as a clause; None if it works.

    Args:
        machine: the machine.
        adapter: the adapter of the program.
        folder: a folder for the trial, which is removed.
        shared: the folder that all trials share.
        redact: removes secrets from the program's last words.

    Raises:
        AgentError: the program cannot be started.
        OSError: a folder cannot be made.
    """
    path = machine.environ.get("PATH")
    missing = [name for name in adapter.needs if shutil.which(name, path=path) is None]
    if missing:
        return f"{adapter.program} needs {' and '.join(missing)} on the PATH"
    workspace = folder / "workspace"
    try:
        with serving(lambda request: work(request, request.scenario()[1], str(workspace))) as address:
            environ = {**offline(machine.environ), **adapter.scripted(address, _KEY)}
            launch = Launch(adapter.scripted_model, workspace, folder / "home", shared, None, {}, environ)
            machine.make_folders(folder, adapter, launch)
            run = machine.start(adapter, launch, folder, _PROMPT, _MOST_BYTES)
            try:
                async with asyncio.timeout(_LIMIT_S):
                    finished = await run.wait(_MOST_CALLS, adapter)
            except TimeoutError:
                return f"it did not end within {_LIMIT_S:g} s{run.so_far().last_words(redact)}"
            finally:
                run.close()
        return _problem(finished, adapter, folder, redact)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _problem(finished: Finished, adapter: Adapter, folder: Path, redact: Redact) -> str | None:
    found = finished.trajectory(adapter, folder / "home", None)
    words = finished.last_words(redact)
    if found.ended.how != "completed":
        return f"it {found.ended.reason}{words}"
    calls = found.calls or ()
    error = next((f": {call.error}" for call in calls if call.error is not None), words)
    if not (folder / "workspace" / FILE).is_file():
        return f"it could not write a file{error}"
    if not any(_SHOWN in (call.result or "") for call in calls):
        return f"it could not run a command{error}"
    return None


class KeptPasses:
    """The programs that have passed, in the cache folder of all runs; installed again, they are checked again."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder / "passed"

    def has(self, machine: Machine, adapter: Adapter) -> bool:
        """Return whether the program has passed on this machine."""
        return self._folder is not None and (self._folder / _digest(machine, adapter)).exists()

    def add(self, machine: Machine, adapter: Adapter) -> None:
        """Keep that the program has passed; without a writable folder it is checked again by the next run."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / _digest(machine, adapter)).touch()
        except OSError:
            return


def _digest(machine: Machine, adapter: Adapter) -> str:
    """Return a digest of what the result depends on: the program's file, the PATH, and this version."""
    file = os.path.realpath(machine.program)
    status = os.stat(file)
    state = (status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    parts = (
        __version__,
        adapter.name,
        machine.confinement.kind,
        file,
        *map(str, state),
        machine.environ.get("PATH", ""),
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
