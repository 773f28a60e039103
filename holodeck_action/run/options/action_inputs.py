"""Settings from outside: each is declared once, as an input of the Action and an option of the command line.

Inputs come as `INPUT_*` variables, which are read strictly (docs/action.md).

The runner upper-cases an input's name, turns spaces to `_`, keeps hyphens, and sets inputs that were not given to the
empty text (runner source, `Handler.cs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holodeck_action.run.options.input_kinds import (
    AT_LEAST_ONE,
    BASE,
    COUNT,
    DOLLARS,
    FILE,
    FLAG,
    FOLDER,
    FOLDERS,
    GLOBS,
    HISTORY,
    MARGIN,
    PACKAGES,
    PUBLISHED,
    RATE,
    REACTION,
    RESULTS,
    SECONDS,
    SHARD,
    SUITE,
    SUITES,
    TAGS,
    TARGET,
    TEXT,
    TOKEN,
    Kind,
    kind_of,
    one_of,
)
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

_SHOWN = 100


class InputError(ConfigurationError):
    """Inputs that cannot be used; `lines` name each input, its value and what is allowed."""


class Input(NamedTuple):
    """One setting: an input of the Action and, where it has a help text, an option of the command line.

    Attributes:
        name: as it is written under `with:`, and behind `--`.
        setting: what it sets.
        kind: what values it takes.
        help: of the option; empty where the command line has none.
        default: the text that stands for no text; empty for none.
        metavar: what stands for the value in the help; None for the kind's own word.
        secret: its value is shown nowhere.
    """

    name: str
    setting: str
    kind: Kind
    help: str = ""
    default: str = ""
    metavar: str | None = None
    secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that carries it."""
        return f"INPUT_{self.name.replace(' ', '_').upper()}"


def read_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the inputs that are given: value by setting; what is empty or blank is not given.

    Raises:
        InputError: values that are not allowed, all of them.
    """
    given: dict[str, Any] = {}
    problems: list[str] = []
    for item in INPUTS:
        text = environ.get(item.variable, "").strip()
        if not text:
            continue
        try:
            given[item.setting] = item.kind.read(text)
        except ValueError:
            shown = "its value" if item.secret else repr(text[:_SHOWN])
            problems.append(f"input {item.name}: {shown} is not allowed (allowed: {item.kind.allowed})")
    if problems:
        raise InputError(tuple(problems))
    return given


def anchored(settings: Mapping[str, Any], start: Path) -> dict[str, Any]:
    """Return settings whose paths begin in a folder, where relative."""

    def of(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(of, value))
        return GivenPath(value, start) if isinstance(value, Path) else value

    return {setting: of(value) for setting, value in settings.items()}


def output_dir_of(environ: Mapping[str, str], start: Path, *, default: bool = False) -> GivenPath | None:
    """Return the output folder that is given, with or without its default, also where other inputs are of no use."""
    item = next(item for item in INPUTS if item.setting == "output_dir")
    text = environ.get(item.variable, "").strip() or (item.default if default else "")
    return GivenPath(item.kind.read(text), start) if text else None


def given_token(environ: Mapping[str, str]) -> str:
    """Return the token to ask GitHub with: the input's, else the one of the environment; empty for none."""
    item = next(item for item in INPUTS if item.setting == "github_token")
    return environ.get(item.variable, "").strip() or environ.get("GITHUB_TOKEN", "").strip()


def accepts_forks(environ: Mapping[str, str]) -> bool:
    """Tell whether the workflow's author takes the responsibility for code of forks (input `allow-unsafe-forks`)."""
    item = next(item for item in INPUTS if item.setting == "allow_unsafe_forks")
    return read_inputs({item.variable: environ.get(item.variable, "")}).get(item.setting, False) is True


def read_action_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the inputs of a step: as `read_inputs`, with the defaults of action.yml, and misspelt names refused.

    The runner only warns of an unknown name, and a gate that nobody reads would make the step green. A name that is
    like no input's is left alone: the job may have variables of its own.

    Raises:
        InputError: misspelt names and values that are not allowed.
    """
    problems = (*_misspelt(environ), *_without_run(environ))
    given = {name: value for name, value in environ.items() if value.strip()}
    try:
        settings = read_inputs({**{item.variable: item.default for item in INPUTS}, **given})
    except InputError as error:
        raise InputError((*problems, *error.lines)) from None
    if problems:
        raise InputError(problems)
    return settings


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    from difflib import get_close_matches

    names = [item.name for item in INPUTS]
    given = {variable for variable in environ if variable.startswith("INPUT_")}
    for variable in sorted(given - {item.variable for item in INPUTS}):
        name = variable.removeprefix("INPUT_").lower()
        close = get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.8)
        if close:
            yield f"input {name}: there is no such input; did you mean {close[0]}?"


def _without_run(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for every input that only a run has a use for, where nothing is to be run."""
    for instead, names in _INSTEAD_OF_RUN.items():
        if not environ.get(f"INPUT_{instead.upper()}", "").strip():
            continue
        for item in INPUTS:
            value = environ.get(item.variable, "").strip()
            if item.name not in names and value not in ("", item.default):
                yield f"input {item.name}: does not go with {instead}, which runs nothing; leave one of them out"
        return


