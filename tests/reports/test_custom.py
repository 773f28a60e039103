"""Templates of the user's: what they can do, and what the process keeps them from."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.reports.comment.size_limit import SizeLimit
from holodeck_action.reports.custom import (
    MAX_SOURCE,
    CustomTemplate,
    Limits,
    TemplateError,
    read_template,
    render_custom,
)
from holodeck_action.reports.formats import markdown_report, render_markdown
from tests.reports.hostile import hostile_record
from tests.reports.parsing import check_inert
from tests.reports.shown import report_of, varied

REPORT = report_of(varied(), "suites/one")


def made(source: str, limit: SizeLimit = SizeLimit(10**6, 10**6)) -> str:  # noqa: B008 - a value
    return render_custom(CustomTemplate("own.md.j2", source), REPORT, limit)


def failure(source: str) -> str:
    with pytest.raises(TemplateError) as caught:
        made(source)
    return str(caught.value)


def test_a_template_sees_the_report() -> None:
    source = (
        "# {{ report.suite|code }}: {{ report.outcome|word }}\n"
        "{% for case in report.attention %}"
        "{{ case.position }} {{ case.title|cell }} {{ case.turns|length }}\n{% endfor %}"
        "{{ report.counts.passed }} {{ report.spend.cost_usd|usd }} {{ detail }}\n"
    )
    assert made(source) == (
        "# `suite`: failed\n1 `fails` 1\n7 `two turns` 2\n2 `crashes` 1\n3 `was not run` 0\n4 `is quarantined` 1\n"
        "2 $0.0100 full\n"
    )


@pytest.mark.full
def test_a_template_can_build_on_the_shipped_one() -> None:
    source = (
        '{% extends "summary.md.j2" %}{% block metrics %}No metrics.\n{% endblock %}'
        "{% block attention %}"
        "{% for case in report.attention %}{{ show.case_row(report, case) }}{% endfor %}{% endblock %}"
    )
    text = made(source)
    assert "No metrics." in text
    assert "### Metrics" not in text
    assert "| ❌ | `two turns` | `suites/one/agent.yaml:3` |" in text
    assert made('{% include "summary.md.j2" %}') == render_markdown(REPORT, SizeLimit(10**6, 10**6))


@pytest.mark.full
def test_a_template_whose_output_is_too_long_is_asked_for_less_and_then_cut() -> None:
    by_detail = "{{ 'x' * 400 if detail == 'full' else detail }}\n"
    assert made(by_detail, SizeLimit(300, 300)) == "counts\n"
    cut = made("{% for n in range(100) %}line {{ n }}\n{% endfor %}", SizeLimit(300, 300))
    assert cut.startswith("line 0\n")
    assert cut.endswith("_The report was cut here: the whole record is in results.json_\n")
    assert len(cut) <= 300


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("a\n\n{% if %}", "own.md.j2:3: Expected an expression, got 'end of statement block'"),
        ("a\n{% endfor %}", "own.md.j2:2: Encountered unknown tag 'endfor'."),
        ("a\n{{ nope }}", "own.md.j2:2: 'nope' is undefined"),
        ("a\n{{ report.suite|nope }}", "own.md.j2:2: No filter named 'nope'."),
        ("\n{{ ''.__class__.__mro__ }}", "own.md.j2:2: access to attribute '__class__' of 'str' object is unsafe."),
        ("{{ report.suite._text }}", "own.md.j2:1: access to attribute '_text' of 'Untrusted' object is unsafe."),
        ("{{ 1 / 0 }}", "own.md.j2:1: division by zero"),
        ("{{ report.suite ~ 'x' }}", "own.md.j2:1: text of the report must first pass through a filter"),
        (
            "{% include 'nope.j2' %}",
            "own.md.j2:1: there is no template 'nope.j2'; only the shipped ones can be included",
        ),
        ("{% include '../LICENSE' %}", "own.md.j2:1: there is no template '../LICENSE'; only the shipped ones"),
        ("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", "maximum recursion depth exceeded"),
        ("{{ range(1000000) }}", "own.md.j2:1: Range too big."),
        ("\n{{ 'x' * 5000000000 }}", "own.md.j2:2: the template used more memory than is allowed"),
        (
            "{% for a in range(99999) %}{{ 'x' * 20000 }}{% endfor %}",
            "the template wrote more than 8,388,608 characters",
        ),
    ],
)
def test_what_a_template_does_wrong_is_one_sentence_with_its_line(source: str, sentence: str) -> None:
    said = failure(source)
    assert sentence in said
    assert "\n" not in said
    assert said.startswith("own.md.j2:")


@pytest.mark.full
@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "own.md.j2:2: "),
        # One computation that no signal reaches: the system ends the process.
        ("{{ (7 ** (10 ** 8))|string|length }}", "own.md.j2: "),
    ],
)
def test_an_endless_template_is_ended(source: str, where: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render_custom(CustomTemplate("own.md.j2", source), REPORT, limits=Limits(cpu_s=1))
    assert str(caught.value).startswith(where)
    assert "more than 1 s of processor time" in str(caught.value)


def test_a_template_that_cannot_be_used_gives_the_built_in_report_and_a_sentence() -> None:
    said: list[str] = []
    text = markdown_report(REPORT, CustomTemplate("own.md.j2", "{{ nope }}"), said.append)
    assert text == render_markdown(REPORT)
    assert said == ["own.md.j2:1: 'nope' is undefined; the built-in report is used instead"]


def test_a_template_shows_hostile_answers_as_code() -> None:
    source = (
        "{% for case in report.attention %}\n\n{{ case.title }}\n\n{% for turn in case.turns %}{{ turn.response }} "
        "{{ turn.response|code }}\n\n| a |\n| - |\n| {{ turn.input|cell }} |\n{{ turn.response|fence }}"
        "{% endfor %}{% endfor %}"
    )
    text = render_custom(CustomTemplate("own.md.j2", source), report_of(hostile_record(20, 3000)))
    check_inert(text, "octocat")


@pytest.mark.full
def test_secrets_of_the_job_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", "hunter22")
    for source in (
        "{{ environ }}",
        "{{ cycler.__init__.__globals__.os.environ }}",
        "{{ self._TemplateReference__context }}",
    ):
        assert "hunter22" not in failure(source)


def test_files_that_are_no_template(tmp_path: Path) -> None:
    missing, binary, large = tmp_path / "missing", tmp_path / "binary", tmp_path / "large"
    binary.write_bytes(b"\xff\xfe")
    large.write_bytes(b"x" * (MAX_SOURCE + 1))
    for path, sentence in (
        (missing, "cannot be read: No such file or directory; give the file of a Jinja template"),
        (tmp_path, "cannot be read: Is a directory; give the file of a Jinja template"),
        (binary, "is not UTF-8 text (line 1); save it as UTF-8"),
        (large, "has 1,048,577 bytes; at most 1,048,576 are read: give a smaller one"),
    ):
        with pytest.raises(TemplateError) as caught:
            read_template(path)
        assert str(caught.value) == f"{path}: {sentence}"
