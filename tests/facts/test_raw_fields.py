"""Whatever judges takes facts: fields in which None is unknown are read where facts are made, and by few others."""

from __future__ import annotations

import ast
from pathlib import Path

import holodeck_action

ROOT = Path(holodeck_action.__file__).parent
RAW = {"tool_invocations", "retrieved_chunks", "retrieval_context", "timing", "usage"}
"""Fields of turns and replies in which None is unknown, and empty is known to be none."""
ROOMS = ("metrics", "results", "runner", "scoring", "reports")
READERS = {
    "metrics/deepeval/rag.py": "of DeepEval's own test case",
    "results/report_building.py": "shows calls",
    "reports/viewer_cases.py": "shows calls, chunks and tokens",
    "results/consumption.py": "sums up, and counts what is unknown apart",
    "results/parsed_record.py": "reads a record",
    "results/record.py": "makes the facts",
    "runner/trial.py": "makes the facts of a turn that goes on, and its record",
    "scoring/evaluations.py": "keeps what an evaluation took",
    "scoring/reuse.py": "keeps what an evaluation took",
    "scoring/scoring.py": "hands on what an evaluation took",
    "scoring/verdict_cache.py": "keeps what an evaluation took",
}


def readers() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            names = [
                f"{node.attr} in line {node.lineno}"
                for node in ast.walk(ast.parse(file.read_bytes()))
                if isinstance(node, ast.Attribute) and node.attr in RAW and isinstance(node.ctx, ast.Load)
            ]
            if names:
                found[file.relative_to(ROOT).as_posix()] = names
    return found


def test_only_these_read_what_none_means_unknown_in() -> None:
    found = readers()
    others = {file: lines for file, lines in found.items() if file not in READERS}
    assert not others, f"take turn.calls, .chunks, .texts, .took_ms, .tokens or .cost_usd: {others}"
    assert not READERS.keys() - found.keys(), "these do not read them any more"
