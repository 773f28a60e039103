"""Measures when DeepEval's process starts: `python -m bench.library_start COMMIT...`.

The commits take turns at live runs graded by DeepEval: one suite, two suites in one command, a suite with a code
grader, and a race of four models. An audit hook in the main process notes its CPU time when it starts DeepEval's
process, and at its first model call. The output is the number of starts, and the medians of both times: unlike wall
times, they hardly depend on other work of the machine.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from bench.judges import AT_ONCE, JUDGED, TESTED, judge_server, judged_suite, plain_truths
from bench.live import KEY, Server
from bench.processes import measure
from scripts.products import Product, install

CASES, ROUNDS = 2, 7
_NOTES = """
import sys, time
def note(event, arguments):
    kind = {{"subprocess.Popen": "start", "socket.connect": "call"}}.get(event)
    if kind == "call" or kind == "start" and "libraries_serving" in str(arguments[1]):
        with open({file!r}, "a") as file:
            file.write(f"{{kind}} {{time.process_time()}}\\n")
if "holodeck_action.cli" in str(sys.orig_argv):
    sys.addaudithook(note)
"""
_COMMANDS = {
    "one suite": ("run", "first"),
    "two suites": ("run", "first", "second"),
    "a suite with a code grader": ("run", "graded"),
    "race of four variants": ("race", "first", *(f"--vary=model={TESTED}-{name}" for name in "abcd")),
}


def main(*commits: str) -> None:
    """Measure and print a table in Markdown."""
    print("| commit | command | starts | CPU ms until it starts | until the first call |")
    print("| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as root, judge_server("plain", CASES) as server:
        home = Path(root)
        environ = {"PATH": os.environ["PATH"], "HOME": root, "PYTHONPATH": root, "OPENAI_API_KEY": KEY}
        (home / "sitecustomize.py").write_text(_NOTES.format(file=str(home / "notes")))
        products = {commit: install(commit, home / commit, environ) for commit in commits}
        _write_suites(home / "suites", server)
        for name, arguments in _COMMANDS.items():
            found: dict[str, list[tuple[int, float, float]]] = {commit: [] for commit in commits}
            for _ in range(ROUNDS + 1):
                for commit, product in products.items():
                    found[commit].append(_run(product, home, arguments))
            for commit, (_, *runs) in found.items():
                starts, begun, called = zip(*runs, strict=True)
                figures = f"{max(starts)} | {statistics.median(begun):.0f} | {statistics.median(called):.0f}"
                print(f"| {commit} | {name} | {figures} |", flush=True)


def _write_suites(folder: Path, server: Server) -> None:
    grader = {"type": "code", "grader": "graders:fine"}
    for name, metrics in (("first", JUDGED), ("second", JUDGED), ("graded", [*JUDGED, grader])):
        (folder / name).mkdir(parents=True)
        suite = {**judged_suite(server, plain_truths(CASES), metrics), "name": name}
        (folder / name / "agent.yaml").write_text(json.dumps(suite))
        (folder / name / "holodeck-action.yaml").write_text(json.dumps({"limits": {"concurrency": AT_ONCE}}))
        (folder / name / "graders.py").write_text("def fine(context):\n    return True\n")


def _run(product: Product, home: Path, arguments: tuple[str, ...]) -> tuple[int, float, float]:
    """Run a command; return the number of starts, and the CPU milliseconds until the first start and call."""
    (home / "notes").unlink(missing_ok=True)
    cost = measure((*product.command, *arguments, "-o", "out"), home / "suites", product.environ)
    if cost.code not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} ended with exit code {cost.code}:\n{cost.said}")
    notes = [line.split() for line in (home / "notes").read_text().splitlines()]
    times = {kind: [1000 * float(at) for each, at in notes if each == kind] for kind in ("start", "call")}
    return len(times["start"]), times["start"][0], times["call"][0]


if __name__ == "__main__":
    main(*sys.argv[1:])