RUN_INPUTS: tuple[Input, ...] = (
    Input("suite", "suites", SUITES, default="agent.yaml"),
    Input(
        "target",
        "target",
        TARGET,
        "What answers: recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model (the suite's own).",
    ),
    Input(
        "output-dir",
        "output_dir",
        FOLDER,
        "Write results.json, verdict.json, report.md, report.html and junit.xml here.",
        default="holodeck-results",
    ),
    Input("concurrency", "concurrency", AT_LEAST_ONE, "Number of conversations at the same time [default: 10]."),
    Input("turn-timeout", "turn_timeout", SECONDS, "Seconds that the agent may take for a turn [default: 60]."),
    Input("case-timeout", "case_timeout", SECONDS, "Seconds that the agent may take for a case [default: 600]."),
    Input("run-timeout", "run_timeout", SECONDS, "Seconds that the whole run may take [default: no limit]."),
    Input(
        "max-response-bytes",
        "max_response_bytes",
        AT_LEAST_ONE,
        "Size limit of one answer, in bytes [default: 1000000].",
    ),
    Input("max-cost-usd", "max_cost_usd", DOLLARS, "US dollars that the model calls may cost [default: no limit]."),
    Input("max-tokens", "max_tokens", COUNT, "Tokens that the model calls may use [default: no limit]."),
    Input("repeat", "repeat", AT_LEAST_ONE, "Trials of each case."),
    Input("min-pass", "min_pass", AT_LEAST_ONE, "Trials of each case that must pass [default: all]."),
    Input("min-pass-rate", "min_pass_rate", RATE, "Share of cases that must pass [default: 1.0]."),
    Input(
        "min-pass-rate-lower-bound",
        "min_pass_rate_lower_bound",
        RATE,
        "Lowest accepted lower end of the pass rate's 95 % interval.",
    ),
    Input(
        "min-completeness", "min_completeness", RATE, "Share of planned evaluations that must happen [default: 1.0]."
    ),
    Input("max-errors", "max_errors", COUNT, "Cases that may end in error."),
    Input("max-flaky", "max_flaky", COUNT, "Cases that may have both passing and failing trials."),
    Input(
        "max-regressions",
        "max_regressions",
        COUNT,
        "Cases that may fail though they passed on the base [default: 0, where there is a base].",
    ),
    Input(
        "baseline",
        "baseline",
        BASE,
        "What results are compared with: file:PATH, artifact, branch:NAME, or merge-base.",
        metavar="SOURCE",
    ),
    Input(
        "on-missing-baseline",
        "on_missing_baseline",
        one_of("warn", "fail"),
        "What happens when there is nothing to compare with [default: warn].",
    ),
    Input(
        "baseline-margin",
        "baseline_margin",
        MARGIN,
        "The largest loss of pass rate or mean score that counts as none [default: 0.1].",
    ),
    Input(
        "on-regressed",
        "on_regressed",
        REACTION,
        "What happens when the pass rate or a metric is worse beyond chance [default: fail].",
    ),
    Input(
        "on-inconclusive",
        "on_inconclusive",
        REACTION,
        "What happens when a loss above the margin can neither be shown nor ruled out [default: warn].",
    ),
    Input(
        "on-case-regression",
        "on_case_regression",
        REACTION,
        "What happens when a case that passed on the base fails [default: fail].",
    ),
    Input(
        "on-loosened",
        "on_loosened",
        REACTION,
        "What happens when gates, thresholds, cases or judges are less strict than those of the base [default: warn].",
    ),
    Input(
        "history",
        "history",
        HISTORY,
        "Add the run to the history in this folder or branch:NAME, and show what its runs tell together.",
        metavar="DIR",
    ),
    Input(
        "against",
        "against",
        SUITE,
        "Also run this suite, and compare with it.",
        metavar="SUITE",
    ),
    Input(
        "against-target",
        "against_target",
        TARGET,
        "Also ask this target, and compare with its answers.",
        metavar="TARGET",
    ),
    Input(
        "against-model",
        "against_model",
        TEXT,
        "Also ask the suite's own model under this name, and compare with its answers.",
        metavar="NAME",
    ),
    Input(
        "against-prompt",
        "against_prompt",
        FILE,
        "Also ask the suite's own model with these instructions, and compare with its answers.",
        metavar="FILE",
    ),
    Input(
        "bless",
        "bless",
        FILE,
        "With --against: write the better one's results here, for --baseline file:FILE.",
        metavar="FILE",
    ),
    Input("case", "case_globs", GLOBS, "Run only cases whose id or name matches.", metavar="GLOB"),
    Input("tag", "tags", TAGS, "Run only cases with this tag."),
    Input("limit", "limit", AT_LEAST_ONE, "Run only the first N of the selected cases."),
    Input(
        "shard",
        "shard",
        SHARD,
        "Run part I of N of the selected cases, or the part of this parallel job (auto); merge joins all parts.",
        metavar="I/N",
    ),
    Input(
        "failed-from",
        "failed_from",
        RESULTS,
        "Run only the cases that did not pass in this results.json [without a value: .holodeck/last/results.json].",
        metavar="RESULTS",
    ),
    Input(
        "resume",
        "resume",
        FLAG,
        "Continue an interrupted run from the journal in the output directory.",
        default="false",
    ),
    Input("allow-empty", "allow_empty", FLAG, "Accept a suite without cases.", default="false"),
    Input("env-file", "env_file", FILE, "Read variables from this file."),
    Input(
        "requirements",
        "requirements",
        PACKAGES,
        "Run code of suites with these packages: a requirements.txt, a pyproject.toml, a Python, or a package.",
        metavar="PACKAGES",
    ),
    Input("allow-path", "allow_paths", FOLDERS, "Let suites also read files below this folder.", metavar="DIR"),
    Input(
        "allow-plain-http",
        "allow_plain_http",
        FLAG,
        "Allow keys to be sent to other machines over http://, unencrypted.",
        default="false",
    ),
    Input("record", "record", FOLDER, "Record every model call here.", metavar="DIR"),
    Input("replay", "replay", FOLDER, "Answer model calls from here; no key is needed.", metavar="DIR"),
    Input("cache", "cache", FOLDER, "Keep model answers between runs.", metavar="DIR"),
    Input("dry-run", "dry_run", FLAG, "Only print the planned calls and their price.", default="false"),
    Input("template", "template", FILE, "Render report.md with this Jinja template."),
    Input(
        "html",
        "html",
        FLAG,
        "Also write report.html, a page with everything that results.json holds [default: yes].",
        default="true",
    ),
    Input(
        "fail-on",
        "fail_on",
        one_of("violation", "never"),
        "When to end with an exit code: violation, for every verdict except passed [default], or never.",
        default="violation",
    ),
    *(
        Input(
            *(option.name, option.setting, kind_of(option), option.help),
            default="false" if option.flag else "",
            metavar=option.metavar or None,
        )
        for option in registry.options("run")
    ),
)
"""What a run takes: each with a help text is an option of `run`."""

