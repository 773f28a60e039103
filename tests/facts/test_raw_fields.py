"""Whatever judges takes facts: fields in which None is unknown are read where facts are made, and by few others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holodeck_action

ROOT = Path(holodeck_action.__file__).parent
RAW = {"tool_invocations", "retrieved_chunks", "retrieval_context", "timing", "usage"}
"""Fields of turns and replies in which None is unknown, and empty is known to be none."""
MAKERS = (
    "llm/",
    "suite/",
    "targets/",
    "workers/",
    "extensions/agent_programs/",
    "extensions/frameworks/",
    "extensions/knowledge/",
    "extensions/mcp/",
)
"""Rooms in which an answer comes about, before there are facts of it; every other one is held to the rule."""
READERS = {
    "extensions/calibration/labels.py": "of labelled rows",
    "extensions/results/inspect_logs.py": "of a log, whose usage may be unknown",
    "extensions/results/records.py": "writes the record of stored results, without what is unknown",
    "extensions/view/listed_runs.py": "of trials, to show their order",
    "extensions/importers/checks.py": "of a grader's context, which is only given what is known",
    "extensions/importers/readback.py": "of cases in files",
    "extensions/calibration/label_judging.py": "of cases in files",
    "extensions/deepeval/rag.py": "of DeepEval's own test case",
    "reports/report_building.py": "shows calls",
    "reports/page/viewer_cases.py": "shows calls, chunks and tokens",
    "decide/simulated_users.py": "of the calls of a user's model, which says what it used",
    "extensions/preference/judging.py": "keeps what an evaluation took",
    "extensions/simulation/users.py": "of the calls of a user's model",
    "extensions/results/target.py": "writes a stored trial as a reply, without what is unknown",
    "extensions/traces/target.py": "writes the transcript of a trace, without what is unknown",
    "run/conversations.py": "of cases in files",
    "decide/consumption.py": "sums up, and counts what is unknown apart",
    "record/parsed_record.py": "reads a record",
    "record/record.py": "makes the facts",
    "run/one_answer.py": "makes the facts of an answer",
    "run/trial.py": "makes the facts of a turn that goes on, and its record",
    "scoring/evaluations.py": "keeps what an evaluation took",
    "scoring/exams.py": "keeps what a probe took",
    "scoring/reuse.py": "keeps what an evaluation took",
    "scoring/scoring.py": "hands on what an evaluation took",
    "scoring/verdict_cache.py": "keeps what an evaluation took",
}


def reads(source: bytes) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in RAW:
                found.append(f"{name} in line {node.lineno}")
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]) if name in RAW:
                found.append(f"{name} in line {node.lineno}")
    return found


def readers() -> dict[str, list[str]]:
    files = {file.relative_to(ROOT).as_posix(): file for file in sorted(ROOT.rglob("*.py"))}
    found = {path: reads(file.read_bytes()) for path, file in files.items() if not path.startswith(MAKERS)}
    return {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("source", [b"turn.tool_invocations or ()", b"getattr(turn, 'retrieved_chunks', None)"])
def test_what_reads_a_raw_field_is_found(source: bytes) -> None:
    assert reads(source)


@pytest.mark.full
def test_only_these_read_what_none_means_unknown_in() -> None:
    found = readers()
    others = {file: lines for file, lines in found.items() if file not in READERS}
    assert not others, f"take turn.calls, .chunks, .texts, .took_ms, .tokens or .cost_usd: {others}"
    assert not READERS.keys() - found.keys(), "these do not read them any more"
