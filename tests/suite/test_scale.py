"""Large suites stay small, and nothing heavy is imported to load one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.folders import HEAD, load, write

SCRIPT = """
import json, resource, sys
from pathlib import Path
from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.loader import load_suite
suite = load_suite(Path(sys.argv[1]), environ={}, home=None, metrics=built_in())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"cases": len(suite.cases), "peak": peak, "modules": sorted(sys.modules)}))
"""
HEAVY = {
    "anthropic",
    "azure",
    "deepeval",
    "github",
    "httpx2",
    "jinja2",
    "jsonpath",
    "nltk",
    "numpy",
    "openai",
    "pydantic_ai",
    "regex",
    "rich",
    "rouge_score",
    "sacrebleu",
}


def suite_of(count: int) -> str:
    cases = "".join(
        f"- name: case {n}\n  input: What is the state of order A-{n}?\n  ground_truth: Order A-{n} was sent.\n"
        f"  expected_tools: [search, {{name: refund, args: {{order: {{fuzzy: A-{n}}}}}}}]\n"
        for n in range(count)
    )
    return f"{HEAD}evaluations: {{metrics: [{{type: standard, metric: rouge, threshold: 0.5}}]}}\ntest_cases:\n{cases}"


def loaded(path: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=100, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.full
def test_ten_times_the_cases_take_less_than_twice_the_memory(tmp_path: Path) -> None:
    small = loaded(write(tmp_path / "small", {"agent.yaml": suite_of(1_000)}))
    large = loaded(write(tmp_path / "large", {"agent.yaml": suite_of(10_000)}))
    assert (small["cases"], large["cases"]) == (1_000, 10_000)
    assert isinstance(small["peak"], int)
    assert isinstance(large["peak"], int)
    assert large["peak"] < 2 * small["peak"]
    assert isinstance(large["modules"], list)
    assert {name.partition(".")[0] for name in large["modules"]}.isdisjoint(HEAVY)


def test_more_than_a_thousand_cases_are_allowed(tmp_path: Path) -> None:
    suite = load(tmp_path, suite_of(1_001))
    assert len({case.id for case in suite.cases}) == 1_001
