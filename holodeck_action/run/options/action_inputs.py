"""The settings of a run, of publishing and of comparing; each is declared once, with its type, as a field of `Flags`.

A setting is an option of the command line or of the Action's `args`, or an input of the Action, or both. Inputs come as
`INPUT_*` variables, which `input_values` reads.

The runner upper-cases an input's name, replaces spaces by `_`, keeps hyphens, and sets missing inputs to an empty
string (runner source, `Handler.cs`).
"""

# ruff: noqa: RUF009 - the calls declare fields

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holodeck_action.decide.exit_codes import TOLERABLE, ExitCode
from holodeck_action.run.options.declarations import (
    Input,
    agent,
    calls,
    cases,
    comparison,
    destination,
    files,
    gates,
    option,
    output,
    publishing,
)
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
    kind_of,
    one_of,
)
from holodeck_action.seam import registry

if TYPE_CHECKING:
    from pydantic import BaseModel

    from holodeck_action.suite.model.targets import CallableTarget
    from holodeck_action.text.given_paths import GivenPath

    M = TypeVar("M", bound=BaseModel)

FailOn = Literal["violation", "never"]


@dataclass(frozen=True, eq=False, repr=False)
class Flags:
    """The settings that the command line, the Action's inputs or `holodeck_action.evaluate` give; None if not given.

    Each field is declared once, with its kind of value and the help of its option; `INPUTS` has the declarations.
    `failed_from` has the ids of an earlier run's cases that did not pass. `extra` has the values of extensions'
    options, by setting name. Paths and `suites` are as the user gave them.
    """

    suites: tuple[str, ...] = option(
        "Other", SUITES, value=("agent.yaml",), default="agent.yaml", name="suite", action=True
    )
    target: str | CallableTarget | None = agent(
        TARGET,
        "The target: recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model (the suite's own).",
        everyday=True,
        action=True,
    )
    concurrency: int | None = agent(
        AT_LEAST_ONE,
        "Maximum number of concurrent conversations [default: 10].",
        "limits",
        short="j",
        everyday=True,
        action=True,
    )
    turn_timeout: float | None = agent(
        SECONDS, "Time limit for a turn of the agent, in seconds [default: 60].", "limits.turn_timeout_s"
    )
    case_timeout: float | None = agent(
        SECONDS, "Time limit for a case of the agent, in seconds [default: 600].", "limits.case_timeout_s"
    )
    run_timeout_s: float | None = agent(
        SECONDS, "Time limit for the run, in seconds [default: no limit].", name="run-timeout"
    )
    max_response_bytes: int | None = agent(
        AT_LEAST_ONE, "Size limit of one answer, in bytes [default: 1000000].", "limits"
    )
    max_cost_usd: float | None = agent(
        DOLLARS, "Maximum cost of the model calls, in US dollars [default: no limit].", everyday=True, action=True
    )
    max_tokens: int | None = agent(COUNT, "Maximum number of tokens that the model calls use [default: no limit].")
    stop: str | None = agent(
        one_of("never", "certain"),
        "Whether the run ends early; certain: when its exit code can no longer change [default: never].",
    )
    exitfirst: bool = agent(FLAG, "The same as --stop certain.", short="x", of="terminal")
    repeat: int | None = cases(AT_LEAST_ONE, "Trials of each case.", everyday=True, action=True)
    min_pass: int | None = cases(AT_LEAST_ONE, "Trials of each case that must pass [default: all].")
    case_globs: tuple[str, ...] = cases(
        GLOBS, "Run only cases whose id or name matches.", name="case", everyday=True, action=True
    )
    keywords: tuple[str, ...] = cases(
        GLOBS, "Run only cases whose id or name contains this text.", name="keyword", short="k", of="terminal"
    )
    tags: tuple[str, ...] = cases(TAGS, "Run only cases with this tag.", name="tag", everyday=True, action=True)
    limit: int | None = cases(AT_LEAST_ONE, "Run only the first N of the selected cases.", everyday=True)
    shard: str | None = cases(
        SHARD,
        "Run part I of N of the selected cases, or the part of this parallel job (auto); merge joins all parts.",
        action=True,
    )
    failed_from: frozenset[str] | None = cases(
        RESULTS,
        "Run only the cases that did not pass in this results.json [without a value: .holodeck/last/results.json].",
    )
    last_failed: bool = cases(
        FLAG,
        "Run only the cases that did not pass in the last run; all if every case passed.",
        short="lf",
        of="terminal",
    )
    resume: bool = cases(FLAG, "Continue an interrupted run from the journal in the output directory.", everyday=True)
    allow_empty: bool = cases(FLAG, "Accept a suite without cases.")
    min_pass_rate: float | None = gates(RATE, "Share of cases that must pass [default: 1.0].", "gates", everyday=True)
    min_pass_rate_lower_bound: float | None = gates(
        RATE, "Lowest accepted lower end of the pass rate's 95 % interval.", "gates"
    )
    min_completeness: float | None = gates(
        RATE, "Share of planned evaluations that must be completed [default: 1.0].", "gates"
    )
    max_errors: int | None = gates(COUNT, "Maximum number of cases that end in error.", "gates")
    max_flaky: int | None = gates(COUNT, "Maximum number of cases with both passing and failing trials.", "gates")
    fail_on: FailOn = gates(
        one_of("violation", "never"),
        "When to end with an exit code: violation, for every verdict except passed [default], or never.",
        value="violation",
        everyday=True,
        action=True,
    )
    max_regressions: int | None = comparison(
        COUNT,
        "Maximum number of cases that fail but passed on the base [default: 0 if there is a base].",
        "gates",
    )
    min_win_rate_lower_bound: float | None = comparison(
        RATE, "Lowest accepted lower end of the win rate's 95 % interval, for the metric preference.", "gates"
    )
    baseline: str | None = comparison(
        BASE,
        "The base that results are compared with: file:PATH, artifact, branch:NAME, or merge-base.",
        "baseline.source",
        everyday=True,
        action=True,
    )
    on_missing_baseline: str | None = comparison(
        one_of("warn", "fail"),
        "What happens when there is nothing to compare with [default: warn].",
        "baseline.on_missing",
    )
    baseline_margin: float | None = comparison(
        MARGIN, "The largest loss of pass rate or mean score that is tolerated [default: 0.1].", "baseline.margin"
    )
    on_regressed: str | None = comparison(
        REACTION, "What happens when the pass rate or a metric is worse beyond chance [default: fail].", "baseline"
    )
    on_inconclusive: str | None = comparison(
        REACTION,
        "What happens when there are too few cases to rule out a loss above the margin [default: ignore].",
        "baseline",
    )
    on_case_regression: str | None = comparison(
        CASE_REACTION,
        "What happens when a case that passed on the base fails; `confirm` reruns it first [default: confirm].",
        "baseline",
    )
    on_loosened: str | None = comparison(
        REACTION,
        "What happens when gates, thresholds, cases or judges are less strict than those of the base [default: warn].",
        "baseline",
    )
    on_changed_code: Literal["fail", "warn"] | None = comparison(
        one_of("fail", "warn"),
        "What happens when code that grades, or recordings that answer, are not those of the base [default: as "
        "on-loosened].",
        action=True,
    )
    history: GivenPath | str | None = comparison(
        HISTORY,
        "Add the run to the history in this folder or branch:NAME, and report the trend of its runs.",
        action=True,
    )
    against: str | None = comparison(SUITE, "Also run this suite, and compare with it.", everyday=True)
    against_target: str | None = comparison(
        TARGET, "Also run this target, and compare with its answers.", metavar="TARGET"
    )
    against_model: str | None = comparison(
        TEXT, "Also run the suite's own model under this name, and compare with its answers.", metavar="NAME"
    )
    against_prompt: GivenPath | None = comparison(
        FILE, "Also run the suite's own model with these instructions, and compare with its answers.", metavar="FILE"
    )
    bless: GivenPath | None = comparison(
        FILE, "With --against: write the better one's results here, for --baseline file:FILE.", metavar="FILE"
    )
    extra: Mapping[str, Any] = field(default_factory=dict)
    record: GivenPath | None = calls(
        FOLDER, "Record every model call in this folder.", metavar="DIR", everyday=True, action=True
    )
    replay: GivenPath | None = calls(
        FOLDER,
        "Answer model calls from recordings in this folder; no key is needed.",
        metavar="DIR",
        everyday=True,
        action=True,
    )
    cache: GivenPath | None = calls(
        FOLDER, "Cache model answers in this folder between runs.", metavar="DIR", everyday=True, action=True
    )
    no_cache: bool = calls(FLAG, "Call models, whatever a policy file says of recordings and caches.")
    dry_run: bool = calls(FLAG, "Only print the planned calls and their price.", everyday=True)
    env_file: GivenPath | None = files(FILE, "Read variables from this file.", everyday=True)
    requirements: tuple[str, ...] = files(
        PACKAGES,
        "Packages for code of suites: requirements.txt, pyproject.toml, a Python interpreter, or a package.",
    )
    allow_paths: tuple[GivenPath, ...] = files(
        FOLDERS, "Also let suites read files below this folder.", name="allow-path"
    )
    allow_plain_http: bool = files(FLAG, "Allow keys to be sent to other machines over http://, unencrypted.")
    allow_unsafe_forks: bool = files(
        FLAG, "Run a fork's code although the job has secrets: read docs/security.md first."
    )
    output_dir: GivenPath | None = output(
        FOLDER,
        "Write results.json, verdict.json, report.md, report.html and junit.xml here.",
        default="holodeck-results",
        short="o",
        everyday=True,
        action=True,
    )
    template: GivenPath | None = output(FILE, "Render report.md with this Jinja template.")
    html: bool = output(
        FLAG, "Also write report.html, a page with everything that results.json holds [default: yes].", value=True
    )
    verbose: bool = output(FLAG, "Print every case with each metric and its tool calls.", short="v", everyday=True)
    quiet: bool = output(FLAG, "Print no progress, and one line for a suite that passes.", short="q", of="terminal")

    summary: bool = publishing(FLAG, value=True)
    comment: Literal["always", "changes", "failures", "off"] = publishing(
        one_of("always", "changes", "failures", "off"),
        "When to write the comment [default: always].",
        value="always",
        action=True,
    )
    comment_id: str | None = publishing(
        TEXT, "Distinguishes this comment from others on the same pull request.", action=True
    )
    check: bool = publishing(
        FLAG, "Write a check run [default: yes]; a personal token cannot.", value=True, action=True
    )
    check_name: str | None = publishing(TEXT, "Name of the check run.")
    check_fail_on: FailOn = publishing(
        one_of("violation", "never"),
        "When the check run fails: violation, for every verdict except passed [default], or never.",
        value="violation",
    )
    review: Literal["off", "failures"] = publishing(
        one_of("off", "failures"), "Review comments on changed lines [default: off].", value="off", action=True
    )
    require_publish: bool = publishing(FLAG, "End with exit code 5 when something could not be published.")
    publish: tuple[str, ...] = publishing(PUBLISHED, action=True)
    merge: tuple[GivenPath, ...] = publishing(FOLDERS, action=True)
    results: tuple[str, ...] = publishing(GLOBS)
    repository: str | None = destination(TEXT, "Where to publish [default: GITHUB_REPOSITORY].", metavar="OWNER/NAME")
    pull_request: int | None = destination(AT_LEAST_ONE, "Publish to this pull request [default: the event's].")
    sha: str | None = destination(TEXT, "The commit that was evaluated [default: the event's].", metavar="COMMIT")

    policy: GivenPath | None = gates(FILE, "Take the settings from this policy file.", of="compare")
    format: str = output(
        one_of("console", "markdown", "html", "json"),
        "Format of the report [default: console].",
        value="console",
        of="compare",
    )
    file: GivenPath | None = output(
        FILE, "Write the report here.", name="output", metavar="FILE", short="o", of="compare"
    )

    def process_exit_code(self, verdict_code: int) -> int:
        """Return the exit code of the process for a verdict's exit code, as `fail_on` requests."""
        tolerated = self.fail_on == "never" and verdict_code in TOLERABLE
        return ExitCode.PASSED if tolerated else verdict_code

    def override(self, section: str, policy_section: M) -> M:
        """Return a section of the policy file in which the command line's values replace those of the file."""
        return policy_section.model_copy(update=self.section_values(section))

    def section_values(self, section: str) -> dict[str, Any]:
        """Return the command line's values for a section of the policy file, by key within the section."""
        keys = ((item.policy_key.partition("."), getattr(self, item.setting)) for item in INPUTS if item.key)
        return {key: value for (part, _, key), value in keys if part == section and value is not None}

    @property
    def written_target(self) -> str | None:
        """The target on the command line; None if no target is given, or if the target is a callable."""
        return self.target if isinstance(self.target, str) else None

    @property
    def compared_with(self) -> tuple[str, str | GivenPath] | None:
        """Name and value of the `--against…` option that requests a base suite; None if there is no such option."""
        given = ((name, getattr(self, name)) for name in AGAINST)
        return next(((name, value) for name, value in given if value is not None), None)


