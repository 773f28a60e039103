"""Inputs are read strictly: what is not allowed is named with its value and what is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holodeck_action.run.options.action_inputs import InputError, read_action_inputs, read_inputs

WHOLE = "a whole number, 1 or more"
RATE = "a number from 0 to 1"
SECONDS = "a number of seconds above 0"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("concurrency", "0", WHOLE),
        ("concurrency", "1_0", WHOLE),
        ("concurrency", "+1", WHOLE),
        ("concurrency", "1.0", WHOLE),
        ("concurrency", "9" * 19, WHOLE),
        ("repeat", "two", WHOLE),
        ("min-pass", "", None),
        ("max-errors", "-1", "a whole number, 0 or more"),
        ("limit", "٣", WHOLE),
        ("min-pass-rate", "1.1", RATE),
        ("min-pass-rate", "-0", RATE),
        ("min-pass-rate", "nan", RATE),
        ("min-pass-rate-lower-bound", "0x1", RATE),
        ("min-completeness", "90%", RATE),
        ("run-timeout", "inf", SECONDS),
        ("turn-timeout", "0", SECONDS),
        ("turn-timeout", "0.0", SECONDS),
        ("case-timeout", "1e999", SECONDS),
        ("resume", "True", "true, false"),
        ("allow-empty", "1", "true, false"),
        ("summary", "yes", "true, false"),
        ("fail-on", "failed", "violation, never"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(name: str, value: str, allowed: str | None) -> None:
    environ = {f"INPUT_{name.upper()}": value}
    if allowed is None:
        assert read_inputs(environ) == {}
        return
    with pytest.raises(InputError) as refused:
        read_inputs(environ)
    assert refused.value.lines == (f"input {name}: {value!r} is not allowed (allowed: {allowed})",)


@pytest.mark.parametrize(
    ("name", "value", "setting", "read"),
    [
        ("suite", "a.yaml\n\n  b/**/agent.yaml \r\n", "suites", ("a.yaml", "b/**/agent.yaml")),
        ("case", " refund* ", "case_globs", ("refund*",)),
        ("tag", "one two\nthree", "tags", ("one two", "three")),
        ("concurrency", " 007\n", "concurrency", 7),
        ("max-flaky", "0", "max_flaky", 0),
        ("min-pass-rate", "1", "min_pass_rate", 1.0),
        ("min-pass-rate", ".5", "min_pass_rate", 0.5),
        ("turn-timeout", "2.5e1", "turn_timeout", 25.0),
        ("resume", "true", "resume", True),
        ("summary", "false", "summary", False),
        ("fail-on", "never", "fail_on", "never"),
        ("output-dir", "a b", "output_dir", Path("a b")),
        ("github-token", "ghs_x", "github_token", "ghs_x"),
    ],
)
def test_a_value_is_read(name: str, value: str, setting: str, read: Any) -> None:
    assert read_inputs({f"INPUT_{name.upper()}": value}) == {setting: read}


def test_blank_inputs_leave_the_defaults() -> None:
    defaults = {
        "suites": ("agent.yaml",),
        "output_dir": Path("holodeck-results"),
        "resume": False,
        "allow_empty": False,
        "allow_plain_http": False,
        "cluster_insecure": False,
        "html": True,
        "fail_on": "violation",
        "summary": True,
        "comment": "always",
        "check": True,
        "check_fail_on": "violation",
        "review": "off",
        "require_publish": False,
        "allow_unsafe_forks": False,
        "dry_run": False,
    }
    assert read_action_inputs({}) == defaults
    assert read_action_inputs({"INPUT_SUITE": "", "INPUT_FAIL-ON": " \n", "INPUT_TARGET": ""}) == defaults
    assert read_inputs({"INPUT_SUITE": ""}) == {}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("MIN_PASS_RATE", "min-pass-rate"),
        ("SUITES", "suite"),
        ("TAGS", "tag"),
        ("FAIL_ON", "fail-on"),
        ("CASES", "case"),
    ],
)
def test_a_misspelt_name_is_refused(written: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"^input {written.lower()}: there is no such input; did you mean {meant}\\?$"):
        read_action_inputs({f"INPUT_{written}": "x"})


def test_the_jobs_own_variables_are_left_alone() -> None:
    own = {"INPUT_DIR": "x", "INPUT_FILE": "x", "INPUT_DATA": "x", "INPUT_": "x", "SUITES": "x", "INPUT_ARGS": "x"}
    assert read_action_inputs(own) == read_action_inputs({})


def test_every_problem_is_told_at_once_and_no_secret() -> None:
    environ = {"INPUT_REPEAT": "x", "INPUT_LIMIT": "y", "INPUT_SUITES": "z"}
    with pytest.raises(InputError) as refused:
        read_action_inputs(environ)
    assert [line.partition(":")[0] for line in refused.value.lines] == ["input suites", "input repeat", "input limit"]
