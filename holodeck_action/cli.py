"""The command line: parses, calls one function, exits. Heavy modules are imported by the command that needs them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from holodeck_action.commands.caller import Caller
from holodeck_action.commands.failures import EXIT_CONFIGURATION, EXIT_INTERNAL, explained
from holodeck_action.commands.options import (
    AT_LEAST_ONE,
    COUNT,
    DOLLARS,
    ENV_FILE,
    EPILOG,
    PATH,
    PUBLISH_EPILOG,
    RATE,
    RESULTS_FOLDER,
    SECONDS,
    SUITES,
    VERSION,
    Door,
    call_options,
    gate_options,
    judge_limits,
    reach_options,
    report_options,
)
from holodeck_action.commands.process import collect_rarely, current_folder, hide_tokens, leave
from holodeck_action.text.plain import one_line
from holodeck_action.text.streams import lasting_streams

if TYPE_CHECKING:
    from holodeck_action.results.disk import Disk
    from holodeck_action.results.folder import Claims
    from holodeck_action.text.given_paths import GivenPath


@click.group(cls=Door, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@VERSION
def cli() -> None:
    """Evaluate agent.yaml suites and fail when a threshold is violated."""


@cli.command(epilog=EPILOG)
@SUITES
@RESULTS_FOLDER
@click.option(
    "--target",
    help="What answers: recorded:PATH, python:MODULE:CALLABLE, command:CMD, http:URL, or model (the suite's own).",
)
@click.option("--concurrency", type=AT_LEAST_ONE, help="Number of conversations at the same time [default: 10].")
@click.option("--turn-timeout", type=SECONDS, help="Seconds that the agent may take for a turn [default: 60].")
@click.option("--case-timeout", type=SECONDS, help="Seconds that the agent may take for a case [default: 600].")
@click.option("--run-timeout", type=SECONDS, help="Seconds that the whole run may take [default: no limit].")
@click.option("--max-response-bytes", type=AT_LEAST_ONE, help="Size limit of one answer, in bytes [default: 1000000].")
@click.option("--max-cost-usd", type=DOLLARS, help="US dollars that the model calls may cost [default: no limit].")
@click.option("--max-tokens", type=COUNT, help="Tokens that the model calls may use [default: no limit].")
@click.option("--repeat", type=AT_LEAST_ONE, help="Trials of each case.")
@click.option("--min-pass", type=AT_LEAST_ONE, help="Trials of each case that must pass.")
@gate_options
@click.option("--case", "case_globs", multiple=True, metavar="GLOB", help="Run only cases whose id or name matches.")
@click.option("--tag", "tags", multiple=True, help="Run only cases with this tag.")
@click.option("--limit", type=AT_LEAST_ONE, help="Run only the first N of the selected cases.")
@click.option(
    "--failed-from",
    type=PATH,
    metavar="RESULTS",
    help="Run only the cases that did not pass in this results.json.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted run from the journal in the output directory.")
@click.option("--allow-empty", is_flag=True, help="Accept a suite without cases.")
@call_options(cached="model answers", planned="the planned calls and their price")
@report_options
@click.pass_obj
def run(caller: Caller, /, suites: tuple[str, ...], **options: Any) -> int:
    """Run SUITEs (files, folders or globs; default: agent.yaml) and judge the answers.

    \b
    Examples:
      holodeck-action run
      holodeck-action run examples/support/agent.yaml -o results
      holodeck-action run --target recorded:answers.jsonl --case 'refund*'
      holodeck-action run 'agents/**/agent.yaml' --min-pass-rate 0.9
    """
    from holodeck_action.results.disk import DISK
    from holodeck_action.results.folder import Claims

    with Claims(caller.disk or DISK) as claims:
        return _run(caller, {"suites": suites, **options}, claims)


def _run(caller: Caller, given: dict[str, Any], claims: Claims) -> int:
    from holodeck_action.commands.run import Output, plan_suites, run_suites, set_aside_earlier
    from holodeck_action.github.action_inputs import InputError, anchored, output_dir_of, read_inputs
    from holodeck_action.prepare.preflight import find_suites, load_all, prepare, template_of
    from holodeck_action.prepare.request import request_from
    from holodeck_action.results.disk import DISK
    from holodeck_action.suite.configuration_errors import ConfigurationError

    try:
        try:
            inputs = anchored(read_inputs(caller.environ), caller.cwd)
        except InputError as error:
            raise ConfigurationError(error.lines) from error
        # It may read results that stand in the output folder.
        request = request_from(given, inputs)
    except ConfigurationError:
        if not given["dry_run"]:
            claims.clear(given["output_dir"] or output_dir_of(caller.environ, caller.cwd))
        raise
    if not request.dry_run:
        claims.clear(request.output_dir)
    template = template_of(request.template)
    around = caller.surroundings(request.env_file, request.allowed)
    found = find_suites(request.suites, around.cwd, around.allowed)
    if not request.dry_run:
        set_aside_earlier(claims, request.output_dir, found, around.cwd)
    prepared = prepare(load_all(found, around, allow_empty=request.allow_empty), request.flags, around)
    if request.dry_run:
        plan_suites(prepared, request.flags, caller.stdout)
        return 0
    output = Output(caller.stdout, caller.stderr, request.output_dir, template, caller.disk or DISK, caller.signals)
    done = run_suites(prepared, request.flags, output, claims, resume=request.resume)
    return request.process_exit_code(done.exit_code)


@cli.command()
@SUITES
@click.option("--allow-empty", is_flag=True, help="Accept a suite without cases.")
@ENV_FILE
@reach_options
@click.pass_obj
def validate(
    caller: Caller,
    suites: tuple[str, ...],
    allow_empty: bool,
    env_file: GivenPath | None,
    allow_paths: tuple[GivenPath, ...],
    allow_plain_http: bool,
) -> int:
    """Check SUITEs (default: agent.yaml) with everything they refer to, and report all errors at once.

    Exit code 0: valid; 2: not valid.
    """
    from holodeck_action.prepare.preflight import Allowed, check_targets, find_suites, load_all, suite_place

    around = caller.surroundings(env_file, Allowed(allow_paths, allow_plain_http))
    found = find_suites(suites or ("agent.yaml",), around.cwd, around.allowed)
    suites_loaded = load_all(found, around, allow_empty=allow_empty)
    missing = check_targets(suites_loaded, around)
    for loaded, notes in zip(suites_loaded, missing, strict=True):
        suite, redactor = loaded.suite, loaded.redactor
        place = suite_place(suite, around.cwd)
        turns = sum(len(case.turns) for case in suite.cases)
        click.echo(f"{one_line(place, 1000)}: valid: {len(suite.cases)} cases, {turns} turns", caller.stdout)
        for notice in (*suite.notices, *notes):
            click.echo(f"note: {one_line(redactor.text(notice), 1000)}", caller.stderr)
    return 0


@cli.command(epilog=EPILOG)
@click.argument("results", type=PATH)
@click.option("--policy", type=PATH, help="Take the gates from this policy file.")
@gate_options
@click.option("-o", "--output-dir", type=PATH, help="Write verdict.json here.")
@click.pass_obj
def decide(
    caller: Caller, /, results: GivenPath, policy: GivenPath | None, output_dir: GivenPath | None, **gates: Any
) -> int:
    """Judge RESULTS (a results.json) again, without running anything, by the gates it was run with or new ones."""
    from holodeck_action.commands.decide import redecide
    from holodeck_action.prepare.preflight import gates_of
    from holodeck_action.prepare.settings import Flags

    given = None if policy is None else gates_of(policy, caller.surroundings(None))
    return redecide(results, given, Flags(**gates), output_dir, caller.stdout)


@cli.command(epilog=EPILOG)
@click.argument("results", type=PATH)
@click.argument("suite", default="agent.yaml", metavar="[SUITE]")
@RESULTS_FOLDER
@click.option("--concurrency", type=AT_LEAST_ONE, help="Number of conversations judged at the same time [default: 10].")
@click.option("--run-timeout", type=SECONDS, help="Seconds that it may take [default: no limit].")
@judge_limits
@gate_options
@click.option("--resume", is_flag=True, help="Continue an interrupted call from the journal in the output directory.")
@call_options(cached="verdicts of judges", planned="the planned calls of judges")
@report_options
@click.pass_obj
def rejudge(caller: Caller, /, results: GivenPath, suite: str, **options: Any) -> int:
    """Grade the stored answers of RESULTS (a results.json) again, by the current metrics and judges of SUITE.

    The agent is not run. Every case of RESULTS must have the same question and expectation in SUITE.

    \b
    Examples:
      holodeck-action rejudge results/results.json -o rejudged
      holodeck-action rejudge results/results.json other-judges/agent.yaml --max-cost-usd 1
    """
    from holodeck_action.commands.rejudge import prepare_stored
    from holodeck_action.commands.run import Output, plan_suites, run_suites
    from holodeck_action.prepare.preflight import find_suites, load_all, template_of
    from holodeck_action.prepare.request import request_from
    from holodeck_action.results.folder import Claims, is_inside
    from holodeck_action.suite.configuration_errors import ConfigurationError

    request = request_from({"suites": (suite,), **options})
    template = template_of(request.template)
    around = caller.surroundings(request.env_file, request.allowed)
    found = find_suites(request.suites, around.cwd, around.allowed)
    if len(found) > 1:
        raise ConfigurationError([f"{suite}: {len(found)} suites match; the answers of a record are those of one"])
    with Claims() as claims:
        try:
            (loaded,) = load_all(found, around)
            prepared = [prepare_stored(results, loaded, request.flags, around, request.output_dir)]
        except ConfigurationError:
            if not request.dry_run and not is_inside(results, request.output_dir):
                claims.clear(request.output_dir)
            raise
        if request.dry_run:
            plan_suites(prepared, request.flags, caller.stdout)
            return 0
        output = Output(caller.stdout, caller.stderr, request.output_dir, template, signals=caller.signals)
        done = run_suites(prepared, request.flags, output, claims, resume=request.resume)
    return request.process_exit_code(done.exit_code)


@cli.command(epilog=EPILOG)
@click.argument("labels", type=PATH, metavar="LABELS.csv")
@click.argument("suite", required=False, metavar="[SUITE]")
@click.option("--metric", help="Name of the metric that the labels are about [default: the only one with a judge].")
@click.option("--results", type=PATH, help="Take answers and verdicts from this results.json; call no model.")
@click.option("--threshold", type=RATE, help="Passing score for people and judge [default: the metric's].")
@click.option(
    "--format", "form", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@click.option("-o", "--output-dir", type=PATH, help="Write judge-card.json here.")
@click.option(
    "--min-agreement-lower-bound", type=RATE, help="Lowest accepted lower end of the agreement's 95 % interval."
)
@click.option("--min-kappa-lower-bound", type=RATE, help="Lowest accepted lower end of κ's 95 % interval.")
@click.option("--concurrency", type=AT_LEAST_ONE, help="Number of answers judged at the same time [default: 10].")
@judge_limits
@call_options(cached="verdicts of judges", planned="the planned calls of judges")
@click.pass_obj
def calibrate(caller: Caller, /, **options: Any) -> int:
    """Compare a judge with the labels of people in LABELS.csv, and report how well they agree.

    A metric of SUITE (default: agent.yaml) judges the labelled answers. With --results the verdicts come from a record,
    and no model is called.

    \b
    Examples:
      holodeck-action calibrate labels.csv --results results/results.json --metric faithfulness
      holodeck-action calibrate labels.csv agent.yaml -o card --min-kappa-lower-bound 0.6
    """
    from holodeck_action.commands.calibrate import calibrate_files
    from holodeck_action.prepare.preflight import Allowed

    allowed = Allowed(options.pop("allow_paths"), options.pop("allow_plain_http"))
    return calibrate_files(options, caller.surroundings(options.pop("env_file"), allowed), caller.stdout, caller.stderr)


@cli.command()
@click.argument("results", type=PATH)
@click.option(
    "--format",
    type=click.Choice(["markdown", "html", "junit", "json", "csv", "console"]),
    default="console",
    show_default=True,
)
@click.option("--canonical", is_flag=True, help="Omit values that differ between runs: equal records give equal bytes.")
@click.option("-o", "--output", "file", type=PATH, metavar="FILE", help="Write the report here.")
@click.option("--template", type=PATH, help="Render the Markdown report with this Jinja template.")
@click.pass_obj
def report(caller: Caller, /, results: GivenPath, **showing: Any) -> int:
    """Show RESULTS (a results.json) in a format, without running anything.

    Exit code 0: shown; 2: RESULTS or an option cannot be used.
    """
    from holodeck_action.commands.report import Showing, rerender

    return rerender(results, Showing(**showing), caller.stdout, caller.stderr)


@cli.command()
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.pass_obj
def verify(caller: Caller, results: tuple[GivenPath, ...]) -> int:
    """Recompute the text scores of RESULTS (results.json files, or folders of them) with the reference libraries.

    BLEU with sacreBLEU, ROUGE with rouge-score, METEOR with NLTK. Each score that differs by more than 1e-12 is listed.

    Exit code 0: all are equal; 1: one differs, or none could be computed again; 2: RESULTS cannot be used.
    """
    from holodeck_action.commands.verify import verify as verified

    return verified(results, caller.stdout)


@cli.command(epilog=PUBLISH_EPILOG)
@click.argument("results", nargs=-1, required=True)
@click.option("--repository", metavar="OWNER/NAME", help="Where to publish [default: GITHUB_REPOSITORY].")
@click.option("--pull-request", type=AT_LEAST_ONE, help="Publish to this pull request [default: the event's].")
@click.option("--sha", metavar="COMMIT", help="The commit that was evaluated [default: the event's].")
@click.option(
    "--comment",
    type=click.Choice(["always", "changes", "failures", "off"]),
    help="When to write the comment [default: always].",
)
@click.option("--comment-id", help="Distinguishes this comment from others on the same pull request.")
@click.option("--check/--no-check", default=None, help="Write a check run [default: yes]; a personal token cannot.")
@click.option("--check-name", help="Name of the check run.")
@click.option(
    "--check-fail-on",
    type=click.Choice(["violation", "never"]),
    help="When the check run fails: violation, for every verdict except passed [default], or never.",
)
@click.option(
    "--review", type=click.Choice(["off", "failures"]), help="Review comments on changed lines [default: off]."
)
@click.option("--require-publish", is_flag=True, help="End with exit code 5 when something could not be published.")
@click.option("--template", type=PATH, help="Render the comment with this Jinja template.")
@click.option(
    "--fail-on",
    type=click.Choice(["violation", "never"]),
    help="When to end with the verdict's exit code: violation [default], or never.",
)
@click.pass_obj
def publish(caller: Caller, /, results: tuple[str, ...], **options: Any) -> int:
    """Publish RESULTS (results.json files, or folders of them) to GitHub, without running anything.

    The token is taken from GITHUB_TOKEN.

    \b
    Examples:
      holodeck-action publish holodeck-results
      holodeck-action publish results.json --repository octo/shop --pull-request 7 --no-check
    """
    from holodeck_action.commands.publish import publish_runs
    from holodeck_action.github.action_inputs import InputError, anchored, read_inputs
    from holodeck_action.suite.configuration_errors import ConfigurationError

    try:
        inputs = anchored(read_inputs(caller.environ), caller.cwd)
    except InputError as error:
        raise ConfigurationError(error.lines) from error
    given = {**inputs, **{name: value for name, value in options.items() if value not in (None, False)}}
    if options["check"] is not None:
        given["check"] = options["check"]
    given.setdefault("github_token", caller.environ.get("GITHUB_TOKEN", ""))
    return publish_runs(results, given, caller)


@cli.command()
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.pass_obj
def init(caller: Caller, folder: GivenPath) -> int:
    """Write the files that DIR (default: here) lacks: a suite with a small agent, its policy file, a workflow.

    Existing files are not changed. An existing suite gets a policy file and a workflow.
    """
    from holodeck_action.commands.init import initialise

    for line in initialise(folder):
        click.echo(line, caller.stdout)
    return 0


@cli.command()
@click.argument("document", type=click.Choice(["agent", "policy", "results", "verdict", "report", "judge-card"]))
@click.pass_obj
def schema(caller: Caller, document: str) -> int:
    """Print the JSON Schema of a DOCUMENT: agent.yaml, the policy file, or a file that a command writes."""
    import json

    from holodeck_action.prepare.metrics import installed_metrics
    from holodeck_action.results.result_files import result_schema
    from holodeck_action.suite.schema import suite_schema

    made = suite_schema(document, installed_metrics()) if document in ("agent", "policy") else result_schema(document)
    click.echo(json.dumps(made, indent=2, ensure_ascii=False), caller.stdout)
    return 0


def start() -> None:
    """Run the command line as this process, and exit with its code."""
    collect_rarely()
    stdout, stderr = lasting_streams()
    if (told := hide_tokens()) is not None:
        click.echo(f"note: {told}", err=True)
    signals = [signal.SIGINT, signal.SIGTERM]
    # `nohup` has it ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    code = main(sys.argv[1:], dict(os.environ), current_folder(), sys.stdin, stdout, stderr, signals=signals)
    stdout.flush()
    if stdout.failure is not None:
        click.echo(f"error: standard output could not be written: {stdout.failure.strerror}", err=True)
        # A verdict that nobody can read is never a pass.
        code = code or EXIT_INTERNAL
    leave(code)


def main(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    stdin: TextIO,
    stdout: TextIO,
    stderr: TextIO,
    *,
    disk: Disk | None = None,
    pause: Callable[[float], None] = time.sleep,
    signals: Sequence[signal.Signals] = (),
) -> int:
    """Run one command of the command line; errors are sentences, never tracebacks.

    Args:
        argv: the arguments, without the program's name.
        environ: see `Caller`, as for the arguments that follow.
        cwd: an absolute folder.
        stdin: what is typed or piped in.
        stdout: takes what the command is asked for.
        stderr: takes progress, notes and errors.
        disk: what a run writes its results with; None for the system's.
        pause: waits so many seconds.
        signals: those that end a run in an orderly way.

    Returns:
        The exit code (docs/results.md).
    """
    try:
        caller = Caller(environ, cwd, stdin, stdout, stderr, disk, pause, signals)
        code = cli.main(list(argv), prog_name="holodeck-action", standalone_mode=False, obj=caller)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show(stderr)
        return EXIT_CONFIGURATION
    except (click.Abort, KeyboardInterrupt):
        return _report(KeyboardInterrupt(), environ, stderr)
    except Exception as error:  # noqa: BLE001 - the last resort: one sentence instead of a traceback
        return _report(error, environ, stderr)


def _report(error: BaseException, environ: Mapping[str, str], stderr: TextIO) -> int:
    code, lines = explained(error, environ)
    for line in lines:
        stderr.write(f"error: {one_line(line, 2000)}\n")
    if environ.get("GITHUB_ACTIONS") == "true":
        _annotate(error, environ, stderr)
    return code


def _annotate(error: BaseException, environ: Mapping[str, str], stderr: TextIO) -> None:
    """Annotate the lines that a configuration error is about: a step of a workflow may run the program itself."""
    from holodeck_action.github.annotations import annotate_problems
    from holodeck_action.github.runner import annotation_commands
    from holodeck_action.suite.configuration_errors import ConfigurationError

    if isinstance(error, ConfigurationError):
        for command in annotation_commands(annotate_problems(error.located, environ), reserved=0):
            stderr.write(f"{command}\n")


if __name__ == "__main__":
    start()
