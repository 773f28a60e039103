"""Measures the performance goals against their floors in the same session: `python -m bench.goals [--only NAME …]`.

Results are only meaningful on a quiet machine. Judged cases are answered by the suite's own model and graded by G-Eval:
two calls per case, one after the other. Texts have about 60 words.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from bench.judges import JUDGED, judge_server, judged_suite, plain_truths
from bench.live import Bench, run_server
from bench.pages import GOAL_HEADS, Goal, markdown_table
from bench.pairs import paraphrase_pairs
from bench.processes import PROGRAM, Cost, call_in_process, measure
from bench.recorded import TEXT_METRICS
from bench.suites import write_conversations, write_pairs, write_suite
from holodeck_action.metrics.text.meteor import meteor
from holodeck_action.metrics.text.overlap import bleu, rouge, token_f1

MANY = 100_000
DIALOGS, TURNS = 133, 485
"""Numbers of cases and turns in ConvFinQA's sample."""
LATENCY_S = 0.2
SHORT_S = 0.05
"""Latency of a model call in the shorter runs."""
AT_ONCE = 20
PER_SECOND = 20
HARD = ("--faults", "0.3", "--hard")
PEER_S = 12.0
"""Seconds of the fastest peer that loses no case with these faults: `python -m bench.peers --hard`."""
_CALLS = 2
_GRADED = JUDGED[:1]


def _environ() -> dict[str, str]:
    """Return an environment in which modules stay compiled, as in an installed program."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _measure_runs(folder: Path, times: int, *arguments: str) -> list[Cost]:
    """Run the program `times` times; for more than one, after a warm-up run that compiles.

    Raises:
        SystemExit: a run ended with an error.
    """
    costs = [measure((*PROGRAM, *arguments), folder, _environ()) for _ in range(times + (times > 1))]
    if any(cost.code not in (0, 1) for cost in costs):
        raise SystemExit(f"{arguments[0]} in {folder.name} ended with exit codes {[cost.code for cost in costs]}")
    return costs[times > 1 :]


def _medians(costs: Sequence[Cost]) -> tuple[float, float]:
    """Return the median wall and CPU seconds."""
    return statistics.median(cost.wall_s for cost in costs), statistics.median(cost.cpu_s for cost in costs)


def _text_pairs(count: int) -> Iterator[tuple[str, str]]:
    for seed in range(math.ceil(count / 1_000)):
        yield from paraphrase_pairs(min(1_000, count - 1_000 * seed), words=(50, 70), seed=60 + seed)


def write_paraphrases(folder: Path, count: int, metrics: Sequence[str]) -> None:
    """Write a suite of `count` cases in a separate file, answered by paraphrases of the expected answers."""
    folder.mkdir()
    suite = {
        "name": "bench",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": name, "threshold": 0.5} for name in metrics]},
        "test_cases_file": "cases.jsonl",
    }
    # JSON is YAML, too.
    (folder / "agent.yaml").write_text(json.dumps(suite))
    (folder / "holodeck-action.yaml").write_text("target: recorded:answers.jsonl\n")
    with (folder / "cases.jsonl").open("w") as asked, (folder / "answers.jsonl").open("w") as answered:
        for number, (response, reference) in enumerate(_text_pairs(count)):
            name, question = f"case {number}", f"What is the rule for order {number}?"
            asked.write(json.dumps({"name": name, "input": question, "ground_truth": reference}) + "\n")
            answered.write(json.dumps({"case": name, "response": response}) + "\n")


def bare_seconds(count: int) -> tuple[float, float]:
    """Return the CPU seconds of sacrebleu and rouge-score, and of our four metrics alone, for `count` texts."""
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    pairs = list(_text_pairs(count))
    started = time.process_time()
    for response, reference in pairs:
        sacrebleu.sentence_bleu(response, [reference])
        scorer.score(reference, response)
    libraries = time.process_time() - started
    started = time.process_time()
    for response, reference in pairs:
        for metric in (bleu, rouge, meteor, token_f1):
            metric(response, reference)
    return libraries, time.process_time() - started


def start(root: Path) -> Iterator[Goal]:
    """Measure one recorded case."""
    folder = write_suite(root / "one", 1)
    wall, cpu = _medians(_measure_runs(folder, 5, "run", "-o", "out"))
    floors = {
        code: statistics.median(measure((sys.executable, "-c", code), folder, _environ()).wall_s for _ in range(5))
        for code in ("pass", "import click, pydantic, yaml")
    }
    floor = ", ".join(f"`{code}` {seconds:.2f} s" for code, seconds in floors.items())
    yield Goal("1 recorded case", wall, 0.35, "s", f"{floor}; CPU of the run {cpu:.2f} s")


def texts(root: Path) -> Iterator[Goal]:
    """Measure 1,000 recorded cases with four text metrics."""
    folder = write_pairs(root / "texts", list(_text_pairs(1_000)), TEXT_METRICS)
    libraries, own = call_in_process(bare_seconds, 1_000)
    cpu = min(cost.cpu_s for cost in _measure_runs(folder, 3, "run", "-o", "out"))
    floor = f"sacrebleu and rouge-score alone {libraries:.2f} s of CPU; our four metrics alone {own:.2f} s"
    yield Goal("1,000 recorded cases, BLEU, ROUGE, METEOR, F1: CPU / the libraries'", cpu / libraries, 0.8, "×", floor)


def dialogs(root: Path) -> Iterator[Goal]:
    """Measure conversations of the size of ConvFinQA's."""
    folder = write_conversations(root / "dialogs", DIALOGS, TURNS)
    wall, cpu = _medians(_measure_runs(folder, 3, "run", "-o", "out"))
    bare = statistics.median(measure((sys.executable, "-c", "pass"), folder).wall_s for _ in range(5))
    floor = f"`pass` {bare:.2f} s; CPU of the run {cpu:.2f} s"
    yield Goal(f"{DIALOGS} recorded dialogs, {TURNS} turns, numeric", wall, 0.7, "s", floor)


