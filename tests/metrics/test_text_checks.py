"""Checks of an answer's text: in suites, on hostile answers, and against an independent statement of their rules."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action import score, verdict_of
from holodeck_action.metrics import (
    Contains,
    ContainsAll,
    ContainsAny,
    EndsWith,
    NotContains,
    NotRegex,
    Regex,
    StartsWith,
)
from tests.commands.project import Project, evaluations

ANSWER = "We open on  THURSDAY at nine."
SLOW = "^(a|aa)+$"


def passes(project: Project, check: dict[str, Any], answer: str = ANSWER, *, short: bool = True) -> tuple[bool, str]:
    """Run a case with a check, in its short form or as a metric; return whether it passes, and why."""
    case: dict[str, Any] = {"name": "a", "input": "When do you open?"}
    if short:
        project.suite([{**case, "expect": [check]}], evaluations=None)
    else:
        project.suite([case], [check])
    project.answers([{"case": "a", "response": answer}])
    ended, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert ended.code in (0, 1), ended.stderr
    [found] = evaluations(record)
    return ended.code == 0, found.explanation or ""


@pytest.mark.parametrize(
    ("check", "passed", "reason"),
    [
        ({"contains": "THURSDAY"}, True, "the answer contains 'THURSDAY'"),
        (
            {"contains": "Thursday"},
            False,
            "the answer does not contain 'Thursday'; the nearest part is 'We open on  THURSDAY at nine.'",
        ),
        ({"contains": "thursday", "case_insensitive": True}, True, "the answer contains 'thursday'"),
        ({"contains": "on THURSDAY", "strip_whitespace": True}, True, "the answer contains 'on THURSDAY'"),
        ({"not_contains": "sorry"}, True, "the answer does not contain 'sorry'"),
        ({"not_contains": "nine"}, False, "the answer contains 'nine': ...'pen on  THURSDAY at nine.'"),
        ({"not_contains": "NINE", "case_insensitive": True}, False, None),
        ({"not_contains": "on THURSDAY", "strip_whitespace": True}, False, None),
        ({"contains_any": ["ten", "nine"]}, True, "the answer contains 'nine'"),
        ({"contains_any": ["ten", "NINE"]}, False, "the answer contains none of 'ten', 'NINE'"),
        ({"contains_any": ["ten", "NINE"], "case_insensitive": True}, True, None),
        ({"contains_any": ["on THURSDAY"], "strip_whitespace": True}, True, None),
        ({"contains_all": ["open", "nine"]}, True, "the answer contains 'open', 'nine'"),
        ({"contains_all": ["open", "ten", "closed"]}, False, "the answer does not contain 'ten', 'closed'"),
        ({"contains_all": ["open", "ten"], "threshold": 0.5}, True, None),
        ({"contains_all": ["OPEN", "nine"], "case_insensitive": True}, True, None),
        ({"contains_all": ["on THURSDAY"], "strip_whitespace": True}, True, None),
        ({"starts_with": "We open"}, True, "the answer starts with 'We open'"),
        (
            {"starts_with": "Hello"},
            False,
            "the answer does not start with 'Hello': it starts with 'We open on  THURSDAY at n'",
        ),
        ({"starts_with": "we OPEN", "case_insensitive": True}, True, None),
        ({"starts_with": "We open on THURSDAY", "strip_whitespace": True}, True, None),
        ({"ends_with": "at nine."}, True, "the answer ends with 'at nine.'"),
        ({"ends_with": "at ten."}, False, None),
        ({"ends_with": "AT NINE.", "case_insensitive": True}, True, None),
        ({"ends_with": "on THURSDAY at nine.", "strip_whitespace": True}, True, None),
        ({"regex": "[A-Z]{8}"}, True, "/[A-Z]{8}/ matches 'We open on  THURSDAY at nine.'"),
        ({"regex": "(?i)thursday at (nine|ten)"}, True, None),
        ({"regex": "^open"}, False, None),
        ({"not_regex": "sorry|cannot"}, True, "/sorry|cannot/ matches nothing in the answer"),
        ({"not_regex": "n[aeiou]ne"}, False, None),
    ],
)
@pytest.mark.parametrize("short", [True, False], ids=["expect", "metric"])
@pytest.mark.proves(
    "ContainsMetric: type",
    "NotContainsMetric: type",
    "ContainsAnyMetric: type",
    "ContainsAllMetric: type threshold",
    "StartsWithMetric: type",
    "EndsWithMetric: type",
    "RegexMetric: type",
    "NotRegexMetric: type",
    "TextCheck: case_insensitive strip_whitespace",
    "_OneText: value",
    "_SeveralTexts: values",
    "_PatternCheck: pattern",
)
def test_checks(project: Project, check: dict[str, Any], passed: bool, reason: str | None, short: bool) -> None:
    if not short:
        (kind, value), *rest = check.items()
        key = "pattern" if "regex" in kind else "values" if isinstance(value, list) else "value"
        check = {"type": kind, key: value, **dict(rest)}
    found, why = passes(project, check, short=short)
    assert found == passed, why
    if reason is not None:
        assert why == reason


@pytest.mark.parametrize(
    "check",
    [
        {"contains": "x"},
        {"not_contains": "x"},
        {"contains_any": ["x"]},
        {"contains_all": ["x"]},
        {"starts_with": "x"},
        {"ends_with": "x"},
        {"regex": "x"},
        {"not_regex": "x"},
    ],
    ids=lambda check: next(iter(check)),
)
@pytest.mark.parametrize("answer", ["", " \n"], ids=["empty", "blank"])
def test_an_empty_answer_passes_no_check(project: Project, check: dict[str, Any], answer: str) -> None:
    found, why = passes(project, check, answer)
    assert not found
    assert "the answer is empty" in why


@pytest.mark.full
def test_a_pattern_that_takes_too_long_is_an_error_and_no_failed_case(project: Project) -> None:
    project.suite([{"name": "a", "input": "q", "expect": [{"regex": SLOW}]}], evaluations=None)
    project.answers([{"case": "a", "response": "a" * 60 + "b"}])
    ended, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert ended.code == 3
    [found] = evaluations(record)
    assert found.error is not None
    assert found.error.code == "pattern_timeout"


def test_the_name_is_the_type_and_the_value(project: Project) -> None:
    long = "a text that has many more characters than a name can show"
    checks: list[dict[str, Any]] = [
        {"contains": "Thursday"},
        {"contains": "Thursday", "name": "day"},
        {"contains_any": ["nine", "ten"]},
        {"not_regex": "sorry|cannot"},
        {"contains": long},
    ]
    project.suite([{"name": "a", "input": "q", "expect": checks}], evaluations=None)
    project.answers([{"case": "a", "response": ANSWER}])
    _, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert [each.evaluator_name for each in evaluations(record)] == [
        'contains "Thursday"',
        "day",
        'contains_any "nine", "ten"',
        "not_regex /sorry|cannot/",
        f'contains "{long[:39]}...',
    ]


def test_a_hostile_answer_stays_one_line(project: Project) -> None:
    answer = "<script>alert(1)</script>\x1b[31m\u202e @octo `|`\n# head " * 3
    project.suite(
        [{"name": "a", "input": "q", "expect": [{"contains": "Thursday"}, {"regex": "head (?=Z)"}]}], evaluations=None
    )
    project.answers([{"case": "a", "response": answer}])
    ended, _ = project.evaluate("--target", "recorded:answers.jsonl")
    assert ended.code == 1
    reasons = [line for line in ended.stdout.splitlines() if line.lstrip().startswith(("contains", "regex"))]
    assert len(reasons) >= 2
    assert not any(mark in ended.stdout for mark in ("\x1b", "\u202e"))


TEXTS = st.text(alphabet="abAB ßſıİΣς.\n\t", max_size=12)
VALUES = TEXTS.filter(lambda text: text.strip() != "")


def plain(text: str, *, fold: bool, spaces: bool) -> str:
    """Normalise as docs/metrics.md says, in another order of steps than the product."""
    text = " ".join(text.split()) if spaces else text
    return "".join(character.casefold() for character in text) if fold else text


@given(TEXTS, VALUES, st.booleans(), st.booleans())
def test_checks_against_their_rules(answer: str, value: str, fold: bool, spaces: bool) -> None:
    options: dict[str, Any] = {"case_insensitive": fold, "strip_whitespace": spaces}
    here, wanted = plain(answer, fold=fold, spaces=spaces), plain(value, fold=fold, spaces=spaces)
    at = [start for start in range(len(here) + 1) if here[start : start + len(wanted)] == wanted]
    rules = [
        (Contains(value=value, **options), bool(at)),
        (NotContains(value=value, **options), not at and bool(here.strip())),
        (ContainsAny(values=[value, "zz"], **options), bool(at)),
        (ContainsAll(values=[value, value], **options), bool(at)),
        (StartsWith(value=value, **options), 0 in at),
        (EndsWith(value=value, **options), len(here) - len(wanted) in at),
        (Regex(pattern=re.escape(value)), value in answer),
        (NotRegex(pattern=re.escape(value)), value not in answer and bool(answer.strip())),
    ]
    for metric, expected in rules:
        found = metric.compute(response=answer)
        assert (found.score == 1.0, found.passed) == (expected, expected), (metric, found.reasoning)


def test_a_share_is_a_score_from_python() -> None:
    found = score(ContainsAll(values=["a", "b", "c"]), "abba")
    assert found.score == pytest.approx(2 / 3)
    assert verdict_of(found).outcome == "failed"
    assert found.metadata["missing"] == ["c"]
