"""Programs that are run to their end: bounded in time and output, with nothing of them left behind."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import NO_CODE
from tests.workers.support import running, wait_until


def run(code: str, folder: Path, *, seconds: float = 60, most: int = 1000, given: bytes | None = None) -> str:
    """Run a script of Python; return its exit code and output."""
    with tempfile.TemporaryFile() as file:
        file.write(given or b"")
        file.seek(0)
        command = [sys.executable, "-I", "-S", "-c", code]
        stdin = None if given is None else file
        ended = run_program(
            command, {"A": "b"}, code=NO_CODE, timeout_s=seconds, max_bytes=most, folder=folder, input_file=stdin
        )
    return f"{ended.code} {ended.output.text()}"


def test_its_output_and_exit_code_are_returned(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdin.read(), os.environ['A'], os.getcwd()); print('no', file=sys.stderr)"
    assert run(code, tmp_path, given=b"in") == f"0 in b {tmp_path}\n"
    assert run("import sys; print('out'); sys.exit(3)", tmp_path) == "3 out\n"
    assert run("import os; os.kill(os.getpid(), 9)", tmp_path) == "-9 "
    assert run("import sys; print(sys.stdin.read() == '')", tmp_path) == "0 True\n"


def test_a_program_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_program(["./nothing"], {}, code=NO_CODE, timeout_s=1, max_bytes=1, folder=tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(600)",
        "import os, time; os.close(1); time.sleep(600)",
        "import time\nwhile True:\n    print('.', end='', flush=True); time.sleep(0.01)",
    ],
)
def test_a_program_that_takes_too_long_is_ended(tmp_path: Path, code: str) -> None:
    with pytest.raises(ProgramError, match=r"took longer than 1 s"):
        run(code, tmp_path, seconds=1, most=10**9)


def test_a_program_that_floods_its_output_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="wrote more than 1,000 bytes"):
        run("while True: print('x' * 1000)", tmp_path)


def test_its_descendants_end_with_it_and_are_not_waited_for(tmp_path: Path) -> None:
    code = "import os, time\nchild = os.fork()\nif child:\n    print(child, flush=True)\nelse:\n    time.sleep(600)"
    # The descendant keeps the output open: to wait for it is to reach the time limit.
    status, pid = run(code, tmp_path).split()
    assert status == "0"
    assert wait_until(lambda: not running(int(pid)))
