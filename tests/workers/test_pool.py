"""Worker processes: reuse, deadlines, cancellation, descendants, environment, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import WorkerPool
from holodeck_action.workers.worker_process import Outcome
from tests.workers.support import (
    CONTEXT,
    LONG,
    grade,
    graded,
    overdue,
    pass_deadlines,
    run,
    running,
    wait_until,
    write,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

WHO = """
import os

def pid(ctx):
    return os.getpid()
"""


def test_a_worker_is_reused(tmp_path: Path) -> None:
    write(tmp_path, WHO)

    async def work(pool: WorkerPool) -> list[object]:
        return [await grade(pool, "pid") for _ in range(3)]

    assert len({outcome.value["score"] for outcome in run(tmp_path, work)}) == 1


def test_as_many_calls_at_once_as_the_pool_has_workers(tmp_path: Path) -> None:
    """Two calls that wait for each other both end in a pool of two."""
    write(
        tmp_path,
        """
        import pathlib, time

        def meet(ctx):
            folder = pathlib.Path(__file__).parent
            (folder / ctx.turn_input).touch()
            print(ctx.turn_input)
            for _ in range(6000):
                if (folder / ctx.ground_truth).exists():
                    return True
                time.sleep(0.01)
            return False
        """,
    )

    async def work(pool: WorkerPool) -> list[object]:
        found = await asyncio.gather(
            grade(pool, "meet", turn_input="left", ground_truth="right"),
            grade(pool, "meet", turn_input="right", ground_truth="left"),
        )
        return list(found)

    assert run(tmp_path, work, size=2) == [
        Outcome({"kind": "bare", "score": True}, "left\n"),
        Outcome({"kind": "bare", "score": True}, "right\n"),
    ]


HANGS = """
import asyncio, os, re, signal, subprocess, sys, threading, time
from pathlib import Path

FOLDER = Path(__file__).parent

def note():
    print("started")
    (FOLDER / "pid.part").write_text(str(os.getpid()))
    (FOLDER / "pid.part").rename(FOLDER / "pid")

def spin(ctx):
    note()
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass

def sleep(ctx):
    note()
    time.sleep(600)

async def sleep_async(ctx):
    note()
    while True:
        try:
            await asyncio.sleep(600)
        except BaseException:
            pass

def in_c(ctx):
    note()
    re.match(r"(a+)+$", "a" * 60 + "b")

def stubborn(ctx):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note()
    time.sleep(600)

def stopped(ctx):
    note()
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.races
@linux_only
@pytest.mark.parametrize("name", ["spin", "sleep", "sleep_async", "in_c", "stubborn", "stopped"])
def test_a_call_is_ended_at_its_deadline(tmp_path: Path, name: str) -> None:
    write(tmp_path, HANGS + WHO)

    async def work(pool: WorkerPool) -> list[Outcome | UserCodeError]:
        return [await overdue(grade(pool, name), (tmp_path / "pid").exists), await grade(pool, "pid")]

    error, after = run(tmp_path, work)
    assert isinstance(error, UserCodeError)
    assert (error.code, error.message) == (
        "timeout",
        f"checks:{name}: it took longer than {LONG:g} s; its process was ended",
    )
    assert error.output == "started\n"
    hung = int((tmp_path / "pid").read_text())
    assert not running(hung)
    assert after.value["score"] != hung


