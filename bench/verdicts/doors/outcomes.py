"""Runs a scenario in a new folder, by the command's own `main` in this process, and says whether it was right."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from bench.verdicts.doors.contents import write_files
from bench.verdicts.doors.scenarios import Scenario, Step
from bench.verdicts.doors.service import Script, serve
from tests.commands.project import Project, run_here

Verdict: TypeAlias = Literal["right", "wrong green", "wrong red", "wrong error", "wrong words", "wrong set-up"]
VERDICTS: tuple[Verdict, ...] = (
    "right", "wrong green", "wrong red", "wrong error", "wrong words", "wrong set-up",
)  # fmt: skip
BLAME = "the agent must be repaired"
"""The sentence that blames the agent, in lower case."""
KEY = "sk-bench-0123456789"
_CONFIGURATION = 2
_REPORTS = ("report.md", "leaderboard.md")


class Ended(Struct, frozen=True):
    """How a scenario ended.

    Attributes:
        code: exit code of the last command.
        said: its output, its reports, and the files that the scenario reads.
        trouble: why the scenario did not happen as it is written; empty if it did.
        log: the output of all commands.
        cpu_s: seconds of processor time, with those of processes.
    """

    code: int
    said: str
    trouble: str
    log: str
    cpu_s: float


class Outcome(Struct, frozen=True):
    """A scenario's end and that of its sound variant, with the verdict on both."""

    scenario: Scenario
    verdict: Verdict
    detail: str
    ended: Ended
    control: Ended | None = None


def run_scenario(scenario: Scenario) -> Outcome:
    """Run a scenario and its sound variant."""
    ended = play(scenario)
    control = scenario.control()
    sound = None if control is None else play(control)
    verdict, detail = judge(scenario, ended, sound)
    return Outcome(scenario, verdict, detail, ended, sound)


def judge(scenario: Scenario, ended: Ended, sound: Ended | None) -> tuple[Verdict, str]:
    """Return the verdict on how a scenario and its sound variant ended, and what was wrong."""
    if ended.trouble or (sound and sound.trouble):
        return "wrong set-up", ended.trouble or f"the sound variant: {sound.trouble if sound else ''}"
    if ended.code not in scenario.right_codes:
        expected = " or ".join(map(str, sorted(scenario.right_codes)))
        detail = f"exit code {ended.code} in place of {expected}"
        if ended.code == 0:
            return "wrong green", detail
        return "wrong error" if scenario.right == "red" else "wrong red", detail
    wrong = next(_wrong_words(scenario, ended.said), None)
    if wrong is not None:
        return "wrong words", wrong
    if sound is not None and sound.code != 0:
        return "wrong red", f"exit code {sound.code} of the sound variant"
    return "right", ""


def _wrong_words(scenario: Scenario, said: str) -> Iterator[str]:
    text = " ".join(said.lower().split())
    blamed = scenario.right == "error" and scenario.at_fault is None
    for phrase in scenario.says:
        if phrase.lower() not in text:
            yield f"does not say {phrase!r}"
    for phrase in (*scenario.never_says, *((BLAME,) if blamed else ())):
        if phrase.lower() in text:
            yield f"says {phrase!r}"


def play(scenario: Scenario) -> Ended:
    """Run the commands of a scenario in a new folder."""
    script = Script(scenario.serve)
    log: list[str] = []
    said, trouble, code = "", "", 0
    started = _cpu_s()
    with tempfile.TemporaryDirectory() as root, serve(script) as address:
        folder = Path(root) / "shop"
        folder.mkdir()
        environ = _environ(folder, Path(root), address)
        write_files(folder, scenario.files)
        for number, step in enumerate(scenario.steps, 1):
            if code == _CONFIGURATION and not trouble:
                trouble = f"command {number - 1} was refused"
            script.step = number
            write_files(folder, step.files)
            code, said = _run(step, folder, environ, address)
            log.append(f"$ {step.run or step.shell}\n{said}\nexit code {code}\n")
        said += "".join(_texts(scenario, folder))
    if script.unmatched:
        trouble = trouble or f"no rule of the server for {script.unmatched[0]}"
    return Ended(code, said, trouble, "".join(log), _cpu_s() - started)


def _run(step: Step, folder: Path, environ: Mapping[str, str], address: str) -> tuple[int, str]:
    if step.shell:
        done = subprocess.run(
            ("sh", "-ec", step.shell), cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        return done.returncode and _CONFIGURATION, done.stdout + done.stderr
    finished = run_here(folder, tuple(shlex.split(step.run.replace("${SERVICE}", address))), environ)
    return finished.code, finished.stdout + finished.stderr


def _texts(scenario: Scenario, folder: Path) -> Iterator[str]:
    """Yield the reports of the last command, and the files that the scenario reads."""
    words = scenario.steps[-1].run.split()
    out = [folder / words[words.index("-o") + 1] / name for name in _REPORTS] if "-o" in words else []
    for path in (*out, *(folder / name for name in scenario.reads)):
        if path.is_file():
            yield "\n" + path.read_text(encoding="utf-8")


def _environ(folder: Path, home: Path, address: str) -> dict[str, str]:
    """Return the environment of a developer with one key, whose services are all the scenario's server."""
    kept = Project(folder).environ(HOME=str(home / "home"))
    kept = {name: value for name, value in kept.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    author = {f"GIT_{role}_{key}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    return {**kept, **author, "SERVICE": address, "OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": KEY}


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
