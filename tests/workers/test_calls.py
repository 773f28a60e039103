"""What graders do, and what becomes of their call: results, errors, crashes; the pool survives each of them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import MAX_RESULT_BYTES, WorkerPool
from holodeck_action.workers.worker_process import MAX_OUTPUT, OUTPUT_KEPT, Outcome
from tests.workers.support import CODE, failed, grade, graded, run, write


def test_the_context_has_every_documented_field(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import dataclasses
        from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

        def look(ctx: GraderContext) -> GraderResult:
            ctx.turn_config["seen"] = True
            assert isinstance(ctx.tool_invocations, tuple) and isinstance(ctx.retrieval_context, tuple)
            try:
                ctx.turn_index = 5
            except dataclasses.FrozenInstanceError:
                return GraderResult(score=1.0, details=dataclasses.asdict(ctx))
        """,
    )
    call = {"name": "subtract", "args": {"a": 1.5}, "result": [None], "bytes": 6, "duration_ms": 0.5, "error": "late"}
    facts = graded(
        tmp_path, "look", tool_invocations=[call], retrieval_context=["chunk"], turn_index=2, turn_config={"unit": "€"}
    ).value["details"]
    assert facts == {
        "turn_input": "How many?",
        "agent_response": "42",
        "ground_truth": "42",
        "tool_invocations": [call],
        "retrieval_context": ["chunk"],
        "turn_index": 2,
        "test_case_name": "counting",
        "turn_config": {"unit": "€", "seen": True},
        "earlier_turns": [],
        "metadata": None,
        "session": None,
    }


RESULTS: list[tuple[str, Any]] = [
    ("True", {"kind": "bare", "score": True}),
    ("0.25", {"kind": "bare", "score": 0.25}),
    ("7", {"kind": "bare", "score": 7}),
    ("'good'", {"kind": "bare", "score": "good"}),
    ("numpy.float32(0.25)", {"kind": "bare", "score": 0.25}),
    ("numpy.bool_(False)", {"kind": "bare", "score": False}),
    ("numpy.int64(1)", {"kind": "bare", "score": 1}),
    (
        "GraderResult(0.5, numpy.bool_(True), 'half', {'n': (1, 2), 3: numpy.float64(0.5), None: {}})",
        {
            "confidence": None,
            "kind": "verdict",
            "score": 0.5,
            "passed": True,
            "reason": "half",
            "details": {"n": [1, 2], "3": 0.5, "null": {}},
        },
    ),
    (
        "GraderResult(score=None, reason='surrogate \\ud800')",
        {"kind": "verdict", "score": None, "passed": None, "reason": "surrogate \ud800", "details": None}
        | {"confidence": None},
    ),
]


def test_results(tmp_path: Path) -> None:
    source = "import numpy\nfrom holodeck.lib.test_runner.code_grader import GraderResult\n"
    for number, (returned, _) in enumerate(RESULTS):
        for word in ("def", "async def"):
            source += f"{word} check_{word[0]}{number}(ctx):\n    return {returned}\n"
    write(tmp_path, source)

    async def work(pool: WorkerPool) -> list[tuple[str, object]]:
        found = []
        for number, (returned, _) in enumerate(RESULTS):
            for kind in "da":
                outcome = await grade(pool, f"check_{kind}{number}")
                assert isinstance(outcome, Outcome), outcome
                found.append((returned, outcome.value))
        return found

    assert run(tmp_path, work) == [result for result in RESULTS for _ in range(2)]


def test_async_graders_share_one_event_loop(tmp_path: Path) -> None:
    """A client that is bound to its loop stays usable from one call to the next."""
    write(
        tmp_path,
        """
        import asyncio
        loops = []

        async def check(ctx):
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            return len(set(loops)) == 1
        """,
    )

    async def twice(pool: WorkerPool) -> list[Any]:
        return [await grade(pool, "check"), await grade(pool, "check")]

    assert [outcome.value["score"] for outcome in run(tmp_path, twice)] == [True, True]