@pytest.mark.races
@linux_only
def test_a_cancelled_call_ends_with_its_process(tmp_path: Path) -> None:
    write(tmp_path, HANGS + WHO)

    async def work(pool: WorkerPool) -> tuple[bool, Outcome | UserCodeError]:
        call = asyncio.create_task(grade(pool, "in_c", None))
        assert await asyncio.to_thread(wait_until, (tmp_path / "pid").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return running(int((tmp_path / "pid").read_text())), await grade(pool, "pid")

    still_running, after = run(tmp_path, work)
    assert not still_running
    assert isinstance(after, Outcome)


@pytest.mark.races
@linux_only
def test_closing_the_pool_ends_a_call_under_way(tmp_path: Path) -> None:
    write(tmp_path, HANGS)

    async def work(pool: WorkerPool) -> list[Outcome | UserCodeError]:
        calls = [asyncio.create_task(grade(pool, "in_c", None)), asyncio.create_task(grade(pool, "in_c", None))]
        assert await asyncio.to_thread(wait_until, (tmp_path / "pid").exists)
        await pool.close()
        return [*await asyncio.gather(*calls), await grade(pool, "in_c")]

    under_way, waiting, late = run(tmp_path, work)
    assert (under_way.code, under_way.message) == (
        "closed",
        "checks:in_c: its process was ended before it finished, because the run ended",
    )
    assert waiting.message == late.message == "checks:in_c: not called, because the run has ended"
    assert not running(int((tmp_path / "pid").read_text()))


def test_neither_imports_nor_waiting_count_against_the_deadline(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import time
        from pathlib import Path

        def wait_for(name):
            Path(__file__).with_name(name).touch()
            while not Path(__file__).with_name(f"end of {name}").exists():
                time.sleep(0.01)

        wait_for("import")

        def check(ctx):
            if ctx.turn_input == "first":
                wait_for("first")
            return True
        """,
    )

    async def work(pool: WorkerPool) -> list[Outcome | UserCodeError]:
        first = asyncio.create_task(grade(pool, "check", None, turn_input="first"))
        # An import has a deadline, too: 60 s.
        others = [asyncio.create_task(grade(pool, "check", 30)) for _ in range(3)]
        for name in ("import", "first"):
            assert await asyncio.to_thread(wait_until, (tmp_path / name).exists)
            pass_deadlines(31)
            (tmp_path / f"end of {name}").touch()
        return await asyncio.gather(first, *others)

    assert run(tmp_path, work) == [Outcome({"kind": "bare", "score": True}, "")] * 4


@pytest.mark.races
@linux_only
@pytest.mark.parametrize("ending", ["time.sleep(600)", "os._exit(1)", "return True"])
@pytest.mark.parametrize("how", ["", ", start_new_session=True"])
def test_descendants_end_with_their_worker(tmp_path: Path, ending: str, how: str) -> None:
    """In the worker's process group and out of it; at a deadline, after a crash, and at the pool's end."""
    write(
        tmp_path,
        f"""
        import os, subprocess, sys, time
        from pathlib import Path

        def check(ctx):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]{how})
            Path(__file__).with_name("part").write_text(str(child.pid))
            Path(__file__).with_name("part").rename(Path(__file__).with_name("pid"))
            {ending}
        """,
    )
    begun = (tmp_path / "pid").exists
    run(tmp_path, lambda pool: overdue(grade(pool, "check"), begun) if "sleep" in ending else grade(pool, "check"))
    child = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not running(child))


@pytest.mark.races
@linux_only
def test_a_daemon_that_left_its_family_ends_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, time
        from pathlib import Path

        def check(ctx):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.closerange(0, 300)
                    part = Path(__file__).with_name("part")
                    part.write_text(str(os.getpid()))
                    part.rename(Path(__file__).with_name("pid"))
                    time.sleep(600)
                os._exit(0)
            while not Path(__file__).with_name("pid").exists():
                time.sleep(0.01)
            return True
        """,
    )
    graded(tmp_path, "check")
    daemon = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not running(daemon))


@pytest.mark.races
@linux_only
def test_a_grader_that_keeps_forking_is_ended(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, time
        from pathlib import Path

        def check(ctx):
            pids = open(Path(__file__).with_name("pids"), "a")
            for _ in range(60):
                if os.fork() == 0:
                    print(os.getpid(), file=pids, flush=True)
                    if os.getpid() % 2:
                        os.setsid()
                    time.sleep(600)
            time.sleep(600)
        """,
    )
    file = tmp_path / "pids"
    error = run(
        tmp_path,
        lambda pool: overdue(grade(pool, "check"), lambda: file.exists() and file.read_bytes().count(b"\n") == 60),
    )
    assert error.code == "timeout"
    pids = [int(line) for line in file.read_text().split()]
    assert wait_until(lambda: not any(map(running, pids)))


def test_a_thread_left_running_holds_up_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import threading, time

        def check(ctx):
            threading.Thread(target=time.sleep, args=(600,)).start()
            return True
        """,
    )

    async def work(pool: WorkerPool) -> list[Outcome | UserCodeError]:
        return [await grade(pool, "check"), await grade(pool, "check")]

    assert [outcome.value["score"] for outcome in run(tmp_path, work)] == [True, True]


@pytest.mark.races
def test_a_worker_that_died_while_idle_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, WHO)

    async def work(pool: WorkerPool) -> tuple[int, int]:
        first = (await pool.call("grade", "checks:pid", {"context": CONTEXT}, None)).value["score"]
        os.kill(first, signal.SIGKILL)
        assert await asyncio.to_thread(wait_until, lambda: not running(first))
        return first, (await pool.call("grade", "checks:pid", {"context": CONTEXT}, None)).value["score"]

    first, second = run(tmp_path, work)
    assert first != second