AGAINST = ("against", "against_target", "against_model", "against_prompt")
"""Flags that request to run a base in addition to the suite."""


def _declared() -> Iterator[Input]:
    """Yield the settings in the order of the documentation; those of extensions are where `extra` is."""
    for each in fields(Flags):
        if each.name == "extra":
            for added in registry.options("run"):
                default = "false" if added.flag else ""
                yield Input(added.name, added.setting, kind_of(added), added.help, default=default)
        else:
            declared: Input = each.metadata["input"]
            yield declared._replace(name=declared.name or each.name.replace("_", "-"), setting=each.name)


DECLARED = tuple(_declared())
"""All settings."""
RUN_INPUTS = tuple(item for item in DECLARED if item.of == "run")
"""Settings of a run; those with a help text are options of `run`."""
PUBLISH_INPUTS = (
    *(item for item in DECLARED if item.of == "publish"),
    Input("github-token", "github_token", TOKEN, secret=True, group="Publishing", action=True, of="publish"),
)
"""Settings of publishing; those with a help text are options of `publish`."""
INPUTS = (*RUN_INPUTS, *PUBLISH_INPUTS)
"""All settings of a run and of publishing, in the order of the documentation."""
COMPARE_INPUTS = tuple(item for item in DECLARED if item.of == "compare")
"""Settings that only `compare` takes."""
POLICY = next(item for item in COMPARE_INPUTS if item.name == "policy")
"""The policy file, which a step takes with results of other programs, too."""
COMPARISON = tuple(
    item.name
    for item in INPUTS
    if item.group == "Comparison and history" and item.key and item.name not in ("baseline", "on-missing-baseline")
)
"""Names of settings of the comparison with the base that `compare` also takes."""

COMMAND = Input("command", "command", one_of("run", "compare", *registry.steps()), default="run", action=True)
ARGS = Input("args", "args", OPTION_LINES, action=True)
ACTION_INPUTS = (*(item for item in INPUTS if item.action), COMMAND, ARGS)
"""The inputs of the Action, in the order of action.yml."""

STORED_OPTIONS = {
    *("results", "policy", "output-dir", "html", "baseline", "on-missing-baseline", "on-changed-code", "history"),
    *(item.name for item in INPUTS if item.group == "Gates" and item.key),
    *(*COMPARISON, *(item.name for item in registry.options("gate"))),
}
"""Names of settings that apply to results of other programs, besides those of publishing."""
SHARED = ("template", "fail-on")
"""Names of settings of a run that `publish` also takes."""
