"""A Dask cluster on loopback: a scheduler and workers, each a process of its own.

They are forked from one process that has imported Dask and the program; with `fresh` they are started as users do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self

STARTED_S = 100.0
SESSION = "holodeck_action.extensions.cluster.session"


@cache
def forking() -> ForkServerContext:
    """Return what forks processes that need not import Dask again."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["distributed.cli.dask_scheduler", "distributed.cli.dask_worker", SESSION])
    return context


def run_dask(arguments: tuple[str, ...], environ: Mapping[str, str], folder: Path) -> None:
    """Be the command `dask`, in a process that was forked."""
    import dask.cli
    import dask.config

    with (folder / "dask.log").open("ab") as log, open(os.devnull, "rb") as nothing:
        for stream, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    dask.config.refresh()
    sys.argv = ["dask", *arguments]
    dask.cli.run_cli()  # type: ignore[no-untyped-call]


Killable = subprocess.Popen[bytes] | BaseProcess


def end(process: Killable) -> None:
    """Kill a process, and wait for its end."""
    process.kill()
    process.wait() if isinstance(process, subprocess.Popen) else process.join()


class Dask:
    """From `with Dask(folder) as dask` to its end; the log of all processes is in the folder."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *, workers: int = 2, protocol: str = "tcp", fresh: bool = False
    ) -> None:
        """Prepare.

        Args:
            folder: for files of Dask.
            environ: of all processes, beside that of this one; an empty value takes a variable away.
            workers: how many there are.
            protocol: `tcp` or `tls`.
            fresh: whether each process is a new Python.
        """
        folder.mkdir(parents=True, exist_ok=True)
        merged = {**os.environ, **environ}
        self._environ = {name: value for name, value in merged.items() if value}
        self._folder, self._count, self._protocol = folder, workers, protocol
        self._file = folder / "scheduler.json"
        self._fresh = fresh
        self._scope = ExitStack()
        self.workers: list[Killable] = []

    def __enter__(self) -> Self:
        self.scheduler = self._start(
            "scheduler", "--protocol", self._protocol, "--port", "0", "--scheduler-file", str(self._file)
        )
        until = time.monotonic() + STARTED_S
        while not self._file.is_file() or not self._file.read_text().endswith("}"):
            assert time.monotonic() < until, self.log
            time.sleep(0.05)
        for _ in range(self._count):
            self.start_worker()
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.close()

    @property
    def address(self) -> str:
        """The scheduler's."""
        return str(json.loads(self._file.read_text())["address"])

    @property
    def log(self) -> str:
        """What all processes say."""
        return (self._folder / "dask.log").read_text()

    def start_worker(self, **environ: str) -> None:
        """Start a worker."""
        self.workers.append(
            self._start(
                *("worker", "--scheduler-file", str(self._file), "--protocol", self._protocol, "--no-nanny"),
                *("--nthreads", "100", "--local-directory", str(self._folder)),
                *("--preload", SESSION),
                **environ,
            )
        )

    def kill(self, number: int = 0) -> None:
        """Kill a worker, by default the one that has lived longest."""
        end(self.workers.pop(number))

    def _start(self, *arguments: str, **environ: str) -> Killable:
        process = self._started((*arguments, "--host", "127.0.0.1", "--no-dashboard"), {**self._environ, **environ})
        self._scope.callback(end, process)
        return process

    def _started(self, arguments: tuple[str, ...], environ: Mapping[str, str]) -> Killable:
        if not self._fresh:
            forked = forking().Process(target=run_dask, args=(arguments, environ, self._folder))
            forked.start()
            return forked
        with (self._folder / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                env=environ,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


class CountingProxy:
    """A way to a scheduler that counts the bytes which a coordinator sends there."""

    def __init__(self, address: str) -> None:
        self._target = address.removeprefix("tcp://").rsplit(":", 1)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.sent = 0

    @property
    def address(self) -> str:
        """As `--cluster` takes it."""
        return f"tcp://127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._server, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self._server, *self._sockets):
            each.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                scheduler = socket.create_connection((self._target[0], int(self._target[1])))
                self._sockets += (client, scheduler)
                self._start(self._pass_on, client, scheduler, True)
                self._start(self._pass_on, scheduler, client, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.sent += len(data) if counts else 0
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