@pytest.mark.full
@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "return {}['missing']",
            "raised",
            "checks:check: it raised KeyError: 'missing' (checks.py:3)",
        ),
        (
            "raise ConnectionError",
            "raised",
            "checks:check: it raised ConnectionError (checks.py:3)",
        ),
        (
            "assert ctx.agent_response == '', 'two\\n  lines'",
            "raised",
            "checks:check: it raised AssertionError: two lines (checks.py:3)",
        ),
        ("json.loads('{')", "raised", None),
        ("raise KeyboardInterrupt", "raised", "checks:check: it raised KeyboardInterrupt (checks.py:3)"),
        ("sys.exit(3)", "exited", "checks:check: it called sys.exit(3) (checks.py:3)"),
        ("sys.exit('bye')", "exited", "checks:check: it called sys.exit('bye') (checks.py:3)"),
        ("return None", "unsupported_type", "checks:check: grader returned unsupported type NoneType"),
        ("return {'score': 1.0}", "unsupported_type", "checks:check: grader returned unsupported type dict"),
        ("return (yield)", "unsupported_type", "checks:check: grader returned unsupported type generator"),
        (
            "return GraderResult([1])",
            "unsupported_type",
            "checks:check: the result's score is of unsupported type list",
        ),
        (
            "return GraderResult(1.0, 'yes')",
            "unsupported_type",
            "checks:check: the result's passed is of type str, not True, False or None",
        ),
        (
            "return GraderResult(1.0, details=['a'])",
            "not_json",
            "checks:check: the result's details are of type list, not a mapping",
        ),
        (
            "return GraderResult(1.0, details={'rows': [{'ids': {1}}]})",
            "not_json",
            "checks:check: details.rows[0].ids is of type set, which JSON cannot hold",
        ),
        (
            "return GraderResult(1.0, details={'ratio': float('nan')})",
            "not_json",
            "checks:check: details.ratio is nan, which JSON cannot hold",
        ),
        (
            "return GraderResult(1.0, details={(1, 2): 3})",
            "not_json",
            "checks:check: a key of details is of type tuple, which JSON cannot hold",
        ),
        (
            "loop = {}; loop['self'] = loop; return GraderResult(1.0, details=loop)",
            "not_json",
            None,
        ),
        (
            "return GraderResult(1.0, details={'n': 10 ** 5000})",
            "not_json",
            "checks:check: details.n is an integer of more than 3000 digits",
        ),
        (
            "return GraderResult(1.0, reason='x' * 10 ** 9)",
            "too_large",
            f"checks:check: it returned more than {MAX_RESULT_BYTES} bytes",
        ),
        (
            "many = ['x' * 1000] * 1000; return GraderResult(1.0, details={'all': [many] * 1000})",
            "too_large",
            f"checks:check: it returned more than {MAX_RESULT_BYTES} bytes",
        ),
        ("os._exit(4)", "crashed", "checks:check: its process exited with code 4"),
        ("os.abort()", "crashed", "checks:check: its process was killed by SIGABRT (checks.py:3)"),
        (
            "import ctypes; ctypes.string_at(0)",
            "crashed",
            "checks:check: its process was killed by SIGSEGV (checks.py:3)",
        ),
        (
            "os.kill(os.getpid(), 9)",
            "crashed",
            "checks:check: its process was killed by SIGKILL (memory may have run out)",
        ),
        (
            "os.closerange(3, 300); return True",
            "crashed",
            "checks:check: it closed the connection of its process to the run; the process was ended",
        ),
        (
            "while True: os.write(1, b'x' * 65536)",
            "too_much_output",
            f"checks:check: it printed more than {MAX_OUTPUT >> 20} MiB; its process was ended",
        ),
    ],
)
def test_failures(tmp_path: Path, body: str, code: str, message: str | None) -> None:
    write(
        tmp_path,
        "import json, os, sys; from holodeck.lib.test_runner.code_grader import GraderResult\n"
        f"def check(ctx):\n    {body}\n",
    )
    error = failed(tmp_path, "check")
    assert error.code == code, error.message
    if message is not None:
        assert error.message == message


def test_a_failure_shows_the_users_frames_only(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import json

        def inner(text):
            return json.loads(text)

        async def check(ctx):
            return inner("{")
        """,
        "graders.deep",
    )
    error = failed(tmp_path, "graders.deep:check")
    assert error.type == "JSONDecodeError"
    assert error.traceback == (
        'graders/deep.py:8 in check: return inner("{")',
        "graders/deep.py:5 in inner: return json.loads(text)",
    )
    assert error.message.endswith("(graders/deep.py:5)")


def test_an_exception_whose_text_raises(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError

        def check(ctx):
            raise Odd
        """,
    )
    assert failed(tmp_path, "check").message == (
        "checks:check: it raised Odd: (no text: converting it to text raised RuntimeError) (checks.py:7)"
    )


