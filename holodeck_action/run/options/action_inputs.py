"""The settings of a run and of publishing: each is declared once, as an input of the Action and an option.

Inputs come as `INPUT_*` variables, which are read strictly (docs/action.md).

The runner upper-cases an input's name, replaces spaces by `_`, keeps hyphens, and sets missing inputs to an empty
string (runner source, `Handler.cs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
    """Inputs have invalid values; `lines` name each such input, its value and the allowed values."""


Group = Literal[
    "Cases",
    "Agent and limits",
    "Judge",
    "Gates",
    "Comparison and history",
    "Model calls",
    "Files and packages",
    "Publishing",
    "Output",
    "Other",
]
"""Titles of groups of options in the help of a command, in their order."""


class Input(NamedTuple):
    """One setting: an input of the Action and, if it has a help text, an option of the command line.

    Attributes:
        name: name of the input under `with:`, and of the option after `--`.
        kind: kind of the setting's values.
        help: help text of the option; empty if the setting is an input only.
        key: the policy file's key that the setting overrides, such as `baseline.source`, or only its section if the key
            has the setting's name; empty if the setting overrides no key.
        default: text that is used if the input is empty; empty if the setting has no default.
        called: name of the setting in the code; empty if it equals `name`.
        metavar: placeholder for the value in the help; empty to use the kind's placeholder.
        short: letter of the short option; empty if there is no short option.
        secret: whether the value must not be shown.
        group: title of the group in the help that lists the option.
        everyday: whether `--help` of a command with many options lists the option; `--help-all` lists all.
    """

    name: str
    kind: Kind
    help: str = ""
    key: str = ""
    default: str = ""
    called: str = ""
    metavar: str = ""
    short: str = ""
    secret: bool = False
    group: Group = "Other"
    everyday: bool = False

    @property
    def setting(self) -> str:
        """Name of the setting in the code."""
        return self.called or self.name.replace("-", "_")

    @property
    def policy_key(self) -> str:
        """Key that the setting overrides in the policy file, such as `gates.max_errors`; empty if it overrides none."""
        return self.key if "." in self.key or not self.key else f"{self.key}.{self.setting}"

    @property
    def variable(self) -> str:
        """Name of the environment variable that the runner sets to the input's value."""
        return f"INPUT_{self.name.replace(' ', '_').upper()}"

    def text_in(self, environ: Mapping[str, str]) -> str:
        """Return the input's text in the environment; empty if the input is not set."""
        return environ.get(self.variable, "").strip()


def read_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of inputs by setting name, without blank inputs.

    Raises:
        InputError: inputs have values that are not allowed.
    """
    given: dict[str, Any] = {}
    problems: list[str] = []
    for item in INPUTS:
        text = item.text_in(environ)
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


def anchor_paths(settings: Mapping[str, Any], start: Path) -> dict[str, Any]:
    """Return settings in which relative paths are resolved against the folder `start`."""

    def anchor(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(anchor, value))
        return GivenPath(value, start) if isinstance(value, Path) else value

    return {setting: anchor(value) for setting, value in settings.items()}


def output_dir_of(environ: Mapping[str, str], start: Path, *, default: bool = False) -> GivenPath | None:
    """Return the input `output-dir`, or its default if `default` is true, even if other inputs are invalid."""
    item = _find_input("output_dir")
    text = item.text_in(environ) or (item.default if default else "")
    return GivenPath(item.kind.read(text), start) if text else None


def github_token(environ: Mapping[str, str]) -> str:
    """Return the GitHub token from the input, or else from `GITHUB_TOKEN`; empty if there is no token."""
    return _find_input("github_token").text_in(environ) or environ.get("GITHUB_TOKEN", "").strip()


def accepts_forks(environ: Mapping[str, str]) -> bool:
    """Return whether the workflow's author accepts the risk of running code of forks (input `allow-unsafe-forks`)."""
    item = _find_input("allow_unsafe_forks")
    return read_inputs({item.variable: item.text_in(environ)}).get(item.setting, False) is True


def _find_input(setting: str) -> Input:
    return next(item for item in INPUTS if item.setting == setting)


def policy_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values that override the policy file, by its key, such as `gates.max_errors`."""
    return {item.policy_key: value for item in INPUTS if item.key and (value := given.get(item.setting)) is not None}


def read_action_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a step's inputs by setting name, with the defaults of action.yml.

    Misspelt names are refused: the runner only warns about them, and the step could pass without the intended gate.
    Variables whose names are not similar to an input's are ignored, since the job may define its own.

    Raises:
        InputError: inputs have misspelt names or values that are not allowed.
    """
    problems = (*_misspelt_inputs(environ), *_inputs_without_effect(environ))
    given = {name: value for name, value in environ.items() if value.strip()}
    try:
        settings = read_inputs({**{item.variable: item.default for item in INPUTS}, **given})
    except InputError as error:
        raise InputError((*problems, *error.lines)) from None
    if problems:
        raise InputError(problems)
    return settings


