"""The settings of a run and of publishing; each is declared once, as an option, an input of the Action, or both.

Inputs come as `INPUT_*` variables, which `input_values` reads.

The runner upper-cases an input's name, replaces spaces by `_`, keeps hyphens, and sets missing inputs to an empty
string (runner source, `Handler.cs`).
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from holodeck_action.run.options.input_kinds import (
    AT_LEAST_ONE,
    BASE,
    CASE_REACTION,
    COUNT,
    DOLLARS,
    FILE,
    FLAG,
    FOLDER,
    FOLDERS,
    GLOBS,
    HISTORY,
    MARGIN,
    OPTION_LINES,
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
    """One setting: an option of the command line or of the Action's `args`, or an input of the Action, or both.

    Attributes:
        name: name of the option after `--`, and of the input under `with:`.
        kind: kind of the setting's values.
        help: help text of the option; empty if the command line does not have the option.
        key: the policy file's key that the setting overrides, such as `baseline.source`. Only the key's section, such
            as `gates`, if the rest of the key is the setting's name; empty if the setting overrides no key.
        default: text that is used if the input is empty; empty if the setting has no default.
        field: name of the setting in the code; empty if it equals `name`.
        metavar: placeholder for the value in the help; empty to use the kind's placeholder.
        short: letter of the short option; empty if there is no short option.
        secret: whether the value must not be shown.
        group: title of the option's group in the help.
        everyday: whether `--help` of a command with many options lists the option; `--help-all` lists all.
        action: whether the setting is an input of the Action; if not, a step gets it as a line of `args`.
    """

    name: str
    kind: Kind
    help: str = ""
    key: str = ""
    default: str = ""
    field: str = ""
    metavar: str = ""
    short: str = ""
    secret: bool = False
    group: Group = "Other"
    everyday: bool = False
    action: bool = False

    @property
    def setting(self) -> str:
        """Name of the setting in the code."""
        return self.field or self.name.replace("-", "_")

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


def policy_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values that override keys of the policy file, by key, such as `gates.max_errors`."""
    return {item.policy_key: value for item in INPUTS if item.key and (value := values.get(item.setting)) is not None}


def _switch(name: str, help: str = "", *, default: bool = False) -> Input:
    """Return a boolean setting with the default `default`."""
    return Input(name, FLAG, help, default="true" if default else "false")


def _in_group(group: Group, *items: Input, everyday: tuple[str, ...] = ()) -> tuple[Input, ...]:
    """Return the settings with `group` set; those named in `everyday` become everyday options."""
    return tuple(item._replace(group=group, everyday=item.name in everyday) for item in items)


