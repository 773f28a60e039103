"""Measures a race of 8 variants on 200 cases, and the full grid: `python -m bench.variants [CASES]`.

The suite's own model answers after 50 ms, 20 calls run at once. Each variant is a model that answers as many of 100
questions correctly as its name says. The output is, for the race and for the grid, whose variants run one after the
other: calls, wall seconds, and the cost at the list price of the models.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.live import KEY, Bench, Server, run_server
from bench.processes import PROGRAM, measure
from holodeck_action.llm.usage import cost_usd

CASES, AT_ONCE, LATENCY_S = 200, 20, 0.05
RATES = (90, 80, 75, 70, 65, 60, 50, 40)
_PRICED_AS = "gpt-4o-mini"
HEADS = ("run", "calls", "seconds", "cost", "best variant")


@contextmanager
def model_server() -> Iterator[Server]:
    """Run the models' server in its own process."""
    with run_server("bench.variants", "serve") as server:
        yield server


def _suite(server: Server, cases: int, rate: int) -> dict[str, object]:
    numbers = range(cases)
    return {
        "name": "bench",
        "model": {"provider": "openai", "name": f"{_PRICED_AS}-{rate}", "endpoint": server.addresses["openai"]},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"name": str(at), "input": f"question {at}", "ground_truth": f"yes {at}"} for at in numbers],
    }


def _cost(calls: int, tokens: int) -> str:
    """Return the cost of calls, of which half the tokens are the prompt's."""
    price = cost_usd("openai", _PRICED_AS, prompt_tokens=tokens // 2, completion_tokens=tokens - tokens // 2)
    return "unknown" if price is None or not calls else f"${price:.4f}"


def main(cases: int = CASES) -> None:
    """Measure and print a table."""
    print(f"race of {len(RATES)} variants, {cases} cases, {AT_ONCE} calls at once, {1000 * LATENCY_S:.0f} ms each:")
    print("| " + " | ".join(HEADS) + " |")
    print("| --- | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as root, model_server() as server:
        bench = Bench(Path(root))
        axes = [part for rate in RATES for part in ("--vary", f"model={_PRICED_AS}-{rate}")]
        bench.run(_suite(server, cases, RATES[0]), at_once=AT_ONCE, fine=(0, 1))
        begun = time.monotonic()
        folder = bench.suite_folder
        raced = measure((*PROGRAM, "race", "-o", "race", *axes), folder, bench.environ)
        seconds = time.monotonic() - begun
        if raced.code:
            raise SystemExit(f"the race ended with exit code {raced.code}:\n{raced.said}")
        outcome = json.loads((folder / "race" / "race.json").read_bytes())
        used = [each["run"]["model_calls"] for each in outcome["variants"]]
        calls, tokens = (sum(each[name] for each in used) for name in ("calls", "tokens"))
        print(f"| race | {calls:,} | {seconds:.2f} | {_cost(calls, tokens)} | {outcome['chosen']} |", flush=True)
        calls, tokens, seconds, rates = 0, 0, 0.0, {}
        for rate in RATES:
            seconds += bench.run(_suite(server, cases, rate), at_once=AT_ONCE, fine=(0, 1)).wall_s
            record = bench.record()
            found = record["run"]["model_calls"]
            calls, tokens = calls + found["calls"], tokens + found["tokens"]
            turns = [case["trials"][0]["turns"][0] for case in record["cases"]]
            rates[rate] = sum(turn["response"] != "no" for turn in turns)
        best = max(rates, key=lambda rate: rates[rate])
        print(
            f"| full grid | {calls:,} | {seconds:.2f} | {_cost(calls, tokens)} | model={_PRICED_AS}-{best} |",
            flush=True,
        )


def _serve() -> None:
    from tests.llm.models import Answer, FakeModels, Reply, Request

    def answer(request: Request) -> Reply:
        number = int(request.text.rpartition(" ")[2])
        right = (number * 37) % 100 < int(request.model.rpartition("-")[2])
        return Answer(f"yes {number}" if right else "no")

    with FakeModels(keys=(KEY,), latency=LATENCY_S) as models:
        models.answer(answer)
        print(json.dumps({"openai": models.openai_url}), flush=True)
        sys.stdin.read()
        print(json.dumps({"requests": len(models.requests)}))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        _serve()
    else:
        main(*map(int, sys.argv[1:]))
