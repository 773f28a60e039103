"""DeepEval by itself, with its own client, in a process of its own: it never closes its connections.

    python -m tests.extensions.deepeval.native URL KEY COUNT

prints the scores of its metrics for the truths of `some_truths(COUNT)`, as JSON by metric.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

STEPS = ["Read the answer.", "Compare it with the criteria."]
RAG = ("AnswerRelevancy", "Faithfulness", "ContextualRelevancy", "ContextualPrecision", "ContextualRecall")


def main(url: str, key: str, count: int) -> None:
    os.environ.update(
        dict.fromkeys(("DEEPEVAL_TELEMETRY_OPT_OUT", "DEEPEVAL_DISABLE_DOTENV", "DEEPEVAL_DISABLE_LEGACY_KEYFILE"), "1")
    )
    import deepeval.metrics as metrics
    import httpx2
    from deepeval.models import OpenAIModel
    from deepeval.test_case import LLMTestCase, SingleTurnParams

    from tests.llm.judging import some_truths

    def metric(name: str, model: OpenAIModel) -> Any:
        if name == "GEval":
            shown = [SingleTurnParams.ACTUAL_OUTPUT]
            return metrics.GEval(name="Quality", evaluation_steps=STEPS, evaluation_params=shown, model=model)
        return getattr(metrics, f"{name}Metric")(model=model)

    async def scores() -> dict[str, list[float]]:
        gate = asyncio.Semaphore(10)

        # One for all: making one for every metric takes longer than its calls.
        client = httpx2.AsyncClient(trust_env=False, timeout=60)
        model = OpenAIModel(model="gpt-4o", api_key=key, base_url=url, temperature=0.0, async_http_client=client)

        async def score(name: str, case: dict[str, Any]) -> float:
            async with gate:
                return float(await metric(name, model).a_measure(LLMTestCase(**case), _show_indicator=False))

        truths = some_truths(count)
        return {name: await asyncio.gather(*(score(name, truth.case) for truth in truths)) for name in ("GEval", *RAG)}

    print(json.dumps(asyncio.run(scores())))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