RUN_INPUTS: tuple[Input, ...] = (
    Input("suite", SUITES, default="agent.yaml", field="suites", action=True),
    *_in_group(
        "Agent and limits",
        Input(
            "target",
            TARGET,
            "The target: recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model (the suite's own).",
            action=True,
        ),
        Input(
            "concurrency",
            AT_LEAST_ONE,
            "Maximum number of concurrent conversations [default: 10].",
            "limits",
            action=True,
        ),
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
            field="run_timeout_s",
        ),
        Input("max-response-bytes", AT_LEAST_ONE, "Size limit of one answer, in bytes [default: 1000000].", "limits"),
        Input(
            "max-cost-usd", DOLLARS, "Maximum cost of the model calls, in US dollars [default: no limit].", action=True
        ),
        Input("max-tokens", COUNT, "Maximum number of tokens that the model calls use [default: no limit]."),
        Input(
            "stop",
            one_of("never", "certain"),
            "Whether the run ends early; certain: when its exit code can no longer change [default: never].",
        ),
        everyday=("target", "concurrency", "max-cost-usd"),
    ),
    *_in_group(
        "Cases",
        Input("repeat", AT_LEAST_ONE, "Trials of each case.", action=True),
        Input("min-pass", AT_LEAST_ONE, "Trials of each case that must pass [default: all]."),
        Input("case", GLOBS, "Run only cases whose id or name matches.", field="case_globs", action=True),
        Input("tag", TAGS, "Run only cases with this tag.", field="tags", action=True),
        Input("limit", AT_LEAST_ONE, "Run only the first N of the selected cases."),
        Input(
            "shard",
            SHARD,
            "Run part I of N of the selected cases, or the part of this parallel job (auto); merge joins all parts.",
            action=True,
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
            action=True,
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
            "min-win-rate-lower-bound",
            RATE,
            "Lowest accepted lower end of the win rate's 95 % interval, for the metric preference.",
            "gates",
        ),
        Input(
            "baseline",
            BASE,
            "The base that results are compared with: file:PATH, artifact, branch:NAME, or merge-base.",
            "baseline.source",
            action=True,
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
            "What happens when there are too few cases to rule out a loss above the margin [default: ignore].",
            "baseline",
        ),
        Input(
            "on-case-regression",
            CASE_REACTION,
            "What happens when a case that passed on the base fails; `confirm` reruns it first [default: confirm].",
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
            "on-changed-code",
            one_of("fail", "warn"),
            "What happens when code that grades, or recordings that answer, are not those of the base [default: as "
            "on-loosened].",
            action=True,
        ),
        Input(
            "history",
            HISTORY,
            "Add the run to the history in this folder or branch:NAME, and report the trend of its runs.",
            action=True,
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
        Input("record", FOLDER, "Record every model call in this folder.", metavar="DIR", action=True),
        Input(
            "replay",
            FOLDER,
            "Answer model calls from recordings in this folder; no key is needed.",
            metavar="DIR",
            action=True,
        ),
        Input("cache", FOLDER, "Cache model answers in this folder between runs.", metavar="DIR", action=True),
        _switch("no-cache", "Call models, whatever a policy file says of recordings and caches."),
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
        Input("allow-path", FOLDERS, "Also let suites read files below this folder.", field="allow_paths"),
        _switch("allow-plain-http", "Allow keys to be sent to other machines over http://, unencrypted."),
        _switch("allow-unsafe-forks", "Run a fork's code although the job has secrets: read docs/security.md first."),
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
            action=True,
        ),
        Input("template", FILE, "Render report.md with this Jinja template."),
        _switch(
            "html",
            "Also write report.html, a page with everything that results.json holds [default: yes].",
            default=True,
        ),
        _switch("verbose", "Print every case with each metric and its tool calls.")._replace(short="v"),
        everyday=("output-dir", "verbose"),
    ),
)
"""Settings of a run; those with a help text are options of `run`."""

PUBLISH_INPUTS: tuple[Input, ...] = _in_group(
    "Publishing",
    _switch("summary", default=True),
    Input(
        "comment",
        one_of("always", "changes", "failures", "off"),
        "When to write the comment [default: always].",
        default="always",
        action=True,
    ),
    Input("comment-id", TEXT, "Distinguishes this comment from others on the same pull request.", action=True),
    _switch("check", "Write a check run [default: yes]; a personal token cannot.", default=True)._replace(action=True),
    Input("check-name", TEXT, "Name of the check run."),
    Input(
        "check-fail-on",
        one_of("violation", "never"),
        "When the check run fails: violation, for every verdict except passed [default], or never.",
        default="violation",
    ),
    Input(
        "review",
        one_of("off", "failures"),
        "Review comments on changed lines [default: off].",
        default="off",
        action=True,
    ),
    _switch("require-publish", "End with exit code 5 when something could not be published."),
    Input("publish", PUBLISHED, action=True),
    Input("merge", FOLDERS, action=True),
    Input("github-token", TOKEN, secret=True, action=True),
)
"""Settings of publishing; those with a help text are options of `publish`."""

INPUTS = (*RUN_INPUTS, *PUBLISH_INPUTS)
"""All settings of a run and of publishing, in the order of the documentation."""

COMPARE_INPUTS: tuple[Input, ...] = _in_group(
    "Output",
    Input("policy", FILE, "Take the settings from this policy file."),
    Input(
        "format",
        one_of("console", "markdown", "html", "json"),
        "Format of the report [default: console].",
        default="console",
    ),
    Input("output", FILE, "Write the report here.", field="file", metavar="FILE", short="o"),
)
"""Settings that only `compare` takes."""

COMPARISON = tuple(
    item.name
    for item in INPUTS
    if item.group == "Comparison and history" and item.key and item.name not in ("baseline", "on-missing-baseline")
)
"""Names of settings of the comparison with the base that `compare` also takes."""

COMMAND = Input("command", one_of("run", "compare", *registry.steps()), default="run", action=True)
ARGS = Input("args", OPTION_LINES, action=True)
ACTION_INPUTS = (*(item for item in INPUTS if item.action), COMMAND, ARGS)
"""The inputs of the Action, in the order of action.yml."""

SHARED = ("template", "fail-on")
"""Names of settings of a run that `publish` also takes."""
