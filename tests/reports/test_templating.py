"""Templates cannot show untrusted text by mistake."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from holodeck_action.reports.templating import CUSTOM, html_environment, markdown_environment
from holodeck_action.reports.untrusted import UnfilteredTextError, Untrusted, wrap
from tests.reports.hostile import storable_texts
from tests.reports.parsing import parses
from tests.reports.shown import report_of, varied


def rendered(source: str, **names: Any) -> str:
    return markdown_environment((source, "own.md.j2")).get_template(CUSTOM).render(**names)


def html(source: str, **names: Any) -> str:
    return html_environment().from_string(source).render(**names)


@given(storable_texts)
def test_forgetting_the_filter_in_markdown_gives_code(text: str) -> None:
    for tokens in parses(rendered("a {{ text }} b", text=Untrusted(text))):
        kinds = {token.type for token in tokens[1].children or ()}
        assert len(tokens) == 3
        assert kinds <= {"text", "code_inline"}


def test_forgetting_the_filter_in_html_is_an_error() -> None:
    with pytest.raises(UnfilteredTextError):
        html("<p>{{ text }}</p>", text=Untrusted("<b>"))
    assert html("<p>{{ text|line }}</p>", text=Untrusted("<b>")) == "<p>&lt;b&gt;</p>"


@pytest.mark.parametrize(
    "expression",
    [
        *("text ~ 'x'", "'x' ~ text", "text|upper", "text|replace('a', 'b')", "text|safe", "text|string", "text|trim"),
        *("[text]|join(', ')", "'%s' % text", "'{}'.format(text)", "text|escape", "text|urlencode", "text|title"),
        *("'%s'|format(text)", "text|wordwrap", "text|indent", "text|striptags", "text|forceescape", "text|center"),
    ],
)
def test_no_way_around_the_filters(expression: str) -> None:
    with pytest.raises((UnfilteredTextError, TypeError, AttributeError)):
        rendered("{{ " + expression + " }}", text=Untrusted("@octocat"))


@pytest.mark.parametrize(
    "expression",
    [
        "text",
        "[text]",
        "{'a': text}",
        "[text]|pprint",
        "'%r' % text",
        "[text]|string",
        "text|list|string",
        "report",
        "report.gates",
    ],
)
def test_what_is_shown_anyway_does_not_hold_the_text(expression: str) -> None:
    names = {"text": Untrusted("@octocat"), "report": wrap({"gates": [{"name": "@octocat"}]})}
    try:
        shown = rendered("{{ " + expression + " }}", **names)
    except TypeError:
        return
    assert "@octocat" not in shown or shown == "`@octocat`"


def test_texts_can_be_compared_searched_and_sorted() -> None:
    names = {"items": wrap([{"n": "b"}, {"n": "a"}]), "text": Untrusted("failed")}
    assert rendered(
        "{{ text == 'failed' }} {{ 'ail' in text }} {{ text|length }} {{ text in ['failed'] }}", **names
    ) == ("True True 6 True")
    assert rendered("{{ items|map(attribute='n')|sort|map('code')|join(', ') }}", **names) == "`a`, `b`"
    assert rendered("{{ items|selectattr('n', 'equalto', 'a')|list|length }}", **names) == "1"
    assert rendered("{% for n, group in items|groupby('n') %}{{ n|code }}{% endfor %}", **names) == "`a``b`"


@pytest.mark.parametrize(
    "expression",
    [
        "text._text",
        "text|attr('_text')",
        "report._value",
        "items._items",
        "''.__class__",
        "text.__str__()",
        "'{0._text}'.format(text)",
    ],
)
def test_attributes_are_out_of_reach(expression: str) -> None:
    names = {"text": Untrusted("@octocat"), "report": wrap({"a": 1}), "items": wrap(["a"])}
    with pytest.raises(SecurityError):
        rendered("{{ " + expression + " }}", **names)


def test_a_field_that_is_not_there_is_an_error_that_says_what_is() -> None:
    with pytest.raises(UndefinedError, match=r"there is no field 'nope' here \(there are: passed, failed, error"):
        rendered("{{ report.counts.nope }}", report=wrap(report_of(varied())))


def test_numbers_are_shown_as_readers_want_them() -> None:
    assert rendered("{{ 0.5|number }} {{ none|number }} {{ 0.25|signed(2) }}") == "0.50 – +0.25"
    assert rendered("{{ 0.99999|percent }} {{ 1.0|percent }} {{ 1500|seconds }}") == "99.9 % 100 % 1.5 s"
    assert rendered("{{ none }}|{{ 3 }}|{{ true }}") == "–|3|True"


def test_a_duration_below_a_second_is_not_zero_seconds() -> None:
    shown = rendered("{% for each in (0.312, 27.4, 999.4, 999.6, 75349, none) %}{{ each|seconds }}, {% endfor %}")
    assert shown == "0.31 ms, 27 ms, 999 ms, 1.0 s, 75.3 s, –, "


def test_nothing_random_is_left() -> None:
    for source in ("{{ lipsum() }}", "{{ [1, 2]|random }}"):
        with pytest.raises(Exception, match=r"'(lipsum|random)'"):
            rendered(source)
