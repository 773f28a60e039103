"""Random suites by number, with all kinds of metrics, cases, answers and gates that need no model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

TEXT = (
    "the cat sat on a warm mat and looked at every bird that flew over the quiet garden "
    "Paris is the capital of France and costs 1,234.50 $ or 12 % more on Thursday"
)
HOSTILE = (
    "",
    " \n",
    "| a | b |\n<b>bold</b> [link](http://x.example) @someone #12",
    "```\nfenced\n``` \u202eright to left \U0001f680",
    "::error::no command",
    "x" * 3000,
    "zero\u200bwidth e\u0301",
)
TOOLS = ("search", "find_order", "cancel", "notify")
RUN = """
import contextlib, io, json, os, sys
from pathlib import Path
from holodeck_action.cli import main
said = {}
for folder in sorted(path for path in Path.cwd().iterdir() if path.is_dir()):
    for line in json.loads(sys.argv[1]):
        out, err = io.StringIO(), io.StringIO()
        code = main(tuple(line.split()), dict(os.environ), folder, io.StringIO(), out, err)
        streams = f"--- stdout\\n{out.getvalue()}--- stderr\\n{err.getvalue()}"
        said[f"{folder.name}/{line}"] = f"exit code {int(code)}\\n{streams}"
print(json.dumps(said))
"""
"""A program that runs the command lines in its first argument in every folder, and prints their output as JSON."""
LINES = (
    "run -o out --concurrency 1",
    "decide out/results.json --min-pass-rate 0.5 --min-completeness 0 -o decided",
    "report out/results.json --canonical --format markdown",
    "report out/results.json --canonical --format json",
    "report out/results.json --canonical --format junit",
)


def generated_suite(number: int) -> dict[str, str]:
    """Return the files of a suite by name; the same ones for the same number."""
    chance = Random(number)
    cases, answers = [], []
    for at in range(chance.randint(1, 8)):
        name = f"case {at}" if chance.random() < 0.9 else f"case {at} | <i>{chance.choice(HOSTILE[2:5])}</i>"
        turns = [_turn(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        case: dict[str, Any] = {"name": name}
        if len(turns) > 1 or chance.random() < 0.2:
            case["turns"] = [turn for turn, _ in turns]
        else:
            case |= turns[0][0]
            if chance.random() < 0.2:
                case["evaluations"] = [_metric(chance) for _ in range(chance.randint(1, 2))]
        cases.append(case)
        answers += [{"case": name, **reply} for _, reply in turns if chance.random() < 0.95]
    metrics = list({json.dumps(_metric(chance)): None for _ in range(chance.randint(1, 4))})
    suite = {
        "name": f"generated-{number}",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}, *map(json.loads, metrics)]},
        "test_cases": cases,
    }
    policy = {"target": "recorded:answers.jsonl", **_policy(chance, [case["name"] for case in cases])}
    return {
        "agent.yaml": json.dumps(suite, indent=1, ensure_ascii=chance.random() < 0.5),
        "holodeck-action.yaml": json.dumps(policy, indent=1),
        "answers.jsonl": "".join(f"{json.dumps(each)}\n" for each in answers),
        "graders.py": "def words(ctx):\n    return len(ctx.agent_response.split()) / 20\n",
    }


def _text(chance: Random) -> str:
    if chance.random() < 0.15:
        return chance.choice(HOSTILE)
    return " ".join(chance.choice(TEXT.split()) for _ in range(chance.randint(1, 14)))


def _turn(chance: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    truth = _text(chance)
    turn: dict[str, Any] = {"input": _text(chance).strip() or "What now?"}
    if chance.random() < 0.85 and truth.strip():
        turn["ground_truth"] = truth
    reply: dict[str, Any] = {"response": truth if chance.random() < 0.4 else _text(chance)}
    if chance.random() < 0.4:
        expected = chance.sample(TOOLS, chance.randint(0, 2))
        turn["expected_tools"] = [
            name if chance.random() < 0.5 else {"name": name, "args": {"id": chance.randint(1, 3)}} for name in expected
        ]
        if expected and chance.random() < 0.5:
            turn["expected_trajectory"] = expected
    if chance.random() < 0.6:
        called = chance.sample(TOOLS, chance.randint(0, 3))
        reply["tool_invocations"] = [{"name": name, "args": {"id": chance.randint(1, 3)}} for name in called]
    if chance.random() < 0.3:
        turn["retrieval_context"] = [_text(chance).strip() or "chunk" for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.3:
        usage = {"input_tokens": chance.randint(0, 900), "output_tokens": chance.randint(0, 90)}
        reply["usage"] = usage | ({"cost_usd": chance.randint(0, 50) / 1000} if chance.random() < 0.7 else {})
    return turn, reply


def _metric(chance: Random) -> dict[str, Any]:
    kind = chance.choice(("numeric", "f1_score", "bleu", "rouge", "meteor", "length", "tools", "trajectory", "code"))
    limit: dict[str, Any] = {"threshold": chance.choice((0, 0.1, 0.5, 0.75, 1))} if chance.random() < 0.7 else {}
    shared: dict[str, Any] = {
        key: value
        for key, value, often in (("enabled", False, 0.05), ("fail_on_error", True, 0.2), ("name", "my own", 0.1))
        if chance.random() < often
    }
    match kind:
        case "length":
            most = chance.choice(("max_words", "max_characters", "max_sentences"))
            return {"type": "length", most: chance.randint(1, 20), **shared}
        case "tools":
            return {"type": "tool_correctness", **limit, **shared}
        case "trajectory":
            return {
                "type": "trajectory",
                "mode": chance.choice(("strict", "unordered", "subset", "superset")),
                **shared,
            }
        case "code":
            return {"type": "code", "grader": "graders:words", **limit, **shared}
        case "numeric":
            return {"type": "standard", "metric": kind, "absolute_tolerance": chance.choice((0, 0.5, 100)), **shared}
        case "rouge":
            variant = chance.choice(("rouge1", "rouge2", "rougeL"))
            return {"type": "standard", "metric": kind, "variant": variant, **limit, **shared}
        case _:
            return {"type": "standard", "metric": kind, **limit, **shared}


def _policy(chance: Random, names: list[str]) -> Mapping[str, Any]:
    gates: dict[str, Any] = {
        key: value
        for key, value in (
            ("min_pass_rate", chance.choice((0, 0.5, 0.9))),
            ("min_completeness", chance.choice((0, 0.8))),
            ("max_errors", chance.randint(0, 3)),
            ("max_cost_usd", chance.choice((0, 0.05, 10))),
        )
        if chance.random() < 0.4
    }
    policy: dict[str, Any] = {"gates": gates} if gates else {}
    marked = {name: {"tags": chance.sample(["a", "b", "critical"], 2)} for name in names if chance.random() < 0.3}
    if marked:
        policy["cases"] = marked
    if chance.random() < 0.2:
        until = chance.choice(("2999-01-01", "2001-01-01"))
        policy["quarantine"] = [
            {"case": chance.choice(names), "reason": "upstream", "owner": "@team", "expires": until},
        ]
    return policy
