"""Measures live model calls against a fake model server in another process: `python -m bench.wire [PROVIDER … | apis]`.

1,000 cases of one call each run 20 at once, answered after 200 ms; ideally that takes 10 s. The output per provider is:
seconds from the start of the program to its first request; the remaining wall time as a multiple of the ideal; the
program's CPU time per case; and how much faster a replay of the same suite is, with and without the start of the
program. A further run sends up to 64 calls at once to a server that accepts 20 and refuses the others with 429.
`apis` compares the two APIs of OpenAI: the CPU time of a call of each, in turns.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.live import Bench, Server, run_server
from bench.processes import Cost

CASES = 1_000
LATENCY_S = 0.2
AT_ONCE = 20
WANTED = 64
IDEAL_S = CASES * LATENCY_S / AT_ONCE
API_ROUNDS = 7
APIS = ("chat", "responses")
PROVIDERS = ("openai", "azure_openai", "anthropic", "ollama")
_MODELS = {"anthropic": "claude-haiku-4-5", "ollama": "llama3.2"}


def _server(*arguments: str) -> AbstractContextManager[Server]:
    return run_server("tests.llm.models", *arguments)


def _suite(server: Server, provider: str, cases: int, **more: Any) -> dict[str, Any]:
    """Return a suite with one call per case, whose answers must all be right; `more` are further keys."""
    model = {
        "provider": provider,
        "name": _MODELS.get(provider, "gpt-4o"),
        "endpoint": server.addresses[provider],
        "api_key": "${BENCH_KEY}",
    }
    if provider == "azure_openai":
        model["api_version"] = "2024-10-21"
    asked = [f"What is the rule for order {number}?" for number in range(cases)]
    return {
        "name": "bench",
        "model": model,
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"input": text, "ground_truth": f"echo: {text}"} for text in asked],
        **more,
    }


def main(*providers: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        bench = Bench(Path(root))
        if "apis" in providers or not providers:
            _compare_apis(bench)
        if providers == ("apis",):
            return
        print(f"Live calls ({CASES:,} cases, {AT_ONCE} at once, {1000 * LATENCY_S:.0f} ms; ideally {IDEAL_S:.0f} s):")
        print(
            f"{'provider':<14}{'start s':>8}{'wall × ideal':>14}{'ms CPU/call':>13}{'replay ×':>10}{'with start ×':>14}"
        )
        for provider in [each for each in providers if each != "apis"] or PROVIDERS:
            print(_measure_provider(bench, provider), flush=True)
        print(f"A server that takes {AT_ONCE} at once, {WANTED} wanted:")
        print(f"{'Retry-After':<14}{'wall × ideal':>14}{'requests / case':>17}{'refused':>9}")
        for retry_after in (None, "1"):
            print(_measure_limited(bench, retry_after), flush=True)


def _compare_apis(bench: Bench) -> None:
    """Print the CPU time of a call of each API, and the median ratio of rounds that measure both in turns."""
    rounds = [{api: _call_ms(bench, api) for api in APIS} for _ in range(API_ROUNDS)]
    ratio = statistics.median(each["responses"] / each["chat"] for each in rounds)
    shown = ", ".join(f"{api} {statistics.median(each[api] for each in rounds):.2f} ms" for api in APIS)
    print(f"CPU of a call ({API_ROUNDS} rounds of {CASES:,} calls): {shown}; ratio {ratio:.2f}", flush=True)


def _call_ms(bench: Bench, api: str) -> float:
    with _server() as server:
        many, one = (
            bench.run(_suite(server, "openai", cases, openai={"api": api}), at_once=AT_ONCE).cpu_s
            for cases in (CASES, 1)
        )
    return 1000 * (many - one) / (CASES - 1)


def _measure_provider(bench: Bench, provider: str) -> str:
    first_s, one = _measure_start(bench, provider)
    with _server("--latency", str(LATENCY_S)) as server:
        live = bench.run(_suite(server, provider, CASES), at_once=AT_ONCE)
    with _server() as server:
        suite, tape = _suite(server, provider, CASES), str(bench.kept_folder / provider)
        bench.run(suite, "--record", tape, at_once=AT_ONCE)
        replay = min(
            (bench.run(suite, "--replay", tape, at_once=AT_ONCE) for _ in range(3)), key=lambda cost: cost.wall_s
        )
    call_ms = 1000 * (live.cpu_s - one.cpu_s) / (CASES - 1)
    inside = (live.wall_s - one.wall_s) / (replay.wall_s - one.wall_s)
    return (
        f"{provider:<14}{first_s:>8.2f}{(live.wall_s - first_s) / IDEAL_S:>14.2f}{call_ms:>13.2f}"
        f"{inside:>10.1f}{live.wall_s / replay.wall_s:>14.1f}"
    )


def _measure_start(bench: Bench, provider: str) -> tuple[float, Cost]:
    """Return the seconds to the first request and the cost of a run of one case, each the best of three."""
    firsts, costs = [], []
    # The first time compiles.
    for number in range(4):
        with _server() as server:
            started = time.monotonic()
            cost = bench.run(_suite(server, provider, 1), at_once=AT_ONCE)
        if number:
            # This clock is the same in all processes of a machine.
            firsts.append(server.seen["first"] - started)
            costs.append(cost)
    return min(firsts), min(costs, key=lambda cost: cost.wall_s)


def _measure_limited(bench: Bench, retry_after: str | None) -> str:
    asked = () if retry_after is None else ("--retry-after", retry_after)
    first_s, _ = _measure_start(bench, "openai")
    with _server("--latency", str(LATENCY_S), "--limit", str(AT_ONCE), *asked) as server:
        cost = bench.run(_suite(server, "openai", CASES), at_once=WANTED)
    refused = server.seen["statuses"].get("429", 0)
    return (
        f"{retry_after or 'none':<14}{(cost.wall_s - first_s) / IDEAL_S:>14.2f}"
        f"{server.seen['requests'] / CASES:>17.2f}{refused:>9}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