def test_exit_handlers_run_at_the_end(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import atexit
        from pathlib import Path
        atexit.register(Path(__file__).with_name("ended").touch)

        def check(ctx):
            return True
        """,
    )
    graded(tmp_path, "check")
    assert (tmp_path / "ended").exists()


def test_the_environment_is_the_jobs_without_its_tokens(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os
        from holodeck.lib.test_runner.code_grader import GraderResult

        def check(ctx):
            return GraderResult(1.0, details=dict(os.environ))
        """,
    )
    tokens = [
        *("GITHUB_TOKEN", "GH_TOKEN", "INPUT_GITHUB-TOKEN", "INPUT_GITHUB_TOKEN"),
        *("ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"),
    ]
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "lib"), "OPENAI_API_KEY": "k", "LANG": "C"}
    environ = {**kept, **dict.fromkeys(tokens, "secret")}
    seen = run(tmp_path, lambda pool: grade(pool, "check"), environ=environ).value["details"]
    assert not set(tokens) & seen.keys()
    assert {name: seen[name] for name in kept} == kept


def test_modules_come_from_the_suites_folder_then_the_current_one(tmp_path: Path) -> None:
    """In a process of its own, since the current directory belongs to the whole process."""
    suite, current = tmp_path / "suite", tmp_path / "current"
    for folder in (suite, current):
        write(folder, f"def check(ctx):\n    return {folder.name!r}\n", "both")
    write(current, "def check(ctx):\n    return 'current'\n", "only_there")
    script = tmp_path / "script.py"
    script.write_text(
        dedent(
            f"""
            from pathlib import Path
            from tests.workers.support import CONTEXT, grade, run

            async def work(pool):
                return [(await grade(pool, name)).value["score"] for name in ("both:check", "only_there:check")]

            print(run(Path({str(suite)!r}), work, cwd=Path.cwd()))
            """
        )
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=current,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "['suite', 'current']\n", done.stderr


CHURN = """
import json, os, sys
from pathlib import Path
from tests.workers.support import CONTEXT, grade, run

async def work(pool):
    limits = {"sleep": 0.3, "crash": 60, "ok": 60}
    called = ("sleep", "crash", "ok", "sleep", "ok")
    return [getattr(await grade(pool, name, limits[name]), "code", "ok") for name in called]

before = sorted(os.listdir("/proc/self/fd"))
codes = run(Path(sys.argv[1]), work, size=2)
try:
    children = os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    children = None
print(json.dumps([codes, sorted(os.listdir("/proc/self/fd")) == before, children]))
"""


@pytest.mark.full
@linux_only
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """No file descriptor, no child, no unclosed resource, in a process of its own with all warnings as errors."""
    write(tmp_path, HANGS + "\ndef crash(ctx): os._exit(1)\ndef ok(ctx): return True\n")
    (tmp_path / "churn.py").write_text(CHURN)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(tmp_path / "churn.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [["timeout", "crashed", "ok", "timeout", "ok"], True, None], done.stderr
    assert done.stderr == ""


@pytest.mark.races
@linux_only
def test_workers_die_with_the_run(tmp_path: Path) -> None:
    """Even when the run is killed outright and the worker is deep in C code, with a child of its own."""
    write(
        tmp_path,
        HANGS
        + """
def check(ctx):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (FOLDER / "child").write_text(str(child.pid))
    in_c(ctx)
""",
    )
    script = "import sys, pathlib; from tests.workers.support import CONTEXT, grade, run; "
    script += "run(pathlib.Path(sys.argv[1]), lambda pool: grade(pool, 'check', None))"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        assert wait_until((tmp_path / "pid").exists)
    finally:
        process.kill()
        process.wait()
    worker, child = int((tmp_path / "pid").read_text()), int((tmp_path / "child").read_text())
    assert wait_until(lambda: not running(worker))
    assert wait_until(lambda: not running(child))


def test_a_process_that_cannot_be_started(tmp_path: Path) -> None:
    write(tmp_path, WHO)
    error = run(tmp_path, lambda pool: grade(pool, "pid"), environ={"TOO_LONG": "x" * 10_000_000})
    assert (error.code, error.message) == (
        "cannot_start",
        "checks:pid: its process cannot be started: Argument list too long",
    )
