"""Settings from outside: each is declared once, as an input of the Action and an option of the command line.

Inputs come as `INPUT_*` variables, which are read strictly (docs/action.md).

The runner upper-cases an input's name, turns spaces to `_`, keeps hyphens, and sets inputs that were not given to the
empty text (runner source, `Handler.cs`).
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
    """Inputs that cannot be used; `lines` name each input, its value and what is allowed."""


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
"""Titles above options in the help of a command, in their order."""


class Input(NamedTuple):
    """One setting: an input of the Action and, where it has a help text, an option of the command line.

    Attributes:
        name: as it is written under `with:`, and behind `--`.
        kind: what values it takes.
        help: of the option; empty where the command line has none.
        key: of the policy file, whose value it replaces, such as `baseline.source`, or the section of a key that is
            called like the setting; empty for none.
        default: the text that stands for no text; empty for none.
        called: the setting in the code; empty where it is called as it is written.
        metavar: what stands for the value in the help; empty for the kind's own word.
        short: one letter behind `-`.
        secret: its value is shown nowhere.
        group: title above the option.
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

    @property
    def setting(self) -> str:
        """What it is called in the code."""
        return self.called or self.name.replace("-", "_")

    @property
    def replaces(self) -> str:
        """The key of the policy file, such as `gates.max_errors`; empty for none."""
        return self.key if "." in self.key or not self.key else f"{self.key}.{self.setting}"

    @property
    def variable(self) -> str:
        """The environment variable that carries it."""
        return f"INPUT_{self.name.replace(' ', '_').upper()}"

    def given(self, environ: Mapping[str, str]) -> str:
        """Return its text in the environment; empty if it is not given."""
        return environ.get(self.variable, "").strip()


