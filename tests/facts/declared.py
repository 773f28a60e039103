"""The facts, metrics and gates that there are, from their declarations: a new one without an example fails a test."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from holodeck_action.metrics.retrieval import RetrievalName
from holodeck_action.suite.model.policy import BOUNDS_OF_METRICS, GATES, Gates
from holodeck_action.targets.reply import REPLY_KEYS, ReplyEntries
from holodeck_action.targets.shapes import listed_fields

NO_FACTS = {"response", "error", "messages", "metadata", "model", "finish_reason"}
"""Keys of a reply that no gate and no metric without a judge looks at, and the answer itself."""
TOOLS, CHUNKS = ("find", "book", "pay"), ("a", "b", "c", "d")
NEVER_UNKNOWN = {"args", "error", "id", "name", "model"}
"""Entries of calls, chunks and models that name them, or whose absence tells that there is none."""
METRICS: dict[str, dict[str, Any]] = {
    "correctness": {"type": "tool_correctness", "threshold": 0.5},
    "precision": {"type": "tool_correctness", "score": "precision", "threshold": 0.5},
    "subset": {"type": "trajectory", "mode": "subset", "threshold": 0.5},
    "order": {"type": "trajectory", "mode": "lcs_f1", "threshold": 0.5},
    **{name: {"type": "retrieval", "metric": name, "k": 3, "threshold": 0.5} for name in get_args(RetrievalName)},
    "both": {
        "type": "composite",
        "metrics": [{"type": "tool_correctness", "threshold": 0.5}, {"type": "length", "max_words": 5}],
    },
    "counts": {"type": "code", "grader": "graders:counts"},
}
"""Metrics that read facts and ask no judge, by the name that cases have for them."""
GRADERS = "def counts(ctx):\n    return len(ctx.tool_invocations) < 2\n"


def facts() -> Iterator[tuple[str, ...]]:
    """Yield the path of every fact that a reply tells."""
    for name in REPLY_KEYS:
        if name in NO_FACTS:
            continue
        yield (name,)
        yield from ((name, key) for key in listed_fields(ReplyEntries, name) if key not in NEVER_UNKNOWN)


def without(reply: Mapping[str, Any], fact: tuple[str, ...]) -> dict[str, Any]:
    """Return a reply that does not tell a fact; chunks that nobody tells have no texts either."""
    name, *inner = fact
    if not inner:
        return {key: value for key, value in reply.items() if key != name}
    listed = [{key: value for key, value in each.items() if key != inner[0]} for each in reply.get(name) or ()]
    return {**reply, name: listed} if listed else dict(reply)


def reply(chance: random.Random) -> dict[str, Any]:
    """Return a reply that tells everything."""
    calls = [
        {"name": chance.choice(TOOLS), "args": {"n": chance.randrange(2)}, "result": "ok", "bytes": 2, "duration_ms": 1}
        for _ in range(chance.randrange(3))
    ]
    ids = chance.sample(CHUNKS, chance.randrange(4))
    # One fact in two places: that of the models is what the cost of a turn falls back on.
    cost = chance.random()
    return {
        "response": chance.choice(("yes", "no")),
        "tool_invocations": calls,
        "retrieved_chunks": [{"id": name, "text": f"text {name}", "score": chance.random()} for name in ids],
        "retrieval_context": [f"text {name}" for name in ids],
        "usage": [
            {
                "model": "m",
                "prompt_tokens": chance.randrange(1, 100),
                "completion_tokens": chance.randrange(1, 100),
                "cached_tokens": 0,
                "reasoning_tokens": 0,
                "cost_usd": cost,
            }
        ],
        "cost_usd": cost,
        "duration_ms": chance.random() * 100,
        "first_token_ms": chance.random() * 100,
    }


def cases(chance: random.Random) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the cases of a suite, one for each metric and one for expected tools, and what the policy adds."""
    listed: list[dict[str, Any]] = [
        {
            "name": name,
            "input": "?",
            "ground_truth": "yes",
            "evaluations": [
                {"fail_on_error": chance.random() < 0.3, "name": name, **metric},
                *([{"type": "standard", "metric": "equality"}] if chance.random() < 0.5 else []),
            ],
        }
        for name, metric in METRICS.items()
    ]
    listed.append({"name": "tools", "input": "?", "ground_truth": "yes", "expected_tools": [chance.choice(TOOLS)]})
    listed.append({"name": "no tools", "input": "?", "ground_truth": "yes", "expected_tools": []})
    added = {
        name: {
            "expected_trajectory": [{"name": tool} for tool in chance.sample(TOOLS, 2)],
            "retrieval": {"ground_truth_chunk_ids": chance.sample(CHUNKS, 2)},
        }
        for name in METRICS
    }
    return listed, added


def _accepts(gate: str, limit: int) -> bool:
    try:
        Gates.model_validate({gate: limit})
    except ValidationError:
        return False
    return True


def gates(chance: random.Random, *, compared: bool) -> dict[str, Any]:
    """Return a limit for each gate, some of them such that missing evaluations are tolerated."""
    limits: dict[str, Any] = {name: chance.randrange(4) if _accepts(name, 3) else 0.5 for name in GATES}
    limits |= {
        "min_pass_rate": chance.choice((0.1, 0.3, 0.5)),
        "min_pass_rate_lower_bound": chance.choice((0.05, 0.2)),
        "min_completeness": chance.choice((None, 0.05, 0.5, 1.0)),
        "max_regressions": chance.randrange(3) if compared else None,
        # It needs a judge.
        "min_win_rate_lower_bound": None,
        "max_cost_usd": chance.random() * 30,
        "max_total_tokens": chance.randrange(1, 4000),
        "p95_latency_ms": chance.choice((50, 90, 99, 200)),
        "p95_first_token_ms": chance.choice((50, 90, 99, 200)),
        "metrics": {name: {"min_mean": chance.random(), "min_p10": chance.random()} for name in METRICS},
        "summary": {"method": "simple_average", "min": chance.random()},
    }
    assert limits.keys() == Gates.model_fields.keys(), "give a limit for the new gate"
    assert len(BOUNDS_OF_METRICS) == 3
    return limits
