"""Measures recorded runs against their floors in the same session: `python -m bench.recorded`.

One case against the bare interpreter and bare imports; 1,000 cases with BLEU, ROUGE, METEOR and F1, including files,
against calls of sacrebleu and rouge-score alone; and 133 conversations with 485 turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.pairs import paraphrase_pairs
from bench.processes import PROGRAM, Cost, cheapest_run
from bench.suites import write_conversations, write_pairs, write_suite

TIMES = 5
TEXT_METRICS = ("bleu", "rouge", "meteor", "f1_score")
CASES, TURNS = 133, 485
"""Numbers of cases and turns in ConvFinQA's sample."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        one = write_suite(root / "one", 1)
        texts = write_pairs(root / "texts", paraphrase_pairs(1000, words=(50, 70), seed=60), TEXT_METRICS)
        talks = write_conversations(root / "talks", CASES, TURNS)
        python = _cheapest((sys.executable, "-c", "pass"), root)
        imports = _cheapest((sys.executable, "-c", "import asyncio, click, yaml; from pydantic import BaseModel"), root)
        start = _cheapest((*PROGRAM, "run"), one)
        bare = _cheapest((sys.executable, "-m", "bench.bare_metrics", str(texts)), Path.cwd())
        calls_s = min(_library_seconds(texts) for _ in range(TIMES))
        run = _cheapest((*PROGRAM, "run", "-o", "out"), texts)
        conversations = _cheapest((*PROGRAM, "run", "-o", "out"), talks)
    print(f"Recorded runs (best of {TIMES}, CPU seconds unless said otherwise):")
    _print_line("python -c pass", python)
    _print_line("imports of pydantic, yaml, click, asyncio", imports)
    _print_line("run, 1 case", start, f"{start.cpu_s / imports.cpu_s:.1f} × these imports; goal 0.35 s wall")
    print(f"  {'sacrebleu + rouge-score, 1,000 calls of each':<46}{calls_s:>6.2f}")
    _print_line("a script with them, imports included", bare)
    ratios = f"{run.cpu_s / calls_s:.2f} × the calls, goal 0.8; {run.cpu_s / bare.cpu_s:.2f} × the script"
    _print_line("run -o, 1,000 cases, BLEU ROUGE METEOR F1", run, ratios)
    print(f"  {'  CPU a case beyond start-up':<46}{run.cpu_s - start.cpu_s:>6.2f} ms")
    _print_line(f"run -o, {CASES} conversations, {TURNS} turns", conversations, "goal 0.7 s wall")


def _cheapest(arguments: tuple[str, ...], folder: Path) -> Cost:
    cost = cheapest_run(arguments, folder, TIMES)
    if cost.code not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} ended with exit code {cost.code}")
    return cost


def _library_seconds(folder: Path) -> float:
    arguments = (sys.executable, "-m", "bench.bare_metrics", str(folder))
    return float(subprocess.run(arguments, capture_output=True, check=True, text=True).stdout)


def _print_line(name: str, cost: Cost, note: str = "") -> None:
    print(f"  {name:<46}{cost.cpu_s:>6.2f}  {cost.wall_s:>6.2f} s wall  {note}".rstrip())


if __name__ == "__main__":
    main()
