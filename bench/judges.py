"""Measures judged metrics against a fake model server: `python -m bench.judges [CASES [COMPARED]]`.

100 cases are answered by the suite's own model and graded by G-Eval, faithfulness and answer relevancy: 9 calls per
case, 4 of them in sequence, each answered after 200 ms. The output is: the run's wall time without start-up, as a
multiple of the ideal ⌈calls / at once⌉ × 200 ms; the program's CPU time per call; the CPU time per evaluation of the
same run from a cache, beyond a run with equality alone. Last, the scores of six metrics of DeepEval over 500 cases must
equal those that DeepEval gets with its own client.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from bench.live import KEY, ROOT, Bench, Server, run_server
from bench.processes import Cost
from tests.extensions.deepeval.native import STEPS
from tests.llm.judging import Judge, Truth, some_truths
from tests.llm.models import Answer, FakeModels, Request

CASES = 100
COMPARED = 500
LATENCY_S = 0.2
AT_ONCE = 20
CALLS = 1 + 1 + 4 + 3
"""Calls per case: answer, G-Eval, faithfulness (claims and truths in parallel, verdicts, reason), answer relevancy."""
CHAIN = 1 + 3
"""Calls of a case in sequence: the answer, and those of the longest metric."""
TESTED = "gpt-4o-tested"
"""Name of the model under test; longer names are its variants."""
_GEVAL: dict[str, Any] = {"type": "geval", "name": "quality", "criteria": "Is it good?", "evaluation_steps": STEPS}
_EQUALITY: dict[str, Any] = {"type": "standard", "metric": "equality"}
_TWO = ("faithfulness", "answer_relevancy")
_SIX = {
    "GEval": "quality",
    "AnswerRelevancy": "answer_relevancy",
    "Faithfulness": "faithfulness",
    "ContextualRelevancy": "contextual_relevancy",
    "ContextualPrecision": "contextual_precision",
    "ContextualRecall": "contextual_recall",
}


def plain_truths(count: int, failing: int | None = None) -> list[Truth]:
    """Return truths for which every case takes the same number of calls; `failing` is the index of a bad answer."""
    return [
        Truth(
            number,
            # Without a contradiction, all cases would share one call for the reason.
            claim_verdicts=("yes", "yes", "no"),
            statement_verdicts=("yes", "yes", "yes"),
            chunk_statements=(("yes",),),
            chunk_verdicts=("yes",),
            sentence_verdicts=("yes",),
            score=1 if number == failing else 8,
            alternatives={"1": 1.0} if number == failing else {"8": 0.75, "9": 0.25},
        )
        for number in range(count)
    ]


def serve(kind: str, count: int, latency_s: float) -> None:
    """Serve the model under test and the judge until standard input ends."""
    truths = some_truths(count) if kind == "mixed" else plain_truths(count, None if kind == "plain" else int(kind))
    judge = Judge(*truths)

    def answer(request: Request) -> Answer:
        if request.model.startswith(TESTED):
            return Answer(f"answer of {request.text.rpartition('question of ')[2]}")
        return judge(request)

    with FakeModels(latency=latency_s) as models:
        models.answer(answer)
        print(json.dumps({"openai": models.openai_url}), flush=True)
        sys.stdin.read()
        print(json.dumps({"requests": len(models.requests), "violations": len(models.violations)}))


def judge_server(kind: str, count: int, latency_s: float = 0.0) -> AbstractContextManager[Server]:
    """Run the judge's server in its own process; `kind` is plain, mixed or the index of a bad answer."""
    return run_server("bench.judges", "serve", kind, str(count), str(latency_s))


