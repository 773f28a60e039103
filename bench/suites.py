"""Writes generated suites of any size, answered from a transcript."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

TEXT = (
    "An order can be returned within thirty days of delivery when it is unused and in its original box; "
    "the refund reaches the original means of payment after five working days, shipping is not refunded, "
    "and items bought on sale are exchanged for store credit unless they arrived broken or incomplete"
)


_AGENT = """
def answer(messages):
    asked = messages[-1]["content"]
    number = int(asked.rstrip("?").rpartition(" ")[2])
    return "It cannot be returned. " * REPEATED if number % 5 == 4 else f"TEXT, says rule {number}."
"""


def write_suite(folder: Path, cases: int, metrics: tuple[str, ...] = ("equality",)) -> Path:
    """Write agent.yaml, its policy and its transcript; every fifth answer is wrong."""
    answers = (
        "It cannot be returned." if number % 5 == 4 else f"{TEXT}, says rule {number}." for number in range(cases)
    )
    rows = [{"case": f"case {number}", "response": answer} for number, answer in enumerate(answers)]
    return _write_files(folder, _rule_lines(cases, metrics), rows)


def write_long_suite(folder: Path, cases: int, kib: int) -> Path:
    """Write agent.yaml, its policy and its agent; every fifth answer is wrong and has `kib` KiB."""
    _write_files(folder, _rule_lines(cases, ("equality",)), [])
    agent = _AGENT.replace("REPEATED", str(kib * 1024 // 23)).replace("TEXT", TEXT)
    (folder / "agent.py").write_text(agent)
    (folder / "holodeck-action.yaml").write_text("target: python:agent:answer\n")
    return folder


def _rule_lines(cases: int, metrics: tuple[str, ...]) -> list[str]:
    lines = _head_lines(metrics)
    for number in range(cases):
        lines += [
            f"  - name: case {number}",
            f"    input: What is the rule for order {number}?",
            f"    ground_truth: '{TEXT}, says rule {number}.'",
        ]
    return lines


def write_pairs(
    folder: Path, pairs: Sequence[tuple[str, str]], metrics: tuple[str, ...], threshold: float = 0.5
) -> Path:
    """Write a suite with a case for each pair of an answer and its reference."""
    lines = _head_lines(metrics, threshold)
    for number, (_, reference) in enumerate(pairs):
        lines += [
            f"  - name: case {number}",
            f"    input: What is the rule for order {number}?",
            f"    ground_truth: {json.dumps(reference, ensure_ascii=False)}",
        ]
    rows = [{"case": f"case {number}", "response": answer} for number, (answer, _) in enumerate(pairs)]
    return _write_files(folder, lines, rows)


def write_conversations(folder: Path, cases: int, turns: int) -> Path:
    """Write a suite of conversations about numbers like ConvFinQA's; `turns` is the total over all cases."""
    lines, rows = _head_lines(("equality", "numeric")), []
    for case in range(cases):
        lines += [f"  - name: report {case}", "    turns:"]
        for turn in range(turns // cases + (case < turns % cases)):
            figure = round(1000 / (case + turn + 7), 2)
            lines += [
                f"      - input: What was the change of item {turn} in the year {1990 + case % 30}?",
                f"        ground_truth: '{figure}'",
            ]
            answer = str(figure + 1 if (case + turn) % 5 == 4 else figure)
            rows.append({"case": f"report {case}", "turn": turn, "response": answer})
    return _write_files(folder, lines, rows)


def _head_lines(metrics: tuple[str, ...], threshold: float = 0.5) -> list[str]:
    return [
        "name: bench",
        "model: {provider: openai, name: gpt-4o}",
        "instructions: {inline: Answer.}",
        "evaluations:",
        "  metrics:",
        *(f"    - {{type: standard, metric: {metric}, threshold: {threshold}}}" for metric in metrics),
        "test_cases:",
    ]


def _write_files(folder: Path, lines: Sequence[str], rows: Sequence[object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.yaml").write_text("\n".join(lines) + "\n")
    (folder / "holodeck-action.yaml").write_text("target: recorded:answers.jsonl\n")
    (folder / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder
