"""What of `holodeck test` has which name here, and when its judged metrics fail a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.suite.folders import CASE, HEAD, load


def test_what_holodeck_test_can_do_has_its_command_here(project: Project) -> None:
    project.numbered(3, wrong=frozenset({2}))
    given = ("agent.yaml", "-o", "out", "--turn-timeout", "5", "--concurrency", "2")
    assert project.run("run", *given, "--limit", "2").code == 0
    for form, beginning in (("json", "{"), ("markdown", "## ")):
        shown = project.run("report", "out/results.json", "--format", form)
        assert (shown.code, shown.stdout[: len(beginning)]) == (0, beginning)
    assert project.run("run", *given).code == 1
    assert project.verdict()["pass_rate"] == pytest.approx(2 / 3)
    assert project.run("run", "nowhere.yaml").code == 2


@pytest.mark.needs
def test_judged_metrics_assert_at_one_half_without_a_threshold(tmp_path: Path) -> None:
    metrics = "[{type: geval, name: Tone, criteria: mild}, {type: rag, metric_type: answer_relevancy}]"
    suite = load(tmp_path, f"{HEAD}evaluations: {{metrics: {metrics}}}\n{CASE}")
    specs = suite.cases[0].turns[0].metrics
    assert [(spec.config.pass_mark, spec.config.asserts) for spec in specs] == [(0.5, True)] * 2
