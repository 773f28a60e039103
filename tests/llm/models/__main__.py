"""The fake in a process of its own, for measurements: says its addresses as JSON, ends with its input, says counts."""

from __future__ import annotations

import argparse
import json
import sys

from tests.llm.models.server import FakeModels
from tests.llm.models.trouble import HARD, PASSING, mixed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.llm.models", description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds until an answer")
    parser.add_argument("--limit", type=int, help="calls of one key under way at once; more are answered 429")
    parser.add_argument("--per-second", type=int, help="calls answered a second; more are answered 429")
    parser.add_argument("--retry-after", help="header of those answers")
    parser.add_argument("--lingering", action="store_true", help="calls that are abandoned go on until their answer")
    parser.add_argument("--faults", type=float, default=0.0, help="share of the requests that meet passing trouble")
    parser.add_argument("--hard", action="store_true", help="of five kinds, one of which hangs for 5 s")
    given = parser.parse_args()
    with FakeModels(latency=given.latency) as models:
        models.lingering = given.lingering
        models.limit(given.limit, per_second=given.per_second, retry_after=given.retry_after)
        if given.faults:
            models.answer(mixed(given.faults, faults=HARD if given.hard else PASSING))
        addresses = {
            "openai": models.openai_url,
            "azure_openai": models.azure_url,
            "anthropic": models.anthropic_url,
            "ollama": models.ollama_url,
        }
        print(json.dumps(addresses), flush=True)
        sys.stdin.read()
        counts = {
            "requests": len(models.requests),
            # On the machine's monotonic clock.
            "first": models.requests[0].time if models.requests else None,
            "statuses": dict(models.statuses),
            "peak": models.peak,
            "abandoned": models.abandoned,
            "connections": models.connections,
            "violations": models.violations,
        }
        print(json.dumps(counts))


if __name__ == "__main__":
    main()
