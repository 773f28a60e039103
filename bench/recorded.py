"""Measures the CPU of a case: `python -m bench.recorded [--write]`.

1,000 recorded answers to texts that people wrote, with BLEU, ROUGE, METEOR and F1, against a script that calls the
libraries; the same without the start of the run; and 1,000 judged cases whose answers and verdicts are replayed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click

from bench.judges import JUDGED, judge_server, judged_suite, plain_truths
from bench.live import ROOT, Bench
from bench.pages import DOCS, GOAL_HEADS, Goal, markdown_table, replace_table
from bench.pairs import real_pairs
from bench.processes import PROGRAM, Cost, call_in_process, measure
from bench.suites import write_pairs
from holodeck_action.metrics.text.meteor import meteor
from holodeck_action.metrics.text.overlap import bleu, rouge, token_f1

COMMAND = "python -m bench.recorded --write"
TEXT_METRICS = ("bleu", "rouge", "meteor", "f1_score")
CASES = 1_000
ROUNDS = 5
_SEED = 60


def main(*, write: bool = False) -> None:
    """Measure, and print the rows or write them to the page."""
    with tempfile.TemporaryDirectory() as name:
        goals = _measure_goals(Path(name))
    if write:
        replace_table(
            DOCS / "performance.md", "cases", COMMAND, markdown_table(GOAL_HEADS, (goal.row() for goal in goals))
        )
    for goal in goals:
        click.echo(f"{goal.row()[-1].strip('*'):<4} {'  '.join(goal.row()[:-1])}")


def metric_seconds(count: int) -> float:
    """Return the CPU seconds of our four metrics for `count` real texts."""
    pairs = real_pairs(count, seed=_SEED)
    started = time.process_time()
    for response, reference in pairs:
        for metric in (bleu, rouge, meteor, token_f1):
            metric(response, reference)
    return time.process_time() - started


def _measure_goals(root: Path) -> list[Goal]:
    bench = Bench(root)
    pairs = real_pairs(CASES, seed=_SEED)
    texts = write_pairs(root / "texts", pairs, TEXT_METRICS)
    text = write_pairs(root / "text", pairs[:1], TEXT_METRICS)
    judged, judge = _record(bench, root, CASES), _record(bench, root, 1)
    run = (*PROGRAM, "run", "-o", "out")
    commands = {
        "script": ((sys.executable, "-m", "bench.bare_metrics", str(texts)), ROOT),
        "texts": (run, texts),
        "text": (run, text),
        "judged": ((*run, "--replay", "tape"), judged),
        "judge": ((*run, "--replay", "tape"), judge),
    }
    costs = _median_costs(commands, bench.environ)
    script, whole = costs["script"], costs["texts"]
    own = 1_000 * call_in_process(metric_seconds, CASES) / CASES
    return [
        Goal(
            f"{CASES:,} real texts, BLEU, ROUGE, METEOR, F1: CPU / a script's with the libraries",
            whole.cpu_s / script.cpu_s,
            0.6,
            "×",
            f"script {script.cpu_s:.2f} s of CPU, {script.wall_s:.2f} s wall; ours {whole.cpu_s:.2f} and "
            f"{whole.wall_s:.2f} s",
        ),
        Goal(
            "CPU of one of these cases",
            _case_ms(whole, costs["text"]),
            1.3,
            "ms",
            f"our four metrics {own:.2f} ms; the run of one case {costs['text'].cpu_s:.2f} s",
        ),
        Goal(
            "CPU of a judged case, replayed",
            _case_ms(costs["judged"], costs["judge"]),
            0.4,
            "ms",
            f"the run of one case {costs['judge'].cpu_s:.2f} s",
        ),
    ]


def _record(bench: Bench, root: Path, count: int) -> Path:
    """Return the folder of a judged suite with the recording of its calls."""
    with judge_server("plain", count) as server:
        suite = judged_suite(server, plain_truths(count), JUDGED[:1])
        bench.run(suite, "--record", "tape", at_once=100, fine=(0, 1))
    return bench.suite_folder.rename(root / f"judged{count}")


def _median_costs(commands: Mapping[str, tuple[tuple[str, ...], Path]], environ: Mapping[str, str]) -> dict[str, Cost]:
    """Run the commands in turns, once more to compile; return for each the run with the median CPU time.

    Raises:
        SystemExit: a command ended with an error.
    """
    rounds = [{name: measure(*command, environ) for name, command in commands.items()} for _ in range(ROUNDS + 1)]
    for name, cost in ((name, cost) for costs in rounds for name, cost in costs.items()):
        # Cases below their threshold fail a run, not the script.
        if cost.code not in ((0,) if name == "script" else (0, 1)):
            raise SystemExit(f"{' '.join(commands[name][0])} ended with exit code {cost.code}:\n{cost.said}")
    return {name: _median([costs[name] for costs in rounds[1:]]) for name in commands}


def _median(costs: list[Cost]) -> Cost:
    return sorted(costs, key=lambda cost: cost.cpu_s)[len(costs) // 2]


def _case_ms(many: Cost, one: Cost) -> float:
    """Return the milliseconds of CPU of a case, from the runs of all cases and of one."""
    return 1_000 * (many.cpu_s - one.cpu_s) / (CASES - 1)


@click.command()
@click.option("--write", is_flag=True, help="Write the table of docs/performance.md.")
def command(*, write: bool) -> None:
    """Measure the CPU of a case."""
    main(write=write)


if __name__ == "__main__":
    command()
