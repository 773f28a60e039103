"""Evaluator classes of Azure AI Evaluation by themselves, with its own client, in a process of their own.

    python -m tests.extensions.azure.native_classes KEY

reads `[{"url", "evaluator", "inputs"}, …]` from standard input and prints the raw scores as JSON, in this order.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.extensions.azure.native_azure import DEPLOYMENT, VERSION


def main(key: str) -> None:
    from azure.ai import evaluation

    given = {"api_key": key, "azure_deployment": DEPLOYMENT, "api_version": VERSION}

    async def score(url: str, evaluator: str, inputs: dict[str, Any]) -> float:
        config = {"azure_endpoint": url, **given}
        made = getattr(evaluation, evaluator)(config)
        if evaluator == "GroundednessEvaluator":
            made._ensure_query_prompty_loaded()
        return float((await made._to_async()(**inputs))[made._result_key])

    async def scores() -> list[float]:
        return [await score(**each) for each in json.load(sys.stdin)]

    print("\n" + json.dumps(asyncio.run(scores())))


if __name__ == "__main__":
    main(sys.argv[1])