def _misspelt_inputs(environ: Mapping[str, str]) -> Iterator[str]:
    from difflib import get_close_matches

    names = [item.name for item in INPUTS]
    given = {variable for variable in environ if variable.startswith("INPUT_")}
    for variable in sorted(given - {item.variable for item in INPUTS}):
        name = variable.removeprefix("INPUT_").lower()
        close = get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.8)
        if close:
            yield f"input {name}: there is no such input; did you mean {close[0]}?"


def _inputs_without_effect(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield an error sentence for each set input that only a run uses, if the step runs nothing."""
    for instead, names in _INSTEAD_OF_RUN.items():
        if not environ.get(f"INPUT_{instead.upper()}", "").strip():
            continue
        for item in INPUTS:
            if item.name not in names and item.text_in(environ) not in ("", item.default):
                yield f"input {item.name}: cannot be combined with {instead}, which runs nothing; leave out one of them"
        return


def _switch(name: str, help: str = "", *, on: bool = False) -> Input:
    """Return a boolean input, whose default is `on`."""
    return Input(name, FLAG, help, default="true" if on else "false")


def _in_group(group: Group, *items: Input, everyday: tuple[str, ...] = ()) -> tuple[Input, ...]:
    """Return the inputs with their `group` set, those named in `everyday` as everyday options."""
    return tuple(item._replace(group=group, everyday=item.name in everyday) for item in items)


RUN_INPUTS: tuple[Input, ...] = (
    Input("suite", SUITES, default="agent.yaml", called="suites"),
    *_in_group(
        "Agent and limits",
        Input(
            "target",
            TARGET,
            "The target: recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model (the suite's own).",
        ),
        Input("concurrency", AT_LEAST_ONE, "Maximum number of concurrent conversations [default: 10].", "limits"),
        Input(
            "turn-timeout",
            SECONDS,
            "Time limit for a turn of the agent, in seconds [default: 60].",
            "limits.turn_timeout_s",
        ),
        Input(
            "case-timeout",
            SECONDS,
            "Time limit for a case of the agent, in seconds [default: 600].",
            "limits.case_timeout_s",
        ),
        Input(
            "run-timeout",
            SECONDS,
            "Time limit for the run, in seconds [default: no limit].",
            called="run_timeout_s",
        ),
        Input("max-response-bytes", AT_LEAST_ONE, "Size limit of one answer, in bytes [default: 1000000].", "limits"),
        Input("max-cost-usd", DOLLARS, "Maximum cost of the model calls, in US dollars [default: no limit]."),
        Input("max-tokens", COUNT, "Maximum number of tokens that the model calls use [default: no limit]."),
        everyday=("target", "concurrency", "max-cost-usd"),
    ),
    *_in_group(
        "Cases",
        Input("repeat", AT_LEAST_ONE, "Trials of each case."),
        Input("min-pass", AT_LEAST_ONE, "Trials of each case that must pass [default: all]."),
        Input("case", GLOBS, "Run only cases whose id or name matches.", called="case_globs"),
        Input("tag", TAGS, "Run only cases with this tag.", called="tags"),
        Input("limit", AT_LEAST_ONE, "Run only the first N of the selected cases."),
        Input(
            "shard",
            SHARD,
            "Run part I of N of the selected cases, or the part of this parallel job (auto); merge joins all parts.",
        ),
        Input(
            "failed-from",
            RESULTS,
            "Run only the cases that did not pass in this results.json [without a value: .holodeck/last/results.json].",
        ),
        _switch("resume", "Continue an interrupted run from the journal in the output directory."),
        _switch("allow-empty", "Accept a suite without cases."),
        everyday=("repeat", "case", "tag", "limit", "failed-from", "resume"),
    ),
    *_in_group(
        "Gates",
        Input("min-pass-rate", RATE, "Share of cases that must pass [default: 1.0].", "gates"),
        Input(
            "min-pass-rate-lower-bound", RATE, "Lowest accepted lower end of the pass rate's 95 % interval.", "gates"
        ),
        Input("min-completeness", RATE, "Share of planned evaluations that must be completed [default: 1.0].", "gates"),
        Input("max-errors", COUNT, "Maximum number of cases that end in error.", "gates"),
        Input("max-flaky", COUNT, "Maximum number of cases with both passing and failing trials.", "gates"),
        Input(
            "fail-on",
            one_of("violation", "never"),
            "When to end with an exit code: violation, for every verdict except passed [default], or never.",
            default="violation",
        ),
        everyday=("min-pass-rate", "fail-on"),
    ),
    *_in_group(
        "Comparison and history",
        Input(
            "max-regressions",
            COUNT,
            "Maximum number of cases that fail but passed on the base [default: 0 if there is a base].",
            "gates",
        ),
        Input(
            "baseline",
            BASE,
            "The base that results are compared with: file:PATH, artifact, branch:NAME, or merge-base.",
            "baseline.source",
        ),
        Input(
            "on-missing-baseline",
            one_of("warn", "fail"),
            "What happens when there is nothing to compare with [default: warn].",
            "baseline.on_missing",
        ),
        Input(
            "baseline-margin",
            MARGIN,
            "The largest loss of pass rate or mean score that is tolerated [default: 0.1].",
            "baseline.margin",
        ),
        Input(
            "on-regressed",
            REACTION,
            "What happens when the pass rate or a metric is worse beyond chance [default: fail].",
            "baseline",
        ),
        Input(
            "on-inconclusive",
            REACTION,
            "What happens when there are too few cases to rule out a loss above the margin [default: warn].",
            "baseline",
        ),
        Input(
            "on-case-regression",
            REACTION,
            "What happens when a case that passed on the base fails [default: fail].",
            "baseline",
        ),
        Input(
            "on-loosened",
            REACTION,
            "What happens when gates, thresholds, cases or judges are less strict than those of the base "
            "[default: warn].",
            "baseline",
        ),
        Input(
            "history",
            HISTORY,
            "Add the run to the history in this folder or branch:NAME, and report the trend of its runs.",
        ),
        Input("against", SUITE, "Also run this suite, and compare with it."),
        Input("against-target", TARGET, "Also run this target, and compare with its answers.", metavar="TARGET"),
        Input(
            "against-model",
            TEXT,
            "Also run the suite's own model under this name, and compare with its answers.",
            metavar="NAME",
        ),
        Input(
            "against-prompt",
            FILE,
            "Also run the suite's own model with these instructions, and compare with its answers.",
            metavar="FILE",
        ),
        Input(
            "bless",
            FILE,
            "With --against: write the better one's results here, for --baseline file:FILE.",
            metavar="FILE",
        ),
        everyday=("baseline", "history", "against"),
    ),
    *_in_group(
        "Other",
        *(
            Input(option.name, kind_of(option), option.help, default="false" if option.flag else "")
            for option in registry.options("run")
        ),
    ),
    *_in_group(
        "Model calls",
        Input("record", FOLDER, "Record every model call in this folder.", metavar="DIR"),
        Input("replay", FOLDER, "Answer model calls from recordings in this folder; no key is needed.", metavar="DIR"),
        Input("cache", FOLDER, "Cache model answers in this folder between runs.", metavar="DIR"),
        _switch("dry-run", "Only print the planned calls and their price."),
        everyday=("record", "replay", "cache", "dry-run"),
    ),
    *_in_group(
        "Files and packages",
        Input("env-file", FILE, "Read variables from this file."),
        Input(
            "requirements",
            PACKAGES,
            "Packages for code of suites: requirements.txt, pyproject.toml, a Python interpreter, or a package.",
        ),
        Input("allow-path", FOLDERS, "Also let suites read files below this folder.", called="allow_paths"),
        _switch("allow-plain-http", "Allow keys to be sent to other machines over http://, unencrypted."),
        everyday=("env-file",),
    ),
    *_in_group(
        "Output",
        Input(
            "output-dir",
            FOLDER,
            "Write results.json, verdict.json, report.md, report.html and junit.xml here.",
            default="holodeck-results",
            short="o",
        ),
        Input("template", FILE, "Render report.md with this Jinja template."),
        _switch(
            "html", "Also write report.html, a page with everything that results.json holds [default: yes].", on=True
        ),
        everyday=("output-dir",),
    ),
)
"""Inputs of a run: each with a help text is an option of `run`."""

PUBLISH_INPUTS: tuple[Input, ...] = _in_group(
    "Publishing",
    _switch("summary", on=True),
    Input(
        "comment",
        one_of("always", "changes", "failures", "off"),
        "When to write the comment [default: always].",
        default="always",
    ),
    Input("comment-id", TEXT, "Distinguishes this comment from others on the same pull request."),
    _switch("check", "Write a check run [default: yes]; a personal token cannot.", on=True),
    Input("check-name", TEXT, "Name of the check run."),
    Input(
        "check-fail-on",
        one_of("violation", "never"),
        "When the check run fails: violation, for every verdict except passed [default], or never.",
        default="violation",
    ),
    Input("review", one_of("off", "failures"), "Review comments on changed lines [default: off].", default="off"),
    _switch("require-publish", "End with exit code 5 when something could not be published."),
    _switch("allow-unsafe-forks"),
    Input("publish", PUBLISHED),
    Input("merge", FOLDERS),
    Input("github-token", TOKEN, secret=True),
)
"""Inputs of publishing: each with a help text is an option of `publish`."""

INPUTS = (*RUN_INPUTS, *PUBLISH_INPUTS)
"""All settings that an input or an option gives, in the order of action.yml."""

BOTH = ("template", "fail-on")
"""Inputs of a run that `publish` also takes."""
_SHOWING = {*BOTH, *(item.name for item in PUBLISH_INPUTS)} - {"allow-unsafe-forks"}
_INSTEAD_OF_RUN = {
    "publish": _SHOWING - {"merge"},
    "merge": _SHOWING | {"output-dir", "html"} - {"publish"},
}
"""Inputs with which a step runs nothing, each with the inputs that can be combined with it."""
