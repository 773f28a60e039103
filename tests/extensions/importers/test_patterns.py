"""Patterns of JavaScript that are translated to Python give the verdicts of Node.js; the others are not translated."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import regex

from holodeck_action.extensions.importers.promptfoo.patterns import metric_pattern, python_pattern, utf16_units
from holodeck_action.extensions.importers.source import UnfitError
from tests.commands.project import Project
from tests.extensions.importers.accounts import account
from tests.extensions.importers.generated_patterns import node_answers, pair
from tests.extensions.importers.test_promptfoo import verdicts

pytestmark = pytest.mark.full

MORE = int(os.environ.get("PATTERNS_FUZZ", "1000"))
"""Generated patterns that are compared with the Node.js of this machine: `PATTERNS_FUZZ=100000` takes more."""
STORED = Path(__file__).parent / "promptfoo/pattern_answers.json"
"""What Node.js 20 says of the pairs from 0 on, as `node_answers` gives it."""


def verdict_of(pattern: str, texts: list[str]) -> str | None:
    """Whether a translated pattern is found in each text; None for one that is not translated."""
    try:
        made = python_pattern(pattern)
    except UnfitError:
        return None
    return "".join("1" if re.search(made, utf16_units(text), re.ASCII) else "0" for text in texts)


def metric_verdict_of(pattern: str, texts: list[str]) -> str | None:
    """Whether the metric `regex` finds a translated pattern in each text; None for one that the metric cannot take."""
    try:
        made = metric_pattern(pattern)
    except UnfitError:
        return None
    return None if made is None else "".join("1" if regex.search(made, text) else "0" for text in texts)


@pytest.mark.parametrize(("verdict_of", "least"), [(verdict_of, 1200), (metric_verdict_of, 490)])
def test_translated_patterns_match_what_they_match_in_node(
    verdict_of: Callable[[str, list[str]], str | None], least: int
) -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    found = [(pair(seed), told) for seed, told in enumerate(stored)]
    ours = [(pattern, verdict_of(pattern, texts), told) for (pattern, texts), told in found]
    assert [each for each in ours if each[1] not in (None, each[2])] == []
    assert sum(verdict is not None for _, verdict, _ in ours) > least


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_more_patterns_match_what_they_match_in_this_node() -> None:
    pairs = [pair(seed) for seed in range(2000, 2000 + MORE)]
    for (pattern, texts), told in zip(pairs, node_answers(pairs), strict=True):
        assert verdict_of(pattern, texts) in (None, told), pattern
        assert metric_verdict_of(pattern, texts) in (None, told), pattern


def imported(project: Project, asked: Sequence[tuple[str, str]], **environ: str) -> list[dict[str, Any]]:
    """Import a case for each pattern and answer, named by the pattern and answer; their rows of the import report.

    The case with index N is on line N + 1.
    """
    tests = [
        {
            "description": f"{pattern} {answer}",
            "vars": {"q": "x"},
            "providerOutput": answer,
            "assert": [{"type": "regex", "value": pattern}],
        }
        for pattern, answer in asked
    ]
    lines = ",\n".join(map(json.dumps, tests))
    project.write("c.json", f'{{"prompts": ["{{{{q}}}}"], "providers": ["echo"], "tests": [{lines}]}}')
    project.run("import", "promptfoo", "c.json", "-o", "new", "--report", "new/account.json", **environ)
    rows = sorted((row for row in account(project, "new") if row["asserts"]), key=lambda row: int(row["line"]))
    assert [row["line"] for row in rows] == [*range(1, len(asked) + 1)]
    return rows


TRANSLATED = [
    ("^a{,2}$", "a{,2}", True, True),
    ("^a{,2}$", "aa", False, True),
    ("^.$", "😀", False, False),
    ("^..$", "😀", True, False),
    ("^\\ud83d", "😀", True, False),
    ("^[^]$", "\n", True, False),
    ("a[]?$", "ba", True, True),
    ("^[\\s\\S]+$", "\u2028", True, True),
    ("^[\\S]$", "\ufeff", False, False),
    ("^\\w$", "é", False, True),
    ("é\\b", "é!", False, True),
    ("(a)\\1$", "aa", True, True),
]
"""Patterns with an answer, whether it matches, and whether the pattern becomes a metric instead of a grader."""


def test_a_translated_pattern_needs_no_node(project: Project, tmp_path: Path) -> None:
    rows = imported(project, [(pattern, answer) for pattern, answer, _, _ in TRANSLATED])
    told = [(row["becomes"], row["note"]) for row in rows]
    assert told == [
        ("regex" if metric else f"imported_graders:line_{line}_regex", "")
        for line, (_, _, _, metric) in enumerate(TRANSLATED, 1)
    ]
    found = verdicts(project, "new", code=1, PATH=str(tmp_path))
    assert list(found.values()) == ["passed" if passes else "failed" for _, _, passes, _ in TRANSLATED]


UNTRANSLATED = ("(?<=a+)b", "(a)|b\\1", "\\p{L}", "(?<é>a)b", "[\\d-x]b")


def test_other_patterns_run_in_node_or_have_no_equal(project: Project, tmp_path: Path) -> None:
    asked = [(pattern, "aab") for pattern in UNTRANSLATED]
    for without in imported(project, asked, PATH=str(tmp_path)):
        assert without["outcome"] == "missing"
        assert without["note"].startswith("the pattern has JavaScript syntax that is not translated (")
    shutil.rmtree(project.folder / "new")
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    for row in imported(project, asked):
        assert row["outcome"] == "grader"
        assert row["note"].startswith("runs in Node.js, and the case fails if it is missing: ")
    told = node_answers([(pattern, [answer]) for pattern, answer in asked])
    assert set(told) == {"0", "1"}
    found = verdicts(project, "new", code=1)
    assert list(found.values()) == ["passed" if each == "1" else "failed" for each in told]
    # Where Node.js is missing, nothing passes.
    finished, _ = project.evaluate("new", "--min-completeness", "0.1", PATH=str(tmp_path))
    assert finished.code == 1
    assert finished.stdout.count("JavaScript cannot be run") >= len(asked)
    assert [each["outcome"] for each in project.verdict()["cases"]] == ["failed"] * len(asked)
