"""Compares the speed of two commits: `python -m bench.commits BEFORE AFTER [ROUNDS]`.

Both take turns at the same commands, with compiled modules: `--version`, `validate` of 1,000 cases, a run of 1,000
recorded cases, a run graded by DeepEval with replayed model calls, and live runs graded by DeepEval: one suite, two
suites in one command, and a race of four models, with 10 cases each and answers after 200 ms. The output is, for CPU
and wall, BEFORE's median in seconds, and AFTER's multiple of BEFORE in the same round: median, minimum and maximum of
all rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.judges import AT_ONCE, JUDGED, LATENCY_S, TESTED, judge_server, judged_suite, plain_truths
from bench.live import KEY, Server
from bench.processes import Cost, measure
from bench.suites import write_suite
from scripts.products import Product, install

CASES = 1_000
JUDGED_CASES = 100
LIVE_CASES = 10
ROUNDS = 9
_FINE = (0, 1)


def main(before: str, after: str, rounds: int = ROUNDS) -> None:
    """Measure and print.

    Raises:
        SystemExit: a run failed.
    """
    with tempfile.TemporaryDirectory() as root:
        home = Path(root)
        products = [_install_compiled(before, home / "before"), _install_compiled(after, home / "after")]
        plain, judged = write_suite(home / "plain", CASES), _record_judged(home / "judged", products)
        commands = {
            "--version": (plain, ("--version",)),
            f"validate, {CASES:,} cases": (plain, ("validate",)),
            f"run, {CASES:,} recorded cases": (plain, ("run", "-o", "out")),
            f"run, {JUDGED_CASES} judged cases, replayed": (judged, ("run", "-o", "out", "--replay")),
        }
        print(f"{after} against {before}, {rounds} rounds:")
        print(f"{'command':<34}{'CPU s before':>13}{'CPU ratio':>22}{'wall s before':>15}{'wall ratio':>22}")
        for name, (folder, arguments) in commands.items():
            print(f"{name:<34}{_compare(products, folder, arguments, rounds)}", flush=True)
        with judge_server("plain", LIVE_CASES, LATENCY_S) as server:
            live = _write_live(home / "live", server)
            models = (text for name in "abcd" for text in ("--vary", f"model={TESTED}-{name}"))
            commands = {
                f"judged suite, {LIVE_CASES} cases, live": (live, ("run", "first", "-o", "out")),
                "two such suites": (live, ("run", "first", "second", "-o", "out")),
                "race of four variants of it": (live, ("race", "first", *models, "-o", "out")),
            }
            for name, (folder, arguments) in commands.items():
                print(f"{name:<34}{_compare(products, folder, arguments, rounds)}", flush=True)


def _install_compiled(commit: str, folder: Path) -> Product:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPENAI_API_KEY": KEY, "BENCH_KEY": KEY}
    product = install(commit, folder, environ)
    subprocess.run([product.python, "-m", "compileall", "-q", product.tree / "holodeck_action"], check=True)
    return product


def _record_judged(folder: Path, products: list[Product]) -> Path:
    """Write a judged suite, and record its model calls with each commit, in a folder with the commit's name."""
    folder.mkdir()
    truths = plain_truths(JUDGED_CASES)
    with judge_server("plain", JUDGED_CASES) as server:
        (folder / "agent.yaml").write_text(json.dumps(judged_suite(server, truths, JUDGED), indent=1))
        for product in products:
            _run(product, folder, ("run", "-o", "out", "--record"))
    return folder


def _write_live(folder: Path, server: Server) -> Path:
    """Write two judged suites whose models are called."""
    for name in ("first", "second"):
        (folder / name).mkdir(parents=True)
        suite = {**judged_suite(server, plain_truths(LIVE_CASES), JUDGED), "name": name}
        (folder / name / "agent.yaml").write_text(json.dumps(suite, indent=1))
        (folder / name / "holodeck-action.yaml").write_text(json.dumps({"limits": {"concurrency": AT_ONCE}}))
    return folder


def _run(product: Product, folder: Path, arguments: tuple[str, ...]) -> Cost:
    """Run a command; if the last argument expects a cassette, add this commit's."""
    tape = (product.tree.parent.name,) if arguments[-1] in ("--record", "--replay") else ()
    cost = measure((*product.command, *arguments, *tape), folder, product.environ)
    if cost.code not in _FINE:
        raise SystemExit(f"{' '.join(arguments)} of {product.tree.parent.name} ended with exit code {cost.code}")
    return cost


def _compare(products: list[Product], folder: Path, arguments: tuple[str, ...], rounds: int) -> str:
    costs: list[list[Cost]] = []
    for turn in range(rounds + 1):
        order = products if turn % 2 else products[::-1]
        ran = {product.tree: _run(product, folder, arguments) for product in order}
        costs.append([ran[product.tree] for product in products])
    # The first round fills the machine's caches.
    measured = costs[1:]
    cpu_s = statistics.median(one.cpu_s for one, _ in measured)
    cpu = _spread_text([other.cpu_s / one.cpu_s for one, other in measured])
    wall = _spread_text([other.wall_s / one.wall_s for one, other in measured])
    wall_s = statistics.median(one.wall_s for one, _ in measured)
    return f"{cpu_s:>13.2f}{cpu:>22}{wall_s:>15.2f}{wall:>22}"


def _spread_text(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
