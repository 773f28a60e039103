"""A Dask cluster on loopback: a scheduler and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

STARTED_S = 100.0


class Dask:
    """From `with Dask(folder) as dask` to its end; the log of all processes is in the folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *, workers: int = 2, protocol: str = "tcp") -> None:
        """Prepare.

        Args:
            folder: for files of Dask.
            environ: of all processes, beside that of this one; an empty value takes a variable away.
            workers: how many there are.
            protocol: `tcp` or `tls`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        merged = {**os.environ, **environ}
        self._environ = {name: value for name, value in merged.items() if value}
        self._folder, self._count, self._protocol = folder, workers, protocol
        self._file = folder / "scheduler.json"
        self._scope = ExitStack()
        self.workers: list[subprocess.Popen[bytes]] = []

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
                *("--preload", "holodeck_action.extensions.cluster.session"),
                **environ,
            )
        )

    def kill(self, number: int = 0) -> None:
        """Kill a worker, by default the one that has lived longest."""
        worker = self.workers.pop(number)
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def _start(self, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        log = self._scope.enter_context((self._folder / "dask.log").open("ab"))
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1", "--no-dashboard"],
            env={**self._environ, **environ},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self._scope.callback(process.wait)
        self._scope.callback(process.kill)
        return process


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
