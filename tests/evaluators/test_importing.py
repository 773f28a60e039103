"""Imports in the background: who else imports meanwhile meets no unfinished module, and waits only where he must."""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from holodeck_action.metrics.importing import in_background

ROOT = Path(__file__).parents[2]

# `whole` begins with `start`: who begins with `part`, as only a second thread can, meets it unfinished.
MODULES = {
    "steps.py": """
        import threading

        begun, go = threading.Event(), threading.Event()
    """,
    "whole/__init__.py": """
        import steps

        steps.begun.set()
        steps.go.wait(20)
        from whole.start import VALUE
    """,
    "whole/start.py": "EARLY = 1\nfrom whole.part import VALUE\n",
    "whole/part.py": "from whole.start import EARLY\nVALUE = EARLY\n",
    "whole/other.py": "VALUE = 2\n",
    "small.py": "VALUE = 3\n",
    "broken.py": "raise RuntimeError('not today')\n",
    "asks.py": """
        from holodeck_action.metrics.importing import in_background

        done = in_background([lambda: __import__("small")]).done()
    """,
    "slow.py": """
        import steps

        steps.begun.set()
        steps.go.wait(20)
        import small
    """,
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    for name, text in MODULES.items():
        path = tmp_path / "modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield tmp_path / "modules"
    assert "Gate" not in repr(builtins.__import__)
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {key.partition(".")[0].partition("/")[0] for key in MODULES}:
            del sys.modules[name]


def whole() -> None:
    __import__("whole")


BESIDE = """
import sys, threading, time
import steps
from holodeck_action.metrics.importing import in_background

def whole():
    try:
        import whole
    except BaseException as error:
        trouble.append(error)

trouble = []
if sys.argv[1] == "background":
    end = in_background([whole]).result
else:
    thread = threading.Thread(target=whole)
    thread.start()
    end = thread.join
steps.begun.wait(20)
# Where nobody waits for the other, the import below has its module by then.
threading.Timer(0.2, steps.go.set).start()
try:
    import whole.part
except BaseException as error:
    trouble.append(error)
end()
print(trouble or [whole.VALUE, whole.part.VALUE])
"""


@pytest.mark.parametrize("how", ["background", "thread"])
def test_two_threads_meet_no_unfinished_module(modules: Path, how: str) -> None:
    """The same imports in a plain thread are what this is there for."""
    path = f"{modules}:{ROOT}"
    ended = subprocess.run(
        [sys.executable, "-c", BESIDE, how], env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    if how == "background":
        assert ended.stdout == "[1, 1]\n"
    else:
        assert "partially initialized module" in ended.stdout


def test_what_is_there_is_had_at_once_and_what_is_not_is_waited_for(modules: Path) -> None:
    steps = importlib.import_module("steps")
    __import__("small")
    importing = in_background([whole])
    assert steps.begun.wait(20)
    import json
    from os import path

    import small  # type: ignore[import-not-found]

    local = {"__package__": "holodeck_action.metrics", "__name__": "holodeck_action.metrics.asking"}
    assert __import__("importing", local, {}, ("in_background",), 1).in_background is in_background
    assert (json.loads(path.join("1")), small.VALUE) == (1, 3)
    assert not importing.done()
    got = threading.Event()

    def other() -> None:
        from whole import other  # type: ignore[import-not-found]

        assert other.VALUE == 2
        got.set()

    waiting = threading.Thread(target=other)
    waiting.start()
    assert not got.wait(0.05)
    steps.go.set()
    waiting.join(20)
    assert got.is_set()
    assert importing.done()


def test_a_thread_in_the_middle_of_an_import_does_not_wait(modules: Path) -> None:
    """It holds a module, for which the background could come to wait."""
    steps = importlib.import_module("steps")
    held = threading.Event()
    thread = threading.Thread(target=lambda: __import__("slow"))
    thread.start()
    assert steps.begun.wait(20)
    importing = in_background([lambda: held.wait(20)])
    steps.go.set()
    thread.join(10)
    assert not thread.is_alive()
    assert sys.modules["slow"].small.VALUE == 3
    assert not importing.done()
    held.set()
    importing.result(20)


def test_who_asks_in_the_middle_of_an_import_gets_it_at_once(modules: Path) -> None:
    assert importlib.import_module("asks").done is True


def test_one_is_imported_after_the_other(modules: Path) -> None:
    steps = importlib.import_module("steps")
    first = in_background([whole])
    assert steps.begun.wait(20)
    threading.Timer(0.05, steps.go.set).start()
    second = in_background([lambda: __import__("small")])
    assert first.done() or "whole" in sys.modules
    second.result(20)
    assert sys.modules["small"].VALUE == 3
    assert first.done()


def test_an_import_that_fails_keeps_nobody_from_the_next(modules: Path) -> None:
    def leave() -> None:
        raise SystemExit(0)

    in_background([lambda: __import__("broken"), lambda: __import__("small")]).result(20)
    assert "small" in sys.modules
    with pytest.raises(RuntimeError, match="not today"):
        __import__("broken")
    in_background([leave]).result(20)
    assert in_background([]).done()