PUBLISH_INPUTS: tuple[Input, ...] = (
    Input("summary", "summary", FLAG, default="true"),
    Input(
        "comment",
        "comment",
        one_of("always", "changes", "failures", "off"),
        "When to write the comment [default: always].",
        default="always",
    ),
    Input("comment-id", "comment_id", TEXT, "Distinguishes this comment from others on the same pull request."),
    Input("check", "check", FLAG, "Write a check run [default: yes]; a personal token cannot.", default="true"),
    Input("check-name", "check_name", TEXT, "Name of the check run."),
    Input(
        "check-fail-on",
        "check_fail_on",
        one_of("violation", "never"),
        "When the check run fails: violation, for every verdict except passed [default], or never.",
        default="violation",
    ),
    Input(
        "review",
        "review",
        one_of("off", "failures"),
        "Review comments on changed lines [default: off].",
        default="off",
    ),
    Input(
        "require-publish",
        "require_publish",
        FLAG,
        "End with exit code 5 when something could not be published.",
        default="false",
    ),
    Input("allow-unsafe-forks", "allow_unsafe_forks", FLAG, default="false"),
    Input("publish", "publish", PUBLISHED),
    Input("merge", "merge", FOLDERS),
    Input("github-token", "github_token", TOKEN, secret=True),
)
"""What publishing takes: each with a help text is an option of `publish`."""

INPUTS = (*RUN_INPUTS, *PUBLISH_INPUTS)
"""All settings that an input or an option gives, in the order of action.yml."""

BOTH = ("template", "fail-on")
"""Inputs of a run that `publish` takes, too."""
_SHOWING = {*BOTH, *(item.name for item in PUBLISH_INPUTS)} - {"allow-unsafe-forks"}
_INSTEAD_OF_RUN = {
    "publish": _SHOWING - {"merge"},
    "merge": _SHOWING | {"output-dir", "html"} - {"publish"},
}
"""Inputs by which a step runs nothing, and those that go with them."""
