"""Runs a workflow step with this process's variables and streams, and exits with the step's exit code."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from holodeck_action.commands.installing import RestartError
from holodeck_action.commands.program import (
    collect_garbage_rarely,
    current_folder,
    disable_pydantic_plugins,
    exit_process,
    hide_tokens,
    install_lasting_streams,
)
from holodeck_action.commands.step import run_step
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.run.caller import Caller
from holodeck_action.workers.processes import replace_process


def start() -> None:
    """Run the workflow step with this process's variables and streams, and exit with the step's exit code."""
    # However the step was started, a cancellation ends it in order.
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, signal.default_int_handler)
    collect_garbage_rarely()
    log, _ = install_lasting_streams()
    # The runner reads two streams in no fixed order; in one, "stop commands" precedes the lines that it protects.
    os.dup2(1, 2)
    log.reconfigure(encoding="utf-8", line_buffering=True)
    sys.stderr = log
    if (note := hide_tokens()) is not None:
        log.write(f"note: {note}\n")
    environ = dict(os.environ)
    disable_pydantic_plugins()
    try:
        code = main((), environ, current_folder(), sys.stdin, log, log, signals=signals)
    except RestartError as restart:
        log.flush()
        replace_process((restart.python, *sys.orig_argv[1:]), {**environ, **restart.variables})
    log.flush()
    # An unreadable verdict is never a pass.
    exit_process(code or (ExitCode.INCOMPLETE if log.failure is not None else ExitCode.PASSED))


def main(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    stdin: TextIO,
    stdout: TextIO,
    stderr: TextIO,
    *,
    pause: Callable[[float], None] = time.sleep,
    signals: Sequence[signal.Signals] = (),
) -> int:
    """Run the step's command: evaluate suites and publish the results, or compare two runs.

    Args:
        argv: ignored; the step reads its inputs from `environ`.
        environ: the environment of the step.
        cwd: absolute path of the current folder; used as the workspace unless the runner names another one.
        stdin: the standard input.
        stdout: receives the log.
        stderr: not used: the runner does not keep the order of lines from two streams.
        pause: function that waits for a number of seconds, between requests to GitHub.
        signals: signals that end a run in an orderly way; they are ignored while results are published.

    Raises:
        RestartError: packages were installed, and the program must start again with them.

    Returns:
        The run's exit code, adjusted by `fail-on` and `require-publish`.
    """
    return run_step(Caller(environ, cwd, stdin, stdout, stdout, pause=pause, signals=signals))
