"""A process in which the program is imported and has run once; it forks to run what `python ARGUMENTS` would run.

`fork_server.py DESCRIPTOR [MODULE…]` imports other modules instead. It is started as a script, so that programs find
neither pytest nor this package imported. `tests/commands/forked.py` talks to it.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

SUITE = {
    "name": "first",
    "model": {"provider": "openai", "name": "gpt-4o"},
    "instructions": {"inline": "Answer."},
    "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
    "test_cases": [{"name": "a", "input": "?", "ground_truth": "1"}],
}
PASSED_ON = 4
"""A start comes with descriptors: where it is described, and the three standard streams."""


def import_product() -> None:
    """Import all commands and run a suite once, as the tests of one process do before most of their runs."""
    # The program sets it before it imports pydantic.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    from holodeck_action import commands
    from holodeck_action.cli import main

    importlib.import_module("holodeck_action.action")
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}")
    with tempfile.TemporaryDirectory() as name:
        folder, errors = Path(name), io.StringIO()
        (folder / "agent.yaml").write_text(json.dumps(SUITE))
        (folder / "answers.jsonl").write_text(json.dumps({"case": "a", "response": "1"}))
        arguments = ("run", "--target", "recorded:answers.jsonl")
        code = main(arguments, {"HOME": name}, folder, io.StringIO(), io.StringIO(), errors)
    if code:
        raise RuntimeError(errors.getvalue())


def serve(server: socket.socket) -> None:
    """Fork for each start, until the tests have ended."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    server.sendall(b".")
    while True:
        _, descriptors, _, _ = socket.recv_fds(server, 1, PASSED_ON)
        if not descriptors:
            return
        if os.fork() == 0:
            server.close()
            watch(descriptors[0], descriptors[1:], interrupt)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap_ended()


def watch(descriptor: int, streams: list[int], interrupt: Any) -> NoReturn:
    """Run one program in a process, and write its id and later its exit code and seconds of CPU."""
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rw") as file:
        start = json.loads(file.readline())
        if (process := os.fork()) == 0:
            run(start["arguments"], start["environ"], start["folder"], streams, interrupt)
        for stream in streams:
            os.close(stream)
        print(process, file=file, flush=True)
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        print(code, file=file, flush=True)
        # The id stays the process's until the tests have read the code: nobody else may get their signal.
        file.readline()
        os.waitpid(process, 0)
        print(sum(os.times()[:4]), file=file, flush=True)
    os._exit(0)


def run(arguments: list[str], environ: dict[str, str], folder: str, streams: list[int], interrupt: Any) -> NoReturn:
    """Become the process that `python ARGUMENTS` would be."""
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGINT, interrupt)
        os.environ.clear()
        os.environ.update(environ)
        # Both are kept after their first use.
        time.tzset()
        tempfile.tempdir = None
        os.chdir(folder)
        sys.orig_argv[:] = [sys.executable, *arguments]
        sys.argv[:] = arguments
        if arguments[0] == "-m":
            sys.path[0] = folder
            del sys.argv[0]
            # It is run, not imported.
            sys.modules.pop(arguments[1], None)
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(arguments[0])
            runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _reap_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as tests:
        for name in sys.argv[2:]:
            importlib.import_module(name)
        if not sys.argv[2:]:
            import_product()
        gc.freeze()
        serve(tests)
