"""A history in every report: shown as text, whatever its lines hold."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from holodeck_action.extensions.history.history_lines import HistoryLine, MetricPoint
from holodeck_action.extensions.history.history_text import SuiteHistory, console_history, markdown_history
from holodeck_action.extensions.history.trends import history_of
from holodeck_action.reports.comment.size_limit import JOB_SUMMARY
from holodeck_action.reports.custom import CustomTemplate, render_custom
from holodeck_action.reports.formats import json_report, render_markdown
from holodeck_action.reports.history import History
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.terminal.console import console_report
from tests.action.runner import read_log
from tests.record.lines import line, point
from tests.reports.hostile import storable_texts
from tests.reports.pages import Page
from tests.reports.parsing import check_inert
from tests.reports.shown import page, report_of, varied
from tests.reports.test_comment import comment

SENTINEL = "qzxq"


def hostile_lines(text: str) -> tuple[HistoryLine, ...]:
    """Runs of the same code with flaky cases, a quarantine that can end, and a drift, all of them named so."""
    return tuple(
        line(
            day,
            0.9 if day < 11 else 0.1,
            suite=text,
            commit="c" * 40,
            target=text,
            metrics={text: MetricPoint(point(0.9 if day < 11 else 0.1))},
            flaky=(text,),
            quarantined={f"{text} slow": "passed"},
            tool_version=text if day == 11 else "1.0.0",
        )
        for day in range(12)
    )


def history(text: str) -> History:
    found = history_of(hostile_lines(text))
    assert found is not None
    assert len(found.drift) == len(found.advice) == 2
    return found


def with_history(text: str) -> Report:
    return replace(report_of(varied()), history=history(text))


@pytest.mark.full
@given(storable_texts)
@settings(max_examples=40)
def test_every_text_of_a_history_is_shown_as_text(text: str) -> None:
    text = text[:200] + SENTINEL
    report = with_history(text)
    suites = [SuiteHistory(text, hostile_lines(text), report.history)]
    for shown in (render_markdown(report), markdown_history(suites)):
        check_inert(shown, SENTINEL)
        assert read_log(shown.encode()).commands == ()
    for plain in ("".join(console_report(report)), console_history(suites)):
        assert read_log(plain.encode()).commands == ()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2066\u200b]", plain)
    found = Page(page(varied(), history=report.history))
    assert found.stray == []
    assert found.elements == Page(page(varied(), history=history("harmless"))).elements
    assert len(found.head["history"]) == 12
    assert json.loads("".join(json_report(report)))["history"]["metrics"][0]["name"] == text


def test_a_comment_has_one_line_of_it_and_what_is_not_the_pull_requests_doing() -> None:
    shown = comment(with_history("case"))
    assert "last 12 runs: pass rate `███████████▁` 10 %" in shown
    assert "- Drift: `case moved at commit ccccccc with the same suite" in shown
    assert "- Advice: `case slow passed its last 10 runs: release it from quarantine`" in shown
    assert "12 runs" not in comment(report_of(varied()))


def test_a_template_of_ones_own_sees_it() -> None:
    template = CustomTemplate(
        "mine.md",
        "{{ report.history.pass_rate.spark|code }} {{ report.history.metrics[0].latest|number(2) }} "
        "{{ report.history.flaky[0].id|code }} {{ report.history.flaky[0].flaky }}",
    )
    assert render_custom(template, with_history("case"), JOB_SUMMARY) == "`███████████▁` 0.10 `case` 10"


def test_a_failing_case_that_is_known_to_be_flaky_says_so() -> None:
    found = history_of(line(day, flaky=("case-1",) if day % 2 else ()) for day in range(8))
    report = replace(report_of(varied()), history=found)
    said = " · flaky in 4 of the last 8 runs"
    assert f"❌ <b>fails</b> · `agent.yaml:3`{said}<br>" in comment(report)
    assert comment(report).count(said) == 1
    assert f"❌ <b>fails</b> · `agent.yaml:3`{said}<br>" in render_markdown(report)
