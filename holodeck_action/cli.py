"""The command line: calls one command with this process's arguments, environment and streams."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if sys.platform == "win32":
    # Before the imports: some modules of the standard library are missing there.
    from holodeck_action.text.platforms import WINDOWS

    sys.stderr.write(f"error: {WINDOWS}\n")
    sys.exit(2)

from holodeck_action.commands.program import (
    collect_garbage_rarely,
    current_folder,
    disable_pydantic_plugins,
    exit_process,
    hide_tokens,
    install_lasting_streams,
)
from holodeck_action.decide.exit_codes import ExitCode

if TYPE_CHECKING:
    from holodeck_action.record.disk import Disk


def start() -> None:
    """Run the command with this process's arguments and streams, and exit with the command's exit code."""
    collect_garbage_rarely()
    stdout, stderr = install_lasting_streams()
    if (note := hide_tokens()) is not None:
        stderr.write(f"note: {note}\n")
    signals = [signal.SIGINT, signal.SIGTERM]
    # `nohup` ignores it.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    environ = dict(os.environ)
    disable_pydantic_plugins()
    code = main(sys.argv[1:], environ, current_folder(), sys.stdin, stdout, stderr, signals=signals)
    stdout.flush()
    if stdout.failure is not None:
        stderr.write(f"error: standard output could not be written: {stdout.failure.strerror}\n")
        # An unreadable verdict is never a pass.
        code = code or ExitCode.INCOMPLETE
    exit_process(code)


def main(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    stdin: TextIO,
    stdout: TextIO,
    stderr: TextIO,
    *,
    disk: Disk | None = None,
    pause: Callable[[float], None] = time.sleep,
    signals: Sequence[signal.Signals] = (),
) -> int:
    """Run one command of the command line; an error is printed as a sentence, never as a traceback.

    Args:
        argv: the command-line arguments, without the program's name.
        environ: the environment variables.
        cwd: absolute path of the current folder.
        stdin: the standard input.
        stdout: takes the output of the command.
        stderr: takes progress, notes and errors.
        disk: writes the results of a run; None to use the file system directly.
        pause: function that waits for a number of seconds, between requests to GitHub.
        signals: signals that end a run in an orderly way.

    Returns:
        The exit code (docs/verdict.md).
    """
    # Imported late: garbage is collected rarely by then, and the job's tokens are hidden.
    import click

    from holodeck_action.commands.command_line import cli
    from holodeck_action.commands.written_errors import report_error, report_usage_error
    from holodeck_action.run.caller import Caller

    try:
        caller = Caller(environ, cwd, stdin, stdout, stderr, disk, pause, signals)
        code = cli.main(list(argv), prog_name="holodeck-action", standalone_mode=False, obj=caller)
        return code if isinstance(code, int) else ExitCode.PASSED
    except click.ClickException as error:
        return report_usage_error(error, environ, stderr)
    except (click.Abort, KeyboardInterrupt):
        return report_error(KeyboardInterrupt(), environ, stderr)
    except Exception as error:  # noqa: BLE001 - the last resort: one sentence instead of a traceback
        return report_error(error, environ, stderr)


if __name__ == "__main__":
    start()