def read_inputs(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the inputs that are given: value by setting; what is empty or blank is not given.

    Raises:
        InputError: values that are not allowed, all of them.
    """
    given: dict[str, Any] = {}
    problems: list[str] = []
    for item in INPUTS:
        text = item.given(environ)
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
    item = _called("output_dir")
    text = item.given(environ) or (item.default if default else "")
    return GivenPath(item.kind.read(text), start) if text else None


def given_token(environ: Mapping[str, str]) -> str:
    """Return the token to ask GitHub with: the input's, else the one of the environment; empty for none."""
    return _called("github_token").given(environ) or environ.get("GITHUB_TOKEN", "").strip()


def accepts_forks(environ: Mapping[str, str]) -> bool:
    """Tell whether the workflow's author takes the responsibility for code of forks (input `allow-unsafe-forks`)."""
    item = _called("allow_unsafe_forks")
    return read_inputs({item.variable: item.given(environ)}).get(item.setting, False) is True


def _called(setting: str) -> Input:
    return next(item for item in INPUTS if item.setting == setting)


def policy_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings replace in the policy file: value by key, such as `gates.max_errors`."""
    return {item.replaces: value for item in INPUTS if item.key and (value := given.get(item.setting)) is not None}


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
            if item.name not in names and item.given(environ) not in ("", item.default):
                yield f"input {item.name}: does not go with {instead}, which runs nothing; leave one of them out"
        return


def _switch(name: str, help: str = "", *, on: bool = False) -> Input:
    """Return an input that is true or false, and false unless it is `on`."""
    return Input(name, FLAG, help, default="true" if on else "false")


def _under(group: Group, *items: Input) -> tuple[Input, ...]:
    """Return inputs whose options stand under a title."""
    return tuple(item._replace(group=group) for item in items)


RUN_INPUTS: tuple[Input, ...] = (
    Input("suite", SUITES, default="agent.yaml", called="suites"),
    *_under(
        "Agent and limits",
        Input(
            "target",
            TARGET,
            "What answers: recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model (the suite's own).",
        ),
        Input("concurrency", AT_LEAST_ONE, "Number of conversations at the same time [default: 10].", "limits"),
        Input(
            "turn-timeout",
            SECONDS,
            "Seconds that the agent may take for a turn [default: 60].",
            "limits.turn_timeout_s",
        ),
        Input(
            "case-timeout",
            SECONDS,
            "Seconds that the agent may take for a case [default: 600].",
            "limits.case_timeout_s",
        ),
        Input(
            "run-timeout", SECONDS, "Seconds that the whole run may take [default: no limit].", called="run_timeout_s"
        ),
        Input("max-response-bytes", AT_LEAST_ONE, "Size limit of one answer, in bytes [default: 1000000].", "limits"),
        Input("max-cost-usd", DOLLARS, "US dollars that the model calls may cost [default: no limit]."),
        Input("max-tokens", COUNT, "Tokens that the model calls may use [default: no limit]."),
    ),
    *_under(
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
    ),
    *_under(
        "Gates",
        Input("min-pass-rate", RATE, "Share of cases that must pass [default: 1.0].", "gates"),
        Input(
            "min-pass-rate-lower-bound", RATE, "Lowest accepted lower end of the pass rate's 95 % interval.", "gates"
        ),
        Input("min-completeness", RATE, "Share of planned evaluations that must happen [default: 1.0].", "gates"),
        Input("max-errors", COUNT, "Cases that may end in error.", "gates"),
        Input("max-flaky", COUNT, "Cases that may have both passing and failing trials.", "gates"),
        Input(
            "fail-on",
            one_of("violation", "never"),
            "When to end with an exit code: violation, for every verdict except passed [default], or never.",
            default="violation",
        ),
    ),
    *_under(
        "Comparison and history",
        Input(
            "max-regressions",
            COUNT,
            "Cases that may fail though they passed on the base [default: 0, where there is a base].",
            "gates",
        ),
        Input(
            "baseline",
            BASE,
            "What results are compared with: file:PATH, artifact, branch:NAME, or merge-base.",
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
            "The largest loss of pass rate or mean score that counts as none [default: 0.1].",
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
            "What happens when a loss above the margin can neither be shown nor ruled out [default: warn].",
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
            "Add the run to the history in this folder or branch:NAME, and show what its runs tell together.",
        ),
        Input("against", SUITE, "Also run this suite, and compare with it."),
        Input("against-target", TARGET, "Also ask this target, and compare with its answers.", metavar="TARGET"),
        Input(
            "against-model",
            TEXT,
            "Also ask the suite's own model under this name, and compare with its answers.",
            metavar="NAME",
        ),
        Input(
            "against-prompt",
            FILE,
            "Also ask the suite's own model with these instructions, and compare with its answers.",
            metavar="FILE",
        ),
        Input(
            "bless",
            FILE,
            "With --against: write the better one's results here, for --baseline file:FILE.",
            metavar="FILE",
        ),
    ),
    *_under(
        "Other",
        *(
            Input(option.name, kind_of(option), option.help, default="false" if option.flag else "")
            for option in registry.options("run")
        ),
    ),
    *_under(
        "Model calls",
        Input("record", FOLDER, "Record every model call here.", metavar="DIR"),
        Input("replay", FOLDER, "Answer model calls from here; no key is needed.", metavar="DIR"),
        Input("cache", FOLDER, "Keep model answers between runs.", metavar="DIR"),
        _switch("dry-run", "Only print the planned calls and their price."),
    ),
    *_under(
        "Files and packages",
        Input("env-file", FILE, "Read variables from this file."),
        Input(
            "requirements",
            PACKAGES,
            "Run code of suites with these packages: a requirements.txt, a pyproject.toml, a Python, or a package.",
        ),
        Input("allow-path", FOLDERS, "Let suites also read files below this folder.", called="allow_paths"),
        _switch("allow-plain-http", "Allow keys to be sent to other machines over http://, unencrypted."),
    ),
    *_under(
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
    ),
)
"""What a run takes: each with a help text is an option of `run`."""

PUBLISH_INPUTS: tuple[Input, ...] = _under(
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
