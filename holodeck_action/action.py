"""The step of a workflow: runs it with the variables and streams of the process, and exits with its code."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from holodeck_action.commands.program import (
    collect_rarely,
    current_folder,
    hide_tokens,
    lasting_streams,
    leave,
    look_for_no_plugins,
)
from holodeck_action.commands.step import run_step
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.run.caller import Caller


def start() -> None:
    """Run the step as this process, and exit with its code."""
    # However the step was started, a cancellation ends it in order.
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, signal.default_int_handler)
    collect_rarely()
    log, _ = lasting_streams()
    # The runner reads two streams in no fixed order; in one, "stop commands" comes before what it is meant for.
    os.dup2(1, 2)
    log.reconfigure(encoding="utf-8", line_buffering=True)
    sys.stderr = log
    if (note := hide_tokens()) is not None:
        log.write(f"note: {note}\n")
    environ = dict(os.environ)
    look_for_no_plugins()
    code = main((), environ, current_folder(), sys.stdin, log, log, signals=signals)
    log.flush()
    # A verdict that nobody can read is never a pass.
    leave(code or (ExitCode.INCOMPLETE if log.failure is not None else ExitCode.PASSED))


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
    """Evaluate what the inputs ask for, and publish it.

    Args:
        argv: none are read: a step has inputs.
        environ: the environment of the step.
        cwd: an absolute folder; the workspace, unless the runner names another one.
        stdin: what is typed or piped in.
        stdout: takes the log.
        stderr: not written to: the runner reads two streams in no fixed order.
        pause: waits so many seconds, between calls to GitHub.
        signals: those that end a run in an orderly way, and do not disturb publishing.

    Returns:
        The exit code of the process: the run's, as the inputs `fail-on` and `require-publish` want it.
    """
    return run_step(Caller(environ, cwd, stdin, stdout, stdout, pause=pause, signals=signals))
