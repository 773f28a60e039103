"""A disk that fails, or at which the process dies, at a chosen call; as a program, forks of itself that run on one.

The program reads lines of JSON, `{"folder", "tasks": [{"arguments", "how", "at"}]}`, runs the tasks of a line at the
same time, and answers how their processes ended and how often the disk was called. To fork a process that has run once
takes much less time than to start one.
"""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import signal
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from holodeck_action.cli import main as command
from holodeck_action.record.disk import Disk
from tests.commands.project import Project


class FailingDisk(Disk):
    """Counts its calls; at the one numbered `at` it does what `how` says.

    `kill`: the process dies, of a write half is done; `once`: the disk is full for this call; `full`: and for all
    writes after it; `never`: nothing.
    """

    def __init__(self, how: str, at: int) -> None:
        self.calls = 0
        self._how, self._at = how, at

    def _reached(self, *, takes_room: bool) -> bool:
        self.calls += 1
        if self.calls == self._at:
            return True
        return self._how == "full" and takes_room and self.calls > self._at

    def _fail(self) -> None:
        if self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, file: BinaryIO, data: bytes) -> None:
        if self._how != "never" and self._reached(takes_room=True):
            super().write(file, data[: len(data) // 2])
            self._fail()
        super().write(file, data)

    def sync(self, file: BinaryIO) -> None:
        if self._how != "never" and self._reached(takes_room=True):
            self._fail()
        super().sync(file)

    def rename(self, source: Path, target: Path) -> None:
        if self._how != "never" and self._reached(takes_room=False):
            self._fail()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        # No disk is too full for this.
        if self._how == "kill" and self._reached(takes_room=False):
            self._fail()
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        if self._how == "kill" and self._reached(takes_room=False):
            self._fail()
        super().sync_folder(folder)


def _run(folder: str, arguments: list[str], how: str, at: int, answer: int) -> int:
    disk = FailingDisk(how, at)
    stderr = io.StringIO()
    code = command(arguments, dict(os.environ), Path(folder), io.StringIO(), io.StringIO(), stderr, disk=disk)
    os.write(answer, json.dumps({"calls": disk.calls, "stderr": stderr.getvalue()[-8000:]}).encode())
    return code


def main() -> None:
    """Serve runs until the input ends."""
    with TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.numbered(1)
        assert project.run("run", "-o", "out").code == 0
    # A fork would take what is not its own over.
    assert threading.active_count() == 1
    gc.freeze()
    for line in sys.stdin:
        given, running = json.loads(line), []
        for task in given["tasks"]:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                os.close(reading)
                code = 99
                try:
                    code = _run(given["folder"], task["arguments"], task["how"], task["at"], writing)
                finally:
                    os._exit(code)
            os.close(writing)
            running.append((child, reading))
        ended = []
        for child, reading in running:
            with os.fdopen(reading, "rb") as told:
                said = json.loads(told.read() or b"{}")
            ended.append({**said, "code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])})
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    main()
