"""The command line: each command parses its arguments, calls one function, and returns its exit code.

Heavy modules are imported by the command that needs them.
"""

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
from holodeck_action.commands.help import Door
from holodeck_action.commands.options import (
    CALLS,
    CHANGES,
    DOCUMENTS,
    EPILOG,
    GATES,
    JUDGES_ONLY,
    PATH,
    PUBLISH,
    PUBLISH_EPILOG,
    REACH,
    RUN,
    SUITES,
    TYPES,
    VERSION,
    settings,
)
from holodeck_action.commands.program import (
    collect_rarely,
    current_folder,
    hide_tokens,
    lasting_streams,
    leave,
    look_for_no_plugins,
    report_error,
)
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.run.options.input_kinds import AT_LEAST_ONE, RATE
from holodeck_action.suite.model.frameworks import FRAMEWORKS, SPANNED

if TYPE_CHECKING:
    from holodeck_action.record.disk import Disk
    from holodeck_action.text.given_paths import GivenPath


@click.group(cls=Door, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@VERSION
def cli() -> None:
    """Evaluate agent.yaml suites and fail when a threshold is violated."""


@cli.command(epilog=EPILOG)
@SUITES
@settings(*RUN)
@click.pass_obj
def run(caller: Caller, /, **given: Any) -> int:
    """Run SUITEs (files, folders or globs; default: agent.yaml) and judge the answers.

    \b
    Examples:
      holodeck-action run
      holodeck-action run examples/support/agent.yaml -o results
      holodeck-action run --target recorded:answers.jsonl --case 'refund*'
      holodeck-action run 'agents/**/agent.yaml' --min-pass-rate 0.9
      holodeck-action run --baseline merge-base
      holodeck-action run agent.yaml --against old/agent.yaml
    """
    from holodeck_action.commands.run import run_suites

    return run_suites(given, caller)


@cli.command()
@SUITES
@settings("allow-empty", "env-file", "requirements", *REACH)
@click.pass_obj
def validate(caller: Caller, /, **given: Any) -> int:
    """Check SUITEs (default: agent.yaml) with everything they refer to, and report all errors at once.

    Exit code 0: valid; 2: not valid.
    """
    from holodeck_action.commands.validate import validate_suites

    return validate_suites(given, caller)


@cli.command(epilog=EPILOG)
@click.argument("results", type=PATH, required=False)
@click.option("--policy", type=PATH, help="Take the gates from this policy file.")
@settings(*GATES, *CHANGES, "output-dir", helps={"output-dir": "Write verdict.json here."})
@click.pass_obj
def decide(caller: Caller, /, **given: Any) -> int:
    """Judge RESULTS (a results.json) again, without running anything, by the gates it was run with or new ones.

    Without RESULTS: those in .holodeck/last, where a run without --output-dir keeps them.
    """
    from holodeck_action.commands.decide import Redecision, decide_again

    return decide_again(Redecision.of(given), caller)


@cli.command(epilog=EPILOG)
@click.argument("base", type=PATH)
@click.argument("head", type=PATH, required=False)
@click.option("--history", type=PATH, metavar="DIR", help="Folder of a history whose runs BASE and HEAD may name.")
@click.option("--policy", type=PATH, help="Take the settings from this policy file.")
@settings(*CHANGES)
@click.option(
    "--format",
    type=click.Choice(["console", "markdown", "html", "json"]),
    default="console",
    show_default=True,
)
@click.option("-o", "--output", "file", type=PATH, metavar="FILE", help="Write the report here.")
@click.pass_obj
def compare(caller: Caller, /, **given: Any) -> int:
    """Compare the run HEAD with the run BASE (each a results.json, or a folder with one), without running anything.

    Cases are paired by id and content. Exit code 1 says that something got worse. Without HEAD: the run in
    .holodeck/last, where one without --output-dir keeps its results. With --history, BASE and HEAD can also be runs of
    a history: 4 or more characters of the commit, or -1 for the newest run, -2 for the one before.

    \b
    Examples:
      holodeck-action compare base/results.json holodeck-results/results.json
      holodeck-action compare main-results pull-results --baseline-margin 0.05 --format markdown
      holodeck-action compare --history runs 3f2a91c results
      holodeck-action compare --history runs -- -2 -1
    """
    from holodeck_action.commands.compare import Comparing, compare_runs

    return compare_runs(Comparing.of(given), caller)


@cli.command(epilog=EPILOG)
@click.argument("folders", nargs=-1, required=True, type=PATH, metavar="FOLDER...")
@settings("output-dir", "template", "html", "fail-on")
@click.pass_obj
def merge(caller: Caller, /, folders: tuple[GivenPath, ...], **given: Any) -> int:
    """Put the results of all shards of a run together, and judge them as one run, without running anything.

    FOLDERs are the output folders of `run --shard`, or folders of such. Shards that are missing, doubled, or of
    different runs are named, and nothing is written.

    \b
    Examples:
      holodeck-action merge shards -o holodeck-results
      holodeck-action merge shard-1 shard-2 shard-3 -o holodeck-results
    """
    from holodeck_action.commands.merge import merge_runs

    return merge_runs(folders, given, caller)


@cli.command(epilog=EPILOG)
@click.argument("results", type=PATH)
@click.argument("suite", default="agent.yaml", metavar="[SUITE]")
@settings(
    *("output-dir", "concurrency", "run-timeout", "max-cost-usd", "max-tokens", *GATES, "resume"),
    *(*CALLS, "template", "html", "fail-on"),
    helps={
        **JUDGES_ONLY,
        "concurrency": "Number of conversations judged at the same time [default: 10].",
        "run-timeout": "Seconds that it may take [default: no limit].",
        "resume": "Continue an interrupted call from the journal in the output directory.",
    },
)
@click.pass_obj
def rejudge(caller: Caller, /, results: GivenPath, suite: str, **given: Any) -> int:
    """Grade the stored answers of RESULTS (a results.json) again, by the current metrics and judges of SUITE.

    The agent is not run. Every case of RESULTS must have the same question and expectation in SUITE.

    \b
    Examples:
      holodeck-action rejudge results/results.json -o rejudged
      holodeck-action rejudge results/results.json other-judges/agent.yaml --max-cost-usd 1
    """
    from holodeck_action.commands.rejudge import rejudge_record

    return rejudge_record(results, suite, given, caller)


@cli.command(epilog=EPILOG)
@click.argument("labels", type=PATH, metavar="LABELS.csv")
@click.argument("suite", required=False, metavar="[SUITE]")
@click.option("--metric", help="Name of the metric that the labels are about [default: the only one with a judge].")
@click.option("--results", type=PATH, help="Take answers and verdicts from this results.json; call no model.")
@click.option("--threshold", type=TYPES[RATE], help="Passing score for people and judge [default: the metric's].")
@click.option(
    "--format", "form", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@settings("output-dir", helps={"output-dir": "Write judge-card.json here."})
@click.option(
    "--min-agreement-lower-bound",
    type=TYPES[RATE],
    help="Lowest accepted lower end of the agreement's 95 % interval.",
)
@click.option("--min-kappa-lower-bound", type=TYPES[RATE], help="Lowest accepted lower end of κ's 95 % interval.")
@settings(
    *("concurrency", "max-cost-usd", "max-tokens", *CALLS),
    helps={**JUDGES_ONLY, "concurrency": "Number of answers judged at the same time [default: 10]."},
)
@click.pass_obj
def calibrate(caller: Caller, /, **given: Any) -> int:
    """Compare a judge with the labels of people in LABELS.csv, and report how well they agree.

    A metric of SUITE (default: agent.yaml) judges the labelled answers. With --results the verdicts come from a record,
    and no model is called.

    \b
    Examples:
      holodeck-action calibrate labels.csv --results results/results.json --metric faithfulness
      holodeck-action calibrate labels.csv agent.yaml -o card --min-kappa-lower-bound 0.6
    """
    from holodeck_action.extensions.calibration.calibrate import calibrate_judge

    return calibrate_judge(given, caller)


@cli.command()
@click.argument("results", type=PATH, required=False)
@click.option(
    "--format",
    type=click.Choice(["markdown", "html", "junit", "json", "csv", "console"]),
    default="console",
    show_default=True,
)
@click.option("--canonical", is_flag=True, help="Omit values that differ between runs: equal records give equal bytes.")
@click.option("-o", "--output", "file", type=PATH, metavar="FILE", help="Write the report here.")
@settings(
    *("template", "case"),
    helps={
        "template": "Render the Markdown report with this Jinja template.",
        "case": "Show only cases whose id or name matches, in the HTML page.",
    },
)
@click.pass_obj
def report(caller: Caller, /, **given: Any) -> int:
    """Show RESULTS (a results.json) in a format, without running anything.

    Without RESULTS: those in .holodeck/last, where a run without --output-dir keeps them.

    Exit code 0: shown; 2: RESULTS or an option cannot be used.
    """
    from holodeck_action.commands.report import Showing, show_record

    return show_record(Showing(**given), caller)


@cli.command()
@click.argument("results", nargs=-1, type=PATH)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen on this port [default: a free one].")
@click.option("--browser/--no-browser", default=True, help="Open a browser [default: yes].")
@click.pass_obj
def view(caller: Caller, /, results: tuple[GivenPath, ...], port: int, browser: bool) -> int:
    """Serve the viewer's pages of RESULTS (results.json files, folders of them, histories) on this machine.

    Without RESULTS: the runs in .holodeck/last, holodeck-results and the folders beside it. The newest is first; a run
    that goes on is shown as far as it is. Nothing is sent anywhere. Ctrl-C ends with exit code 0.

    \b
    Examples:
      holodeck-action view
      holodeck-action view results --no-browser
    """
    from holodeck_action.extensions.view.view import view_runs

    return view_runs(results, port, browser, caller)


@cli.command()
@click.argument("results", type=PATH)
@click.option(
    "--format",
    type=click.Choice(["honeyhive", "json", "parquet"]),
    required=True,
    help="The data model of HoneyHive, or the record itself: as results.json of this version, or as Parquet tables.",
)
@click.option("-o", "--output", "file", type=PATH, metavar="PATH", help="Write the document, or the folder, here.")
@click.option("--card", "cards", type=PATH, multiple=True, help="Add what this judge-card.json measured.")
@click.option("--labels", type=PATH, metavar="LABELS.csv", help="Add each label of people beside the judge's score.")
@click.option("--metric", help="Name of the metric that the labels are about [default: the only one with a judge].")
@click.option("--history", type=PATH, metavar="DIR", help="Add scores over time from the history in this folder.")
@click.pass_obj
def export(caller: Caller, /, format: str, **given: Any) -> int:
    """Write RESULTS (a results.json) in another format, without running anything.

    Exit code 0: written; 2: RESULTS or an option cannot be used.

    \b
    Examples:
      holodeck-action export results/results.json --format honeyhive -o honeyhive.json
      holodeck-action export results/results.json --format honeyhive --card card/judge-card.json
      holodeck-action export results/results.json --format parquet -o tables
    """
    from holodeck_action.commands.export import Exporting, convert_record, export_record

    asked = Exporting(**given)
    return export_record(asked, caller) if format == "honeyhive" else convert_record(asked, format, caller)


@cli.command()
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.pass_obj
def verify(caller: Caller, results: tuple[GivenPath, ...]) -> int:
    """Recompute the text scores of RESULTS (results.json files, or folders of them) with the reference libraries.

    BLEU with sacreBLEU, ROUGE with rouge-score, METEOR with NLTK. Each score that differs by more than 1e-12 is listed.

    Exit code 0: all are equal; 1: one differs, or none could be computed again; 2: RESULTS cannot be used.
    """
    from holodeck_action.extensions.reference.verify import verify_scores

    return verify_scores(results, caller)


@cli.command(epilog=PUBLISH_EPILOG)
@click.argument("results", nargs=-1, required=True)
@click.option("--repository", metavar="OWNER/NAME", help="Where to publish [default: GITHUB_REPOSITORY].")
@click.option("--pull-request", type=TYPES[AT_LEAST_ONE], help="Publish to this pull request [default: the event's].")
@click.option("--sha", metavar="COMMIT", help="The commit that was evaluated [default: the event's].")
@settings(
    *PUBLISH,
    helps={
        "template": "Render the comment with this Jinja template.",
        "fail-on": "When to end with the verdict's exit code: violation [default], or never.",
    },
)
@click.pass_obj
def publish(caller: Caller, /, results: tuple[str, ...], **given: Any) -> int:
    """Publish RESULTS (results.json files, or folders of them) to GitHub, without running anything.

    The token is taken from GITHUB_TOKEN.

    \b
    Examples:
      holodeck-action publish holodeck-results
      holodeck-action publish results.json --repository octo/shop --pull-request 7 --no-check
    """
    from holodeck_action.commands.publish import publish_runs

    return publish_runs(results, given, caller)


@cli.command()
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option(
    "--framework",
    type=click.Choice([*FRAMEWORKS, *SPANNED]),
    help="Evaluate the repository's agent of this framework; it is looked for in the Python files.",
)
@click.pass_obj
def init(caller: Caller, folder: GivenPath, framework: str | None) -> int:
    """Write the files that DIR (default: here) lacks: a suite with a small agent, its policy file, a workflow.

    Existing files stay, except that agent.yaml and the policy file get a comment that tells editors their schema. An
    existing suite gets a policy file and a workflow; at a terminal you are asked what answers its cases.

    \b
    Examples:
      holodeck-action init
      holodeck-action init --framework langgraph
    """
    from holodeck_action.commands.init import start_suite

    return start_suite(folder, framework, caller)


@cli.command(name="import", epilog=EPILOG)
@click.argument("program", type=click.Choice(["promptfoo", "deepeval"]))
@click.argument("file", type=PATH)
@click.option("-o", "--output-dir", "folder", type=PATH, metavar="DIR", help="Write here [default: FILE's folder].")
@click.option("--report", type=PATH, metavar="FILE", help="Write the account here, too: JSON or Markdown by its name.")
@click.option("--allow-missing", is_flag=True, help="Leave comments for what has no equal, and end with exit code 0.")
@click.option("--prove", is_flag=True, help="Write nothing; compare with promptfoo, which must be installed.")
@click.option("--answers", type=PATH, metavar="FILE", help="With --prove: more answers, each a line of JSON.")
@click.pass_obj
def import_(caller: Caller, /, *, prove: bool, answers: GivenPath | None, **given: Any) -> int:
    """Write the suite in FILE, of another PROGRAM, as agent.yaml with its policy file and graders.

    Prints what became of every assertion. No code of FILE is run, and no existing file is changed.

    Exit code 0: everything was imported; 1: something has no equal; 2: FILE cannot be used. With --prove 0: both
    programs give equal verdicts on the recorded answers; 1: they differ; 2: that cannot be told.

    \b
    Examples:
      holodeck-action import promptfoo promptfooconfig.yaml
      holodeck-action import promptfoo promptfooconfig.yaml --prove
      holodeck-action import deepeval tests/test_support.py -o evaluation
    """
    from holodeck_action.extensions.importers.import_suite import Importing, import_suite
    from holodeck_action.extensions.importers.prove import Proving, prove_import

    if prove or answers:
        return prove_import(Proving(prove=prove, answers=answers, program=given["program"], file=given["file"]), caller)
    return import_suite(Importing(**given), caller)


@cli.group(cls=Door)
def history() -> None:
    """Show what earlier runs tell together: trends, flaky cases, drift."""


@history.command(name="show")
@click.argument("folder", type=PATH, default=".", metavar="[DIR]")
@click.option(
    "--format", "form", type=click.Choice(["console", "markdown", "json"]), default="console", show_default=True
)
@click.pass_obj
def show_history(caller: Caller, /, folder: GivenPath, form: str) -> int:
    """Show the history in DIR (default: here): the last 20 runs of each suite, and what they tell together.

    Exit code 0: shown; 2: there is no history, or it cannot be read.
    """
    from holodeck_action.extensions.history.history import show_history

    return show_history(folder, form, caller)


@history.command(name="import")
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("--into", type=PATH, required=True, metavar="DIR", help="Folder of the history.")
@click.pass_obj
def import_history(caller: Caller, /, results: tuple[GivenPath, ...], into: GivenPath) -> int:
    """Take RESULTS (results.json files, or folders of them) into a history; runs that it has are skipped.

    Exit code 0: imported; 2: RESULTS or the history cannot be used.
    """
    from holodeck_action.extensions.history.history import import_runs

    return import_runs(results, into, caller)


@cli.command()
@click.argument("document", type=click.Choice(DOCUMENTS))
@click.pass_obj
def schema(caller: Caller, document: str) -> int:
    """Print the JSON Schema of a DOCUMENT.

    That is agent.yaml, the policy file, what an agent is asked with (request) and answers (reply), or a file that a
    command writes.
    """
    from holodeck_action.commands.schema import print_schema

    return print_schema(document, caller)


def start() -> None:
    """Run the command line as this process, and exit with its code."""
    collect_rarely()
    stdout, stderr = lasting_streams()
    if (note := hide_tokens()) is not None:
        click.echo(f"note: {note}", err=True)
    signals = [signal.SIGINT, signal.SIGTERM]
    # `nohup` has it ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    environ = dict(os.environ)
    look_for_no_plugins()
    code = main(sys.argv[1:], environ, current_folder(), sys.stdin, stdout, stderr, signals=signals)
    stdout.flush()
    if stdout.failure is not None:
        click.echo(f"error: standard output could not be written: {stdout.failure.strerror}", err=True)
        # A verdict that nobody can read is never a pass.
        code = code or ExitCode.INCOMPLETE
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
        return code if isinstance(code, int) else ExitCode.PASSED
    except click.ClickException as error:
        error.show(stderr)
        return ExitCode.CONFIGURATION
    except (click.Abort, KeyboardInterrupt):
        return report_error(KeyboardInterrupt(), environ, stderr)
    except Exception as error:  # noqa: BLE001 - the last resort: one sentence instead of a traceback
        return report_error(error, environ, stderr)


if __name__ == "__main__":
    start()