@pytest.mark.parametrize(
    ("source", "reference", "code", "message"),
    [
        (
            "",
            "graders.money:check",
            "missing_module",
            "graders.money:check: there is no module graders.money in the suite's folder, the current directory or "
            "the installed packages",
        ),
        (
            "",
            "nowhere.money:check",
            "missing_module",
            "nowhere.money:check: there is no module nowhere in the suite's folder, the current directory or "
            "the installed packages",
        ),
        (
            "\nimport a_module_nobody_has\n",
            "graders.broken:check",
            "import_failed",
            "graders.broken:check: importing graders.broken raised ModuleNotFoundError: "
            "No module named 'a_module_nobody_has' (graders/broken.py:2); add the package to `environment` in the "
            "policy file, or to --requirements",
        ),
        (
            "x = (1,\ny = 2\n",
            "graders.broken:check",
            "import_failed",
            "graders.broken:check: importing graders.broken raised SyntaxError: '(' was never closed "
            "(graders/broken.py:1)",
        ),
        (
            "import sys\nsys.exit()\n",
            "graders.broken:check",
            "exited",
            "graders.broken:check: it called sys.exit() (graders/broken.py:2)",
        ),
        (
            "def checks(ctx): return True\n",
            "graders.broken:check",
            "missing_attribute",
            "graders.broken:check: the module graders.broken has no check; did you mean checks?",
        ),
        (
            "check = 0.5\n",
            "graders.broken:check",
            "not_callable",
            "graders.broken:check: check in the module graders.broken is of type float, not callable",
        ),
    ],
)
def test_references_that_cannot_be_called(tmp_path: Path, source: str, reference: str, code: str, message: str) -> None:
    write(tmp_path, source, "graders.broken")
    error = failed(tmp_path, reference)
    assert (error.code, error.message) == (code, message)


@pytest.mark.full
def test_output_is_kept_with_its_call(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, subprocess, sys

        def check(ctx):
            print("first", ctx.agent_response)
            print("second \\udc80", file=sys.stderr)
            os.write(1, b"third\\n")
            subprocess.run([sys.executable, "-c", "print('fourth')"])
            return True

        def quiet(ctx):
            return True

        def loud(ctx):
            for number in range(100_000):
                print("line", number)
            return True
        """,
    )

    async def work(pool: WorkerPool) -> list[str]:
        return [(await grade(pool, name)).output for name in ("check", "quiet", "loud", "quiet")]

    check, quiet, loud, quiet_again = run(tmp_path, work)
    assert check == "first 42\nsecond \\udc80\nthird\nfourth\n"
    assert quiet == quiet_again == ""
    assert loud.endswith("line 99998\nline 99999\n")
    assert OUTPUT_KEPT - 1 <= len(loud.removeprefix("…")) <= OUTPUT_KEPT


def test_output_before_a_crash_is_kept(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os

        def check(ctx):
            print("on the way", end="")
            os.abort()
        """,
    )
    error = failed(tmp_path, "check")
    assert error.output == "on the way"
    assert error.traceback == ("checks.py:6 in check",)


def test_standard_input_is_empty(tmp_path: Path) -> None:
    write(tmp_path, "import sys\ndef check(ctx):\n    return sys.stdin.read() == ''\n")
    assert graded(tmp_path, "check").value["score"] is True


def test_a_forked_child_that_returns_does_not_answer(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os

        def check(ctx):
            child = os.fork()
            if child:
                os.waitpid(child, 0)
            return bool(child)
        """,
    )

    async def work(pool: WorkerPool) -> list[Outcome | UserCodeError]:
        return [await grade(pool, "check") for _ in range(3)]

    assert [outcome.value for outcome in run(tmp_path, work)] == [{"kind": "bare", "score": True}] * 3


@pytest.mark.parametrize(
    "forged",
    [
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x02{]",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x27\x10" + b"[" * 10_000,
        b'\x00\x00\x00\x17{"id": 1, "value": true}'.replace(b"\x17", b"\x18"),
    ],
)
def test_a_grader_that_writes_into_the_connection_harms_only_its_call(tmp_path: Path, forged: bytes) -> None:
    write(
        tmp_path,
        f"""
        import os, stat

        def check(ctx):
            for fd in range(3, 100):
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        os.write(fd, {forged!r})
                except OSError:
                    pass
            return True
        """,
    )
    assert failed(tmp_path, "check").code == "bad_answer"


def test_a_function_in_a_file_tells_what_it_has_imported(tmp_path: Path) -> None:
    write(tmp_path, "import helper, json\ndef add(a):\n    from late import more\n    return a + more.ONE\n", "tools")
    write(tmp_path, "NAME = 'helper'\n", "helper")
    write(tmp_path, "", "late.__init__")
    strange = "import sys\nsys.modules['absent'] = None\nsys.modules['number'] = 7\nONE = 1\n"
    write(tmp_path, strange, "late.more")
    told: list[list[str]] = []

    async def work() -> None:
        pool = WorkerPool(
            tmp_path,
            environ=os.environ,
            cwd=tmp_path,
            size=1,
            code=CODE,
            redact=str,
            on_import=lambda files: told.append(sorted(files)),
        )
        place = {"file": "tools.py", "function": "add"}
        await pool.call("describe", "add", {}, 30.0, place=place)
        for _ in range(2):
            await pool.call("tool", "add", {"args": {"a": 1}}, 30.0, max_bytes=100, place=place)
        await pool.close()

    asyncio.run(work())
    names = [[os.path.relpath(file, tmp_path) for file in files] for files in told]
    assert names == [["helper.py", "tools.py"], ["late/__init__.py", "late/more.py"]]