def plain_suite(address: str, cases: int, what: str = "order") -> dict[str, Any]:
    """Return a suite with one call per case, which the server answers with an echo."""
    asked = [f"What is the rule for {what} {number}?" for number in range(cases)]
    return {
        "name": "bench",
        "model": {"provider": "openai", "name": "gpt-4o", "endpoint": address, "api_key": "${BENCH_KEY}"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"input": text, "ground_truth": f"echo: {text}"} for text in asked],
    }


def run_plain(bench: Bench, cases: int, latency_s: float, at_once: int, *trouble: str) -> Cost:
    """Run a suite of one call per case against a fake server; `trouble` are its further arguments."""
    with run_server("tests.llm.models", "--latency", str(latency_s), *trouble) as server:
        return bench.run(plain_suite(server.addresses["openai"], cases), at_once=at_once)


def _requests_per_call(bench: Bench) -> float:
    """Return the number of requests per call of the last run."""
    calls = bench.record()["run"]["model_calls"]
    return float(calls["requests"] / calls["calls"])


def live(root: Path) -> Iterator[Goal]:
    """Measure 1,000 cases of one call."""
    bench = Bench(root)
    one = min((run_plain(bench, 1, 0.0, AT_ONCE) for _ in range(3)), key=lambda cost: cost.wall_s)
    cost = run_plain(bench, 1_000, SHORT_S, AT_ONCE)
    ideal = 1_000 * SHORT_S / AT_ONCE
    floor = f"ideal {ideal:.2f} s; 1 case without latency {one.wall_s:.2f} s"
    yield Goal(
        f"1,000 live cases, {1_000 * SHORT_S:.0f} ms, {AT_ONCE} at once", cost.wall_s, 1.3 * ideal + 0.8, "s", floor
    )
    call_ms = 1_000 * (cost.own_cpu_s - one.own_cpu_s) / 999
    yield Goal("CPU a live call, main process, its case included", call_ms, 2.0, "ms", f"start {one.own_cpu_s:.2f} s")


def waiting(root: Path) -> Iterator[Goal]:
    """Measure 100 cases, all at once, whose answers take seconds; medians of five runs."""
    bench = Bench(root)
    run_plain(bench, 1, 0.0, 1)
    for latency_s in (2.0, 10.0):
        wall = statistics.median(run_plain(bench, 100, latency_s, 100).wall_s for _ in range(5))
        bound = 1.15 * latency_s + 0.8
        yield Goal(f"100 live cases, {latency_s:g} s, 100 at once", wall, bound, "s", f"ideal {latency_s:.2f} s")
    run_judged(bench, 1, 0.0, 1)
    ideal = _CALLS * 2.0
    wall = statistics.median(run_judged(bench, 100, 2.0, 100).wall_s for _ in range(5))
    yield Goal("100 judged cases, 2 s, 100 at once", wall, 1.2 * ideal + 1.2, "s", f"ideal {ideal:.2f} s")


