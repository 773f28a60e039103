"""Azure AI Evaluation by itself, with its own client, in a process of its own.

    python -m tests.extensions.azure.native_azure URL KEY COUNT

prints the raw scores of its five evaluators for COUNT cases, as JSON by metric; `groundedness (no query)` is asked
without the query.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping

DEPLOYMENT = "gpt-4o"
VERSION = "2024-02-15-preview"
INPUTS: Mapping[str, tuple[str, ...]] = {
    "groundedness": ("query", "response", "context"),
    "groundedness (no query)": ("response", "context"),
    "relevance": ("query", "response"),
    "coherence": ("query", "response"),
    "fluency": ("response",),
    "similarity": ("query", "response", "ground_truth"),
}


def case(number: int) -> dict[str, str]:
    """The inputs of a case; every one of them names it."""
    return {
        "query": f'What does case-{number} ask, "exactly"?\n\tAnd why?',
        "response": f"  The answer of case-{number}: {{{{ 7 * 7 }}}} & <b>ümläut</b>.\n\nIts second part. ",
        "ground_truth": f"The expected answer of case-{number}.",
        "context": f"First text of case-{number}.\n\nSecond text: {{% raw %}} 漢字.",
    }


def score_of(number: int, metric: str) -> int:
    """What the judge says about a case."""
    return 1 + (number * 7 + len(metric) * 3) % 5


def main(url: str, key: str, count: int) -> None:
    from azure.ai import evaluation

    config = {"azure_endpoint": url, "api_key": key, "azure_deployment": DEPLOYMENT, "api_version": VERSION}

    async def scores() -> dict[str, list[float]]:
        gate = asyncio.Semaphore(5)

        async def score(name: str, number: int) -> float:
            metric = name.partition(" ")[0]
            async with gate:
                # Groundedness asks another way once it has seen a query: one evaluator for each case.
                evaluator = getattr(evaluation, f"{metric.capitalize()}Evaluator")(config)
                if metric == "groundedness" and "query" in INPUTS[name]:
                    evaluator._ensure_query_prompty_loaded()
                inputs = {each: case(number)[each] for each in INPUTS[name]}
                return float((await evaluator._to_async()(**inputs))[metric])

        return {name: await asyncio.gather(*(score(name, number) for number in range(count))) for name in INPUTS}

    print(json.dumps(asyncio.run(scores())))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
