"""Inputs and the options in `args` are read strictly: what is not allowed is named with its value and what is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holodeck_action.commands.step_inputs import OPTIONS, StepInputs, read_step_inputs
from holodeck_action.run.options.input_values import InputError, read_inputs
from holodeck_action.seam import registry
from holodeck_action.text.redaction import Redactor
from tests.tables import walk

WHOLE = "a whole number, 1 or more"
RATE = "a number from 0 to 1"
SECONDS = "a number of seconds above 0"


SECRET = "hT5kQ9vB2xW8"
OF_RUN = {item.name: item for item in OPTIONS["run"]}


def read(environ: dict[str, str]) -> StepInputs:
    return read_step_inputs(environ, Redactor([SECRET]))


def problems(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(InputError) as refused:
        read(environ)
    return refused.value.lines


def args(*lines: str) -> dict[str, str]:
    return {"INPUT_ARGS": "\n".join(lines)}


@walk(
    ("name", "value", "allowed"),
    [
        ("concurrency", "0", WHOLE),
        ("concurrency", "1_0", WHOLE),
        ("concurrency", "+1", WHOLE),
        ("concurrency", "1.0", WHOLE),
        ("concurrency", "9" * 19, WHOLE),
        ("repeat", "two", WHOLE),
        ("repeat", "", None),
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
        ("check", "yes", "true, false"),
        ("check", "True", "true, false"),
        ("command", "walk", ", ".join(("run", "compare", *registry.steps()))),
        ("fail-on", "failed", "violation, never"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(name: str, value: str, allowed: str | None) -> None:
    if allowed is None:
        assert read_inputs({f"INPUT_{name.upper()}": value}) == {}
    elif name in OF_RUN:
        refusal = f"args: --{name}: {value!r} is not allowed (allowed: {allowed})"
        assert problems(args(f"--{name}={value}")) == problems(args(f"--{name} {value}")) == (refusal,)
    else:
        found = problems({f"INPUT_{name.upper()}": value})
        assert found == (f"input {name}: {value!r} is not allowed (allowed: {allowed})",)


@walk(
    ("name", "value", "setting", "expected"),
    [
        ("suite", "a.yaml\n\n  b/**/agent.yaml \r\n", "suites", ("a.yaml", "b/**/agent.yaml")),
        ("case", " refund* ", "case_globs", ("refund*",)),
        ("tag", "one two\nthree", "tags", ("one two", "three")),
        ("concurrency", " 007\n", "concurrency", 7),
        ("max-flaky", "0", "max_flaky", 0),
        ("min-pass-rate", "1", "min_pass_rate", 1.0),
        ("min-pass-rate", ".5", "min_pass_rate", 0.5),
        ("turn-timeout", "2.5e1", "turn_timeout", 25.0),
        ("check", "false", "check", False),
        ("fail-on", "never", "fail_on", "never"),
        ("output-dir", "a b", "output_dir", Path("a b")),
        ("github-token", "ghs_x", "github_token", "ghs_x"),
    ],
)
def test_a_value_is_read(name: str, value: str, setting: str, expected: Any) -> None:
    given = args(f"--{name} {value}") if name in OF_RUN else {f"INPUT_{name.upper()}": value}
    assert read(given).settings[setting] == expected
    if name not in OF_RUN:
        assert read_inputs(given) == {setting: expected}


@pytest.mark.needs
@walk(
    ("line", "setting", "expected"),
    [
        ("--resume", "resume", True),
        ("--no-html", "html", False),
        ("--html", "html", True),
        ("--no-summary", "summary", False),
        ("--check-name  Agent of `the` shop = $HOME ", "check_name", "Agent of `the` shop = $HOME"),
        ('--check-name="Agent"', "check_name", '"Agent"'),
        ("--template=a b=c.j2", "template", Path("a b=c.j2")),
        ("--requirements ./a\r\n\n  --requirements=b>=1 ", "requirements", ("./a", "b>=1")),
        ("--cluster-env A\n--cluster-env B", "cluster_env", ("A", "B")),
    ],
)
def test_a_line_of_args_is_split_once(line: str, setting: str, expected: Any) -> None:
    assert read({"INPUT_ARGS": line}).settings[setting] == expected


@walk(
    ("line", "problem"),
    [
        ("min-pass-rate 0.9", "min-pass-rate 0.9: each line is one option, such as --min-pass-rate 0.9"),
        ("-o out", "-o out: each line is one option, such as --min-pass-rate 0.9"),
        ("# gates", "# gates: each line is one option, such as --min-pass-rate 0.9"),
        ("--min-pas-rate 1", "--min-pas-rate: there is no such option; did you mean --min-pass-rate?"),
        ("--wordy", "--wordy: there is no such option"),
        ("--args --resume", "--args: there is no such option"),
        ("--no-resume", "--no-resume: there is no such option; did you mean --resume?"),
        ("--format json", "--format: there is no such option"),
        ("--max-errors", "--max-errors: needs a value (allowed: a whole number, 0 or more)"),
        ("--max-errors=", "--max-errors: needs a value (allowed: a whole number, 0 or more)"),
        ("--resume true", "--resume: takes no value; write only --resume"),
        ("--no-html=1", "--no-html: takes no value; write only --no-html"),
        ("--max-errors 1\n--max-errors 2", "--max-errors: is given twice; leave out one of them"),
        ("--html\n--no-html", "--no-html: is given twice; leave out one of them"),
        ("--target model", "--target: is an input; set `target: model` under `with`"),
        ("--suite", "--suite: is an input; set `suite: …` under `with`"),
        ("--no-check", "--no-check: is an input; set `check: false` under `with`"),
        (
            f"--check-name x{SECRET}",
            "--check-name x***: holds a secret; the step takes secrets as variables, under env",
        ),
        (f"--{SECRET}", "--***: holds a secret; the step takes secrets as variables, under env"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused(line: str, problem: str) -> None:
    assert problems({"INPUT_ARGS": line}) == (f"args: {problem}",)


@walk(
    ("name", "text", "instead"),
    [
        ("min-pass-rate", "0.9", "write `--min-pass-rate 0.9` in args, or gates.min_pass_rate in holodeck-action.yaml"),
        ("on-loosened", "fail", "write `--on-loosened fail` in args, or baseline.on_loosened in holodeck-action.yaml"),
        ("resume", "true", "write `--resume` in args"),
        ("resume", "false", "leave it out"),
        ("html", "false", "write `--no-html` in args"),
        ("allow-unsafe-forks", "true", "write `--allow-unsafe-forks` in args"),
        ("env-file", ".env", "write `--env-file .env` in args"),
        ("requirements", "a\nb", "write `--requirements a` and `--requirements b` in args"),
        ("check-name", SECRET, "write `--check-name ***` in args"),
    ],
)
def test_an_option_as_an_input_is_refused_with_the_line_to_write(name: str, text: str, instead: str) -> None:
    found = problems({f"INPUT_{name.upper()}": text})
    assert found == (f"input {name}: there is no such input, since it is an option: {instead}",)
    if SECRET not in text and instead != "leave it out":
        lines = [part for part in instead.split("`") if part.startswith("--")]
        assert read(args(*lines)).settings[OF_RUN[name].setting] != read({}).settings.get(OF_RUN[name].setting)
        with pytest.raises(InputError, match=r"add `--.*` to the command$"):
            read_inputs({f"INPUT_{name.upper()}": text})


def test_every_option_is_refused_as_an_input() -> None:
    """So is a former input: once each option was one."""
    for name in OF_RUN:
        assert problems({f"INPUT_{name.upper()}": "1"})[0].startswith(f"input {name}: there is no such input")


def test_lines_of_a_comparison() -> None:
    given = args("base", "-1", "--on-regressed warn", "--format markdown", "--output out.md")
    found = read({"INPUT_COMMAND": "compare", **given})
    assert (found.command, found.records) == ("compare", ("base", "-1"))
    assert (found.settings["on_regressed"], found.settings["file"]) == ("warn", Path("out.md"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"INPUT_TARGET": "model"}, "input target: cannot be combined with command compare, which runs nothing"),
        ({"INPUT_PUBLISH": "a"}, "input publish: cannot be combined with command compare, which runs nothing"),
        (args("--max-errors 1"), "args: --max-errors: cannot be combined with command compare"),
    ],
)
def test_what_a_comparison_does_not_use_is_refused(given: dict[str, str], problem: str) -> None:
    assert problems({"INPUT_COMMAND": "compare", **given}) == (f"{problem}; leave out one of them",)


def test_what_publishing_does_not_use_is_refused() -> None:
    found = problems({"INPUT_PUBLISH": "a", "INPUT_REPEAT": "2", **args("--max-errors 1", "--no-summary")})
    assert found == (
        "input repeat: cannot be combined with publish, which runs nothing; leave out one of them",
        "args: --max-errors: cannot be combined with publish, which runs nothing; leave out one of them",
    )


@pytest.mark.needs
def test_blank_inputs_leave_the_defaults() -> None:
    defaults = {
        "suites": ("agent.yaml",),
        "output_dir": Path("holodeck-results"),
        "resume": False,
        "allow_empty": False,
        "allow_plain_http": False,
        "cluster_insecure": False,
        "codequality": False,
        "intoto": False,
        "sarif": False,
        "accept_stored": False,
        "without_plugin": False,
        "html": True,
        "fail_on": "violation",
        "summary": True,
        "comment": "always",
        "check": True,
        "check_fail_on": "violation",
        "review": "off",
        "require_publish": False,
        "allow_unsafe_forks": False,
        "no_cache": False,
        "dry_run": False,
        "verbose": False,
        "command": "run",
    }
    assert read({}) == read({"INPUT_ARGS": " \n", "INPUT_COMMAND": ""}) == ("run", defaults, (), ())
    assert read({"INPUT_SUITE": "", "INPUT_FAIL-ON": " \n", "INPUT_TARGET": ""}).settings == defaults
    assert read_inputs({"INPUT_SUITE": ""}) == {}


@walk(
    ("written", "meant"),
    [
        ("MIN_PASS_RATE", "`--min-pass-rate x` in args"),
        ("SUITES", "suite"),
        ("TAGS", "tag"),
        ("FAIL_ON", "fail-on"),
        ("CASSE", "case"),
    ],
)
def test_a_misspelt_name_is_refused(written: str, meant: str) -> None:
    found = problems({f"INPUT_{written}": "x"})
    assert found == (f"input {written.lower()}: there is no such input; did you mean {meant}?",)


def test_the_jobs_own_variables_are_left_alone() -> None:
    own = {"INPUT_DIR": "x", "INPUT_FILE": "x", "INPUT_DATA": "x", "INPUT_": "x", "SUITES": "x"}
    assert read(own) == read({})
    # The runner sets these for `uses: docker://IMAGE`, whose command line they are.
    assert read_inputs({"INPUT_ARGS": "run agent.yaml", "INPUT_COMMAND": "x"}) == {}


def test_every_problem_is_told_at_once() -> None:
    environ = {"INPUT_REPEAT": "x", "INPUT_SUITES": "z", "INPUT_LIMIT": "1", **args("--max-errors y")}
    places = [line.partition(": ")[0] for line in problems(environ)]
    assert places == ["input limit", "input suites", "input repeat", "args"]
