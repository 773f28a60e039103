"""Walks one case through the product: what a reader passes who follows it from the command to the exit code.

    python -m scripts.walk [--unused]

`run` evaluates one case with the metric equality, answered by a Python target, in this process. A profile hook notes
what runs in the package. `--unused` lists the modules that were loaded and never called. What counts:

* a function: a function, lambda or comprehension that ran between the command's start and its exit code (on Python
  3.11; newer ones run comprehensions without a call)
* a module: one in which a function ran
* a call: a function and the one that called it, however often, since polling depends on time
* a change of room (docs/architecture.md): two functions in different rooms, in the order of their first calls
* the walk of the threshold: from each function whose code names one of `STEPS` to the next such function, along the
  calls between them: up to the common caller, and down again. Only its changes of room count.

The worker process does not count.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import click

from bench.suites import write_suite

PACKAGE = Path(__file__).parent.parent / "holodeck_action"
STEPS = frozenset({"threshold", "passed", "gates", "verdict", "exit_code"})
"""The threshold, and what comes of it: the names by which the code hands it on."""
_HAS_LOCALS = 1
"""The flag of code that is neither a module nor a class (`CO_OPTIMIZED` of the module `inspect`)."""
_AGENT = "def answer(messages):\n    return 'It depends.'\n"


class Walk(NamedTuple):
    """The functions that ran in the order of their first calls, each with its callers, outermost first and itself last;
    pairs of a caller and a function; the names of the loaded modules."""

    stacks: dict[CodeType, tuple[CodeType, ...]]
    calls: frozenset[tuple[CodeType | None, CodeType]]
    loaded: frozenset[str]


class _Notes:
    """Notes the functions of the package that run; `note` is the profile hook."""

    def __init__(self) -> None:
        self.stacks: dict[CodeType, tuple[CodeType, ...]] = {}
        self.calls: set[tuple[CodeType | None, CodeType]] = set()
        self._prefix = f"{PACKAGE}{os.sep}"

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call into account."""
        if event != "call" or not self._is_ours(frame.f_code):
            return
        self.calls.add((next(self._callers(frame.f_back), None), frame.f_code))
        if frame.f_code not in self.stacks:
            self.stacks[frame.f_code] = tuple(reversed([*self._callers(frame)]))

    def _is_ours(self, code: CodeType) -> bool:
        return bool(code.co_flags & _HAS_LOCALS) and code.co_filename.startswith(self._prefix)

    def _callers(self, frame: FrameType | None) -> Iterator[CodeType]:
        while frame is not None:
            if self._is_ours(frame.f_code):
                yield frame.f_code
            frame = frame.f_back


def room_of(code: CodeType) -> str:
    """Return the room, or the extension, of a function of the package."""
    parts = Path(code.co_filename).relative_to(PACKAGE).parts
    return "/".join(parts[: 2 if parts[0] == "extensions" else 1])


def changes(codes: Sequence[CodeType]) -> int:
    """Return how often two functions in sequence are in different rooms."""
    return sum(room_of(one) != room_of(other) for one, other in pairwise(codes))


def _names(code: CodeType) -> set[object]:
    """Return the names that the code of a function has: of variables, attributes and arguments, and its texts."""
    named = (constant for constant in code.co_consts if isinstance(constant, tuple))
    return {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_consts, *chain.from_iterable(named)}


def _path(one: tuple[CodeType, ...], other: tuple[CodeType, ...]) -> list[CodeType]:
    """Return the functions from one to another: up to their innermost common caller, and down."""
    common = next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a is not b), None)
    shared = max(1, min(len(one), len(other)) if common is None else common)
    return [*reversed(one[shared - 1 :]), *other[shared:]]


def threshold_walk(walk: Walk) -> tuple[int, int]:
    """Return the number of functions that hand the threshold on, and of changes of room between them."""
    handling = [stack for code, stack in walk.stacks.items() if _names(code) & STEPS]
    return len(handling), sum(changes(_path(one, other)) for one, other in pairwise(handling))


def take_walk(folder: Path) -> Walk:
    """Evaluate one case in a folder.

    Raises:
        SystemExit: the case was not evaluated.
    """
    suite = write_suite(folder, 1)
    (suite / "agent.py").write_text(_AGENT, encoding="utf-8")
    (suite / "holodeck-action.yaml").write_text("target: python:agent:answer\n", encoding="utf-8")
    from holodeck_action.cli import main

    notes, streams = _Notes(), (io.StringIO(), io.StringIO(), io.StringIO())
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    threading.setprofile(notes.note)
    sys.setprofile(notes.note)
    try:
        code = main(("run",), environ, suite, *streams)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if code != 1:
        raise SystemExit(f"The case must fail, but the exit code is {code}:\n{streams[2].getvalue()}")
    loaded = frozenset(name for name in sys.modules if name.startswith(PACKAGE.name))
    return Walk(notes.stacks, frozenset(notes.calls), loaded)


@click.command(help=__doc__)
@click.option("--unused", is_flag=True, help="List the modules that were loaded and never called.")
def main(*, unused: bool) -> None:
    """Print the figures of a walk."""
    with tempfile.TemporaryDirectory() as folder:
        walk = take_walk(Path(folder))
    files = {code.co_filename for code in walk.stacks}
    handling, crossed = threshold_walk(walk)
    idle = sorted(name for name in walk.loaded if sys.modules[name].__file__ not in files)
    click.echo(f"modules              {len(files):>6,}")
    click.echo(f"functions            {len(walk.stacks):>6,}")
    click.echo(f"calls                {len(walk.calls):>6,}")
    click.echo(f"changes of room      {changes([*walk.stacks]):>6,}")
    click.echo(f"never called modules {len(idle):>6,} of {len(walk.loaded):,} that were loaded")
    click.echo(f"threshold to exit code: {handling} functions, {crossed} changes of room")
    for name in idle if unused else ():
        click.echo(f"  {name}")


if __name__ == "__main__":
    main()