def limited(root: Path) -> Iterator[Goal]:
    """Measure 100 cases with an account limited to 20 calls a second, then 100 others after its limit is learned."""
    bench = Bench(root)
    run_plain(bench, 1, 0.0, 1)
    ideal = 100 / PER_SECOND
    for at_once, bound in ((20, 1.5), (100, 2.0)):
        with run_server("tests.llm.models", "--latency", str(LATENCY_S), "--per-second", str(PER_SECOND)) as server:
            cache = str(bench.kept_folder / str(at_once))
            for run, most, what in (("", bound, "order"), (", again", 1.1, "parcel")):
                name = f"100 live cases, {PER_SECOND} a second, {at_once} at once{run}"
                suite = plain_suite(server.addresses["openai"], 100, what)
                cost = bench.run(suite, "--cache", cache, at_once=at_once)
                yield Goal(f"{name}: requests a call", _requests_per_call(bench), most, "×", "1")
                yield Goal(name, cost.wall_s, 1.2 * ideal, "s", f"ideal {ideal:.2f} s")
                # Wait until the first run's requests no longer count in the server's limit.
                time.sleep(1.0)


def faults(root: Path) -> Iterator[Goal]:
    """Measure 100 cases, of whose requests 30 % meet a 429, a 500, a hang of 5 s, or cut or broken JSON."""
    bench = Bench(root)
    run_plain(bench, 1, 0.0, 1)
    for at_once in (10, 20, 100):
        cost = run_plain(bench, 100, LATENCY_S, at_once, *HARD)
        floor = f"{_requests_per_call(bench):.2f} requests a call; the quickest peer that loses no case {PEER_S:.0f} s"
        yield Goal(f"100 live cases, 30 % mixed faults, {at_once} at once", cost.wall_s, 1.5 * PEER_S, "s", floor)


def run_judged(bench: Bench, cases: int, latency_s: float, at_once: int, *more: str) -> Cost:
    """Run a judged suite.

    Raises:
        SystemExit: the number of calls is wrong.
    """
    truths = plain_truths(cases)
    with judge_server("plain", cases, latency_s) as server:
        cost = bench.run(judged_suite(server, truths, _GRADED), *more, at_once=at_once, fine=(0, 1))
    calls = server.seen["requests"]
    if calls != (0 if "--replay" in more else cases * _CALLS):
        raise SystemExit(f"{calls} calls in a run of {cases} judged cases")
    return cost


def _ideal_seconds(cases: int, at_once: int) -> float:
    """Return the seconds for the answers alone, with `at_once` calls in parallel and two per case in sequence."""
    return max(_CALLS, cases * _CALLS / at_once) * LATENCY_S


def judged(root: Path) -> Iterator[Goal]:
    """Measure 100 judged cases, 20 and 100 at once, and again with a cache."""
    bench = Bench(root)
    run_judged(bench, 1, 0.0, 1)
    for at_once, above in ((20, 1.2), (100, 1.5)):
        wall = run_judged(bench, 100, LATENCY_S, at_once).wall_s
        ideal = _ideal_seconds(100, at_once)
        yield Goal(f"100 judged cases, {at_once} at once", wall, ideal + above, "s", f"ideal {ideal:.2f} s")
    first = run_judged(bench, 100, LATENCY_S, AT_ONCE, "--cache", str(bench.kept_folder))
    with judge_server("plain", 100) as server:
        suite = judged_suite(server, plain_truths(100), _GRADED)
        again = [
            bench.run(suite, "--cache", str(bench.kept_folder), at_once=AT_ONCE, fine=(0, 1)).wall_s for _ in range(3)
        ]
    if server.seen["requests"]:
        raise SystemExit(f"{server.seen['requests']} calls in cached runs")
    yield Goal("100 judged cases, cached", statistics.median(again), 1.2, "s", f"first run {first.wall_s:.2f} s")


def replay(root: Path) -> Iterator[Goal]:
    """Measure 1,000 judged cases, 100 at once, live and replayed."""
    bench = Bench(root)
    one = min((run_judged(bench, 1, 0.0, 1) for _ in range(3)), key=lambda cost: cost.wall_s)
    cost = run_judged(bench, 1_000, LATENCY_S, 100)
    ideal, calls = _ideal_seconds(1_000, 100), 1_000 * _CALLS
    floor = f"ideal {ideal:.2f} s; 1 case without latency {one.wall_s:.2f} s"
    yield Goal("1,000 judged cases, 100 at once", cost.wall_s, 1.5 * ideal + one.wall_s, "s", floor)
    call_ms = 1_000 * (cost.own_cpu_s - one.own_cpu_s) / (calls - _CALLS)
    children = 1_000 * (cost.cpu_s - cost.own_cpu_s - one.cpu_s + one.own_cpu_s) / calls
    yield Goal("CPU a judged call, main process", call_ms, 2.0, "ms", f"{children:.2f} ms in the judges' process")
    tape = str(root / "tape")
    with judge_server("plain", 1_000) as server:
        suite = judged_suite(server, plain_truths(1_000), _GRADED)
        bench.run(suite, "--record", tape, at_once=100, fine=(0, 1))
        again = min(bench.run(suite, "--replay", tape, at_once=100, fine=(0, 1)).wall_s for _ in range(3))
    name = "1,000 judged cases, replayed: times as quick as live"
    yield Goal(name, cost.wall_s / again, 10, "×", f"live {cost.wall_s:.2f} s, replay {again:.2f} s", at_least=True)