def judged_suite(server: Server, truths: Sequence[Truth], metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of agent.yaml with a case for every truth."""
    judge = {"provider": "openai", "name": "gpt-4o", "endpoint": server.addresses["openai"]}
    cases = [
        {
            "name": f"case-{truth.number}",
            "input": truth.case["input"],
            "ground_truth": truth.case["expected_output"],
            "retrieval_context": truth.chunks,
        }
        for truth in truths
    ]
    return {
        "name": "bench",
        "model": {**judge, "name": TESTED},
        "instructions": {"inline": "Answer."},
        "evaluations": {"model": judge, "metrics": metrics},
        "test_cases": cases,
    }


def _scores(bench: Bench) -> dict[str, list[float]]:
    """Return the scores of the last run by metric, in the order of the cases."""
    found: dict[str, list[float]] = {}
    for case in bench.record()["cases"]:
        for evaluation in case["trials"][0]["turns"][0]["evaluations"]:
            found.setdefault(evaluation["evaluator_name"], []).append(evaluation["score"])
    return found


def rag_entries(*names: str) -> list[dict[str, Any]]:
    """Return entries of RAG metrics."""
    return [{"type": "rag", "metric_type": name} for name in names]


JUDGED = [_GEVAL, *rag_entries(*_TWO)]
"""Entries of the metrics to measure."""


def main(cases: int = CASES, compared: int = COMPARED) -> None:
    """Measure and print.

    Raises:
        SystemExit: the number of calls is wrong, or scores differ.
    """
    with tempfile.TemporaryDirectory() as root:
        _measure_costs(Bench(Path(root)), cases)
    if compared:
        with tempfile.TemporaryDirectory() as root:
            _compare_scores(Bench(Path(root)), compared)


def _measure_costs(bench: Bench, cases: int) -> None:
    judged, truths = JUDGED, plain_truths(cases)
    # Some cases fail.
    run = partial(bench.run, at_once=AT_ONCE, fine=(0, 1))
    with judge_server("plain", cases) as server:
        # The first run compiles.
        one = min((run(judged_suite(server, truths[:1], judged)) for _ in range(3)), key=lambda cost: cost.cpu_s)
    with judge_server("plain", cases, LATENCY_S) as server:
        live = run(judged_suite(server, truths, judged))
    calls = server.seen["requests"]
    if calls != cases * CALLS:
        raise SystemExit(f"{calls} calls instead of {cases * CALLS}")
    ideal = math.ceil(calls / AT_ONCE) * LATENCY_S
    print(
        f"Judged runs ({cases} cases, {calls} calls, {AT_ONCE} at once, {1000 * LATENCY_S:.0f} ms; "
        f"ideally {ideal:.1f} s, the last case's other calls {(CHAIN - 1) * LATENCY_S:.1f} s):"
    )
    print(f"start-up (1 case, no latency): {one.wall_s:.2f} s wall, {one.cpu_s:.2f} s CPU")
    print(f"wall beyond start-up: {(live.wall_s - one.wall_s) / ideal:.2f} × ideal ({live.wall_s:.2f} s in all)")
    print(f"CPU: {1000 * (live.cpu_s - one.cpu_s) / (calls - CALLS):.2f} ms a call", flush=True)
    _measure_cached(bench, truths, judged)


def _measure_cached(bench: Bench, truths: Sequence[Truth], judged: list[dict[str, Any]]) -> None:
    def run(server: Server, metrics: list[dict[str, Any]]) -> Cost:
        suite = judged_suite(server, truths, metrics)
        return bench.run(suite, "--cache", str(bench.kept_folder), at_once=AT_ONCE, fine=(0, 1))

    with judge_server("plain", len(truths)) as server:
        first = run(server, judged)
    with judge_server("plain", len(truths)) as server:
        again = min((run(server, judged) for _ in range(3)), key=lambda cost: cost.cpu_s)
        without = min((run(server, [_EQUALITY]) for _ in range(3)), key=lambda cost: cost.cpu_s)
    if server.seen["requests"]:
        raise SystemExit(f"the second run made {server.seen['requests']} calls")
    count = len(truths) * len(judged)
    print(
        f"again, with a cache: 0 calls, {again.wall_s:.2f} s wall, {again.cpu_s:.2f} s CPU "
        f"(first run {first.wall_s:.2f} and {first.cpu_s:.2f}); "
        f"{1000 * (again.cpu_s - without.cpu_s) / count:.2f} ms CPU an evaluation",
        flush=True,
    )


def _compare_scores(bench: Bench, count: int) -> None:
    truths = some_truths(count)
    with judge_server("mixed", count) as server:
        metrics = [_GEVAL, *rag_entries(*[name for name in _SIX.values() if name != "quality"])]
        ours = bench.run(judged_suite(server, truths, metrics), at_once=AT_ONCE, fine=(0, 1))
        scores = _scores(bench)
        with tempfile.TemporaryDirectory() as folder:
            finished = subprocess.run(
                [sys.executable, "-m", "tests.extensions.deepeval.native", server.addresses["openai"], KEY, str(count)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
            )
    native: dict[str, list[float]] = json.loads(finished.stdout)
    differing = {
        name: sum(
            not math.isclose(one, other, abs_tol=1e-12)
            for one, other in zip(scores[ours_name], native[name], strict=True)
        )
        for name, ours_name in _SIX.items()
    }
    print(f"scores of {count} cases against DeepEval's own client ({ours.wall_s:.0f} s): {differing} differ")
    if any(differing.values()):
        raise SystemExit("scores are not equal")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:]))
