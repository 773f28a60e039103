"""Tables of a suite with a check for each case: some rows, and how many there are besides."""

from __future__ import annotations

from holodeck_action.decide.decision import Terms
from holodeck_action.record.result_files import read_record
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.metric_rows import MOST_METRICS
from tests.commands.project import Project
from tests.reports.test_comment import comment


def test_a_table_shows_the_metrics_in_trouble_first(project: Project) -> None:
    count = MOST_METRICS + 20
    cases = [
        {"name": f"c{at}", "input": "q", "expect": [{"contains": f"word {at:03}", "name": f"check {at:03}"}]}
        for at in range(count)
    ]
    project.suite(cases, evaluations=None)
    wrong = {5, count - 1}
    project.answers([{"case": f"c{at}", "response": "x" if at in wrong else f"word {at:03}"} for at in range(count)])
    ended, _ = project.evaluate("--target", "recorded:answers.jsonl")
    report = (project.out / "report.md").read_text(encoding="utf-8")
    for text, row in ((ended.stdout, "check {:03}  "), (report, "| `check {:03}` |")):
        listed = [at for at in range(count) if row.format(at) in text]
        assert len(listed) == MOST_METRICS
        assert wrong < {*listed}
        assert "20 more metrics, none of them with a failure or an error, are in the full report." in text


def test_what_is_left_out_says_how_much_of_it_failed(project: Project) -> None:
    count = MOST_METRICS + 3
    project.suite(
        [
            {"name": f"c{at}", "input": "q", "expect": [{"contains": f"word {at:03}", "name": f"check {at:03}"}]}
            for at in range(count)
        ],
        evaluations=None,
    )
    project.answers([{"case": f"c{at}", "response": "x"} for at in range(count)])
    ended = project.run("run", "--target", "recorded:answers.jsonl")
    assert "3 more metrics, 3 of them with failures or errors, are in the full report." in ended.stdout


def test_checks_of_one_type_share_a_row(project: Project) -> None:
    texts = [f"word {at}" for at in range(9)]
    checks = [[{"contains": text}] for text in texts]
    checks[0] += [{"starts_with": text} for text in texts[:5]]
    cases = [{"name": f"c{at}", "input": "q", "expect": expect} for at, expect in enumerate(checks)]
    project.suite(cases, evaluations=None)
    project.answers([{"case": f"c{at}", "response": text if at else "x"} for at, text in enumerate(texts)])
    ended, _ = project.evaluate("--target", "recorded:answers.jsonl")
    report = (project.out / "report.md").read_text(encoding="utf-8")
    assert "contains (9 checks)   0.89      1       8       1\n" in ended.stdout
    assert "| `contains (9 checks)` | 0.89 | 1 | 8 | 1 |\n" in report
    for text in (ended.stdout, report.partition("### Metrics")[2].partition("###")[0]):
        assert text.count("starts_with") >= 5
    assert 'contains "word 3"' not in ended.stdout
    shown = conclude(read_record(project.out / "results.json"), Terms()).report
    assert "| contains (9 checks) | 0.89 | 1 | 8 | 1 |\n" in comment(shown)
