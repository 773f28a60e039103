"""Tables of a suite with a check for each case: some rows, and how many there are besides."""

from __future__ import annotations

from holodeck_action.reports.metric_rows import MOST_METRICS
from tests.commands.project import Project


def test_a_table_shows_the_metrics_in_trouble_first(project: Project) -> None:
    count = MOST_METRICS + 20
    cases = [{"name": f"c{at}", "input": "q", "expect": [{"contains": f"word {at:03}"}]} for at in range(count)]
    project.suite(cases, evaluations=None)
    wrong = {5, count - 1}
    project.answers([{"case": f"c{at}", "response": "x" if at in wrong else f"word {at:03}"} for at in range(count)])
    ended, _ = project.evaluate("--target", "recorded:answers.jsonl")
    report = (project.out / "report.md").read_text(encoding="utf-8")
    for text, row in ((ended.stdout, 'contains "word {:03}"  '), (report, '| `contains "word {:03}"` |')):
        listed = [at for at in range(count) if row.format(at) in text]
        assert len(listed) == MOST_METRICS
        assert wrong < {*listed}
        assert "20 more metrics, none of them with a failure or an error, are in the full report." in text


def test_what_is_left_out_says_how_much_of_it_failed(project: Project) -> None:
    count = MOST_METRICS + 3
    project.suite(
        [{"name": f"c{at}", "input": "q", "expect": [{"contains": f"word {at:03}"}]} for at in range(count)],
        evaluations=None,
    )
    project.answers([{"case": f"c{at}", "response": "x"} for at in range(count)])
    ended = project.run("run", "--target", "recorded:answers.jsonl")
    assert "3 more metrics, 3 of them with failures or errors, are in the full report." in ended.stdout
