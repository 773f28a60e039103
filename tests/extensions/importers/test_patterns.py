"""Patterns of JavaScript that are translated to Python give the verdicts of Node.js; the others are not translated."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import regex

from holodeck_action.extensions.importers.promptfoo.patterns import metric_pattern, python_pattern, utf16_units
from holodeck_action.extensions.importers.source import UnfitError
from tests.commands.project import Project
from tests.extensions.importers.accounts import account
from tests.extensions.importers.generated_patterns import node_answers, pair

MORE = int(os.environ.get("PATTERNS_FUZZ", "3000"))
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_more_patterns_match_what_they_match_in_this_node() -> None:
    pairs = [pair(seed) for seed in range(2000, 2000 + MORE)]
    for (pattern, texts), told in zip(pairs, node_answers(pairs), strict=True):
        assert verdict_of(pattern, texts) in (None, told), pattern
        assert metric_verdict_of(pattern, texts) in (None, told), pattern


METRIC, GRADER = "regex", "imported_graders:line_1_regex"


def imported(project: Project, pattern: str, answer: str, **environ: str) -> dict[str, Any]:
    """Import a case with a pattern; its row of the import report."""
    tests = [
        {
            "description": "it",
            "vars": {"q": "x"},
            "providerOutput": answer,
            "assert": [{"type": "regex", "value": pattern}],
        }
    ]
    project.write("c.json", json.dumps({"prompts": ["{{q}}"], "providers": ["echo"], "tests": tests}))
    project.run("import", "promptfoo", "c.json", "-o", "new", "--report", "new/account.json", **environ)
    [row] = [row for row in account(project, "new") if row["asserts"]]
    return row


@pytest.mark.parametrize(
    ("pattern", "answer", "passes", "becomes"),
    [
        ("^a{,2}$", "a{,2}", True, METRIC),
        ("^a{,2}$", "aa", False, METRIC),
        ("^.$", "😀", False, GRADER),
        ("^..$", "😀", True, GRADER),
        ("^\\ud83d", "😀", True, GRADER),
        ("^[^]$", "\n", True, GRADER),
        ("a[]?$", "ba", True, METRIC),
        ("^[\\s\\S]+$", "\u2028", True, METRIC),
        ("^[\\S]$", "\ufeff", False, GRADER),
        ("^\\w$", "é", False, METRIC),
        ("é\\b", "é!", False, METRIC),
        ("(a)\\1$", "aa", True, METRIC),
    ],
)
def test_a_translated_pattern_needs_no_node(
    pattern: str, answer: str, passes: bool, becomes: str, project: Project, tmp_path: Path
) -> None:
    row = imported(project, pattern, answer)
    assert (row["becomes"], row["note"]) == (becomes, "")
    finished, _ = project.evaluate("new", PATH=str(tmp_path))
    assert finished.code == (0 if passes else 1), finished.stdout


@pytest.mark.parametrize("pattern", ["(?<=a+)b", "(a)|b\\1", "\\p{L}", "(?<é>a)b", "[\\d-x]b"])
def test_other_patterns_run_in_node_or_have_no_equal(pattern: str, project: Project, tmp_path: Path) -> None:
    without = imported(project, pattern, "aab", PATH=str(tmp_path))
    assert without["outcome"] == "missing"
    assert without["note"].startswith("the pattern has JavaScript syntax that is not translated (")
    shutil.rmtree(project.folder / "new")
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    row = imported(project, pattern, "aab")
    assert row["outcome"] == "grader"
    assert row["note"].startswith("runs in Node.js, and the case fails if it is missing: ")
    [told] = node_answers([(pattern, ["aab"])])
    finished, _ = project.evaluate("new")
    assert finished.code == (0 if told == "1" else 1)
    # Where Node.js is missing, nothing passes.
    finished, _ = project.evaluate("new", "--min-completeness", "0.5", PATH=str(tmp_path))
    assert finished.code == 1
    assert "JavaScript cannot be run" in finished.stdout