def shards(root: Path) -> Iterator[Goal]:
    """Measure 4,000 recorded cases in one run, and as two parallel shards with their merge."""
    folder = write_pairs(root / "shards", paraphrase_pairs(4_000, words=(50, 70), seed=60), TEXT_METRICS, 0.05)
    ratios, parts = [], ("1/2", "2/2")
    for _ in range(3):
        (whole,) = _measure_runs(folder, 1, "run", "-o", "whole")
        with ThreadPoolExecutor() as both:
            done = [
                both.submit(_measure_runs, folder, 1, "run", "-o", f"shard{part[0]}", "--shard", part) for part in parts
            ]
            slowest = max(cost.wall_s for each in done for cost in each.result())
        (merge,) = _measure_runs(folder, 1, "merge", "shard1", "shard2", "-o", "merged")
        ratios.append(whole.wall_s / (slowest + merge.wall_s))
    floor = f"one run {whole.wall_s:.2f} s, the slower shard {slowest:.2f} s, `merge` {merge.wall_s:.2f} s"
    name = "4,000 recorded cases in two shards on two cores: times as quick as one run"
    yield Goal(name, statistics.median(ratios), 1.4, "×", floor, at_least=True)


def many(root: Path) -> Iterator[Goal]:
    """Measure 100,000 recorded cases with five text metrics, then `decide` and reports of their record."""
    folder = root / "many"
    call_in_process(write_paraphrases, folder, MANY, (*TEXT_METRICS, "equality"))
    sample = 2_000
    libraries, own = (MANY / sample * seconds for seconds in call_in_process(bare_seconds, sample))
    (cost,) = _measure_runs(folder, 1, "run", "-o", "out")
    run_s = cost.wall_s
    record = next(path for path in (folder / "out").iterdir() if path.stem == "results")
    size = sum(file.stat().st_size for file in ([record] if record.is_file() else record.rglob("*")))
    what = f"{MANY:,} recorded cases, 5 text metrics"
    yield Goal(f"{what}: peak", cost.peak_mib, 600, "MiB", f"record {size / 2**20:.0f} MiB")
    floor = f"the libraries' {libraries:.0f} s and our metrics' {own:.0f} s, from {sample:,} texts"
    yield Goal(f"{what}: CPU / sacrebleu and rouge-score alone", cost.cpu_s / libraries, 2, "×", floor)
    yield Goal(f"{what}: CPU / our metrics alone", cost.cpu_s / own, 2, "×", floor)
    (cost,) = _measure_runs(folder, 1, "decide", f"out/{record.name}")
    yield Goal(f"`decide` of {MANY:,} cases", cost.wall_s, 10, "s", f"run {run_s:.0f} s")
    yield Goal(f"`decide` of {MANY:,} cases: peak", cost.peak_mib, 600, "MiB", f"record {size / 2**20:.0f} MiB")
    for form in ("html", "markdown"):
        (cost,) = _measure_runs(folder, 1, "report", f"out/{record.name}", "--format", form, "-o", f"report.{form}")
        written = (folder / f"report.{form}").stat().st_size / 2**20
        yield Goal(f"`report --format {form}` of {MANY:,} cases", cost.wall_s, 20, "s", f"{written:.1f} MiB written")


GROUPS: dict[str, Callable[[Path], Iterator[Goal]]] = {
    function.__name__: function
    for function in (start, texts, dialogs, live, waiting, limited, faults, judged, replay, shards, many)
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice([*GROUPS]), help="Measure these goals alone.")
@click.option("--markdown", is_flag=True, help="Print the table of docs/performance.md.")
def main(only: tuple[str, ...], markdown: bool) -> None:
    """Measure what the program is to reach, beside the floors."""
    found = []
    for name in only or GROUPS:
        with tempfile.TemporaryDirectory() as root:
            for goal in GROUPS[name](Path(root)):
                found.append(goal)
                if not markdown:
                    click.echo(f"{goal.row()[-1].strip('*'):<4} {'  '.join(goal.row()[:-1])}")
    if markdown:
        click.echo(markdown_table(GOAL_HEADS, (goal.row() for goal in found)), nl=False)


if __name__ == "__main__":
    main()
