"""Generated suites of any size, answered from a transcript."""

from __future__ import annotations

import json
from pathlib import Path

TEXT = (
    "An order can be returned within thirty days of delivery when it is unused and in its original box; "
    "the refund reaches the original means of payment after five working days, shipping is not refunded, "
    "and items bought on sale are exchanged for store credit unless they arrived broken or incomplete"
)


def write_suite(folder: Path, cases: int, metrics: tuple[str, ...] = ("equality",)) -> Path:
    """Write agent.yaml, its policy and its transcript; every fifth answer is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "name: bench",
        "model: {provider: openai, name: gpt-4o}",
        "instructions: {inline: Answer.}",
        "evaluations:",
        "  metrics:",
        *(f"    - {{type: standard, metric: {metric}, threshold: 0.5}}" for metric in metrics),
        "test_cases:",
    ]
    for number in range(cases):
        lines += [
            f"  - name: case {number}",
            f"    input: What is the rule for order {number}?",
            f"    ground_truth: '{TEXT}, says rule {number}.'",
        ]
    (folder / "agent.yaml").write_text("\n".join(lines) + "\n")
    (folder / "holodeck-action.yaml").write_text("target: recorded:answers.jsonl\n")
    with (folder / "answers.jsonl").open("w") as file:
        for number in range(cases):
            answer = "It cannot be returned." if number % 5 == 4 else f"{TEXT}, says rule {number}."
            file.write(json.dumps({"case": f"case {number}", "response": answer}) + "\n")
    return folder
