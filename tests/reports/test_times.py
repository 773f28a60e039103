"""The time of a case is one fact: the sum of its turns, wherever it is shown, the start of its program left out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from lxml import etree

from holodeck_action.reports.phrases import duration_text
from tests.commands.project import Project
from tests.reports.pages import Page

TURNS = [{"input": text, "ground_truth": text} for text in "ab"]


def shown_times(project: Project) -> tuple[float | None, float | None, float | None]:
    """Return milliseconds of the only case in JUnit, the JSON report and the viewer."""
    junit = etree.parse(project.out / "junit.xml").find(".//testcase").get("time")
    report = json.loads(project.run("report", "out/results.json", "--format", "json").stdout)
    (listed,) = report["attention"] + report["passing"]
    index = Page((project.out / "report.html").read_text()).index
    return None if junit is None else 1000 * float(junit), listed["duration_ms"], index["latency_ms"][0]


def test_the_start_of_the_program_is_no_time_of_a_case(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("agent.py", "def answer(messages):\n    return messages[-1]['content']\n")
    project.suite([{"name": "one", "turns": TURNS}])
    project.policy(target="python:agent:answer", trials={"repeat": 2})
    done, record = project.evaluate()
    assert done.code == 0, done.stderr
    (case,) = record.cases
    turns = math.fsum(turn.timing.duration_ms for turn in case.turns if turn.timing and turn.timing.duration_ms)
    assert shown_times(project) == pytest.approx((turns, turns, turns), abs=0.6)
    assert f" one ({duration_text(turns)})" in done.stderr


def test_part_of_a_time_is_not_shown_as_all_of_it(tmp_path: Path) -> None:
    """Of a transcript in which one turn of two tells its time."""
    project = Project(tmp_path)
    project.suite([{"name": "one", "turns": TURNS}])
    for told in ({}, {"duration_ms": 5}):
        first, second = ({"case": "one", "turn": at, "response": text} for at, text in enumerate("ab"))
        project.answers([{**first, "duration_ms": 30}, {**second, **told}])
        project.policy(target="recorded:answers.jsonl")
        done, _ = project.evaluate()
        assert done.code == 0, done.stderr
        expected = 35 if told else None
        assert shown_times(project) == (expected, expected, expected)
        assert ("one (35 ms)" in done.stderr) == bool(told)
